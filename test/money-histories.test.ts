import { randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import pg from 'pg'
import { afterAll, expect, test } from 'vitest'
import { findDifferences } from '../lib/audit.ts'
import { readBalances } from '../lib/balances.ts'
import { approveCommissions, approveDueCommissions, rejectCommission } from '../lib/commissions.ts'
import { ApiError } from '../lib/errors.ts'
import { askWithdrawal, payWithdrawal, refuseWithdrawal } from '../lib/withdrawals.ts'
import { createLedgerProgram, type LedgerProgram } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, databaseUrl } = await startEndpoint()
const pool = new pg.Pool({ connectionString: databaseUrl, max: 4 })
afterAll(() => pool.end())

const commissionBp = 1375
const leadCommissionCents = 150
const currencies = ['usd', 'jpy', 'kwd'] as const
const stepsPerHistory = 40

/** One step of a history. `pick` chooses among what there is at that moment. */
type Step =
  | { do: 'nothing' }
  | { do: 'lead'; customer: number }
  | { do: 'sale'; customer: number; amount: number; currency: number }
  | { do: 'repeat sale'; pick: number }
  | { do: 'refund'; pick: number; amount: number | null; id: number | null }
  | { do: 'return refund'; pick: number; id: number }
  | { do: 'approve'; picks: number[] }
  | { do: 'reject'; pick: number }
  | { do: 'ask'; pick: number; percent: number }
  | { do: 'pay'; pick: number }
  | { do: 'refuse'; pick: number }

