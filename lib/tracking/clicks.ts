import { CompiledQuery, sql } from 'kysely'
import { type Database, retryOnce, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'

/** What a click brings: the request's fields and what the edge derived of the visitor. */
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
}

export interface RecordedClick {
  click_id: string
  partner_code: string
  cookie_window_days: number
}

/**
 * The part of a click id before the program's id: `cust_<unix ms>_<64 random bits as 20 digits>`. A click id lets a browser
 * record a lead, so it must not be guessable.
 */
export function newClickIdStem(now: number): string {
  const [random = 0n] = crypto.getRandomValues(new BigUint64Array(1))
  return `cust_${now}_${random.toString().padStart(20, '0')}`
}

/** The program that issued a click id, or undefined where the text is no click id. */
export function programOfClickId(clickId: string): number | undefined {
  const digits = /^cust_\d{13}_\d{20}([1-9]\d{0,14})$/.exec(clickId)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/** The click id where the text can be one; anything else matches no customer, so it is not looked up. */
export function clickIdOrNull(text: string | null | undefined): string | null {
  return text && programOfClickId(text) !== undefined ? text : null
}

/** A random positive integer below 2^53, the id of an event. Made here so that an event sent twice is recorded once. */
export function newEventId(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high & 0x1fffff) * 2 ** 32 + low || 1
}

/** Columns of a click event that are what the click brings. */
const eventFields = [
  'session_id',
  'affiliate_url',
  'page_url',
  'page_title',
  'referrer_url',
  'user_agent',
  'screen_resolution',
  'viewport_size',
  'language',
  'timezone',
  'geo_country',
  'geo_region',
  'geo_city',
  'device_type',
  'device_os',
  'browser_name',
] as const satisfies (keyof Click)[]

function eventValues(click: Click): (string | null)[] {
  const { additional_data } = click
  return [...eventFields.map((field) => click[field]), additional_data && JSON.stringify(additional_data)]
}

// Compiling a text that is the same for every click took a tenth of the function's own time.
const trackClickText = `select track_click(${Array.from({ length: 6 + eventFields.length }, (_, n) => `$${n + 1}`).join(', ')}) as answer`

const refusals = {
  unknown_partner_code: 'No referral link has the code that `aff` gives. Check the link.',
  invalid_link: 'This referral link has no partner or no program. Ask the advertiser to mend it.',
  link_disabled: 'This referral link is no longer active. No click was recorded.',
}

export const unknownPartnerCode = () => new ApiError('unknown_partner_code', refusals.unknown_partner_code)

/**
 * Records a click on the link of `click.partner_code`: the customer (that of `existingClickId` where it belongs to the link's
 * program, else a new one), the click event, and a row for `countClicks`: the function `track_click` of
 * migrations/functions/clicks.sql. A statement that was sent twice records nothing more and is answered as the first time.
 * Refuses with `unknown_partner_code`, `invalid_link` or `link_disabled`, having written nothing.
 */
export async function recordClick(
  db: Database,
  click: Click,
  existingClickId: string | null,
  now = Date.now(),
): Promise<RecordedClick> {
  const at = new Date(now)
  const eventId = newEventId()
  const statement: CompiledQuery<ClickAnswer> = CompiledQuery.raw(trackClickText, [
    click.partner_code,
    existingClickId,
    newClickIdStem(now),
    at,
    eventId,
    ...eventValues(click),
  ])
  const [row] = await retryOnce(() => db.query(statement)).catch((error: unknown) => {
    if (!isRecorded(error)) throw error
    return retryOnce(() => db.query(recordedClick(click.partner_code, at, eventId)))
  })
  if (!row) throw new Error('The database has no answer for a click.')
  if ('refused' in row.answer) throw new ApiError(row.answer.refused, refusals[row.answer.refused])
  return row.answer
}

interface ClickAnswer {
  answer: RecordedClick | { refused: keyof typeof refusals }
}

/** Whether a click was refused because its customer or its event is there: the first try was committed and its answer lost. */
function isRecorded(error: unknown): boolean {
  return /^(customers_click_id_key|affiliate_click_events_\w+_pkey)$/.test(violatedConstraint(error) ?? '')
}

/** What the click with this event was answered when it was recorded. */
function recordedClick(partnerCode: string, at: Date, eventId: number) {
  return sql<ClickAnswer>`select json_build_object('click_id', c.click_id, 'partner_code', l.code,
  'cookie_window_days', p.cookie_window_days) as answer
from referral_links l
join programs p on p.id = l.program_id
join affiliate_click_events e on e.program_id = l.program_id and not e.is_test and e.click_timestamp = ${at}::timestamptz
  and e.id = ${eventId}
join customers c on c.program_id = e.program_id and c.id = e.customer_id
where lower(l.code) = lower(${partnerCode})`
}

/**
 * Moves clicks that no counter has yet, at most `limit`, into the counters of their links and of their programs' hours, and returns how
 * many. It may run twice at once: each takes clicks that the other has not, and both write counters in the order of their keys.
 * `link_click_counts` and the performance read add what is not moved yet.
 */
export async function countClicks(db: Database, limit: number): Promise<number> {
  const [row] = await db.query(sql<{ counted: string }>`with taken as (
  delete from uncounted_clicks
  where ctid = any (array(select ctid from uncounted_clicks limit ${limit} for update skip locked))
  returning program_id, link_id, clicked_at
),
links as (
  insert into link_clicks as c (program_id, link_id, clicks, last_clicked_at)
  select program_id, link_id, count(*), max(clicked_at) from taken group by program_id, link_id order by program_id, link_id
  on conflict (program_id, link_id) do update set clicks = c.clicks + excluded.clicks,
    last_clicked_at = greatest(c.last_clicked_at, excluded.last_clicked_at)
),
hours as (
  insert into daily_totals as c (program_id, day, slot, clicks)
  select program_id, utc_day(clicked_at), 64 * hour_of_day(clicked_at), count(*) from taken group by 1, 2, 3 order by 1, 2, 3
  on conflict (program_id, day, slot) do update set clicks = c.clicks + excluded.clicks
)
select count(*) as counted from taken`)
  return Number(row?.counted)
}

/**
 * Records a test click: an event with `is_test`, no customer and no counter. The program is `programId`, or the link's where
 * that is null. Refuses with `unknown_partner_code` or `invalid_request` where it names none.
 */
export async function recordTestClick(
  db: Database,
  click: Click,
  programId: number | null,
  now = Date.now(),
): Promise<{ event_id: number; program_id: number }> {
  const eventId = newEventId()
  const statement = sql<{ program_id: string }>`with program as (
  select id from programs where id = coalesce(${programId}::bigint,
    (select program_id from referral_links where lower(code) = lower(${click.partner_code})))
),
event as (
  insert into affiliate_click_events (program_id, is_test, click_timestamp, id, ${sql.raw(eventFields.join(', '))}, additional_data)
  select id, true, ${new Date(now)}::timestamptz, ${eventId}, ${sql.join(eventValues(click))}::jsonb from program
  on conflict do nothing
)
select id as program_id from program`
  const [row] = await retryOnce(() => db.query(statement))
  if (!row) {
    if (programId === null) throw unknownPartnerCode()
    throw new ApiError(
      'invalid_request',
      'A test click needs a program: send the id of one that exists, or none and the code of a link.',
      { details: [{ field: 'additional_data.program_id', message: 'must name an existing program' }] },
    )
  }
  return { event_id: eventId, program_id: Number(row.program_id) }
}
