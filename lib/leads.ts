import { type RawBuilder, sql } from 'kysely'
import { keyRetiredColumn, type KeyState, programMatchesColumn, programOfKeyCte, requireActiveKey } from './api-keys.ts'
import { newEventId, programOfClickId } from './clicks.ts'
import { bindCustomerStatements, queryBound, retryBinding } from './customers.ts'
import { type Database, jsonb, retryOnce } from './database.ts'
import { ApiError } from './errors.ts'

/** A lead as its caller sends it. `email_hash` is the keyed hash (hex) of the e-mail address. */
export interface Lead {
  customer_key: string
  click_id: string | null
  email_hash: string | null
  session_id: string | null
  page_url: string | null
  is_test: boolean
  additional_data: Record<string, unknown> | null
}

export interface RecordedLead {
  lead_id: number
  /** Null on a test lead without one. */
  click_id: string | null
  customer_status: string
  provisional?: true
  duplicate?: true
  test_mode?: true
}

const noAttribution = () =>
  new ApiError(
    'no_attribution',
    'Neither the customer key is known nor is there a valid click id, so nothing was recorded. This is expected for visitors who did not come through a partner link.',
  )

/**
 * CTEs that settle the lead of the customer with this key: status, day of signup, lead event, pay per lead and the day's
 * totals. A lead that is settled already changes nothing and keeps its own `lead_event_id`, which tells the call that settled it
 * from all others, even where the answer to its first try was lost. The update is unconditional so that a call which waited for
 * another sees what that one did.
 */
function settleCtes(lead: Lead, leadId: number) {
  return sql`settled as (
  update customers c set
    signup_date = coalesce(c.signup_date, now()),
    lead_event_id = coalesce(c.lead_event_id, ${leadId}::bigint),
    customer_status = case when c.customer_status = 'click' then 'lead' else c.customer_status end,
    email_hash = case when c.signup_date is null then coalesce(decode(${lead.email_hash}, 'hex'), c.email_hash) else c.email_hash end
  from program p
  where c.program_id = p.id and c.customer_key = ${lead.customer_key}
  returning c.program_id, c.id, c.partner_id, c.click_id, c.customer_key, c.customer_status, c.lead_event_id,
    c.signup_date, old.signup_date is null as first
),
${leadEffectCtes(lead)}`
}

/**
 * CTEs with what the settlement of a lead brings, given CTEs `program` and `settled` (one row a customer, its `first` true
 * where it was settled now): the lead event, pay per lead and the day's totals.
 */
export function leadEffectCtes(lead: Pick<Lead, 'session_id' | 'page_url' | 'additional_data'>) {
  return sql`lead_event as (
  insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, customer_key, session_id, page_url, additional_data)
  select program_id, signup_date, lead_event_id, id, customer_key, ${lead.session_id}, ${lead.page_url},
    ${jsonb(lead.additional_data)}
  from settled where first
),
lead_commission as (
  insert into commissions (program_id, kind, partner_id, customer_id, currency, amount_cents, hold_until)
  select s.program_id, 'lead', s.partner_id, s.id, p.currency, p.lead_commission_cents, now() + make_interval(days => p.hold_days)
  from settled s join program p on p.id = s.program_id where s.first and p.lead_commission_cents > 0
  returning program_id, currency, amount_cents
),
lead_count as (
  insert into daily_totals as counted (program_id, day, slot, leads)
  select program_id, utc_day(now()), counter_slot(now()), 1 from settled where first
  on conflict (program_id, day, slot) do update set leads = counted.leads + 1
),
lead_money as (
  insert into daily_money as counted (program_id, day, currency, slot, commission_cents)
  select program_id, utc_day(now()), currency, counter_slot(now()), amount_cents from lead_commission
  on conflict (program_id, day, currency, slot) do update set commission_cents = counted.commission_cents + excluded.commission_cents
)`
}

interface LeadRow {
  lead_id: string | null
  click_id: string | null
  customer_status: string | null
}

/**
 * Records a lead that the integrator's server sent, and settles it. The customer is that of `customer_key`, else that of a
 * valid click. A repeated lead changes nothing and says `duplicate`. `programId` is what the caller says the key's program is.
 * Refuses with `no_attribution`, having written nothing.
 */
export async function recordServerLead(
  db: Database,
  keyHash: string,
  lead: Lead,
  programId: number | null,
): Promise<RecordedLead> {
  const program = programOfKeyCte(keyHash, programId)
  const leadId = newEventId()
  const settle = sql<KeyState & LeadRow>`with ${program},
${settleCtes(lead, leadId)}
select ${keyRetiredColumn}, ${programMatchesColumn(programId)}, s.lead_event_id as lead_id, s.click_id, s.customer_status
from (select) answer left join settled s on true`
  const row = await queryBound(db, program, lead.customer_key, lead.click_id, settle)
  requireActiveKey(row)
  const recorded = asRecorded(row)
  return recorded.lead_id === leadId ? recorded : { ...recorded, duplicate: true }
}

/**
 * Records a lead that the visitor's browser sent. The program is the click's; `programId` is what the caller says it is. Where
 * the program wants leads verified by the server, the lead is provisional: it is recorded once, without the customer key, and
 * settles nothing; so is the answer where the lead is settled already, so that a browser learns nothing. Where the program
 * allows browsers, it settles, and a repeat is refused with `already_settled`. Refuses with `no_attribution` where the click id
 * is not a valid one.
 */
