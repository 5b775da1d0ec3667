import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { apiKeyHash } from '../lib/access/api-keys.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { findDifferences } from '../lib/commands/audit.ts'
import { balancesOf } from '../lib/money/balances.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import {
  approveCommissions,
  approveDueCommissions,
  rejectCommission,
  rejectCommissions,
} from '../lib/money/commissions.ts'
import { ApiError } from '../lib/errors.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { enterShadowMode, leaveShadowMode } from '../lib/programs/shadow-mode.ts'
import {
  askForPayoutAddress,
  createPayoutRun,
  payByHand,
  payPayoutRun,
  reopenPayoutRun,
  setMinimumPayout,
} from '../lib/money/payout-runs.ts'
import { askPayout, cancelPayout, payPayout, refusePayout, returnPayout } from '../lib/money/payouts.ts'
import { createLedgerProgram, type LedgerProgram, transfer } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, neon } = await startEndpoint()

/** A program whose first partner has a balance of 10.00 from one sale of 50.00. */
async function createCredited(): Promise<{ program: LedgerProgram; sale: { id: string; commissionId: number } }> {
  const program = await createLedgerProgram(sql, db)
  const sale = await program.soldBy(0, 5000)
  await approveCommissions(db, program.programId, [sale.commissionId])
  return { program, sale }
}

const ask = ({ programId, partnerIds }: LedgerProgram, amountCents: number, requestId: string = randomUUID()) =>
  askPayout(db, { programId, partnerId: partnerIds[0] ?? 0, currency: 'usd', amountCents, requestId })

async function balanceOf({ programId, partnerIds }: LedgerProgram) {
  const [usd] = await db.query(balancesOf(programId, partnerIds[0] ?? 0))
  return usd
}

/** Counts the entries of a cause. */
async function entriesOf({ programId }: LedgerProgram, cause: string) {
  const { rows } = await sql.query('select from balance_entries where program_id = $1 and cause = $2', [
    programId,
    cause,
  ])
  return rows.length
}

const times = <Result>(count: number, call: (index: number) => Promise<Result>) =>
  Promise.allSettled(Array.from({ length: count }, (_, index) => call(index)))

const fulfilled = (outcomes: PromiseSettledResult<unknown>[]) =>
  outcomes.filter(({ status }) => status === 'fulfilled').length

/** Checks that every refusal is an expected one. */
function expectOnlyConflicts(outcomes: PromiseSettledResult<unknown>[]) {
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'conflict' })
  }
}

