import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { askPayout, payPayout } from '../lib/money/payouts.ts'
import { listStatementEntries, monthRange, readStatementTotals } from '../lib/money/statements.ts'
import { createLedgerProgram, transfer } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()

const thisMonth = new Date().toISOString().slice(0, 7)
const period = (month: string, currency: string | null = null) => {
  const range = monthRange(month)
  if (!range) throw new Error(`${month} is not a month.`)
  return { ...range, currency }
}

test.for(['2026-13', '26-01', '2026-1', '', '2026-01-01'])('"%s" is not a month', (text) => {
  expect(monthRange(text)).toBeUndefined()
})

test('a month ends in UTC when the next begins', () => {
  expect(monthRange('2026-12')).toEqual({
    from: new Date('2026-12-01T00:00:00Z'),
    to: new Date('2027-01-01T00:00:00Z'),
  })
})

test('a statement opens with the previous balance, lists each entry, and closes with the sum', async () => {
  const program = await createLedgerProgram(sql, db)
  const { programId } = program
  const partnerId = program.partnerIds[0] ?? 0
  const of = { programId, partnerId }
  const sold = [await program.soldBy(0, 1000), await program.soldBy(0, 2000), await program.soldBy(0, 500, 'eur')]
  await approveCommissions(
    db,
    programId,
    sold.map(({ commissionId }) => commissionId),
  )
  await createAdjustment(db, programId, { partnerId, amountCents: -50, note: 'Fee' }, randomUUID(), [])
  const payout = await askPayout(db, {
    programId,
    partnerId,
    currency: 'usd',
    amountCents: 400,
    requestId: randomUUID(),
  })
  await payPayout(db, programId, payout, 400, transfer)

  expect(await readStatementTotals(db, of, period(thisMonth))).toMatchObject({
    currency: 'usd',
    currencies: ['eur', 'usd'],
    opening_cents: 0,
    credited_cents: 600,
    deducted_cents: -450,
    closing_cents: 150,
  })
  const entries = await listStatementEntries(db, of, period(thisMonth), { limit: 10 })
  expect(entries.map((entry) => [entry.cause, entry.amount_cents, entry.balance_after_cents])).toEqual([
    ['payout_paid', -400, 150],
    ['adjusted', -50, 550],
    ['commission_credited', 400, 600],
    ['commission_credited', 200, 200],
  ])
  expect(await readStatementTotals(db, of, period(thisMonth, 'eur'))).toMatchObject({ closing_cents: 100 })
  expect(await readStatementTotals(db, of, period('2031-01'))).toMatchObject({ opening_cents: 150, closing_cents: 150 })
  expect(await listStatementEntries(db, of, period('2031-01'), { limit: 10 })).toEqual([])
})

test("nobody can read a statement of another program or of a person who isn't a partner", async () => {
  const [own, other] = [await createLedgerProgram(sql, db), await createLedgerProgram(sql, db)]
  const strange = [
    { programId: own.programId, partnerId: other.partnerIds[0] ?? 0 },
    { programId: own.programId, userId: 'nobody' },
  ]
  for (const of of strange) {
    await expect(readStatementTotals(db, of, period(thisMonth))).rejects.toThrow('no such partner')
    await expect(listStatementEntries(db, of, period(thisMonth), { limit: 10 })).rejects.toThrow('no such partner')
  }
})
