import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { apiKeyHash, generateApiKey } from '../../lib/access/api-keys.ts'
import type { Database } from '../../lib/database.ts'
import { ApiError } from '../../lib/errors.ts'
import { approveCommissions, approveDueCommissions, rejectCommission } from '../../lib/money/commissions.ts'
import { createAdjustment } from '../../lib/money/adjustments.ts'
import { hashPartnerEmails } from '../../lib/money/partner-hashes.ts'
import { decideReviews, flagNewCommissions } from '../../lib/money/reviews.ts'
import { createPayoutRun, payPayoutRun } from '../../lib/money/payout-runs.ts'
import { refundSale } from '../../lib/money/refunds.ts'
import { recordSale } from '../../lib/money/sales.ts'
import { createCode } from '../../lib/programs/codes.ts'
import { previewRules, type RuleHolder, saveRules } from '../../lib/programs/commission-rules.ts'
import { type CommissionRule } from '../../lib/programs/commission-terms.ts'
import { createGroup, movePartners } from '../../lib/programs/groups.ts'
import { recordClick } from '../../lib/tracking/clicks.ts'
import { emailHash } from '../../lib/tracking/customers.ts'
import { recordServerLead } from '../../lib/tracking/leads.ts'
import { noClick, noLead, noSale, transfer } from '../support/ledger.ts'
import type { Payment, Previewed } from './books.ts'
import {
  type Buyer,
  earlierClicks,
  type Holder,
  linesOf,
  partnersInAll,
  type Plan,
  type Step,
  type Terms,
} from './plan.ts'

type Sql = Pick<pg.Pool, 'query'>

const keyOf = (customer: number) => `buyer-${customer}`
const hashEmail = (address: string) => emailHash('months', address)

/** The click of a buyer. Each buyer has their own address, except the buyers of a farm. */
function clickBy(sign: Buyer['sign'], code: string, page: string | null, visitor: number) {
  const isAd = sign === 'ad'
  return {
    ...noClick,
    affiliate_url: `https://shop.example.com/?aff=${code}${isAd ? '&gclid=ad' : ''}`,
    partner_code: code,
    page_url: sign === 'no page' ? null : page,
    device_type: sign === 'bot' ? 'bot' : 'desktop',
    visitor: sign === 'farm' ? 1 : visitor,
  }
}

/**
 * Plays a month on a database and returns each run's payments in the bank's format. A day ends by moving all timestamps back by a day.
 */