const races: { name: string; run: () => Promise<LedgerProgram> }[] = [
  {
    name: 'ten concurrent copies of a deduction count once, and ten different ones all count',
    run: async () => {
      const { program } = await createCredited()
      const requestId = randomUUID()
      const deduct = (request: string, externalId?: string) =>
        createAdjustment(
          db,
          program.programId,
          { partnerId: program.partnerIds[0] ?? 0, amountCents: -150, note: 'Paid twice', externalId },
          request,
          [],
        )
      await ask(program, 1000)
      expect(fulfilled(await times(10, () => deduct(requestId)))).toBe(10)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 850, requested_cents: 850 })
      const named = await times(10, () => deduct(randomUUID(), 'march'))
      expectOnlyConflicts(named)
      expect(fulfilled(named)).toBe(1)
      expect(fulfilled(await times(10, () => deduct(randomUUID())))).toBe(10)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: -800, requested_cents: 0 })
      return program
    },
  },
  {
    name: 'two people who reject the same commissions reject each once, during approvals and refunds',
    run: async () => {
      const program = await createLedgerProgram(sql, db)
      const sales = await Promise.all([1, 2, 3, 4].map((number) => program.soldBy(number % 2, 1000)))
      const ids = sales.map(({ commissionId }) => commissionId)
      const reject = (of: number[]) => rejectCommissions(db, program.programId, of, 'Never shipped')
      const [first, second] = await Promise.all([
        reject(ids),
        reject(ids.toReversed()),
        approveCommissions(db, program.programId, ids),
        program.refund(sales[0]?.id ?? '', 500),
      ])
      expect(first + second).toBe(4)
      expect((await balanceOf(program))?.balance_cents ?? 0).toBe(0)
      return program
    },
  },
  {
    name: 'entering and leaving shadow mode during sales, approvals and refunds credits each live commission once, and no other',
    run: async () => {
      const program = await createLedgerProgram(sql, db, { holdDays: 0 })
      const { programId } = program
      const before = await Promise.all([1, 2, 3].map((number) => program.soldBy(number % 2, 1000)))
      const ids = before.map(({ commissionId }) => commissionId)
      const approveAll = async () => {
        const { rows } = await sql.query('select id from commissions where program_id = $1', [programId])
        return await approveCommissions(
          db,
          programId,
          rows.map(({ id }) => Number(id)),
        )
      }
      const changes = async (change: () => Promise<unknown>) => {
        const outcomes = await Promise.allSettled([
          ...[0, 1, 2, 3].flatMap((number) => [program.soldBy(number % 2, 1000), approveDueCommissions(db, 100)]),
          change(),
          change(),
          approveAll(),
          approveAll(),
          program.refund(before[0]?.id ?? '', 100),
        ])
        expectOnlyConflicts(outcomes)
      }
      await changes(() => enterShadowMode(db, programId))
      const held = await program.soldBy(0, 1000)
      expect(await approveAll()).toBe(0)
      await Promise.all([
        changes(() => leaveShadowMode(db, programId)),
        createPayoutRun(db, programId, randomUUID()),
        createPayoutRun(db, programId, randomUUID()),
      ])
      await Promise.all([approveAll(), approveDueCommissions(db, 100), approveAll()])
      const { rows } = await sql.query<{ id: string; is_shadow: boolean; credited: boolean; entries: string }>(
        `select c.id, c.is_shadow, c.credited_at is not null as credited, (
          select count(*) from balance_entries e where e.program_id = c.program_id and e.commission_id = c.id and e.cause = 'commission_credited'
        ) as entries from commissions c where c.program_id = $1`,
        [programId],
      )
      expect(rows).toHaveLength(12)
      for (const row of rows)
        expect(row).toMatchObject({ credited: !row.is_shadow, entries: row.is_shadow ? '0' : '1' })
      expect(rows.filter(({ is_shadow }) => is_shadow).map(({ id }) => Number(id))).toContain(held.commissionId)
      for (const id of ids) expect(rows).toContainEqual(expect.objectContaining({ id: String(id), is_shadow: false }))
      const { rows: log } = await sql.query(
        "select action from audit_log where program_id = $1 and action like 'shadow%' order by id",
        [programId],
      )
      expect(log).toEqual([{ action: 'shadow_mode.entered' }, { action: 'shadow_mode.left' }])
      const { rows: paid } = await sql.query(
        `select from payout_lines l join balance_entries e using (program_id, partner_id, currency, entry_number)
        join commissions c on c.program_id = e.program_id and c.id = e.commission_id where c.is_shadow and c.program_id = $1`,
        [programId],
      )
      expect(paid).toEqual([])
      return program
    },
  },
  {
    name: 'ten equal refunds count once',
    run: async () => {
      const { program, sale } = await createCredited()
      await times(10, () => program.refund(sale.id, 1000, 'same'))
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 800 })
      return program
    },
  },
  {
    name: 'twenty different refunds take at most the sale and exactly the commission',
    run: async () => {
      const { program, sale } = await createCredited()
      await times(20, (index) => program.refund(sale.id, 333, `refund-${index}`))
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 0 })
      return program
    },
  },
  {
    name: 'ten returns of a refund restore it once',
    run: async () => {
      const { program, sale } = await createCredited()
      await program.refund(sale.id, 1000, 'failed')
      const outcomes = await times(10, () => program.returnRefund(sale.id, 'failed'))
      expect(outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value.returned)).toHaveLength(1)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 1000 })
      return program
    },
  },
  {
    name: 'a concurrent refund and its return cancel out',
    run: async () => {
      const { program, sale } = await createCredited()
      await times(10, async (index) => {
        if (index % 2 === 0) await program.refund(sale.id, 1000, 'failed')
        else await program.returnRefund(sale.id, 'failed')
      })
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 1000 })
      return program
    },
  },
  {
    name: 'ten approvals credit once',
    run: async () => {
      const program = await createLedgerProgram(sql, db)
      const { commissionId } = await program.soldBy(0, 5000)
      const outcomes = await times(10, () => approveCommissions(db, program.programId, [commissionId, commissionId]))
      expect(outcomes.reduce((sum, outcome) => sum + (outcome.status === 'fulfilled' ? outcome.value : 0), 0)).toBe(1)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 1000 })
      return program
    },
  },
  {
    name: 'bulk approvals in any order and a concurrent rejection credit each commission at most once',
    run: async () => {
      const program = await createLedgerProgram(sql, db)
      const ids: number[] = []
      for (let index = 0; index < 6; index++) ids.push((await program.soldBy(index % 2, 5000)).commissionId)
      const outcomes = await Promise.allSettled([
        approveCommissions(db, program.programId, ids),
        approveCommissions(db, program.programId, ids.toReversed()),
        approveCommissions(db, program.programId, ids.slice(2)),
        rejectCommission(db, program.programId, ids[0] ?? 0, 'Self-referral'),
      ])
      expect(fulfilled(outcomes)).toBe(4)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 2000, pending_cents: 0 })
      return program
    },
  },
  {
    name: 'two scheduled approvals and ten concurrent refunds credit the rest',
    run: async () => {
      const program = await createLedgerProgram(sql, db, { holdDays: 0 })
      const sales = []
      for (let index = 0; index < 10; index++) sales.push(await program.soldBy(index % 2, 1000))
      const outcomes = await Promise.allSettled([
        ...sales.map(({ id }) => program.refund(id, 500, 'half')),
        ...[1, 2].map(async () => {
          while ((await approveDueCommissions(db, 3)).more);
        }),
      ])
      expect(fulfilled(outcomes)).toBe(12)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 500, pending_cents: 0 })
      return program
    },
  },
  {
    name: 'ten rejections deduct once',
    run: async () => {
      const { program, sale } = await createCredited()
      await times(10, () => rejectCommission(db, program.programId, sale.commissionId, 'Self-referral'))
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 0 })
      return program
    },
  },
  {
    name: 'a concurrent rejection, refund and approval leave nothing',
    run: async () => {
      const program = await createLedgerProgram(sql, db)
      const { id, commissionId } = await program.soldBy(0, 5000)
      const outcomes = await Promise.allSettled([
        approveCommissions(db, program.programId, [commissionId]),
        program.refund(id, 1000, 'part'),
        rejectCommission(db, program.programId, commissionId, 'Self-referral'),
      ])
      expect(fulfilled(outcomes)).toBe(3)
      expect((await balanceOf(program))?.balance_cents ?? 0).toBe(0)
      return program
    },
  },
  {
    name: 'two of ten payouts of 40% fit into a balance',
    run: async () => {
      const { program } = await createCredited()
      const outcomes = await times(10, () => ask(program, 400))
      expect(fulfilled(outcomes)).toBe(2)
      expectOnlyConflicts(outcomes)
      expect(await balanceOf(program)).toMatchObject({ requested_cents: 800, available_cents: 200 })
      return program
    },
  },
  {
    name: 'ten copies of one payout request create one payout',
    run: async () => {
      const { program } = await createCredited()
      const requestId = randomUUID()
      const outcomes = await times(10, () => ask(program, 400, requestId))
      const ids = new Set(outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : undefined)))
      expect(ids.size).toBe(1)
      expect(await balanceOf(program)).toMatchObject({ requested_cents: 400 })
      return program
    },
  },
  {
    name: 'ten payments of a payout pay once',
    run: async () => {
      const { program } = await createCredited()
      const id = await ask(program, 400)
      const outcomes = await times(10, () => payPayout(db, program.programId, id, 400, transfer))
      expect(fulfilled(outcomes)).toBe(10)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 600, paid_cents: 400, requested_cents: 0 })
      return program
    },
  },
  {
    name: 'either a payment or a refusal succeeds',
    run: async () => {
      const { program } = await createCredited()
      const id = await ask(program, 400)
      const outcomes = await times(2, (index) =>
        index === 0
          ? payPayout(db, program.programId, id, 400, transfer)
          : refusePayout(db, program.programId, id, 'Details are missing'),
      )
      expect(fulfilled(outcomes)).toBe(1)
      expectOnlyConflicts(outcomes)
      return program
    },
  },
  {
    name: 'ten refusals and cancellations of a payout free its money once',
    run: async () => {
      const { program } = await createCredited()
      const id = await ask(program, 400)
      const { programId, partnerIds } = program
      const outcomes = await times<unknown>(10, (index) =>
        index % 2
          ? cancelPayout(db, programId, partnerIds[0] ?? 0, id)
          : refusePayout(db, programId, id, 'Details are missing'),
      )
      expectOnlyConflicts(outcomes)
      expect(fulfilled(outcomes)).toBeGreaterThan(0)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 1000, available_cents: 1000 })
      return program
    },
  },
  {
    name: 'ten returns of a paid payout return it once',
    run: async () => {
      const { program } = await createCredited()
      const id = await ask(program, 400)
      await payPayout(db, program.programId, id, 400, transfer)
      const outcomes = await times(10, (index) =>
        returnPayout(db, program.programId, id, index % 2 ? 'failed' : 'returned', 'Account closed'),
      )
      expectOnlyConflicts(outcomes)
      expect(await entriesOf(program, 'payout_returned')).toBe(1)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 1000, available_cents: 1000 })
      return program
    },
  },
  {
    name: 'ten manual payments by different people pay once',
    run: async () => {
      const { program } = await createCredited()
      const { programId, partnerIds } = program
      const outcomes = await times(10, () =>
        payByHand(
          db,
          { programId, partnerId: partnerIds[0] ?? 0, currency: 'usd', amountCents: 1000, requestId: randomUUID() },
          transfer,
        ),
      )
      expect(fulfilled(outcomes)).toBe(1)
      expectOnlyConflicts(outcomes)
      expect(await balanceOf(program)).toMatchObject({ balance_cents: 0, paid_cents: 1000 })
      return program
    },
  },
  {
    name: 'people who pay, reopen and return a run at the same time agree on its last state',
    run: async () => {
      const { program, sale } = await createCredited()
      const runId = (await createPayoutRun(db, program.programId, randomUUID())) ?? 0
      const { rows } = await sql.query('select id from payouts where program_id = $1', [program.programId])
      const outcomes = await times<unknown>(12, (index) =>
        index % 4 === 0
          ? reopenPayoutRun(db, program.programId, runId)
          : index === 7
            ? returnPayout(db, program.programId, Number(rows[0].id), 'returned', 'Account closed')
            : index === 9
              ? program.refund(sale.id, 500)
              : payPayoutRun(db, program.programId, runId, { ...transfer, reference: `transfer-${index}` }),
      )
      expectOnlyConflicts(outcomes)
      const { rows: states } = await sql.query<{ status: string }>('select status from payouts where program_id = $1', [
        program.programId,
      ])
      const returns = (await entriesOf(program, 'payout_paid')) - (await entriesOf(program, 'payout_returned'))
      expect(returns).toBe(states[0]?.status === 'paid' ? 1 : 0)
      return program
    },
  },
  {
    name: 'ten people who ask a partner for a payout address notify them once',
    run: async () => {
      const { program } = await createCredited()
      const { programId, partnerIds } = program
      await sql.query(
        `with person as (insert into users (id, name, email) values ($2, 'Ann', $2 || '@example.com') returning id)
        update partners set email = null, user_id = person.id from person where program_id = $1 and partners.id = $3`,
        [programId, randomUUID(), partnerIds[0]],
      )
      const outcomes = await times(10, async () => (await askForPayoutAddress(db, programId)).count)
      expect(outcomes.reduce((sum, one) => sum + (one.status === 'fulfilled' ? one.value : 100), 0)).toBe(1)
      return program
    },
  },
  {
    name: 'ten people who save the minimum payout change it once for each new value, and a concurrent run follows the old or the new one',
    run: async () => {
      const { program } = await createCredited()
      const { programId } = program
      const save = (cents: number) => setMinimumPayout(db, programId, 'usd', cents)
      const outcomes = await times<unknown>(10, (index) =>
        index === 5 ? createPayoutRun(db, programId, randomUUID()) : save(1500),
      )
      expect(fulfilled(outcomes)).toBe(10)
      const { rows: payouts } = await sql.query(
        'select amount_cents::int as cents from payouts where program_id = $1',
        [programId],
      )
      expect([[], [{ cents: 1000 }]]).toContainEqual(payouts)
      const changes = async () => {
        const { rows } = await sql.query<{ change: [from: number, to: number] }>(
          `select details->'minimum_payout_cents usd' as change from audit_log
          where program_id = $1 and details ? 'minimum_payout_cents usd' order by id`,
          [programId],
        )
        return rows.map(({ change }) => change)
      }
      expect(await changes()).toEqual([[0, 1500]])
      expect(fulfilled(await times(10, (index) => save((index % 3) * 100)))).toBe(10)
      const { rows: last } = await sql.query<{ cents: number }>(
        'select minimum_payout_cents::int as cents from minimum_payouts where program_id = $1',
        [programId],
      )
      const log = await changes()
      expect(log.slice(1).map(([from]) => from)).toEqual(log.slice(0, -1).map(([, to]) => to))
      expect(log.at(-1)?.[1]).toBe(last[0]?.cents ?? 0)
      return program
    },
  },
  {
    name: 'requested and paid payouts never exceed the balance while refunds arrive',
    run: async () => {
      const { program, sale } = await createCredited()
      const outcomes = await times(24, async (index) => {
        if (index % 3 === 0) await program.refund(sale.id, 600, `refund-${index}`)
        else await payPayout(db, program.programId, await ask(program, 150), 150, transfer)
      })
      expectOnlyConflicts(outcomes)
      return program
    },
  },
]

