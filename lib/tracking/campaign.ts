/** What a link can name of the campaign it stands in, as its parameters are called: the five of analytics, and a partner's own three. */
export const campaignNames = [
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'utm_term',
  'utm_content',
  'sub1',
  'sub2',
  'sub3',
] as const

/** What a link named of them, each as text of 1 to 200 characters. */
export type Campaign = { [Name in (typeof campaignNames)[number]]?: string }

/** The same as they are stored, in the order of their names; null where there is none. */
export function campaignIn(stored: unknown): Campaign | null {
  if (typeof stored !== 'object' || stored === null) return null
  const values = new Map<string, unknown>(Object.entries(stored))
  const campaign: Campaign = {}
  for (const name of campaignNames) {
    const value = values.get(name)
    if (typeof value === 'string') campaign[name] = value
  }
  return Object.keys(campaign).length > 0 ? campaign : null
}

const maxLength = 200

/** What the parameters of the address that a visitor came to name; the first of each where there are several, and null where there is none. */
export function campaignOf(parameters: URLSearchParams): Campaign | null {
  const campaign: Campaign = {}
  for (const name of campaignNames) {
    // Postgres stores no NUL, and the cut can fall inside a character.
    const value = parameters.get(name)?.replaceAll('\0', '').trim().slice(0, maxLength).toWellFormed()
    if (value) campaign[name] = value
  }
  return Object.keys(campaign).length > 0 ? campaign : null
}