export async function playMonth(
  db: Database,
  sql: Sql,
  plan: Plan,
): Promise<{
  runs: Payment[][]
  /** The service's current preview of a rule change for a calendar month. */
  preview: (holder: Holder, rules: CommissionRule[], month: string) => Promise<Previewed[]>
}> {
  const world = await createWorld(db, sql, plan)
  const { programId, partnerIds, groupIds, keyHash, accountId } = world
  const clicks = new Map<number, string>()
  const known = new Set<number>()
  const runs: Payment[][] = []
  let sold = 0
  const page = plan.hasTag ? 'https://shop.example.com/' : null
  const saleId = (place: number) => `pi_${accountId}_${place}`

  async function clickOf(customer: number): Promise<string | null> {
    const buyer = plan.buyers[customer]
    if (buyer?.by !== 'link') return null
    const clicked = clicks.get(customer)
    if (clicked !== undefined) return clicked
    const code = `${world.tag}-${buyer.partner}`
    const { click_id: clickId } = await recordClick(db, clickBy(buyer.sign, code, page, 100 + customer), null)
    clicks.set(customer, clickId)
    return clickId
  }

  async function sell(sale: Extract<Step, { do: 'sale' }>): Promise<void> {
    const { customer, amount, tax, currency, type, products, code } = sale
    const buyer = plan.buyers[customer]
    const transaction_id = saleId(sold++)
    const clickId = await clickOf(customer)
    // The processor's payment belongs to a known customer, or is unattributed.
    if (products) {
      await sql.query(
        `select record_sale(jsonb_populate_record(null::sales, jsonb_build_object('program_id', $1::bigint, 'customer_id', (
            select c.id from customers c where c.program_id = $1 and (c.customer_key = $3 or c.click_id = $4) order by c.customer_key limit 1
          ), 'customer_key', $3::text, 'transaction_id', $2::text, 'amount_cents', $5::bigint, 'commission_base_cents', $6::bigint, 'currency', $7::text,
          'sale_type', $8::text, 'lines', $9::jsonb, 'is_test', false, 'is_recurring', false, 'payment_status', 'paid', 'sale_date', now())), true)`,
        [
          programId,
          transaction_id,
          keyOf(customer),
          clickId,
          amount,
          amount - tax,
          currency,
          type,
          JSON.stringify(linesOf(products)),
        ],
      )
      return
    }
    const own = buyer?.by === 'code' && !known.has(customer) ? buyer.partner : null
    const named = buyer?.by === 'nobody' ? null : (code ?? own)
    known.add(customer)
    const given = {
      transaction_id,
      customer_key: keyOf(customer),
      click_id: clickId,
      amount_cents: amount,
      tax_cents: tax,
    }
    await recordSale(
      db,
      keyHash,
      { ...noSale, ...given, currency, sale_type: type, coupon: named === null ? null : `CODE${named}` },
      null,
      randomUUID(),
    )
  }

  const commissionOf = async (sale: number) => {
    const { rows } = await sql.query<{ id: string }>(
      `select c.id from commissions c join sales s on s.program_id = c.program_id and s.id = c.sale_id
      where s.program_id = $1 and s.transaction_id = $2`,
      [programId, saleId(sale)],
    )
    return rows[0] && Number(rows[0].id)
  }

  /** Moves every timestamp back by this many days, for all customers or only the given one. */
  async function pass(days: number, key: string | null = null): Promise<void> {
    await sql.query(
      `with moved as (
        update customers set first_purchase_date = first_purchase_date - make_interval(days => $2),
          signup_date = signup_date - make_interval(days => $2)
        where program_id = $1 and ($3::text is null or customer_key = $3) returning id
      ), sold as (
        update sales set sale_date = sale_date - make_interval(days => $2), created_at = created_at - make_interval(days => $2)
        where program_id = $1 and customer_id in (select id from moved)
      ), led as (
        update affiliate_lead_events set lead_timestamp = lead_timestamp - make_interval(days => $2)
        where program_id = $1 and not is_test and customer_id in (select id from moved)
      )
      update commissions set hold_until = hold_until - make_interval(days => $2)
      where program_id = $1 and customer_id in (select id from moved)`,
      [programId, days, key],
    )
  }

  /** Does the scheduled functions' work. */
  async function settleDay(): Promise<void> {
    await hashPartnerEmails(db, hashEmail, 1000)
    while ((await flagNewCommissions(db, 1000)).more);
    while ((await approveDueCommissions(db, 1000)).more);
  }

  const settle = (sale: number) =>
    sql.query('select settle_reversals(s) from sales s where s.program_id = $1 and s.transaction_id = $2', [
      programId,
      saleId(sale),
    ])

  const holderOf = (holder: Holder): RuleHolder =>
    holder === 'everybody'
      ? holder
      : 'group' in holder
        ? { groupId: groupIds[holder.group] ?? 0 }
        : { partnerId: partnerIds[holder.partner] ?? 0 }

  const acts: { [Do in Step['do']]: (step: Extract<Step, { do: Do }>) => Promise<unknown> } = {
    sale: sell,
    async lead({ customer }) {
      const clickId = await clickOf(customer)
      if (clickId === null) return
      const buyer = plan.buyers[customer]
      const email_hash = await hashEmail(
        buyer?.sign === 'own e-mail' ? world.addressOf(buyer.partner) : `${keyOf(customer)}@example.com`,
      )
      const lead = { ...noLead, customer_key: keyOf(customer), click_id: clickId, email_hash }
      await recordServerLead(db, keyHash, lead, null)
    },
    refund: ({ sale, amount, id }) =>
      refundSale(
        db,
        keyHash,
        saleId(sale),
        { amount_cents: amount, refund_id: `refund-${sale}-${id}`, reason: 'refund', reason_text: null },
        randomUUID(),
      ),
    async dispute({ sale, amount }) {
      await sql.query(
        `insert into processor_reversals (account_id, reversal_id, livemode, reason, payment_intent_id, amount_cents, currency, event_id)
        select $1, $2, true, 'chargeback', s.transaction_id, $3, s.currency, $2 from sales s where s.program_id = $4 and s.transaction_id = $5`,
        [accountId, `dp_${sale}`, amount, programId, saleId(sale)],
      )
      await settle(sale)
    },
    async win({ sale }) {
      await sql.query(
        `update processor_reversals set returned_event_id = 'won', returned_at = now()
        where account_id = $1 and reversal_id = $2 and returned_at is null`,
        [accountId, `dp_${sale}`],
      )
      await settle(sale)
    },
    rules: ({ holder, rules }) => saveRules(db, programId, holderOf(holder), rules),
    move: ({ partner, group }) =>
      movePartners(db, programId, [partnerIds[partner] ?? 0], group === null ? null : (groupIds[group] ?? 0)),
    terms: ({ terms }) => saveTerms(sql, programId, terms),
    async approve({ sale }) {
      const id = await commissionOf(sale)
      if (id === undefined) return
      await hashPartnerEmails(db, hashEmail, 1000)
      await approveCommissions(db, programId, [id])
    },
    async reject({ sale }) {
      const id = await commissionOf(sale)
      if (id !== undefined) await rejectCommission(db, programId, id, 'no').catch(unlessRefused)
    },
    async decide({ customer, decision }) {
      const { rows } = await sql.query<{ id: string }>(
        `select c.id from commissions c join customers u on u.program_id = c.program_id and u.id = c.customer_id
        where c.program_id = $1 and (u.customer_key = $2 or u.click_id = $3)`,
        [programId, keyOf(customer), clicks.get(customer) ?? ''],
      )
      const ids = rows.map(({ id }) => Number(id))
      if (ids.length > 0) await decideReviews(db, programId, ids, decision, 'Asked the buyer.')
    },
    adjust: ({ partner, currency, cents }) =>
      createAdjustment(
        db,
        programId,
        { partnerId: partnerIds[partner] ?? 0, currency, amountCents: cents, note: 'By hand.' },
        randomUUID(),
        [],
      ),
    async run() {
      await settleDay()
      const run = await createPayoutRun(db, programId, randomUUID()).catch(unlessRefused)
      if (run) await payPayoutRun(db, programId, run, transfer)
      const { rows } = await sql.query<{ partner_id: string; currency: string; amount_cents: string }>(
        `select partner_id, currency, amount_cents from payouts
        where program_id = $1 and payout_run_id = $2 and status = 'paid' order by partner_id, currency`,
        [programId, run ?? 0],
      )
      runs.push(
        rows.map((row) => ({
          partner: partnerIds.indexOf(Number(row.partner_id)),
          currency: row.currency,
          cents: Number(row.amount_cents),
        })),
      )
    },
  }

  async function act<Do extends Step['do']>(step: Extract<Step, { do: Do }>): Promise<void> {
    await acts[step.do](step)
  }

  if (plan.hasTag) {
    const visits = Array.from({ length: earlierClicks }, (_, n) => clickBy(null, `${world.tag}-0`, page, 1000 + n))
    await Promise.all(visits.map((click) => recordClick(db, click, null)))
  }
  for (const [customer, { boughtBefore }] of plan.buyers.entries()) {
    if (!boughtBefore) continue
    const { amount, days } = boughtBefore
    await sell({ do: 'sale', customer, amount, tax: 0, currency: 'usd', type: 'payment', products: null, code: null })
    await pass(days, keyOf(customer))
  }
  for (const [day, steps] of plan.days.entries()) {
    if (day > 0) await pass(1)
    for (const step of steps) await act(step)
    await settleDay()
  }
  async function preview(holder: Holder, rules: CommissionRule[], month: string): Promise<Previewed[]> {
    const { totals, partners } = await previewRules(db, programId, holderOf(holder), rules, month)
    const rowOf = ({ currency, actual_cents, now_cents, then_cents }: (typeof totals)[number]) => ({
      currency,
      earnedSoFar: actual_cents,
      now: now_cents,
      would: then_cents,
    })
    return [
      ...totals.map((total) => ({ partner: null, ...rowOf(total) })),
      ...partners.map((row) => ({ partner: partnerIds.indexOf(row.partner_id), ...rowOf(row) })),
    ]
  }
  return { runs, preview }
}