const pick = fc.nat({ max: 30 })
const refundId = fc.nat({ max: 3 })
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'nothing' }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('lead' as const), customer: fc.nat({ max: 5 }) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('sale' as const),
      customer: fc.nat({ max: 5 }),
      amount: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 100_000 })),
      currency: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat({ max: 2 }) }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('repeat sale' as const), pick }) },
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant('refund' as const),
      pick,
      amount: fc.option(fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 60_000 })), { freq: 4 }),
      id: fc.option(refundId, { freq: 4 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('return refund' as const), pick, id: refundId }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('approve' as const),
      picks: fc.array(pick, { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reject' as const), pick }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('ask' as const), pick, percent: fc.nat({ max: 120 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('pay' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('refuse' as const), pick }) },
)
const history = fc.array(anyStep, { minLength: stepsPerHistory, maxLength: stepsPerHistory })

interface ModelCommission {
  id: number
  partner: number
  currency: string
  amount: number
  reversed: number
  reversal: 'none' | 'partial' | 'full'
  rejected: boolean
  /** Its place among everything credited, or undefined. */
  credited?: number
  paid: boolean
}

interface ModelSale {
  id: string
  customer: number
  amount: number
  currency: string
  refunded: number
  /** What each refund key moved; null once it is put back. */
  refunds: Map<string, { asked: number; applied: number } | null>
  commission: ModelCommission | undefined
}

interface ModelWithdrawal {
  id: number
  partner: number
  currency: string
  amount: number
  status: 'requested' | 'paid' | 'refused' | 'cancelled'
}

/**
 * The rules in plain words and numbers, with nothing happening at once. Every method answers what the service must answer, and
 * changes what the service must change.
 */
class Model {
  readonly sales: ModelSale[] = []
  readonly leadCommissions: ModelCommission[] = []
  readonly withdrawals: ModelWithdrawal[] = []
  readonly balances = new Map<string, number>()
  readonly told = new Map<string, number>()
  #creditedSoFar = 0

  get commissions(): ModelCommission[] {
    return [...this.sales.flatMap(({ commission }) => commission ?? []), ...this.leadCommissions]
  }

  static commissionOf(amount: number): number {
    return Math.floor((amount * commissionBp + 5000) / 10_000)
  }

  balance(partner: number, currency: string): number {
    return this.balances.get(`${partner} ${currency}`) ?? 0
  }

  available(partner: number, currency: string): number {
    return this.balance(partner, currency) - sum(this.#open(partner, currency).map(({ amount }) => amount))
  }

  status({ rejected, reversal, paid, credited }: ModelCommission): string {
    if (rejected || reversal === 'full') return 'reversed'
    if (reversal === 'partial') return 'refunded'
    return paid ? 'paid' : credited === undefined ? 'pending' : 'approved'
  }

  refund(sale: ModelSale, amount: number | null, id: string | null): object {
    const { commission } = sale
    const key = amount === null ? 'rest' : id === null ? `amount:${amount}` : `id:${id}`
    const wasReversed = commission && this.status(commission) === 'reversed'
    if (amount !== null && sale.refunds.has(key)) {
      return commission ? { status: 'skipped', reason: 'refund_already_applied' } : { status: 'no_commission' }
    }
    const applied = Math.min(amount ?? sale.amount, sale.amount - sale.refunded)
    if (applied > 0) {
      sale.refunded += applied
      if (amount !== null) sale.refunds.set(key, { asked: amount, applied })
    }
    if (!commission) return { status: 'no_commission' }
    if (wasReversed || applied === 0) return { status: 'skipped', reason: 'already_reversed' }
    const deduction = this.#reverseTo(sale, commission)
    const full = sale.refunded === sale.amount
    this.#tell(full ? 'commission_reversed' : 'commission_refunded')
    if (commission.paid) this.#tell('paid_commission_reversed')
    return { status: full ? 'reversed' : 'refunded', deduction_cents: deduction }
  }

  returnRefund(sale: ModelSale, id: string): object {
    const refund = sale.refunds.get(`id:${id}`) ?? null
    sale.refunds.set(`id:${id}`, null)
    if (refund === null) return { returned: false }
    const commission = sale.commission?.rejected ? undefined : sale.commission
    sale.refunded -= refund.applied
    if (commission) this.#reverseTo(sale, commission)
    // What found no room beside it takes the room now.
    for (const other of sale.refunds.values()) {
      const more = Math.min((other?.asked ?? 0) - (other?.applied ?? 0), sale.amount - sale.refunded)
      if (!other || more <= 0) continue
      other.applied += more
      sale.refunded += more
      if (!commission) continue
      this.#reverseTo(sale, commission)
      this.#tell(sale.refunded === sale.amount ? 'commission_reversed' : 'commission_refunded')
      if (commission.paid) this.#tell('paid_commission_reversed')
    }
    return { returned: true }
  }

  approve(commissions: ModelCommission[]): number {
    const due = [...new Set(commissions)].filter((c) => c.credited === undefined && this.status(c) !== 'reversed')
    for (const commission of due.toSorted((a, b) => a.id - b.id)) {
      commission.credited = this.#creditedSoFar++
      this.#move(commission, commission.amount - commission.reversed)
    }
    return due.length
  }

  reject(commission: ModelCommission): object {
    if (commission.rejected) return { deduction_cents: 0 }
    if (commission.reversal === 'full') return { error: 'conflict' }
    const left = commission.amount - commission.reversed
    Object.assign(commission, { rejected: true, reversal: 'full', reversed: commission.amount })
    if (commission.credited !== undefined) this.#move(commission, -left)
    this.#tell('commission_reversed')
    if (commission.paid) this.#tell('paid_commission_reversed')
    return { deduction_cents: left }
  }

  pay(withdrawal: ModelWithdrawal): object {
    if (withdrawal.status !== 'requested') return withdrawal.status === 'paid' ? { ok: true } : { error: 'conflict' }
    withdrawal.status = 'paid'
    this.#move(withdrawal, -withdrawal.amount)
    let newer = 0
    const unpaid = this.commissions.filter(
      (c) =>
        c.partner === withdrawal.partner && c.currency === withdrawal.currency && c.credited !== undefined && !c.paid,
    )
    for (const commission of unpaid.toSorted((a, b) => (b.credited ?? 0) - (a.credited ?? 0))) {
      const left = commission.amount - commission.reversed
      if (left > 0 && newer >= this.balance(withdrawal.partner, withdrawal.currency)) commission.paid = true
      newer += left
    }
    return { ok: true }
  }

  refuse(withdrawal: ModelWithdrawal): object {
    if (withdrawal.status === 'requested') withdrawal.status = 'refused'
    return withdrawal.status === 'refused' ? { ok: true } : { error: 'conflict' }
  }

  #reverseTo(sale: ModelSale, commission: ModelCommission): number {
    const reversed = Number((BigInt(commission.amount) * BigInt(sale.refunded)) / BigInt(sale.amount))
    const deduction = reversed - commission.reversed
    commission.reversed = reversed
    commission.reversal = sale.refunded === sale.amount ? 'full' : sale.refunded > 0 ? 'partial' : 'none'
    if (commission.credited !== undefined) this.#move(commission, -deduction)
    return deduction
  }

  #open(partner: number, currency: string): ModelWithdrawal[] {
    return this.withdrawals.filter((w) => w.partner === partner && w.currency === currency && w.status === 'requested')
  }

  /** Moves a balance, and where it went down, takes what no longer fits from the newest open withdrawals. */
  #move({ partner, currency }: { partner: number; currency: string }, amount: number): void {
    this.balances.set(`${partner} ${currency}`, this.balance(partner, currency) + amount)
    let excess = Math.min(
      -this.available(partner, currency),
      sum(this.#open(partner, currency).map((withdrawal) => withdrawal.amount)),
    )
    for (const withdrawal of this.#open(partner, currency).toSorted((a, b) => b.id - a.id)) {
      if (excess <= 0) return
      const cut = Math.min(excess, withdrawal.amount)
      withdrawal.amount -= cut
      excess -= cut
      if (withdrawal.amount === 0) withdrawal.status = 'cancelled'
      this.#tell('withdrawal_reduced')
    }
  }

  #tell(kind: string): void {
    this.told.set(kind, (this.told.get(kind) ?? 0) + 1)
  }
}

