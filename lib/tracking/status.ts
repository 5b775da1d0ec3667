import { type ExpressionBuilder, type InferResult, sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { requireActiveKey } from '../access/api-keys.ts'
import { type Database, hexBytes, retryOnce } from '../database.ts'
import { kysely } from '../kysely.ts'
import type { DB } from '../schema.ts'
import { explainRefusal } from './refusals.ts'

/** The time of the last event, in live and in test mode. Null if there was none. */
interface LastSeen {
  live: Date | null
  test: Date | null
}

/** Reads a program's setup and the events that it has received, for integrators. Sends one request, which reads one row from each index. */
export async function readStatus(db: Database, keyHash: string) {
  const [row] = await retryOnce(() => db.query(statusByKey(keyHash)))
  requireActiveKey(row)
  return { may_track: row.scopes.includes('track'), proxy_key_number: row.proxy_key_number, ...asStatus(row) }
}

/** The same status for a signed-in user, with details of the latest click and sale. */
export async function readIntegration(db: Database, programId: number) {
  const [row] = await db.query(
    kysely
      .selectFrom('programs as p')
      .where('p.id', '=', programId)
      .select(statusColumns)
      .select((eb) => [
        latestClick(eb, false).as('live_page'),
        latestClick(eb, true).as('test_page'),
        latestSale(eb).as('latest_sale'),
        keysOf(eb).as('keys'),
        hasInvited(eb).as('has_invited'),
      ]),
  )
  if (!row) throw new Error(`Program ${programId} doesn't exist.`)
  const [live, test, sale, keys] = [row.live_page[0], row.test_page[0], row.latest_sale[0], row.keys[0]]
  return {
    ...asStatus(row),
    /** The processors other than Stripe to which the program is connected. */
    connected_processors: row.connected_processors,
    /** True if browsers reported signups that did not settle a lead. */
    has_provisional_leads: row.provisional_lead !== null,
    /** The latest click's page. Undefined before the first click. */
    latest_click: live && test ? (test.at > live.at ? test : live) : (live ?? test),
    latest_sale: sale,
    /** True if the program invited a partner, or if a partner can already sign in. */
    has_invited: row.has_invited,
    active_keys: keys?.active ?? 0,
    /** When the proxy key was last used, rounded to the hour. */
    key_used_at: keys?.last_used_at ? new Date(keys.last_used_at) : null,
  }
}

export type Integration = Awaited<ReturnType<typeof readIntegration>>

function statusByKey(keyHash: string) {
  return kysely
    .selectFrom('api_keys as k')
    .innerJoin('programs as p', 'p.id', 'k.program_id')
    .where('k.key_hash', '=', hexBytes(keyHash))
    .select(statusColumns)
    .select([sql<string>`use_key(k, null)`.as('key_refusal'), 'k.scopes'])
}

type OfProgram = ExpressionBuilder<DB & { p: DB['programs'] }, 'p'>

/** A browser can record any number of provisional leads after a settled one, so the query searches this many leads for a settled one. */
const leadsLookedThrough = 50

/** If a shop has several currencies, at least one of this many sales is in the program's currency. */
const salesLookedThrough = 20

function statusColumns(eb: OfProgram) {
  const lastClick = (isTest: boolean) =>
    eb
      .selectFrom('affiliate_click_events as e')
      .select((event) => event.fn.max('e.click_timestamp').as('at'))
      .whereRef('e.program_id', '=', 'p.id')
      .where('e.is_test', '=', eb.lit(isTest))
  const lastLead = (isTest: boolean, provisional: boolean) =>
    eb
      .selectFrom((inner) =>
        inner
          .selectFrom('affiliate_lead_events as e')
          .select(['e.lead_timestamp', 'e.provisional'])
          .whereRef('e.program_id', '=', 'p.id')
          .where('e.is_test', '=', eb.lit(isTest))
          .orderBy('e.lead_timestamp', 'desc')
          .limit(leadsLookedThrough)
          .as('t'),
      )
      .select((lead) => lead.fn.max('t.lead_timestamp').as('at'))
      .where('t.provisional', '=', eb.lit(provisional))
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
    'p.id',
    'p.name',
    'p.domain',
    'p.currency',
    'p.commission_bp',
    'p.cookie_window_days',
    'p.lead_auth_policy',
    'p.processor_account_id',
    'p.proxy_key_number',
    sql<string[]>`array(
      select distinct c.processor from processor_connections c
      where c.program_id = p.id and c.secret is not null and c.disconnected_at is null order by 1
    )`.as('connected_processors'),
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
    lastLead(false, false).as('live_lead'),
    lastLead(true, false).as('test_lead'),
    lastLead(false, true).as('provisional_lead'),
    lastSale(false).as('live_sale'),
    eb
      .selectFrom(lastSale(false).clearSelect().select('s.currency').clearLimit().limit(salesLookedThrough).as('t'))
      .select((sale) => sale.fn.agg<string[] | null>('json_agg', ['t.currency']).as('currencies'))
      .as('live_currencies'),
    lastSale(true).as('test_sale'),
    lastWebhook(true).as('live_webhook'),
    lastWebhook(false).as('test_webhook'),
    jsonArrayFrom(
      eb
        .selectFrom('refused_calls as r')
        .select(['r.call', 'r.code', 'r.detail', 'r.refused_at'])
        .whereRef('r.program_id', '=', 'p.id')
        .orderBy('r.refused_at', 'desc'),
    ).as('refused'),
  ] as const
}