test.for(races)('$name', async ({ run }) => {
  for (let round = 0; round < 3; round++) {
    const { programId } = await run()
    expect(await findDifferences(sql, programId)).toEqual([])
  }
})

const verbs: { name: string; run: (lose: () => void) => Promise<{ program: LedgerProgram; balance: number }> }[] = [
  {
    name: 'a refund',
    run: async (lose) => {
      const { program, sale } = await createCredited()
      lose()
      expect(await program.refund(sale.id, 1000)).toMatchObject({ status: 'refunded', deduction_cents: 200 })
      return { program, balance: 800 }
    },
  },
  {
    name: 'an approval',
    run: async (lose) => {
      const program = await createLedgerProgram(sql, db)
      const { commissionId } = await program.soldBy(0, 5000)
      lose()
      await approveCommissions(db, program.programId, [commissionId])
      return { program, balance: 1000 }
    },
  },
  {
    name: 'a rejection',
    run: async (lose) => {
      const { program, sale } = await createCredited()
      lose()
      await rejectCommission(db, program.programId, sale.commissionId, 'Self-referral')
      return { program, balance: 0 }
    },
  },
  {
    name: 'a payout',
    run: async (lose) => {
      const { program } = await createCredited()
      lose()
      await ask(program, 1000)
      expect(await balanceOf(program)).toMatchObject({ requested_cents: 1000 })
      return { program, balance: 1000 }
    },
  },
  {
    name: 'a payment',
    run: async (lose) => {
      const { program } = await createCredited()
      const id = await ask(program, 1000)
      lose()
      await payPayout(db, program.programId, id, 1000, transfer)
      return { program, balance: 0 }
    },
  },
  {
    name: 'a refusal',
    run: async (lose) => {
      const { program } = await createCredited()
      const id = await ask(program, 1000)
      lose()
      await refusePayout(db, program.programId, id, 'Details are missing')
      expect(await balanceOf(program)).toMatchObject({ available_cents: 1000 })
      return { program, balance: 1000 }
    },
  },
]