const choose = <Item>(items: Item[], number: number) => items[number % Math.max(items.length, 1)]

/** `json_agg` of no rows is null. */
const orNull = <Item>(list: Item[]) => (list.length === 0 ? null : list)

const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)

/** What a call answered, or the code it was refused with. */
async function answerOf(call: Promise<object | void>): Promise<object> {
  try {
    return (await call) ?? { ok: true }
  } catch (error) {
    if (error instanceof ApiError) return { error: error.code }
    throw error
  }
}

/** A history under way: the program, the model, and the customers who came so far. */
class World {
  readonly program: LedgerProgram
  readonly model = new Model()
  readonly customers = new Map<number, { key: string; clickId: string; lead: boolean }>()

  constructor(program: LedgerProgram) {
    this.program = program
  }

  async customer(number: number) {
    const known = this.customers.get(number)
    if (known) return known
    const customer = { key: `customer-${number}`, clickId: await this.program.click(number % 2), lead: false }
    this.customers.set(number, customer)
    return customer
  }

  /** Takes a step in the service; the answer of the model, taken when the service has answered, is returned beside it. */
  async take(step: Step): Promise<{ answer: object; expected: object }> {
    const { program, model } = this
    const { programId } = program
    const nothing = { answer: {}, expected: {} }
    switch (step.do) {
      case 'nothing':
        break
      case 'lead': {
        const customer = await this.customer(step.customer)
        await program.lead(customer.key, customer.clickId)
        if (!customer.lead) {
          customer.lead = true
          const { rows } = await pool.query<{ id: string }>(
            `select m.id from commissions m join customers c on c.program_id = m.program_id and c.id = m.customer_id
            where m.program_id = $1 and m.kind = 'lead' and c.customer_key = $2`,
            [programId, customer.key],
          )
          model.leadCommissions.push({
            id: Number(rows[0]?.id),
            partner: step.customer % 2,
            currency: 'usd',
            amount: leadCommissionCents,
            ...untouched,
          })
        }
        return nothing
      }
      case 'sale': {
        const customer = await this.customer(step.customer)
        const currency = currencies[step.currency] ?? 'usd'
        const id = randomUUID()
        const sale = await program.sale({ ...step, id, currency, customerKey: customer.key, clickId: customer.clickId })
        const amount = Model.commissionOf(step.amount)
        const commission =
          sale.commission_id === null
            ? undefined
            : { id: sale.commission_id, partner: step.customer % 2, currency, amount, ...untouched }
        model.sales.push({ ...step, id, currency, refunded: 0, refunds: new Map(), commission })
        return { answer: { cents: sale.commission_cents }, expected: { cents: amount } }
      }
      case 'repeat sale': {
        const sale = choose(model.sales, step.pick)
        if (!sale) return nothing
        const again = { ...sale, customerKey: `customer-${sale.customer}` }
        return { answer: await answerOf(program.sale(again)), expected: { error: 'duplicate_transaction' } }
      }
      case 'refund': {
        const sale = choose(model.sales, step.pick)
        if (!sale) return nothing
        const id = step.amount === null || step.id === null ? null : `refund-${step.id}`
        const answer = await program.refund(sale.id, step.amount, id)
        return { answer, expected: model.refund(sale, step.amount, id) }
      }
      case 'return refund': {
        const sale = choose(model.sales, step.pick)
        if (!sale) return nothing
        const { returned } = await program.returnRefund(sale.id, `refund-${step.id}`)
        return { answer: { returned }, expected: model.returnRefund(sale, `refund-${step.id}`) }
      }
      case 'approve': {
        const chosen = step.picks.flatMap((number) => choose(model.commissions, number) ?? [])
        const credited = await approveCommissions(
          db,
          programId,
          chosen.map(({ id }) => id),
        )
        return { answer: { credited }, expected: { credited: model.approve(chosen) } }
      }
      case 'reject': {
        const commission = choose(model.commissions, step.pick)
        if (!commission) return nothing
        const answer = await answerOf(rejectCommission(db, programId, commission.id, 'Not a real sale'))
        return { answer, expected: model.reject(commission) }
      }
      case 'ask': {
        const partner = step.pick % 2
        const currency = currencies[step.pick % 3] ?? 'usd'
        const available = model.available(partner, currency)
        const amountCents = Math.max(Math.floor((Math.max(available, 0) * step.percent) / 100), 1)
        const ask = { programId, partnerId: program.partnerIds[partner] ?? 0, currency, amountCents }
        const answer = await answerOf(askWithdrawal(db, { ...ask, requestId: randomUUID() }).then((id) => ({ id })))
        if (amountCents > available) return { answer, expected: { error: 'conflict' } }
        const id = 'id' in answer ? Number(answer.id) : 0
        model.withdrawals.push({ id, partner, currency, amount: amountCents, status: 'requested' })
        return { answer, expected: { id: expect.any(Number) } }
      }
      case 'pay': {
        const withdrawal = choose(model.withdrawals, step.pick)
        if (!withdrawal) return nothing
        const answer = await answerOf(payWithdrawal(db, programId, withdrawal.id, withdrawal.amount))
        return { answer, expected: model.pay(withdrawal) }
      }
      case 'refuse': {
        const withdrawal = choose(model.withdrawals, step.pick)
        if (!withdrawal) return nothing
        const answer = await answerOf(refuseWithdrawal(db, programId, withdrawal.id, 'Details are missing'))
        return { answer, expected: model.refuse(withdrawal) }
      }
    }
    return nothing
  }

