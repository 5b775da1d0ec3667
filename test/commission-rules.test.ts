import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import {
  changeRule,
  previewRules,
  type RuleHolder,
  saveRules,
  termsOfPartner,
} from '../lib/programs/commission-rules.ts'
import { type CommissionRule } from '../lib/programs/commission-terms.ts'
import { createGroup, movePartners, readGroup, removeGroup } from '../lib/programs/groups.ts'
import { eraseCustomer } from '../lib/tracking/erase-customer.ts'
import { explainSale } from '../lib/money/explanation.ts'
import { createLedgerProgram, type LedgerProgram } from './support/ledger.ts'
import { openConnections, startEndpoint } from './support/stack.ts'

const { db, sql, databaseUrl } = await startEndpoint()
const pool = openConnections(databaseUrl, 8)

/**
 * A program with a rate of 20%, whose first partner is in a group. `brings` returns the commission of a sale to a
 * customer of that partner.
 */
async function createWorld(settings: Parameters<typeof createLedgerProgram>[2] = {}) {
  const program = await createLedgerProgram(pool, db, settings)
  const { rows } = await sql.query<{ group_id: string }>(
    `with created as (insert into partner_groups (program_id, name) values ($1, 'Gold') returning id)
    update partners r set group_id = created.id from created where r.program_id = $1 and r.id = $2 returning r.group_id`,
    [program.programId, program.partnerIds[0]],
  )
  const groupId = Number(rows[0]?.group_id)
  const partnerId = program.partnerIds[0] ?? 0
  const clickId = await program.click(0)
  return {
    ...program,
    groupId,
    partnerId,
    rules: (holder: RuleHolder, ...rules: CommissionRule[]) => saveRules(db, program.programId, holder, rules),
    /** Records a sale from one of the processor's objects. It belongs to the default customer unless the object contains another one. */
    async report(sale: Record<string, unknown>) {
      const { rows: reported } = await sql.query<{ id: string }>(
        `select ((record_sale(jsonb_populate_record(null::sales, jsonb_build_object('program_id', p.program_id, 'customer_id', p.id,
          'customer_key', 'buyer', 'commission_base_cents', $2::jsonb->'amount_cents', 'currency', 'usd', 'is_test', false, 'is_recurring', false,
          'sale_type', 'payment', 'payment_status', 'paid', 'sale_date', now()) || $2::jsonb), true)).sale).id
        from customers p where p.program_id = $1 and p.click_id = $3`,
        [program.programId, JSON.stringify(sale), clickId],
      )
      return Number(reported[0]?.id)
    },
    async earned(): Promise<Record<string, number>> {
      const { rows: earned } = await sql.query<{ transaction_id: string; cents: string }>(
        `select s.transaction_id, coalesce(c.amount_cents - c.reversed_cents, 0) as cents
        from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id where s.program_id = $1`,
        [program.programId],
      )
      return Object.fromEntries(earned.map((sale) => [sale.transaction_id, Number(sale.cents)]))
    },
  }
}

const sell = async (program: LedgerProgram, amount: number, more: { currency?: string; type?: string } = {}) => {
  const id = randomUUID()
  const clickId = await program.click(0)
  return (await program.sale({ id, customerKey: id, clickId, amount, currency: 'usd', ...more })).commission_cents
}

