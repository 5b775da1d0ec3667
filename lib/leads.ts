import { sql } from 'kysely'
import { keyRetiredColumn, type KeyState, programMatchesColumn, programOfKeyCte, requireActiveKey } from './api-keys.ts'
import { programOfClickId } from './clicks.ts'
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
  additional_data: Record<string, unknown> | null
}

export interface RecordedLead {
  lead_id: number
  click_id: string
  customer_status: string
  provisional?: true
  duplicate?: true
}

const noAttribution = () =>
  new ApiError(
    'no_attribution',
    'Neither the customer key is known nor is there a valid click id, so nothing was recorded. This is expected for visitors who did not come through a partner link.',
  )

/**
 * CTEs that settle the lead of the customer with this key: status, day of signup, lead event, pay per lead and the day's
 * totals. `settled.first` is true for the one call that settles it; a later call changes nothing. The update is
 * unconditional so that a call which waited for another sees what that one did.
 */
function settleCtes(lead: Lead) {
  return sql`settled as (
  update customers c set
    signup_date = coalesce(c.signup_date, now()),
    lead_event_id = coalesce(c.lead_event_id, nextval('affiliate_lead_events_id_seq')),
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
  select program_id, utc_day(now()), counter_slot(), 1 from settled where first
  on conflict (program_id, day, slot) do update set leads = counted.leads + 1
),
lead_money as (
  insert into daily_money as counted (program_id, day, currency, slot, commission_cents)
  select program_id, utc_day(now()), currency, counter_slot(), amount_cents from lead_commission
  on conflict (program_id, day, currency, slot) do update set commission_cents = counted.commission_cents + excluded.commission_cents
)`
}

interface LeadRow extends KeyState {
  lead_id: string | null
  click_id: string | null
  customer_status: string | null
  first: boolean | null
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
  const settle = sql<LeadRow>`with ${program},
${settleCtes(lead)}
select ${keyRetiredColumn}, ${programMatchesColumn(programId)}, s.lead_event_id as lead_id, s.click_id, s.customer_status, s.first
from (select) answer left join settled s on true`
  const row = await queryBound(db, program, lead.customer_key, lead.click_id, settle)
  requireActiveKey(row)
  const recorded = asRecorded(row)
  return row?.first ? recorded : { ...recorded, duplicate: true }
}

/**
 * Records a lead that the visitor's browser sent. The program is the click's. Where the program wants leads verified by the
 * server, the lead is provisional: it is recorded once, without the customer key, and settles nothing; so is the answer where
 * the lead is settled already, so that a browser learns nothing. Where the program allows browsers, it settles, and a repeat
 * is refused with `already_settled`. Refuses with `no_attribution` where the click id is not a valid one.
 */
export async function recordBrowserLead(
  db: Database,
  lead: Lead & { click_id: string },
  programId: number | null,
): Promise<RecordedLead> {
  const clickProgramId = programOfClickId(lead.click_id)
  if (clickProgramId === undefined) throw noAttribution()
  if (programId !== null && programId !== clickProgramId) {
    throw new ApiError(
      'invalid_request',
      "program_id names another program than the click id. Send the program's own id.",
      {
        details: [{ field: 'program_id', message: 'must be the program of the click id' }],
      },
    )
  }
  const allowed = browserProgram(clickProgramId, 'browser_allowed')
  const settle = sql<LeadRow>`with ${allowed},
${settleCtes(lead)}
select s.lead_event_id as lead_id, s.click_id, s.customer_status, s.first from settled s`
  // A server-verified program finds no customer in the statements before this one, and the other way round.
  const provisional = sql<LeadRow>`with ${browserProgram(clickProgramId, 'server_verified')},
noted as (
  update customers c set
    provisional_lead_at = case when c.signup_date is null then coalesce(c.provisional_lead_at, now()) else c.provisional_lead_at end,
    provisional_lead_event_id = case when c.signup_date is null
      then coalesce(c.provisional_lead_event_id, nextval('affiliate_lead_events_id_seq')) else c.provisional_lead_event_id end
  from program p
  where c.program_id = p.id and c.click_id = ${lead.click_id}
    and c.last_click_at > now() - make_interval(days => p.cookie_window_days)
  returning c.*, old.provisional_lead_at is null and new.provisional_lead_at is not null as first
),
lead_event as (
  insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, provisional, session_id, page_url)
  select program_id, provisional_lead_at, provisional_lead_event_id, id, true, ${lead.session_id}, ${lead.page_url} from noted where first
)
select coalesce(provisional_lead_event_id, lead_event_id) as lead_id, click_id, customer_status, first from noted`
  const [, , [settled], [noted]] = await retryBinding(() =>
    db.batch([...bindCustomerStatements(allowed, lead.customer_key, lead.click_id), settle, provisional]),
  )
  if (noted) return { ...asRecorded(noted), provisional: true }
  const recorded = asRecorded(settled)
  if (!settled?.first)
    throw new ApiError('already_settled', 'This lead is settled already; there is nothing to send again.')
  return recorded
}

/**
 * Records a test lead: an event with `is_test`, no customer and no count. It takes any click id or none, since a new program
 * has no click to show.
 */
export async function recordTestLead(
  db: Database,
  keyHash: string,
  lead: Lead,
  programId: number | null,
): Promise<{ lead_id: number; program_id: number }> {
  const [row] = await retryOnce(() =>
    db.query(sql<KeyState & { lead_id: string; program_id: string }>`with ${programOfKeyCte(keyHash, programId)},
event as (
  insert into affiliate_lead_events (program_id, is_test, customer_key, session_id, page_url, additional_data)
  select id, true, ${lead.customer_key}, ${lead.session_id}, ${lead.page_url}, ${jsonb(lead.additional_data)} from program
  returning id, program_id
)
select ${keyRetiredColumn}, ${programMatchesColumn(programId)}, e.id as lead_id, e.program_id
from (select) answer left join event e on true`),
  )
  requireActiveKey(row)
  return { lead_id: Number(row?.lead_id), program_id: Number(row?.program_id) }
}

function asRecorded(row: LeadRow | undefined): RecordedLead {
  if (!row || row.lead_id === null || row.click_id === null || row.customer_status === null) throw noAttribution()
  return { lead_id: Number(row.lead_id), click_id: row.click_id, customer_status: row.customer_status }
}

function browserProgram(programId: number, policy: 'browser_allowed' | 'server_verified') {
  return sql`program as (select * from programs where id = ${programId} and lead_auth_policy = ${policy})`
}