  /** What the service holds now, in the model's words. */
  async stored() {
    const { rows } = await pool.query<Record<'sales' | 'commissions' | 'withdrawals' | 'told', unknown[] | null>>(
      `select
        (select json_agg(json_build_array(transaction_id, refunded_cents) order by id) from sales where program_id = $1) as sales,
        (select json_agg(json_build_array(id, status, reversed_cents, credited_at is not null, paid_at is not null) order by id)
          from commissions where program_id = $1) as commissions,
        (select json_agg(json_build_array(id, status, amount_cents) order by id) from withdrawals where program_id = $1) as withdrawals,
        (select json_agg(json_build_array(kind, count) order by kind)
          from (select kind, count(*) from outbox where program_id = $1 group by kind) told) as told`,
      [this.program.programId],
    )
    const balances = await Promise.all(
      this.program.partnerIds.map((id) => readBalances(db, this.program.programId, id)),
    )
    return { ...rows[0], balances: balances.map((list) => list.filter(({ balance_cents: cents }) => cents !== 0)) }
  }

  /** What it must hold. */
  expected() {
    const { model } = this
    return {
      sales: orNull(model.sales.map(({ id, refunded }) => [id, refunded])),
      commissions: orNull(
        model.commissions
          .toSorted((a, b) => a.id - b.id)
          .map((c) => [c.id, model.status(c), c.reversed, c.credited !== undefined, c.paid]),
      ),
      withdrawals: orNull(model.withdrawals.map(({ id, status, amount }) => [id, status, amount])),
      told: orNull([...model.told].toSorted(([a], [b]) => (a < b ? -1 : 1))),
      balances: [0, 1].map((partner) =>
        ['jpy', 'kwd', 'usd'].flatMap((currency) => {
          const total = (list: { partner: number; currency: string }[], amount: (item: never) => number) =>
            sum(
              list
                .filter((item) => item.partner === partner && item.currency === currency)
                .map((item) => amount(item as never)),
            )
          const requested_cents = total(model.withdrawals, (w: ModelWithdrawal) =>
            w.status === 'requested' ? w.amount : 0,
          )
          const balance_cents = model.balance(partner, currency)
          return balance_cents === 0
            ? []
            : {
                currency,
                pending_cents: total(model.commissions, (c: ModelCommission) =>
                  c.credited === undefined ? c.amount - c.reversed : 0,
                ),
                balance_cents,
                requested_cents,
                available_cents: Math.max(balance_cents - requested_cents, 0),
                paid_cents: total(model.withdrawals, (w: ModelWithdrawal) => (w.status === 'paid' ? w.amount : 0)),
              }
        }),
      ),
    }
  }
}