/** The time and the page of the latest click. */
function latestClick(eb: OfProgram, isTest: boolean) {
  return jsonArrayFrom(
    eb
      .selectFrom('click_events as e')
      .select(['e.click_timestamp as at', 'e.page_url'])
      .whereRef('e.program_id', '=', 'p.id')
      .where('e.is_test', '=', eb.lit(isTest))
      .orderBy('e.click_timestamp', 'desc')
      .limit(1),
  )
}

function latestSale(eb: OfProgram) {
  return jsonArrayFrom(
    eb
      .selectFrom('sales as s')
      .select((sale) => ['s.is_test', sale('s.customer_id', 'is not', null).$castTo<boolean>().as('attributed')])
      .whereRef('s.program_id', '=', 'p.id')
      .orderBy('s.id', 'desc')
      .limit(1),
  )
}

/** The number of a program's valid keys, and when one was last used, to the hour. */
function keysOf(eb: OfProgram) {
  return jsonArrayFrom(
    eb
      .selectFrom('api_keys as k')
      .select((key) => [
        key.fn.countAll<number>().filterWhere('k.revoked_at', 'is', null).as('active'),
        key.fn.max('k.last_used_at').as('last_used_at'),
      ])
      .whereRef('k.program_id', '=', 'p.id'),
  )
}

function hasInvited(eb: OfProgram) {
  return eb
    .or([
      eb.exists(eb.selectFrom('partner_invitations as i').whereRef('i.program_id', '=', 'p.id')),
      eb.exists(
        eb.selectFrom('partners as r').whereRef('r.program_id', '=', 'p.id').where('r.user_id', 'is not', null),
      ),
    ])
    .$castTo<boolean>()
}

type StatusRow = Omit<InferResult<ReturnType<typeof statusByKey>>[number], 'key_refusal' | 'scopes'>

