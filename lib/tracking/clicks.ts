import { call, type Database, retryOnce, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import type { JsonValue } from '../schema.ts'
import type { Campaign } from './campaign.ts'

/** A click: the request's fields and the edge's facts about the visitor. */
export interface Click {
  affiliate_url: string
  partner_code: string
  page_url: string | null
  page_title: string | null
  referrer_url: string | null
  session_id: string | null
  user_agent: string | null
  screen_resolution: string | null
  viewport_size: string | null
  language: string | null
  timezone: string | null
  geo_country: string | null
  geo_region: string | null
  geo_city: string | null
  device_type: string | null
  device_os: string | null
  browser_name: string | null
  additional_data: Record<string, unknown> | null
  /** The link's `utm_*` and `sub1` to `sub3` parameters, or null if there are none. */
  campaign: Campaign | null
  /** The keyed hash of the visitor's address for this month. See `visitorHash`. */
  visitor?: number | null
}

interface RecordedClick {
  click_id: string
  partner_code: string
  cookie_window_days: number
}

/**
 * The part of a click id before the program's id: `cust_<unix ms>_<64 random bits as 20 digits>`. A click id lets a browser
 * record a lead, so it must not be guessable.
 */
export function newClickIdPrefix(now: number): string {
  const [random = 0n] = crypto.getRandomValues(new BigUint64Array(1))
  return `cust_${now}_${random.toString().padStart(20, '0')}`
}

/** Returns the program that issued a click id, or undefined if the text is not a click id. */
export function programOfClickId(clickId: string): number | undefined {
  const digits = /^cust_\d{13}_\d{20}([1-9]\d{0,14})$/.exec(clickId)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/** Returns the text if it can be a click id, or else null. Other text can't match a customer, so it isn't looked up. */
export function clickIdOrNull(text: string | null | undefined): string | null {
  return text && programOfClickId(text) !== undefined ? text : null
}

/**
 * Returns a random positive integer below 2^53, the id of an event. The Worker generates it, so that the database records a repeated event
 * only once.
 */
export function newEventId(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high & 0x1fffff) * 2 ** 32 + low || 1
}

/** The click's own arguments of `track_click` and `track_test_click`. */
function eventArguments(click: Click) {
  const { partner_code, additional_data, campaign, visitor: _, ...event } = click
  return {
    aff: partner_code,
    host: hostOf(event.affiliate_url),
    ...event,
    additional_data: additional_data && JSON.stringify(additional_data),
    campaign: campaign && JSON.stringify(campaign),
  }
}

/** Returns the host of an address, or null if it has no host or one that is too long for a domain. */
function hostOf(address: string): string | null {
  const { hostname } = URL.parse(address) ?? {}
  return hostname && hostname.length <= 253 ? hostname : null
}

/**
 * Separates the tag's program from the other data. The database checks the program but doesn't store it again, because the click's row
 * already contains it.
 */
function splitProgram({ additional_data, ...click }: Click): { click: Click; named_program_id: number | null } {
  const { program_id, ...rest } = additional_data ?? {}
  return {
    click: { ...click, additional_data: Object.keys(rest).length > 0 ? rest : null },
    named_program_id: typeof program_id === 'number' ? program_id : null,
  }
}

const refusals = {
  unknown_partner_code: 'No referral link has this code. Check the value of `aff` in the link.',
  ambiguous_partner_code:
    'Several programs have a link with this code. Send additional_data.program_id to choose the program.',
  invalid_link: 'This referral link has no partner or no program. Ask the advertiser to correct it.',
  link_disabled: 'This referral link is disabled, so no click was recorded. Ask the advertiser to enable it.',
}

export const unknownPartnerCode = () => refusalOf('unknown_partner_code')

const refusalOf = (code: keyof typeof refusals) => new ApiError(code, refusals[code])

/**
 * Records a click on the link of `click.partner_code`: its customer, the click event, and a row for `countClicks`. The link belongs to the
 * program in `additional_data.program_id`. Without this field, the link must be the only one with the code, or belong to the program that
 * verified the page's domain. The customer is new unless `existingClickId` belongs to the link's program. A repeated statement records
 * nothing and returns the first response. Throws one of the codes in `refusals` without writing anything.
 */
export async function recordClick(
  db: Database,
  click: Click,
  existingClickId: string | null,
  now = db.now(),
): Promise<RecordedClick> {
  const event = { aff: click.partner_code, at: new Date(now), event_id: newEventId() }
  const { click: kept, named_program_id } = splitProgram(click)
  const statement = call('track_click', {
    ...eventArguments(kept),
    ...event,
    named_program_id,
    visitor: click.visitor ?? null,
    existing_click_id: existingClickId,
    click_id_prefix: newClickIdPrefix(now),
  })
  const answer = await retryOnce(async () => (await db.query(statement))[0]?.track_click).catch(
    async (error: unknown) => {
      if (!isRecorded(error)) throw error
      return await retryOnce(async () => (await db.query(call('recorded_click', event)))[0]?.recorded_click)
    },
  )
  return readAnswer(answer)
}

/**
 * Returns whether a click was refused because its customer or its event exists. In that case, the first attempt was committed but its
 * response was lost.
 */
function isRecorded(error: unknown): boolean {
  return /^(customers_click_id_key|affiliate_click_events_\w+_pkey)$/.test(violatedConstraint(error) ?? '')
}

const isRefusal = (code: unknown): code is keyof typeof refusals => typeof code === 'string' && code in refusals

/** Reads the result of a click from the database's JSON. With separate columns, a click would take 14% longer. */
function readAnswer(answer: JsonValue | undefined): RecordedClick {
  if (answer !== null && typeof answer === 'object' && !Array.isArray(answer)) {
    const { click_id, partner_code, cookie_window_days, refused } = answer
    if (typeof click_id === 'string' && typeof partner_code === 'string' && typeof cookie_window_days === 'number') {
      return { click_id, partner_code, cookie_window_days }
    }
    if (isRefusal(refused)) throw refusalOf(refused)
  }
  throw new Error('The database has no answer for a click.')
}

/**
 * Moves up to `limit` uncounted clicks of one program or of all programs into the counters, and returns their number. The counters are those
 * of links, of programs' hours and of groupings (migrations/functions/reads/counting.sql). Two calls may run at once. `link_click_counts`
 * and the performance endpoint include uncounted clicks, but the groupings don't.
 */
export async function countClicks(db: Database, limit: number, programId: number | null = null): Promise<number> {
  const [row] = await db.query(call('count_clicks', { max_rows: limit, of_program_id: programId }))
  return row?.count_clicks ?? 0
}

/** Moves changes by leads, sales, refunds and corrections into the groupings, of one program or of all. Returns their number. */
export async function countFigures(db: Database, limit: number, programId: number | null = null): Promise<number> {
  const [row] = await db.query(call('count_figures', { max_rows: limit, of_program_id: programId }))
  return row?.count_figures ?? 0
}

/**
 * Records a test click: an event with `is_test`, no customer and no counter. The program is `programId`, or else the link's program.
 * Throws `unknown_partner_code`, `ambiguous_partner_code` or `invalid_request` if there is no such program. Throws
 * `rate_limited` if the program and the visitor's `network` (a `visitorHash`) have no test events left today.
 */
export async function recordTestClick(
  db: Database,
  click: Click,
  programId: number | null,
  network: number | null = null,
  now = db.now(),
): Promise<{ event_id: number; program_id: number }> {
  const event = { at: new Date(now), event_id: newEventId(), given_program_id: programId, network }
  const statement = call('track_test_click', { ...eventArguments(click), ...event })
  const [row] = await retryOnce(() => db.query(statement))
  const program_id = row?.of_program_id ?? null
  if (program_id === null) {
    if (programId === null) throw refusalOf(row?.is_ambiguous ? 'ambiguous_partner_code' : 'unknown_partner_code')
    throw new ApiError(
      'invalid_request',
      'A test click needs a program: send an existing program id, or only the code of a link.',
      { details: [{ field: 'additional_data.program_id', message: 'must name an existing program' }] },
    )
  }
  if (!row?.is_kept) throw tooManyTestEvents()
  return { event_id: event.event_id, program_id }
}

/** Returns the refusal of a keyless test event. See `count_public_test_event` in the database. A day is a UTC day. */
export function tooManyTestEvents(now = Date.now()): ApiError {
  const secondsOfDay = 24 * 60 * 60
  return new ApiError(
    'rate_limited',
    'This program has received its thousand test events from browsers today, and a hundred from your network. Send them with the API key, or continue tomorrow.',
    { headers: { 'Retry-After': String(secondsOfDay - (Math.floor(now / 1000) % secondsOfDay)) } },
  )
}
