import { requireActiveKey } from '../access/api-keys.ts'
import { newClickIdPrefix, newEventId, programOfClickId, tooManyTestEvents } from './clicks.ts'
import { retryBinding } from './customers.ts'
import { programOfTestClick } from './test-links.ts'
import { call, type Database, hexBytes, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { messagesAbout, type RelayMessage } from '../notifications/outbox.ts'
import type { DatabaseFunctions } from '../schema.ts'

/** A lead from a caller. `email_hash` is the keyed hash (hex) of the e-mail address. See `emailHashes` for both hashes. */
export interface Lead {
  customer_key: string
  click_id: string | null
  email_hash: string | null
  mailbox_hash?: string
  session_id: string | null
  page_url: string | null
  is_test: boolean
  additional_data: Record<string, unknown> | null
}

export interface RecordedLead {
  lead_id: number
  /** Null for a test lead without a click id. */
  click_id: string | null
  customer_status: string
  provisional?: true
  duplicate?: true
  test_mode?: true
  /** The messages to send. They are not part of the response. */
  outbox?: RelayMessage[]
}

const noAttribution = () =>
  new ApiError(
    'no_attribution',
    'The customer key is unknown and there is no valid click id, so nothing was recorded. This is normal for visitors who did not come through a partner link.',
  )

type LeadRow = Pick<DatabaseFunctions['track_lead']['row'], 'lead_id' | 'click_id' | 'customer_status'>

/** The arguments that `track_lead` and `track_browser_lead` share. */
function leadArguments(lead: Lead, leadId: number) {
  return {
    of_customer_key: lead.customer_key,
    of_click_id: lead.click_id,
    new_lead_id: leadId,
    new_email_hash: lead.email_hash === null ? null : hexBytes(lead.email_hash),
    new_mailbox_hash: lead.mailbox_hash === undefined ? null : hexBytes(lead.mailbox_hash),
    ...leadEvent(lead),
  }
}

function leadEvent({ session_id, page_url, additional_data }: Lead) {
  return { session_id, page_url, additional_data: additional_data && JSON.stringify(additional_data) }
}

/**
 * Records a lead from the integrator's server and settles it. `customer_key` finds the customer, or else a valid click, whose customer then
 * gets the key. If the click's customer has another key, the lead creates a second customer. If only a browser sent the key before, it
 * moves to the valid click's customer. A repeated lead changes nothing and returns `duplicate`. `programId` is the program id that the
 * caller sent. Throws `no_attribution` without writing anything.
 */
export async function recordServerLead(
  db: Database,
  keyHash: string,
  lead: Lead,
  programId: number | null,
): Promise<RecordedLead> {
  const leadId = newEventId()
  const key = { hash: hexBytes(keyHash), claimed_program_id: programId }
  const click_id_prefix = newClickIdPrefix(db.now())
  const statement = call('track_lead', { ...key, click_id_prefix, ...leadArguments(lead, leadId) })
  const [row] = await retryBinding(() => db.query(statement))
  requireActiveKey(row)
  const recorded = asRecorded(row)
  return recorded.lead_id === leadId ? { ...recorded, outbox: messagesAbout(row) } : { ...recorded, duplicate: true }
}

/**
 * Records a lead from the visitor's browser. The lead belongs to the click's program. `programId` is the program id that the caller sent.
 * If the program requires leads from its server, the lead is provisional: it is recorded once, without the customer key, and settles
 * nothing. The response is the same for a settled lead, so that browsers can't distinguish the two. If the program allows browsers to
 * settle leads, the lead settles the click's own customer. The customer keeps the key and the e-mail address as unverified if nobody has
 * them yet. A repeat is refused with `already_settled`. The response reveals nothing about other customers. Throws `no_attribution` if the
 * click id is not valid.
 */
export async function recordBrowserLead(
  db: Database,
  lead: Lead,
  programId: number | null,
  network: number | null = null,
): Promise<RecordedLead> {
  const { click_id: clickId } = lead
  const clickProgramId = clickId === null ? undefined : programOfClickId(clickId)
  if (clickProgramId !== undefined && programId !== null && programId !== clickProgramId) {
    throw new ApiError('invalid_request', 'program_id is not the program of the click. Send that program.', {
      details: [{ field: 'program_id', message: 'must be the program of the click id' }],
    })
  }
  if (lead.is_test) return await recordBrowserTestLead(db, lead, clickProgramId ?? programId, network)
  if (clickId === null || clickProgramId === undefined) throw noAttribution()
  const leadId = newEventId()
  const statement = call('track_browser_lead', { of_program_id: clickProgramId, ...leadArguments(lead, leadId) })
  const [row] = await retryBinding(() => db.query(statement))
  const recorded = asRecorded(row)
  if (row?.provisional) return { ...recorded, provisional: true }
  if (recorded.lead_id !== leadId)
    throw new ApiError('already_settled', 'This lead is already settled. Do not send it again.')
  return { ...recorded, outbox: messagesAbout({ program_id: clickProgramId, ...row }) }
}

/**
 * Records a test lead from an integrator's server: an event with `is_test`, no customer and no count. It accepts any click id or none,
 * because a new program has no clicks yet.
 */
export async function recordTestLead(
  db: Database,
  keyHash: string,
  lead: Lead,
  programId: number | null,
): Promise<RecordedLead> {
  const event = testEvent(db, lead)
  const statement = call('track_test_lead', { hash: hexBytes(keyHash), claimed_program_id: programId, ...event })
  const [row] = await retryOnce(() => db.query(statement))
  requireActiveKey(row)
  return asTestLead(event.lead_id, lead)
}

/** Records a browser's test lead. The program is the click's program, or the program that the page names. */
async function recordBrowserTestLead(
  db: Database,
  lead: Lead,
  programId: number | null,
  network: number | null,
): Promise<RecordedLead> {
  const event = testEvent(db, lead)
  const by_test_link = programId !== null && programOfTestClick(lead.click_id ?? '') === programId
  const statement = call('track_browser_test_lead', { of_program_id: programId, network, by_test_link, ...event })
  const [row] = await retryOnce(() => db.query(statement))
  if (!row?.is_known) {
    throw new ApiError(
      'invalid_request',
      'A test lead from the browser needs a program: send program_id or a click id.',
      {
        details: [{ field: 'program_id', message: 'must name an existing program' }],
      },
    )
  }
  if (!row.is_kept) throw tooManyTestEvents()
  return asTestLead(event.lead_id, lead)
}

/** The Worker generates the id and the time of a test lead, so that the database records a repeated lead only once. */
function testEvent(db: Database, lead: Lead) {
  return { at: new Date(db.now()), lead_id: newEventId(), customer_key: lead.customer_key, ...leadEvent(lead) }
}

function asTestLead(id: number, { click_id }: Lead): RecordedLead {
  return { lead_id: id, click_id, customer_status: 'lead', test_mode: true }
}

function asRecorded(row: LeadRow | undefined): RecordedLead {
  if (!row || row.lead_id === null || row.click_id === null || row.customer_status === null) throw noAttribution()
  return { lead_id: row.lead_id, click_id: row.click_id, customer_status: row.customer_status }
}