function asStatus(row: StatusRow) {
  const click = { live: row.live_click, test: row.test_click }
  const lead = { live: row.live_lead, test: row.test_lead }
  const sale = { live: row.live_sale, test: row.test_sale }
  const account = row.processor_account_id
  const connected = row.connected_processors
  return {
    program: {
      id: row.id,
      name: row.name,
      domain: row.domain,
      currency: row.currency,
      /** A percentage with up to two decimals. */
      commission_percent: row.commission_bp / 100,
      cookie_window_days: row.cookie_window_days,
      lead_auth_policy: row.lead_auth_policy,
    },
    processor: { connected: account !== null || connected.length > 0, account_id: account },
    activity: {
      last_click: click,
      last_lead: { live: later(row.live_lead, row.provisional_lead), test: row.test_lead },
      last_sale: sale,
      last_webhook: { live: row.live_webhook, test: row.test_webhook },
    },
    /**
     * Lists the refusals since the last successful event of their kind: the latest one for each code, newest first, up to a week old.
     */
    refusals: openRefusals(row, {
      click: later(click.live, click.test),
      lead: later(lead.live, lead.test),
      sale: later(sale.live, sale.test),
    }),
    checks: [
      {
        name: 'link_exists',
        ok: row.has_link,
        message: row.has_link
          ? 'The program has an active referral link.'
          : 'The program has no active referral link. Add a partner in the dashboard.',
      },
      seen('click', click, 'Put the tracker on the site, or run `svc test click`.'),
      row.provisional_lead && !lead.live && !lead.test
        ? {
            name: 'lead_seen',
            ok: false,
            message:
              'Only browsers have reported a signup, which does not count as a lead here. Send it from your server.',
          }
        : seen('lead', lead, 'Send a lead when somebody signs up, or run `svc test lead`.'),
      seen('sale', sale, 'Send a sale or connect the payment processor, or run `svc test sale`.'),
      currencyCheck(row.currency, row.live_currencies ?? []),
      {
        name: 'processor_connected',
        ok: account !== null || connected.length > 0,
        message: account
          ? `The payment processor account ${account} is connected.`
          : connected.length > 0
            ? `The program is connected to ${connected.join(', ')}.`
            : 'No payment processor is connected. Connect one in the dashboard, or send sales from the server.',
      },
    ],
  }
}

/** Returns the later of two times. Either can be missing. */
export function later(a: Date | null, b: Date | null): Date | null {
  return a === null || (b !== null && b > a) ? b : a
}

const weekMilliseconds = 7 * 24 * 60 * 60 * 1000

function openRefusals(row: StatusRow, came: Record<'click' | 'lead' | 'sale', Date | null>) {
  const since: Record<string, Date | null> = { ...came, key: later(came.lead, came.sale) }
  return row.refused
    .map((refused) => ({ ...refused, refused_at: new Date(refused.refused_at) }))
    .filter(({ call, refused_at: at }) => at > (since[call] ?? 0) && Date.now() - at.getTime() < weekMilliseconds)
    .map((refused) => ({
      call: refused.call,
      code: refused.code,
      refused_at: refused.refused_at,
      message: explainRefusal(refused, row.id, row.cookie_window_days),
    }))
}

/**
 * Checks the currencies of the last live sales, newest first: a client without `currency` sends every sale in US dollars. A shop with
 * several currencies also has sales in the program's currency.
 */
function currencyCheck(program: string, currencies: string[]) {
  const [ofLastSale] = currencies
  const ok = ofLastSale === undefined || currencies.includes(program)
  const wanted = program.toUpperCase()
  const message = ok
    ? `Live sales arrive in the program's currency, ${wanted}.`
    : `The last live sales are in another currency, such as ${ofLastSale.toUpperCase()}, so the program's figures in ${wanted} do not count them. Construct the client with currency: '${program}', or send the currency of each sale.`
  return { name: 'currency_matches', ok, message }
}

function seen(what: string, { live, test }: LastSeen, advice: string) {
  const message = live
    ? `The last ${what} arrived at ${live.toISOString()}.`
    : test
      ? `Only test ${what}s have arrived so far, the last at ${test.toISOString()}.`
      : `No ${what} has arrived yet. ${advice}`
  return { name: `${what}_seen`, ok: live !== null || test !== null, message }
}