/** A refusal changes nothing, for example when somebody rejects a reversed commission. */
function unlessRefused(error: unknown): undefined {
  if (!(error instanceof ApiError)) throw error
  return undefined
}

async function saveTerms(sql: Sql, programId: number, terms: Terms): Promise<void> {
  await sql.query(
    `update programs set commission_bp = $2, commission_duration_months = $3, hold_days = $4, lead_commission_cents = $5 where id = $1`,
    [programId, terms.commission_bp, terms.commission_duration_months, terms.hold_days, terms.lead_commission_cents],
  )
}

async function createWorld(db: Database, sql: Sql, plan: Plan) {
  const tag = randomUUID().slice(0, 13)
  const accountId = `acct_${tag.replace('-', '')}`
  const { key, hint } = await generateApiKey()
  const keyHash = await apiKeyHash(`Bearer ${key}`)
  const { rows } = await sql.query<{ program_id: string; partner_ids: string[] }>(
    `with workspace as (insert into workspaces (name) values ('Month') returning id),
    program as (
      insert into programs (workspace_id, name, domain, processor_account_id, attribution_priority, review_rules)
      select id, 'Month', 'shop.example.com', $3, $5, $7 from workspace returning id
    ),
    key as (insert into api_keys (program_id, key_hash, hint) select id, decode($1, 'hex'), $2 from program),
    partner as (
      insert into partners (program_id, name, email)
      select program.id, 'Partner ' || n, n || '-' || $4 || '@example.com' from program, generate_series(0, $6::integer - 1) n
      returning program_id, id, name
    ),
    link as (
      insert into referral_links (code, program_id, partner_id) select $4 || '-' || right(name, 1), program_id, id from partner
    )
    select program.id as program_id, array_agg(partner.id order by partner.name) as partner_ids from program, partner group by program.id`,
    [keyHash, hint, accountId, tag, plan.priority, partnersInAll, plan.reviewRules],
  )
  const programId = Number(rows[0]?.program_id)
  const partnerIds = rows[0]?.partner_ids.map(Number) ?? []
  await saveTerms(sql, programId, plan.terms)
  const groups = [
    await createGroup(db, programId, { name: 'Gold', rules: [] }),
    await createGroup(db, programId, { name: 'Silver', rules: [] }),
  ]
  const groupIds = groups.map(({ id }) => id)
  for (const [place, partner_id] of partnerIds.entries()) {
    await createCode(db, programId, { partner_id, code: `CODE${place}`, promotion_code_id: null, account_id: null })
    const group = plan.groups[place] ?? null
    if (group !== null) await movePartners(db, programId, [partner_id], groupIds[group] ?? 0)
  }
  const addressOf = (partner: number) => `${partner}-${tag}@example.com`
  return { programId, partnerIds, groupIds, keyHash, accountId, tag, addressOf }
}