test.for(verbs.flatMap((verb) => (['drop-before', 'drop-after'] as const).map((action) => ({ ...verb, action }))))(
  '$name has one effect and one answer if the connection breaks ($action)',
  async ({ run, action }) => {
    const { program, balance } = await run(() => neon.inject({ action }))
    expect((await balanceOf(program))?.balance_cents).toBe(balance)
    expect(await findDifferences(sql, program.programId)).toEqual([])
  },
)

test('a payout pays the oldest commissions first, and a later reversal warns the advertiser', async () => {
  const program = await createLedgerProgram(sql, db)
  const { programId } = program
  const [oldest, middle, newest] = [
    await program.soldBy(0, 1000),
    await program.soldBy(0, 1000),
    await program.soldBy(0, 1000),
  ]
  for (const { commissionId } of [oldest, middle, newest]) await approveCommissions(db, programId, [commissionId])
  await payPayout(db, programId, await ask(program, 250), 250, transfer)
  const statuses = async () => {
    const { rows } = await sql.query<{ status: string }>(
      'select status from commissions where program_id = $1 order by id',
      [programId],
    )
    return rows.map(({ status }) => status)
  }
  // The payout pays only a quarter of the second commission.
  expect(await statuses()).toEqual(['paid', 'approved', 'approved'])
  await program.refund(oldest.id, 500)
  expect(await statuses()).toEqual(['refunded', 'approved', 'approved'])
  const { rows: reported } = await sql.query(
    `select kind, audience, payload->>'amount_cents' as cents from outbox where program_id = $1 order by audience, kind`,
    [programId],
  )
  expect(reported).toEqual([
    { kind: 'paid_commission_reversed', audience: 'advertiser', cents: '100' },
    { kind: 'commission_refunded', audience: 'partner', cents: '100' },
    { kind: 'payout_paid', audience: 'partner', cents: '250' },
  ])
  await payPayout(db, programId, await ask(program, 250), 250, transfer)
  expect(await statuses()).toEqual(['refunded', 'paid', 'paid'])
  expect(await findDifferences(sql, programId)).toEqual([])
})