test("a partner’s rule precedes the group's, the group's precedes the general one, and a product rule precedes one for all products", async () => {
  const world = await createWorld()
  const rates: [RuleHolder, CommissionRule[]][] = [
    [{ partnerId: world.partnerId }, [{ product_id: 'prod_a', commission_bp: 100 }, { commission_bp: 200 }]],
    [{ groupId: world.groupId }, [{ product_id: 'prod_a', commission_bp: 300 }, { commission_bp: 400 }]],
    ['everybody', [{ product_id: 'prod_a', commission_bp: 500 }]],
  ]
  for (const [holder, rules] of rates) await world.rules(holder, ...rules)
  const rateNow = async (product: string) => {
    const id = randomUUID()
    await world.report({ transaction_id: id, amount_cents: 10_000, lines: [{ product_ids: [product], weight: 1 }] })
    return (await world.earned())[id]
  }
  const seen = [[await rateNow('prod_a'), await rateNow('prod_b')]]
  for (const [holder, [forProduct, forAll]] of rates) {
    await world.rules(holder, ...(forAll ? [forAll] : []))
    seen.push([await rateNow('prod_a'), await rateNow('prod_b')])
    await world.rules(holder)
    seen.push([await rateNow('prod_a'), await rateNow('prod_b')])
    expect(forProduct).toBeDefined()
  }
  expect(seen).toEqual([
    [100, 200],
    [200, 200],
    [300, 400],
    [400, 400],
    [500, 2000],
    [2000, 2000],
    [2000, 2000],
  ])
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test.each<[string, CommissionRule, number, { currency?: string; type?: string }, number]>([
  ['a percentage is rounded half up', { commission_bp: 140 }, 2750, {}, 39],
  ['a fixed amount is added', { commission_bp: 140, commission_fixed_cents: 500 }, 2750, {}, 539],
  ['a fixed amount without a percentage', { commission_fixed_cents: 500 }, 2750, {}, 500],
  ['a fixed amount can be more than the sale', { commission_fixed_cents: 500 }, 100, {}, 500],
  [
    'another currency earns the percentage',
    { commission_bp: 140, commission_fixed_cents: 500 },
    2750,
    { currency: 'eur' },
    39,
  ],
  ['another currency has no cap', { commission_bp: 140, lifetime_cap_cents: 5 }, 2750, { currency: 'eur' }, 39],
  ['a cap limits the first sale', { commission_bp: 140, lifetime_cap_cents: 5 }, 2750, {}, 5],
  ['a cap of zero pays nothing', { commission_bp: 140, lifetime_cap_cents: 0 }, 2750, {}, 0],
  ['a rule may pay nothing', { commission_bp: 0 }, 2750, {}, 0],
  ['a rule for another sale type does not apply', { sale_type: 'upgrade', commission_bp: 0 }, 1000, {}, 200],
  ['a rule for the sale type applies', { sale_type: 'upgrade', commission_bp: 1 }, 10_000, { type: 'upgrade' }, 1],
  [
    'the largest amounts are accepted',
    { commission_bp: 10_000, commission_fixed_cents: 9_999_999_999_999 },
    9_999_999_999_999,
    {},
    9_999_999_999_999,
  ],
])('%s', async (_, rule, amount, more, cents) => {
  const world = await createWorld()
  await world.rules({ groupId: world.groupId }, rule)
  expect(await sell(world, amount, more)).toBe(cents)
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test("sales in a program without rules don't store a rule, and a program whose rules have ended uses its own terms", async () => {
  const world = await createWorld()
  await sell(world, 1000)
  await world.rules({ groupId: world.groupId }, { commission_bp: 1 })
  await world.rules({ groupId: world.groupId })
  await sell(world, 1000)
  const { rows } = await sql.query(
    'select commission_bp, commission_rule_id, terms_among::text from sales where program_id = $1 order by id',
    [world.programId],
  )
  expect(rows).toEqual([
    { commission_bp: 2000, commission_rule_id: null, terms_among: null },
    { commission_bp: 2000, commission_rule_id: null, terms_among: `(2,${world.groupId},2000,)` },
  ])
})

test("a change ends the old rule and starts a new one, and doesn't affect other rules", async () => {
  const world = await createWorld()
  const holder = { groupId: world.groupId }
  expect(await world.rules(holder, { commission_bp: 100 }, { product_id: 'prod_a', commission_bp: 200 })).toBe(true)
  expect(await world.rules(holder, { product_id: 'prod_a', commission_bp: 200 }, { commission_bp: 100 })).toBe(false)
  expect(await world.rules(holder, { commission_bp: 100 }, { product_id: 'prod_a', commission_bp: 300 })).toBe(true)
  const { rows } = await sql.query(
    'select product_id, commission_bp, since_version, until_version from commission_rules where program_id = $1 order by id',
    [world.programId],
  )
  expect(rows).toEqual([
    { product_id: null, commission_bp: 100, since_version: 1, until_version: null },
    { product_id: 'prod_a', commission_bp: 200, since_version: 1, until_version: 2 },
    { product_id: 'prod_a', commission_bp: 300, since_version: 2, until_version: null },
  ])
})

test.each([
  ['changes', 'update commission_rules set commission_bp = 1 where program_id = $1'],
  ['begins again', 'update commission_rules set ended_at = null, until_version = null where program_id = $1'],
  ['is deleted', 'delete from commission_rules where program_id = $1'],
])('no rule %s', async (_, statement) => {
  const world = await createWorld()
  await world.rules({ groupId: world.groupId }, { commission_bp: 100 })
  await world.rules({ groupId: world.groupId })
  await expect(sql.query(statement, [world.programId])).rejects.toThrow('A commission rule can end, but not change.')
})

test("a rule with only a fixed amount doesn't apply in another currency, and the next rule does", async () => {
  const world = await createWorld()
  await world.rules(
    { partnerId: world.partnerId },
    { sale_type: 'upgrade', commission_fixed_cents: 500 },
    { commission_fixed_cents: 300 },
  )
  await world.rules({ groupId: world.groupId }, { commission_bp: 1000, commission_fixed_cents: 700 })
  for (const [currency, type, cents] of [
    ['usd', 'upgrade', 500],
    ['usd', 'payment', 300],
    ['eur', 'upgrade', 1000],
    ['eur', 'payment', 1000],
  ] as const) {
    await world.report({ transaction_id: `${currency} ${type}`, amount_cents: 10_000, currency, sale_type: type })
    expect((await world.earned())[`${currency} ${type}`]).toBe(cents)
  }
  await world.rules({ groupId: world.groupId })
  await world.report({ transaction_id: 'by the program', amount_cents: 10_000, currency: 'eur' })
  expect((await world.earned())['by the program']).toBe(2000)
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test('an invoice with the product uses the rule that applied when the sale was attributed', async () => {
  const world = await createWorld()
  await world.rules('everybody', { product_id: 'prod_a', commission_bp: 100 })
  const payment = { transaction_id: 'pi_1', amount_cents: 10_000, amount_source: 'intent' }
  await world.report(payment)
  expect(await world.earned()).toEqual({ pi_1: 2000 })
  await world.rules('everybody', { product_id: 'prod_a', commission_bp: 9000 })
  await sql.query('update partners set group_id = null where program_id = $1', [world.programId])
  await sql.query('update programs set commission_bp = 7000 where id = $1', [world.programId])
  await world.report({
    ...payment,
    amount_source: 'invoice',
    lines: [{ product_ids: ['price_1', 'prod_a'], weight: 1 }],
  })
  expect(await world.earned()).toEqual({ pi_1: 100 })
  // This sale is from today.
  await world.report({
    transaction_id: 'in_2',
    amount_cents: 10_000,
    amount_source: 'invoice',
    lines: [{ product_ids: ['prod_a'], weight: 1 }],
  })
  await world.report({
    transaction_id: 'in_3',
    amount_cents: 10_000,
    amount_source: 'invoice',
    lines: [{ product_ids: ['prod_b'], weight: 1 }],
  })
  expect(await world.earned()).toEqual({ pi_1: 100, in_2: 9000, in_3: 7000 })
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test('the first matching rule applies: by price, then by product, then by sale type', async () => {
  const world = await createWorld()
  await world.rules(
    'everybody',
    { product_id: 'price_1', commission_bp: 100 },
    { product_id: 'prod_2', commission_bp: 200 },
    { sale_type: 'payment', commission_bp: 300 },
  )
  const products = [['price_1', 'prod_2'], ['price_9', 'prod_2', 'price_1', 'prod_1'], ['price_9'], null]
  for (const [number, product_ids] of products.entries()) {
    await world.report({
      transaction_id: `in_${number}`,
      amount_cents: 10_000,
      lines: product_ids && [{ product_ids, weight: 1 }],
    })
  }
  expect(await world.earned()).toEqual({ in_0: 100, in_1: 200, in_2: 300, in_3: 300 })
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test('the commission of an erased customer still follows the rule for its sale type', async () => {
  const world = await createWorld({ commissionBp: 2000 })
  await world.rules(
    'everybody',
    { sale_type: 'upgrade', commission_bp: 3000 },
    { sale_type: 'payment', commission_bp: 500 },
  )
  const clickId = await world.click(0)
  for (const type of ['upgrade', 'payment', 'for Ann'])
    await world.sale({ id: randomUUID(), customerKey: 'ann', clickId, amount: 1000, currency: 'usd', type })
  await eraseCustomer(db, world.programId, { customer_key: 'ann' })
  const { rows: types } = await sql.query<{ sale_type: string }>(
    'select sale_type from sales where program_id = $1 order by id',
    [world.programId],
  )
  expect(types.map(({ sale_type: type }) => type)).toEqual(['upgrade', 'payment', 'erased'])
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

const line = (product: string, weight: number) => ({ product_ids: [`price of ${product}`, product], weight })

test('each line of an invoice earns according to its own rule, and a refund reverses all of them in proportion', async () => {
  const world = await createWorld({ commissionBp: 2000 })
  await world.rules(
    'everybody',
    { product_id: 'prod_b', commission_bp: 8000, commission_fixed_cents: 100, lifetime_cap_cents: 21_000 },
    { product_id: 'prod_c', commission_bp: 0 },
  )
  const lines = [line('prod_a', 100_000), line('prod_b', 1000), line('prod_d', 0), line('prod_c', 500)]
  await world.report({ transaction_id: 'in_1', amount_cents: 101_500, lines: lines.filter(({ weight }) => weight > 0) })
  // The first line earns 20% of 1,000.00. The second line earns 80% of 10.00 plus 1.00. The third line, with 5.00, earns nothing.
  expect((await world.earned())['in_1']).toBe(20_900)
  const request = { programId: world.programId, transaction_id: 'in_1', test: false, withCustomer: true }
  const { commission } = await explainSale(db, request)
  expect(commission?.text).toContain('80% of $10.00 and $1.00 for prod_b is $9.00')
  expect(commission?.lines?.map(({ commission_cents: cents }) => cents)).toEqual([20_000, 900, 0])
  // The lines are 66 and 34 cents. The first one earns 13 cents. After 209.00 and these 13 cents, the cap of 210.00
  // leaves 87 cents for the second one.
  await world.report({ transaction_id: 'in_2', amount_cents: 100, lines: [line('prod_a', 2), line('prod_b', 1)] })
  expect((await world.earned())['in_2']).toBe(100)
  await world.refund('in_1', 50_750)
  expect((await world.earned())['in_1']).toBe(10_450)
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

/** Sales earn 20%, up to 1,000 per customer. */
const capped = async (holdDays = 0) => {
  const world = await createWorld({ holdDays })
  await world.rules({ groupId: world.groupId }, { commission_bp: 2000, lifetime_cap_cents: 1000 })
  return world
}

describe('under a cap of 1,000 for a customer', () => {
  const sales = [
    { transaction_id: 'in_1', amount_cents: 3000, sale_date: '2026-01-01T00:00:00Z' },
    { transaction_id: 'in_2', amount_cents: 1500, sale_date: '2026-02-01T00:00:00Z' },
    { transaction_id: 'in_3', amount_cents: 1000, sale_date: '2026-03-01T00:00:00Z' },
    { transaction_id: 'in_4', amount_cents: 1000, sale_date: '2026-04-01T00:00:00Z' },
  ]
  const inOrder = { in_1: 600, in_2: 300, in_3: 100, in_4: 0 }
  test('sales earn the same total in any order', async () => {
    const orders = [
      [0, 1, 2, 3],
      [3, 2, 1, 0],
      [2, 0, 3, 1],
      [1, 3, 0, 2],
    ]
    for (const order of orders) {
      const world = await capped()
      for (const number of order) {
        await world.report(sales[number] ?? {})
        await sql.query('select approve_due_commissions(100)')
      }
      expect(await world.earned(), order.join()).toEqual(inOrder)
      const { rows } = await sql.query('select balance_cents from balances where program_id = $1', [world.programId])
      expect(rows).toEqual([{ balance_cents: '1000' }])
      expect(await findDifferences(sql, world.programId)).toEqual([])
    }
  })

  test("a correction of an earlier sale leaves more for later ones, and a refund doesn't", async () => {
    const world = await capped()
    for (const sale of sales) await world.report(sale)
    await world.refund('in_2', 1500)
    expect(await world.earned()).toEqual({ ...inOrder, in_2: 0 })
    await world.report({ ...sales[0], amount_cents: 500, amount_source: 'invoice' })
    expect(await world.earned()).toEqual({ in_1: 100, in_2: 0, in_3: 200, in_4: 200 })
    expect(await findDifferences(sql, world.programId)).toEqual([])
  })

  test('refunding a sale that earned nothing changes nothing, and the sale earns when the cap allows it', async () => {
    const world = await capped()
    for (const sale of sales) await world.report(sale)
    await world.refund('in_4', 500)
    await world.report({ ...sales[1], amount_cents: 500, amount_source: 'invoice' })
    expect(await world.earned()).toEqual({ in_1: 600, in_2: 100, in_3: 200, in_4: 50 })
    expect(await findDifferences(sql, world.programId)).toEqual([])
  })

  test('forty concurrent sales of a customer earn exactly the cap', async () => {
    const world = await capped()
    const sell40 = Array.from({ length: 40 }, (_, number) => ({
      transaction_id: `sale-${number}`,
      amount_cents: 300 + number,
      sale_date: new Date(Date.UTC(2026, 0, 1 + ((number * 7) % 40))).toISOString(),
    }))
    await Promise.all(
      sell40.map((sale) =>
        pool.query(
          `select record_sale(jsonb_populate_record(null::sales, jsonb_build_object('program_id', c.program_id, 'customer_id', c.id,
            'customer_key', 'buyer', 'commission_base_cents', $2::jsonb->'amount_cents', 'currency', 'usd', 'is_test', false,
            'is_recurring', false, 'sale_type', 'payment', 'payment_status', 'paid') || $2::jsonb), true)
          from customers c where c.program_id = $1`,
          [world.programId, JSON.stringify(sale)],
        ),
      ),
    )
    const earned = await world.earned()
    expect(Object.values(earned).reduce((sum, cents) => sum + cents, 0)).toBe(1000)
    expect(await findDifferences(sql, world.programId)).toEqual([])
  })
})

test('a rule change during sales leaves each sale with either the old or the new terms', async () => {
  const world = await createWorld()
  const holder = { groupId: world.groupId }
  const terms = [
    { commission_bp: 1000, commission_fixed_cents: 700, lifetime_cap_cents: 1111, commission_duration_months: 3 },
    { commission_bp: 3000, commission_fixed_cents: 0, lifetime_cap_cents: null, commission_duration_months: null },
  ]
  await world.rules(holder, terms[0] ?? {})
  const clicks = await Promise.all(Array.from({ length: 60 }, () => world.click(0)))
  const sellAll = clicks.map(async (clickId, number) => {
    const key = `customer-${number}`
    await world.sale({ id: key, customerKey: key, clickId, amount: 10_000, currency: 'usd' })
  })
  const change = async () => {
    for (let number = 1; number <= 12; number++) await world.rules(holder, terms[number % 2] ?? {})
  }
  await Promise.all([...sellAll, change(), change()])
  const { rows } = await sql.query<{ terms: string }>(
    `select distinct concat_ws(' ', s.commission_bp, coalesce(s.commission_fixed_cents, 0), s.commission_cap_cents, s.commission_months, c.amount_cents) as terms
    from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id where s.program_id = $1`,
    [world.programId],
  )
  expect(['1000 700 1111 3 1111', '3000 0 3000']).toEqual(expect.arrayContaining(rows.map((row) => row.terms)))
  const { rows: live } = await sql.query(
    'select count(*)::integer as rules from commission_rules where program_id = $1 and ended_at is null',
    [world.programId],
  )
  expect(live).toEqual([{ rules: 1 }])
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test("a lead uses the partner’s rule, then the group's, then the program's", async () => {
  const world = await createWorld({ leadCommissionCents: 100 })
  const pays = async () => {
    const key = randomUUID()
    await world.lead(key, await world.click(0))
    const { rows } = await sql.query<{ amount_cents: string }>(
      `select m.amount_cents from commissions m join customers c on c.program_id = m.program_id and c.id = m.customer_id
      where m.program_id = $1 and m.kind = 'lead' and c.customer_key = $2`,
      [world.programId, key],
    )
    return Number(rows[0]?.amount_cents ?? 0)
  }
  const seen = [await pays()]
  await world.rules({ groupId: world.groupId }, { lead_commission_cents: 250 })
  seen.push(await pays())
  await world.rules({ partnerId: world.partnerId }, { commission_bp: 100 })
  seen.push(await pays())
  await world.rules({ partnerId: world.partnerId }, { lead_commission_cents: 0 })
  seen.push(await pays())
  expect(seen).toEqual([100, 250, 250, 0])
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test('a partner who erased their account earns nothing under any rule', async () => {
  const world = await createWorld()
  await world.rules({ partnerId: world.partnerId }, { commission_fixed_cents: 500, lead_commission_cents: 500 })
  const clickId = await world.click(0)
  await sql.query(
    `update partners set closed_at = now(), is_active = false, ended_at = now(), ended_by = 'partner' where program_id = $1 and id = $2`,
    [world.programId, world.partnerId],
  )
  const sale = await world.sale({ id: randomUUID(), customerKey: 'late', clickId, amount: 1000, currency: 'usd' })
  expect(sale.commission_cents).toBe(0)
  await world.lead('later', clickId)
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test('the explanation shows the rule and the whole calculation, including the cap', async () => {
  const world = await createWorld()
  await world.rules(
    { groupId: world.groupId },
    { commission_bp: 140, commission_fixed_cents: 500, lifetime_cap_cents: 1000 },
  )
  await world.rules('everybody', { product_id: 'prod_a', commission_bp: 1 })
  for (const [number, currency] of ['usd', 'usd', 'usd', 'eur'].entries()) {
    await world.report({
      transaction_id: `in_${number}`,
      amount_cents: 2750,
      currency,
      sale_date: `2026-0${number + 1}-01T00:00:00Z`,
    })
  }
  const texts = []
  for (const number of [0, 1, 2, 3]) {
    const request = { programId: world.programId, transaction_id: `in_${number}`, test: false, withCustomer: true }
    texts.push((await explainSale(db, request)).commission?.text)
  }
  const asPartner = { programId: world.programId, transaction_id: 'in_0', test: false, withCustomer: false }
  expect((await explainSale(db, asPartner)).rule?.text).toBe("The rule of the partner's group.")
  const rate = '1.4% of $27.50 is $0.39, rounded half up from 38.5 minor units. With $5.00 for each sale it is $5.39.'
  const cap = 'All sales to a customer can earn $10.00 together. Earlier sales earned'
  expect(texts).toEqual([
    `${rate} By the rule of the group Gold.`,
    `${rate} ${cap} $5.39, so this sale earns $4.61. By the rule of the group Gold.`,
    `${rate} ${cap} $10.00, so this sale earns nothing. By the rule of the group Gold.`,
    "1.4% of €27.50 is €0.39, rounded half up from 38.5 minor units. By the rule of the group Gold. Its fixed amount and cap are not in this sale's currency, so the sale earns only the percentage.",
  ])
})

test("a partner's terms show how their next sale is paid", () => {
  const program = { currency: 'usd', commission_bp: 2000, commission_duration_months: 12, lead_commission_cents: 100 }
  const none = {
    id: 1,
    product_id: null,
    sale_type: null,
    commission_bp: 0,
    commission_fixed_cents: 0,
    lifetime_cap_cents: null,
    commission_duration_months: null,
    lead_commission_cents: null,
  }
  expect(termsOfPartner(program, [])).toEqual([
    '20% of each sale for 12 months after a customer’s first purchase',
    '$1.00 for each signup',
  ])
  const rules = [
    { ...none, product_id: 'prod_a', commission_fixed_cents: 500 },
    { ...none, product_id: 'prod_a', commission_bp: 9000 },
    { ...none, commission_bp: 3050, lifetime_cap_cents: 10_000, lead_commission_cents: 0 },
    { ...none, sale_type: 'upgrade', commission_bp: 1 },
  ]
  expect(termsOfPartner(program, rules)).toEqual([
    '$5.00 for each sale of prod_a',
    '30.5% of each sale, up to $100.00 for a customer',
  ])
})

test("a preview counts signups under today's groups, without closed partners", async () => {
  const world = await createWorld({ leadCommissionCents: 100 })
  await sell(world, 10_000)
  await world.lead('new', await world.click(0))
  await world.lead('other', await world.click(1))
  const month = new Date().toISOString().slice(0, 7)
  const rules = [{ commission_bp: 1000, lead_commission_cents: 700 }]
  const look = () => previewRules(db, world.programId, { groupId: world.groupId }, rules, month)
  // A sale to a new customer also counts as a signup if it contained a click id.
  const { rows } = await sql.query<{ leads: string }>(
    `select count(*) filter (where partner_id = $2) as leads from customers where program_id = $1 and signup_date is not null`,
    [world.programId, world.partnerId],
  )
  const leads = Number(rows[0]?.leads)
  expect(await look()).toMatchObject({
    totals: [{ actual_cents: 2100 + leads * 100, now_cents: 2100 + leads * 100, then_cents: 1100 + leads * 700 }],
    partners: [{ partner_id: world.partnerId }],
  })
  await movePartners(db, world.programId, [world.partnerIds[1] ?? 0], world.groupId)
  expect((await look()).partners).toHaveLength(2)
  await movePartners(db, world.programId, world.partnerIds, null)
  expect((await look()).partners).toEqual([])
  await sql.query(
    `update partners set is_active = false, ended_at = now(), ended_by = 'partner', closed_at = now() where id = $1`,
    [world.partnerId],
  )
  expect((await look()).totals).toMatchObject([{ now_cents: 100, then_cents: 100 }])
})

test('one rule changes at a time: two concurrent changes both apply', async () => {
  const world = await createWorld()
  const holder = { groupId: world.groupId }
  const begin = (begins: CommissionRule, ends?: number) => changeRule(db, world.programId, holder, { begins, ends })
  await Promise.all(Array.from({ length: 6 }, (_, at) => begin({ sale_type: `type ${at}`, commission_bp: at })))
  const now = async () => (await readGroup(db, world.programId, world.groupId)).rules
  expect((await now()).map((rule) => rule.commission_bp)).toEqual([0, 1, 2, 3, 4, 5])
  await begin({ sale_type: 'type 3', commission_bp: 33 })
  const [first] = await now()
  await begin({ sale_type: 'another', commission_bp: 44 }, first?.id)
  await changeRule(db, world.programId, holder, { ends: (await now()).at(-1)?.id })
  expect((await now()).map((rule) => [rule.sale_type, rule.commission_bp])).toEqual([
    ['another', 44],
    ['type 1', 1],
    ['type 2', 2],
    ['type 3', 33],
    ['type 4', 4],
  ])
  const others = await createWorld()
  for (const unknown of [{ groupId: others.groupId }, { partnerId: others.partnerId }]) {
    const refused = { code: 'not_found' }
    await expect(changeRule(db, world.programId, unknown, { begins: { commission_bp: 1 } })).rejects.toMatchObject(
      refused,
    )
    await expect(previewRules(db, world.programId, unknown, [])).rejects.toMatchObject(refused)
  }
  for (let at = 5; at < 50; at++) await begin({ sale_type: `more ${at}`, commission_bp: 1 })
  await expect(begin({ sale_type: 'one more', commission_bp: 1 })).rejects.toMatchObject({ code: 'conflict' })
})

test('a removed group has no partners and no rules, even if partners move into it at the same time', async () => {
  for (let round = 0; round < 5; round++) {
    const world = await createWorld()
    await world.rules({ groupId: world.groupId }, { commission_bp: 100 })
    const outcomes = await Promise.allSettled([
      movePartners(db, world.programId, world.partnerIds, world.groupId),
      removeGroup(db, world.programId, world.groupId),
      changeRule(db, world.programId, { groupId: world.groupId }, { begins: { commission_bp: 7 } }),
      removeGroup(db, world.programId, world.groupId),
    ])
    expect(outcomes.filter(({ status }) => status === 'rejected')).not.toEqual([])
    const { rows } = await sql.query(
      `select (select count(*)::integer from partners where program_id = $1 and group_id is not null) as members,
        (select count(*)::integer from commission_rules where program_id = $1 and ended_at is null) as rules,
        (select count(*)::integer from partner_groups where program_id = $1 and removed_at is not null) as removed,
        (select count(*)::integer from audit_log where program_id = $1 and action = 'group.removed') as reported`,
      [world.programId],
    )
    expect(rows).toEqual([{ members: 0, rules: 0, removed: 1, reported: 1 }])
    expect(await sell(world, 1000)).toBe(200)
    await expect(movePartners(db, world.programId, world.partnerIds, world.groupId)).rejects.toMatchObject({
      code: 'not_found',
    })
    // The name of a removed group can be used again.
    await createGroup(db, world.programId, { name: 'gold', rules: [] })
    expect(await findDifferences(sql, world.programId)).toEqual([])
  }
})
