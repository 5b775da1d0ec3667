import { type InferResult, sql } from 'kysely'
import { requireActiveKey } from '../access/api-keys.ts'
import { type Database, hexBytes, retryOnce } from '../database.ts'
import { kysely } from '../kysely.ts'

/** When something was last seen, live and in test mode; null where never. */
interface LastSeen {
  live: Date | null
  test: Date | null
}

export type ProgramStatus = ReturnType<typeof asStatus>

/** How a program is set up and what it has received, for whoever integrates it: one request, one row of each index. */
export async function readStatus(db: Database, keyHash: string): Promise<ProgramStatus> {
  const [row] = await retryOnce(() => db.query(statusStatement(keyHash)))
  requireActiveKey(row)
  return asStatus(row)
}

function statusStatement(keyHash: string) {
  return kysely
    .selectFrom('api_keys as k')
    .innerJoin('programs as p', 'p.id', 'k.program_id')
    .where('k.key_hash', '=', hexBytes(keyHash))
    .select((eb) => {
      const lastClick = (isTest: boolean) =>
        eb
          .selectFrom('affiliate_click_events as e')
          .select((event) => event.fn.max('e.click_timestamp').as('at'))
          .whereRef('e.program_id', '=', 'p.id')
          .where('e.is_test', '=', eb.lit(isTest))
      const lastLead = (isTest: boolean) =>
        eb
          .selectFrom('affiliate_lead_events as e')
          .select((event) => event.fn.max('e.lead_timestamp').as('at'))
          .whereRef('e.program_id', '=', 'p.id')
          .where('e.is_test', '=', eb.lit(isTest))
      const lastSale = (isTest: boolean) =>
        eb
          .selectFrom('sales as s')
          .select('s.created_at')
          .whereRef('s.program_id', '=', 'p.id')
          .where('s.is_test', '=', eb.lit(isTest))
          .orderBy('s.id', 'desc')
          .limit(1)
      const lastWebhook = (live: boolean) =>
        eb
          .selectFrom('processor_events as e')
          .select((event) => event.fn.max('e.received_at').as('at'))
          .whereRef('e.program_id', '=', 'p.id')
          .where('e.livemode', '=', live)
      return [
        sql<string>`use_key(k, null)`.as('key_refusal'),
        'k.scopes',
        'p.id',
        'p.name',
        'p.domain',
        'p.currency',
        'p.commission_bp',
        'p.cookie_window_days',
        'p.lead_auth_policy',
        'p.processor_account_id',
        eb
          .exists(
            eb
              .selectFrom('referral_links as l')
              .whereRef('l.program_id', '=', 'p.id')
              .where('l.partner_id', 'is not', null)
              .where('l.is_active', '=', true),
          )
          .$castTo<boolean>()
          .as('has_link'),
        lastClick(false).as('live_click'),
        lastClick(true).as('test_click'),
        lastLead(false).as('live_lead'),
        lastLead(true).as('test_lead'),
        lastSale(false).as('live_sale'),
        lastSale(true).as('test_sale'),
        lastWebhook(true).as('live_webhook'),
        lastWebhook(false).as('test_webhook'),
      ]
    })
}

function asStatus(row: InferResult<ReturnType<typeof statusStatement>>[number]) {
  const click = { live: row.live_click, test: row.test_click }
  const lead = { live: row.live_lead, test: row.test_lead }
  const sale = { live: row.live_sale, test: row.test_sale }
  const account = row.processor_account_id
  return {
    program: {
      id: row.id,
      name: row.name,
      domain: row.domain,
      currency: row.currency,
      /** Percent, with two decimals at most. */
      commission_percent: row.commission_bp / 100,
      cookie_window_days: row.cookie_window_days,
      lead_auth_policy: row.lead_auth_policy,
    },
    may_track: row.scopes.includes('track'),
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