export async function recordBrowserLead(db: Database, lead: Lead, programId: number | null): Promise<RecordedLead> {
  const { click_id: clickId } = lead
  const clickProgramId = clickId === null ? undefined : programOfClickId(clickId)
  if (clickProgramId !== undefined && programId !== null && programId !== clickProgramId) {
    throw new ApiError('invalid_request', "program_id names another program than the click id. Send the click's own.", {
      details: [{ field: 'program_id', message: 'must be the program of the click id' }],
    })
  }
  if (lead.is_test) return await recordBrowserTestLead(db, lead, clickProgramId ?? programId)
  if (clickId === null || clickProgramId === undefined) throw noAttribution()
  const leadId = newEventId()
  const allowed = clickedProgram(clickProgramId, clickId, 'browser_allowed')
  const settle = sql<LeadRow>`with ${allowed},
${settleCtes(lead, leadId)}
select s.lead_event_id as lead_id, s.click_id, s.customer_status from settled s`
  // A server-verified program is not in the scope of the statements before this one, and the other way round.
  const provisional = sql<LeadRow>`with ${clickedProgram(clickProgramId, clickId, 'server_verified')},
noted as (
  update customers c set
    provisional_lead_at = case when c.signup_date is null then coalesce(c.provisional_lead_at, now()) else c.provisional_lead_at end,
    provisional_lead_event_id = case when c.signup_date is null
      then coalesce(c.provisional_lead_event_id, ${leadId}::bigint) else c.provisional_lead_event_id end
  from program p
  where c.program_id = p.id and c.click_id = ${clickId}
  returning c.*, old.provisional_lead_at is null and new.provisional_lead_at is not null as first
),
lead_event as (
  insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, provisional, session_id, page_url)
  select program_id, provisional_lead_at, provisional_lead_event_id, id, true, ${lead.session_id}, ${lead.page_url} from noted where first
)
select coalesce(provisional_lead_event_id, lead_event_id) as lead_id, click_id, 'click' as customer_status from noted`
  const [, , [settled], [noted]] = await retryBinding(() =>
    db.batch([...bindCustomerStatements(allowed, lead.customer_key, clickId), settle, provisional]),
  )
  if (noted) return { ...asRecorded(noted), provisional: true }
  const recorded = asRecorded(settled)
  if (recorded.lead_id !== leadId)
    throw new ApiError('already_settled', 'This lead is settled already; there is nothing to send again.')
  return recorded
}

/**
 * Records a test lead of an integrator's server: an event with `is_test`, no customer and no count. It takes any click id or
 * none, since a new program has no click to show.
 */
export async function recordTestLead(
  db: Database,
  keyHash: string,
  lead: Lead,
  programId: number | null,
): Promise<RecordedLead> {
  const { id, ctes } = testEvent(programOfKeyCte(keyHash, programId), lead)
  const [row] = await retryOnce(() =>
    db.query(sql<KeyState>`with ${ctes} select ${keyRetiredColumn}, ${programMatchesColumn(programId)}`),
  )
  requireActiveKey(row)
  return asTestLead(id, lead)
}

/** The same from a browser, which has no key to say the program with: it is the click's, or the one that the page names. */
async function recordBrowserTestLead(db: Database, lead: Lead, programId: number | null): Promise<RecordedLead> {
  const { id, ctes } = testEvent(sql`program as (select * from programs where id = ${programId}::bigint)`, lead)
  const [row] = await retryOnce(() => db.query(sql`with ${ctes} select from program`))
  if (!row) {
    throw new ApiError(
      'invalid_request',
      'A test lead from the browser needs a program: send program_id or a click id.',
      {
        details: [{ field: 'program_id', message: 'must name an existing program' }],
      },
    )
  }
  return asTestLead(id, lead)
}

/** The CTE `program`, as given, and the one that writes the test event. The id and time are made here, as those of clicks are. */
function testEvent(program: RawBuilder<unknown>, lead: Lead) {
  const id = newEventId()
  const ctes = sql`${program},
event as (
  insert into affiliate_lead_events (program_id, is_test, lead_timestamp, id, customer_key, session_id, page_url, additional_data)
  select id, true, ${new Date()}::timestamptz, ${id}::bigint, ${lead.customer_key}, ${lead.session_id}, ${lead.page_url},
    ${jsonb(lead.additional_data)}
  from program
  on conflict do nothing
)`
  return { id, ctes }
}

function asTestLead(id: number, { click_id }: Lead): RecordedLead {
  return { lead_id: id, click_id, customer_status: 'lead', test_mode: true }
}

function asRecorded(row: LeadRow | undefined): RecordedLead {
  if (!row || row.lead_id === null || row.click_id === null || row.customer_status === null) throw noAttribution()
  return { lead_id: Number(row.lead_id), click_id: row.click_id, customer_status: row.customer_status }
}

/** CTE `program`: the program with this policy, where the click id is a valid one of it. */
function clickedProgram(programId: number, clickId: string, policy: 'browser_allowed' | 'server_verified') {
  return sql`program as (
  select p.* from programs p join customers c on c.program_id = p.id
  where p.id = ${programId} and p.lead_auth_policy = ${policy}
    and c.click_id = ${clickId} and c.last_click_at > now() - make_interval(days => p.cookie_window_days)
)`
}
