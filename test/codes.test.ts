import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { explainSale } from '../lib/money/explanation.ts'
import { createCode, revokeCode } from '../lib/programs/codes.ts'
import { saveRules } from '../lib/programs/commission-rules.ts'
import { updatePartner } from '../lib/programs/partners.ts'
import { readGroups } from '../lib/tracking/groupings.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { openConnections, startEndpoint } from './support/stack.ts'

const { db, sql, databaseUrl } = await startEndpoint()
const pool = openConnections(databaseUrl, 12)

type World = Awaited<ReturnType<typeof createWorld>>

/** A program with a rate of 10%. Its second partner has the code JANE20. */
async function createWorld() {
  const program = await createLedgerProgram(pool, db, { commissionBp: 1000 })
  const { programId, partnerIds } = program
  const give = (partner: number, code: string) =>
    createCode(db, programId, { partner_id: partnerIds[partner] ?? 0, code, promotion_code_id: null, account_id: null })
  const code = await give(1, 'JANE20')
  return {
    ...program,
    codeId: code.id,
    give,
    /**
     * Records a sale and returns its id. The customer clicked the first partner's link unless the caller says
     * otherwise.
     */
    async sell(sale: { customerKey?: string; coupon?: string; by?: number; amount?: number }) {
      const id = randomUUID()
      const { customerKey = id, coupon, by, amount = 1000 } = sale
      const clickId = by === undefined ? null : await program.click(by)
      await program.sale({ id, customerKey, amount, currency: 'usd', clickId, ...(coupon && { coupon }) })
      return id
    },
    /** Returns the partner of a sale as an index, its commission, and the steps about its code. */
    async outcome(id: string) {
      const { rows } = await sql.query<{
        partner_id: string | null
        cents: string | null
        code_id: string | null
        coupon: string | null
      }>(
        `select s.partner_id, c.amount_cents - c.reversed_cents as cents, s.code_id, s.coupon
        from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
        where s.program_id = $1 and s.transaction_id = $2`,
        [programId, id],
      )
      const [sale] = rows
      const explanation = await explainSale(db, { programId, transaction_id: id, test: false, withCustomer: true })
      return {
        partner: sale?.partner_id == null ? null : partnerIds.indexOf(Number(sale.partner_id)),
        cents: Number(sale?.cents ?? 0),
        byCode: sale?.code_id != null,
        steps: explanation.steps
          .filter(({ step }) => step.includes('code') || step === 'coupon')
          .map(({ step, found }) => `${step} ${found}`),
      }
    },
  }
}

type Act = (world: World) => Promise<unknown>
const clickFirst: Act = (world) =>
  sql.query("update programs set attribution_priority = 'click' where id = $1", [world.programId])
const revoke: Act = (world) => revokeCode(db, world.programId, world.codeId)
const give =
  (partner: number, code: string): Act =>
  (world) =>
    world.give(partner, code)
const sell =
  (sale: Parameters<World['sell']>[0]): Act =>
  (world) =>
    world.sell(sale)
const coupon = 'JANE20'
const customerKey = 'ann'