const untouched = {
  reversed: 0,
  reversal: 'none',
  rejected: false,
  paid: false,
} as const satisfies Partial<ModelCommission>

/** What the audit of one program finds off. */
async function differences(programId: number): Promise<string[]> {
  const client = await pool.connect()
  try {
    return await findDifferences(client, programId)
  } finally {
    client.release()
  }
}

const atOnce = 8
/** `SEED` repeats a run, and then makes the history that fails smaller, which takes minutes. */
const givenSeed = process.env['SEED']
const seed = Number(givenSeed ?? Date.now() % 2 ** 31)

/** Runs `histories` random ones, eight side by side. */
async function runHistories(histories: number, run: (steps: Step[]) => Promise<void>): Promise<void> {
  const numRuns = Math.ceil(histories / atOnce)
  await Promise.all(
    Array.from({ length: atOnce }, (_, lane) =>
      fc.assert(fc.asyncProperty(history, run), { seed: seed + lane, numRuns, endOnFailure: givenSeed === undefined }),
    ),
  )
}

test(
  `300 histories of 40 steps end as the rules say, with a clean audit each (SEED=${seed})`,
  { timeout: 240_000 },
  async () => {
    await runHistories(300, async (steps) => {
      const world = new World(await createLedgerProgram(pool, db, { commissionBp, leadCommissionCents }))
      for (const step of steps) {
        const { answer, expected } = await world.take(step)
        expect(answer, JSON.stringify(step)).toMatchObject(expected)
      }
      expect(await world.stored()).toEqual(world.expected())
      expect(await differences(world.program.programId)).toEqual([])
    })
  },
)

test(
  `histories whose steps come eight at a time leave a clean audit (SEED=${seed})`,
  { timeout: 240_000 },
  async () => {
    await runHistories(80, async (steps) => {
      const world = new World(await createLedgerProgram(pool, db, { commissionBp, leadCommissionCents, holdDays: 0 }))
      for (const customer of [0, 1, 2, 3, 4, 5]) await world.customer(customer)
      for (let start = 0; start < steps.length; start += atOnce) {
        await Promise.all([
          ...steps.slice(start, start + atOnce).map((step) => world.take(step)),
          ...(start % 16 === 0 ? [approveDueCommissions(db, 50)] : []),
        ])
      }
      expect(await differences(world.program.programId)).toEqual([])
    })
  },
)

test('the whole database agrees after all histories', async () => {
  expect(await findDifferences(sql)).toEqual([])
})
