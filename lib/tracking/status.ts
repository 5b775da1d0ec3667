import { sql } from 'kysely'
import { keyCte, keyRetiredColumn, type KeyState, requireActiveKey } from '../access/api-keys.ts'
import { type Database, retryOnce } from '../database.ts'

/** When something was last seen, live and in test mode; null where never. */
interface LastSeen {
  live: Date | null
  test: Date | null
}

export interface ProgramStatus {
  program: {
    id: number
    name: string
    domain: string
    currency: string
    /** Percent, with two decimals at most. */
    commission_percent: number
    cookie_window_days: number
    lead_auth_policy: string
  }
  processor: { connected: boolean; account_id: string | null }
  activity: { last_click: LastSeen; last_lead: LastSeen; last_sale: LastSeen; last_webhook: LastSeen }
  checks: { name: string; ok: boolean; message: string }[]
}

interface StatusRow extends KeyState {
  id: string
  name: string
  domain: string
  currency: string
  commission_bp: number
  cookie_window_days: number
  lead_auth_policy: string
  processor_account_id: string | null
  has_link: boolean
  live_click: Date | null
  test_click: Date | null
  live_lead: Date | null
  test_lead: Date | null
  live_sale: Date | null
  test_sale: Date | null
  live_webhook: Date | null
  test_webhook: Date | null
}

const lastClick = (isTest: boolean) =>
  sql`(select max(click_timestamp) from affiliate_click_events e where e.program_id = p.id and e.is_test = ${isTest})`
const lastLead = (isTest: boolean) =>
  sql`(select max(lead_timestamp) from affiliate_lead_events e where e.program_id = p.id and e.is_test = ${isTest})`
const lastWebhook = (live: boolean) =>
  sql`(select max(received_at) from processor_events e where e.program_id = p.id and e.livemode = ${live})`

/** How a program is set up and what it has received, for whoever integrates it: one request, one row of each index. */
export async function readStatus(db: Database, keyHash: string): Promise<ProgramStatus> {
  const statement = sql<StatusRow>`with ${keyCte(keyHash)}
select ${keyRetiredColumn}, p.id, p.name, p.domain, p.currency, p.commission_bp, p.cookie_window_days, p.lead_auth_policy,
  p.processor_account_id,
  exists (select from referral_links l where l.program_id = p.id and l.partner_id is not null and l.is_active) as has_link,
  ${lastClick(false)} as live_click, ${lastClick(true)} as test_click, ${lastLead(false)} as live_lead, ${lastLead(true)} as test_lead,
  (select created_at from sales s where s.program_id = p.id and not s.is_test order by s.id desc limit 1) as live_sale,
  (select created_at from sales s where s.program_id = p.id and s.is_test order by s.id desc limit 1) as test_sale,
  ${lastWebhook(true)} as live_webhook, ${lastWebhook(false)} as test_webhook
from key join programs p on p.id = key.program_id`
  const [row] = await retryOnce(() => db.query(statement))
  requireActiveKey(row)
  return asStatus(row)
}

function asStatus(row: StatusRow): ProgramStatus {
  const click = { live: row.live_click, test: row.test_click }
  const lead = { live: row.live_lead, test: row.test_lead }
  const sale = { live: row.live_sale, test: row.test_sale }
  const account = row.processor_account_id
  return {
    program: {
      id: Number(row.id),
      name: row.name,
      domain: row.domain,
      currency: row.currency,
      commission_percent: row.commission_bp / 100,
      cookie_window_days: row.cookie_window_days,
      lead_auth_policy: row.lead_auth_policy,
    },
    processor: { connected: account !== null, account_id: account },
    activity: {
      last_click: click,
      last_lead: lead,
      last_sale: sale,
      last_webhook: { live: row.live_webhook, test: row.test_webhook },
    },
    checks: [
      {
        name: 'link_exists',
        ok: row.has_link,
        message: row.has_link
          ? 'The program has an active referral link.'
          : 'The program has no active referral link. Add a partner in the dashboard.',
      },
      seen('click', click, 'Put the tracker on the site, or run `svc test click`.'),
      seen('lead', lead, 'Send a lead when somebody signs up, or run `svc test lead`.'),
      seen('sale', sale, 'Send a sale or connect the payment processor, or run `svc test sale`.'),
      {
        name: 'processor_connected',
        ok: account !== null,
        message: account
          ? `The payment processor account ${account} is connected.`
          : 'No payment processor is connected. Connect one in the dashboard, or send sales from the server.',
      },
    ],
  }
}

function seen(what: string, { live, test }: LastSeen, advice: string) {
  const message = live
    ? `The last ${what} came at ${live.toISOString()}.`
    : test
      ? `Only test ${what}s have come yet, the last at ${test.toISOString()}.`
      : `No ${what} has come yet. ${advice}`
  return { name: `${what}_seen`, ok: live !== null || test !== null, message }
}