test.each<[string, before: Act[], Parameters<World['sell']>[0], number | null, byCode: boolean, steps: string[]]>([
  ['a code without a click', [], { coupon }, 1, true, ['coupon found']],
  ['a code in another case', [], { coupon: 'jane20' }, 1, true, ['coupon found']],
  [
    'a code in another script and another Unicode form',
    [give(0, 'CAFÉ')],
    { coupon: 'Cafe\u0301' },
    0,
    true,
    ['coupon found'],
  ],
  ['an unknown code', [], { coupon: 'JANE' }, null, false, ['coupon unknown']],
  ['a click and an unknown code', [], { coupon: '%', by: 0 }, 0, false, ['coupon unknown']],
  ['a click of another partner', [], { coupon, by: 0 }, 1, true, ['coupon found', 'code_or_click code']],
  [
    'a click of another partner, if clicks take precedence',
    [clickFirst],
    { coupon, by: 0 },
    0,
    false,
    ['coupon found', 'code_or_click click'],
  ],
  [
    'a click of the same partner, if clicks take precedence',
    [clickFirst],
    { coupon, by: 1 },
    1,
    true,
    ['coupon found'],
  ],
  ['a code without a click, if clicks take precedence', [clickFirst], { coupon }, 1, true, ['coupon found']],
  ['a revoked code', [revoke], { coupon }, null, false, ['coupon revoked']],
  ['a code that is valid again', [revoke, give(1, 'Jane20')], { coupon }, 1, true, ['coupon found']],
  [
    'the code of an inactive partner',
    [(world) => updatePartner(db, world.programId, world.partnerIds[1] ?? 0, { is_active: false })],
    { coupon },
    null,
    false,
    ['coupon partner_inactive'],
  ],
  [
    'a code of another program',
    [async () => (await createWorld()).give(0, 'OTHERS')],
    { coupon: 'OTHERS' },
    null,
    false,
    ['coupon unknown'],
  ],
  [
    'a later sale without a code, to a customer referred by a code',
    [sell({ coupon, customerKey })],
    { customerKey },
    1,
    true,
    ['code_of_first_purchase found'],
  ],
  [
    'a later sale without a code, after a code decided the first sale and not the click',
    [sell({ coupon, customerKey, by: 0 })],
    { customerKey },
    1,
    true,
    ['code_of_first_purchase found', 'code_or_click code'],
  ],
  [
    'a later sale with a code, to a customer who came by a click and bought before',
    [sell({ customerKey, by: 0 })],
    { coupon, customerKey },
    1,
    true,
    ['coupon found', 'code_or_click code'],
  ],
  [
    'the next sale, without a code',
    [sell({ customerKey, by: 0 }), sell({ coupon, customerKey })],
    { customerKey },
    0,
    false,
    [],
  ],
  [
    'a later sale with a revoked code, to a customer referred by that code',
    [sell({ coupon, customerKey }), revoke],
    { coupon, customerKey },
    1,
    true,
    ['coupon revoked', 'code_of_first_purchase found'],
  ],
  [
    'a later sale with another partner’s code, if clicks take precedence and a code referred the customer',
    [clickFirst, give(0, 'TOM'), sell({ coupon, customerKey })],
    { coupon: 'TOM', customerKey },
    0,
    true,
    ['coupon found', 'code_or_click named_code'],
  ],
])('%s', async (_, before, sale, partner, byCode, steps) => {
  const world = await createWorld()
  for (const act of before) await act(world)
  const id = await world.sell(sale)
  expect(await world.outcome(id)).toEqual({ partner, cents: partner === null ? 0 : 100, byCode, steps })
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test('the partner of a paid signup is reported to the program, and to no other partner whose code is on the sale', async () => {
  const world = await createWorld()
  await sql.query('update programs set lead_commission_cents = 150 where id = $1', [world.programId])
  await world.lead('ann', await world.click(0))
  const [own, others] = [
    await world.sell({ customerKey: 'ann' }),
    await world.sell({ customerKey: 'ann', coupon: 'JANE20' }),
  ]
  const reported = async (id: string, withCustomer: boolean) =>
    (await explainSale(db, { programId: world.programId, transaction_id: id, test: false, withCustomer }))
      .lead_commission?.text
  expect(await reported(own, false)).toMatch(/ earned \$1\.50 by itself, on hold until /)
  expect(await reported(others, true)).toMatch(/ earned Partner 0 \$1\.50 by itself, on hold until /)
  expect(await reported(others, false)).toBeUndefined()
  // The columns of each state, and the text that describes the state.
  const states: [set: string, text: RegExp][] = [
    ['held_at = now()', / earned \$1\.50 by itself\. It is held for review, and not paid until somebody decides\.$/],
    ['held_at = null, credited_at = now()', / earned \$1\.50 by itself\.$/],
    ['paid_at = now()', / paid \$1\.50 by itself\.$/],
    [
      'credited_at = null, paid_at = null, rejected_at = now()',
      /^The commission for the signup on .+, \$1\.50, was rejected\.$/,
    ],
    [`rejected_at = null, status = 'reversed'`, /, \$1\.50, was reversed\.$/],
  ]
  await sql.query('set session_replication_role = replica')
  for (const [set, text] of states) {
    await sql.query(`update commissions set ${set} where program_id = $1 and kind = 'lead'`, [world.programId])
    expect(await reported(own, false)).toMatch(text)
  }
  await sql.query('set session_replication_role = origin')
  expect(await reported(others, true)).toMatch(/^The commission of Partner 0 for the signup on /)
})

test('a sale uses the terms of the partner whose code it contains', async () => {
  const world = await createWorld()
  await saveRules(db, world.programId, { partnerId: world.partnerIds[1] ?? 0 }, [{ commission_bp: 3000 }])
  expect((await world.outcome(await world.sell({ by: 0 }))).cents).toBe(100)
  expect((await world.outcome(await world.sell({ by: 0, coupon: 'JANE20' }))).cents).toBe(300)
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

test("a refund reverses the earnings of a code and changes the code's figures", async () => {
  const world = await createWorld()
  const id = await world.sell({ coupon: 'JANE20', by: 0 })
  await world.sell({ by: 0 })
  await world.refund(id, 250)
  await sql.query('select count_clicks(1000), count_figures(1000)')
  const today = new Date().toISOString().slice(0, 10)
  const figuresBy = async (groupBy: 'code' | 'link') =>
    await readGroups(db, world.programId, {
      groupBy,
      from: today,
      to: today,
      timeZone: 'UTC',
      interval: undefined,
      metrics: ['sales', 'revenue_cents', 'refunded_cents', 'commission_cents', 'conversions'],
      sort: 'sales',
      order: 'desc',
      limit: 10,
      currency: undefined,
    })
  const of = { sales: 1, revenue_cents: 1000, conversions: 1 }
  const [byCode, byLink] = [
    { ...of, refunded_cents: 250, commission_cents: 75 },
    { ...of, refunded_cents: 0, commission_cents: 100 },
  ]
  const codes = await figuresBy('code')
  expect(codes.groups).toEqual(
    expect.arrayContaining([
      { value: String(world.codeId), label: 'JANE20', ...byCode },
      { value: null, ...byLink },
    ]),
  )
  expect(codes.total).toMatchObject({ sales: 2, commission_cents: 175 })
  // The figures of the partner's link don't include sales through a code.
  const { groups: links } = await figuresBy('link')
  expect(links).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ value: expect.any(String), ...byLink }),
      { value: null, ...byCode },
    ]),
  )
  expect(await findDifferences(sql, world.programId)).toEqual([])
})