test("a reversal reduces the newest open payouts, and a reduced payout can't be paid at its old amount", async () => {
  const { program, sale } = await createCredited()
  const { programId } = program
  const [older, newer] = [await ask(program, 500), await ask(program, 400)]
  await program.refund(sale.id, 3500)
  const { rows } = await sql.query(
    'select id::int, status, amount_cents::int as cents from payouts where program_id = $1 order by id',
    [programId],
  )
  expect(rows).toEqual([
    { id: older, status: 'requested', cents: 300 },
    { id: newer, status: 'canceled', cents: 0 },
  ])
  const error = await payPayout(db, programId, older, 500, transfer).catch((refusal: unknown) => refusal)
  expect(error).toBeInstanceOf(ApiError)
  expect(error).toMatchObject({ code: 'conflict', message: expect.stringContaining('$3.00') })
  await payPayout(db, programId, older, 300, transfer)
  await program.refund(sale.id, null)
  expect(await balanceOf(program)).toMatchObject({ balance_cents: -300, available_cents: 0, paid_cents: 300 })
  expect(await findDifferences(sql, programId)).toEqual([])
})

test("a program's calls don't affect another program", async () => {
  const [{ program, sale }, stranger] = [await createCredited(), await createLedgerProgram(sql, db)]
  const id = await ask(program, 100)
  expect(await approveCommissions(db, stranger.programId, [sale.commissionId])).toBe(0)
  const refused = await Promise.allSettled([
    rejectCommission(db, stranger.programId, sale.commissionId, 'Not mine'),
    payPayout(db, stranger.programId, id, 100, transfer),
    refusePayout(db, stranger.programId, id, 'Not mine'),
  ])
  expect(refused).toEqual(
    refused.map(() => ({ status: 'rejected', reason: expect.objectContaining({ code: 'not_found' }) })),
  )
  expect(await balanceOf(program)).toMatchObject({ balance_cents: 1000, requested_cents: 100 })
})

