import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { listPayoutLines } from '../lib/money/payout-lines.ts'
import { askPayout, payPayout, returnPayout } from '../lib/money/payouts.ts'
import { createLedgerProgram, transfer } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()

/** A program with a partner, and named actions on the partner's money. */
async function createBooks() {
  const program = await createLedgerProgram(sql, db)
  const { programId } = program
  const partnerId = program.partnerIds[0] ?? 0
  const names = new Map<string, string>()
  const nameOf = (line: { commission_id: number | null; note: string | null }) =>
    line.note ?? names.get(String(line.commission_id)) ?? '?'
  return {
    programId,
    /** Credits a commission of one fifth of the amount. */
    earn: async (name: string, cents: number) => {
      const sale = await program.soldBy(0, cents * 5)
      names.set(String(sale.commissionId), name)
      await approveCommissions(db, programId, [sale.commissionId])
      return sale
    },
    refund: (id: string, cents: number | null) => program.refund(id, cents),
    adjust: (note: string, amountCents: number) =>
      createAdjustment(db, programId, { partnerId, amountCents, note }, randomUUID(), []),
    request: (amountCents: number) =>
      askPayout(db, { programId, partnerId, currency: 'usd', amountCents, requestId: randomUUID() }),
    pay: (payoutId: number, cents: number) => payPayout(db, programId, payoutId, cents, transfer),
    list: (payoutId: number) => listPayoutLines(db, { programId }, { limit: 100, payoutId }),
    lines: async (payoutId: number) => {
      const lines = await listPayoutLines(db, { programId }, { limit: 100, payoutId })
      return lines.toReversed().map((line) => `${nameOf(line)} ${line.amount_cents}${line.is_returned ? ' back' : ''}`)
    },
    statuses: async () => {
      const { rows } = await sql.query<{ id: string; status: string; payout_id: string | null }>(
        'select id, status, payout_id from commissions where program_id = $1 order by id',
        [programId],
      )
      return rows.map(({ id, status, payout_id: payout }) => [names.get(id), status, payout && Number(payout)])
    },
    differences: () => findDifferences(sql, programId),
  }
}

test('each payment lists its commissions in parts, net of reversals, oldest first', async () => {
  const { earn, refund, request, pay, lines, statuses, differences } = await createBooks()
  const first = await earn('first', 100)
  const one = await request(30)
  await pay(one, 30)
  const two = await request(70)
  await pay(two, 70)
  await refund(first.id, null)
  await earn('second', 150)
  const three = await request(50)
  await pay(three, 50)
  expect(await lines(one)).toEqual(['first 30'])
  expect(await lines(two)).toEqual(['first 70'])
  expect(await lines(three)).toEqual(['first -100', 'second 150'])
  expect(await statuses()).toEqual([
    ['first', 'reversed', two],
    ['second', 'paid', three],
  ])
  expect(await differences()).toEqual([])
})

test('a deduction after a payout was sent waits for the next payment', async () => {
  const { programId, earn, adjust, request, pay, lines, differences } = await createBooks()
  await earn('first', 100)
  const one = await request(100)
  await sql.query("update payouts set status = 'sent', sent_at = now() where program_id = $1", [programId])
  await adjust('Too much', -40)
  await pay(one, 100)
  await adjust('Bonus', 90)
  const two = await request(50)
  await pay(two, 50)
  expect(await lines(one)).toEqual(['first 100'])
  expect(await lines(two)).toEqual(['Too much -40', 'Bonus 90'])
  expect(await differences()).toEqual([])
})

test('if a payment is returned, a later payment takes over its lines', async () => {
  const { programId, earn, request, pay, list, lines, statuses, differences } = await createBooks()
  await earn('first', 100)
  const one = await request(60)
  await pay(one, 60)
  const two = await request(40)
  await pay(two, 40)
  expect(await statuses()).toEqual([['first', 'paid', two]])
  await returnPayout(db, programId, one, 'returned', 'The account is closed.')
  expect(await statuses()).toEqual([['first', 'approved', null]])
  const three = await request(60)
  await pay(three, 60)
  expect([await lines(one), await lines(two), await lines(three)]).toEqual([
    ['first 60 back'],
    ['first 40'],
    ['first 60'],
  ])
  expect(await statuses()).toEqual([['first', 'paid', three]])
  const { rows } = await sql.query<{ created_at: Date }>(
    "select created_at from balance_entries where program_id = $1 and cause = 'payout_returned'",
    [programId],
  )
  const { reference } = transfer
  expect(await list(one)).toMatchObject([{ reference, returned_at: rows[0]?.created_at }])
  expect(await list(three)).toMatchObject([{ reference, returned_at: null }])
  expect(await differences()).toEqual([])
})