describe('a code belongs to one partner forever', () => {
  test.each<[string, (world: World) => Promise<unknown>, string]>([
    ['of another partner', (world) => world.give(0, 'jane20'), 'Partner 1 has this code.'],
    [
      'that another partner used',
      async (world) => (await revokeCode(db, world.programId, world.codeId), world.give(0, 'JANE20')),
      'This code belonged to Partner 1 and is revoked.',
    ],
    [
      'for an unknown partner',
      (world) =>
        createCode(db, world.programId, { partner_id: 1, code: 'NEW', promotion_code_id: null, account_id: null }),
      'This program has no such partner.',
    ],
  ])('a code %s is refused', async (_, make, message) => {
    const world = await createWorld()
    await expect(make(world)).rejects.toThrow(message)
  })

  test('a code is created once, even by concurrent requests', async () => {
    const world = await createWorld()
    const created = await Promise.allSettled(
      Array.from({ length: 12 }, (_, n) => world.give(n % 2, n < 6 ? 'Tomcode' : 'TOMCODE')),
    )
    const ids = created.flatMap((one) => (one.status === 'fulfilled' ? [one.value.id] : []))
    expect(new Set(ids).size).toBe(1)
    expect(ids).toHaveLength(6)
  })
})

describe('many sales at once', () => {
  test('of one new customer with a code create one customer, and all are attributed to the partner', async () => {
    const world = await createWorld()
    const ids = await Promise.all(
      Array.from({ length: 12 }, () => world.sell({ coupon: 'JANE20', customerKey: 'ann' })),
    )
    const { rows } = await sql.query('select from customers where program_id = $1', [world.programId])
    expect(rows).toHaveLength(1)
    for (const id of ids) expect(await world.outcome(id)).toMatchObject({ partner: 1, cents: 100 })
    expect(await findDifferences(sql, world.programId)).toEqual([])
  })

  test('while their code is revoked are attributed to the partner or unattributed, and the books balance', async () => {
    const world = await createWorld()
    const sales = Array.from({ length: 16 }, () => world.sell({ coupon: 'JANE20' }))
    await revokeCode(db, world.programId, world.codeId)
    const ids = await Promise.all(sales)
    const outcomes = await Promise.all(ids.map((id) => world.outcome(id)))
    for (const { partner, cents, steps } of outcomes) {
      expect([partner, cents, steps]).toEqual(
        partner === 1 ? [1, 100, ['coupon found']] : [null, 0, ['coupon revoked']],
      )
    }
    expect((await world.outcome(await world.sell({ coupon: 'JANE20' }))).partner).toBeNull()
    expect(await findDifferences(sql, world.programId)).toEqual([])
  })

  test('and repeats of one of them bind the customer only once and earn only once', async () => {
    const world = await createWorld()
    const report = () =>
      world.sale({ id: 'order-1', customerKey: 'ann', amount: 1000, currency: 'usd', coupon: 'JANE20' })
    const reported = await Promise.allSettled(Array.from({ length: 8 }, report))
    expect(reported.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await world.outcome('order-1')).toMatchObject({ partner: 1, cents: 100 })
    expect(await findDifferences(sql, world.programId)).toEqual([])
  })
})
