/** The campaign parameters of a link: the five that analytics tools use, and three for the partner's own use. */
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

/** A link's campaign values, each a text of 1 to 200 characters. */
export type Campaign = { [Name in (typeof campaignNames)[number]]?: string }

/** Returns the stored campaign values ordered by name, or null if there are none. */
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

/**
 * Returns the campaign values of a landing address: the first value of each parameter, shortened with `cut`. Returns null if there are
 * none.
 */
export function campaignOf(parameters: URLSearchParams, cut: (text: string) => string | null): Campaign | null {
  const campaign: Campaign = {}
  for (const name of campaignNames) {
    // Postgres can't store NUL, and cutting can split a character.
    const value = cut(parameters.get(name)?.replaceAll('\0', '').trim().slice(0, maxLength).toWellFormed() ?? '')
    if (value) campaign[name] = value
  }
  return Object.keys(campaign).length > 0 ? campaign : null
}