test('the whole remaining amount can be refunded again after a failed refund', async () => {
  const { program, sale } = await createCredited()
  await program.refund(sale.id, 3500, 'failing')
  expect(await program.refund(sale.id, null)).toMatchObject({ status: 'reversed', deduction_cents: 300 })
  await program.returnRefund(sale.id, 'failing')
  expect(await program.refund(sale.id, 2000, 'second')).toMatchObject({ status: 'refunded', deduction_cents: 400 })
  expect(await program.refund(sale.id, null)).toMatchObject({ status: 'reversed', deduction_cents: 300 })
  expect(await findDifferences(sql, program.programId)).toEqual([])
})

test('a repeated refund gets the lost response again, even after further refunds', async () => {
  const { program, sale } = await createCredited()
  const keyHash = await apiKeyHash(`Bearer ${await createApiKey(db, program.programId, 'retry')}`)
  const refund = { amount_cents: 2000, refund_id: 'lost', reason: 'refund', reason_text: null } as const
  const requestId = randomUUID()
  const first = await refundSale(db, keyHash, sale.id, refund, requestId)
  await program.refund(sale.id, null)
  const again = await refundSale(db, keyHash, sale.id, refund, requestId)
  expect(first.applied).toMatchObject({ status: 'refunded', deduction_cents: 400 })
  expect(again.applied).toEqual(first.applied)
})
