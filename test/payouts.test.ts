import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { approveCommissions } from '../lib/money/commissions.ts'
import { exportCommissions, exportWithdrawals, payoutFile } from '../lib/money/payout-files.ts'
import { askWithdrawal } from '../lib/money/withdrawals.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()

const amounts: [currency: string, cents: number, amount: string][] = [
  ['usd', 1050, '10.50'],
  ['usd', 5, '0.05'],
  ['jpy', 1050, '1050'],
  ['kwd', 1050, '1.050'],
  ['eur', 99999999999, '999999999.99'],
]

test.for(amounts)('%s %s is written as %s', ([currency, amount_cents, amount]) => {
  const payout = {
    name: 'Ann',
    email: 'ann@example.com',
    amount_cents,
    reference: 'withdrawal-7',
    program_name: 'Shop',
  }
  const code = currency.toUpperCase()
  expect(payoutFile('paypal', currency, [payout])).toBe(
    `ann@example.com,${amount},${code},withdrawal-7,Shop,PayPal\r\n`,
  )
  expect(payoutFile('wise', currency, [payout])).toBe(
    'name,recipientEmail,paymentReference,receiverType,amountCurrency,amount,sourceCurrency,targetCurrency\r\n' +
      `Ann,ann@example.com,withdrawal-7,PERSON,target,${amount},${code},${code}\r\n`,
  )
})

test.for([
  ['=1+1', "'=1+1"],
  ['+1', "'+1"],
  ['-1', "'-1"],
  ['@SUM(A1)', "'@SUM(A1)"],
  ['\t=1', "'\t=1"],
  ['Ann, "the" partner', '"Ann, ""the"" partner"'],
  ['=a,b', `"'=a,b"`],
])('a name %j is no formula and one cell', ([name = '', cell]) => {
  const payout = { name, email: 'a@example.com', amount_cents: 100, reference: 'r', program_name: 'Shop' }
  const [, line] = payoutFile('wise', 'usd', [payout]).split('\r\n')
  expect(line).toBe(`${cell},a@example.com,r,PERSON,target,1.00,USD,USD`)
})

test('a file holds what is to be paid in its currency: to the payout address, without what refunds took', async () => {
  const program = await createLedgerProgram(sql, db)
  const { programId, partnerIds } = program
  const [partnerId = 0, other = 0] = partnerIds
  const [first, refunded, yen, pending] = [
    await program.soldBy(0, 10_000),
    await program.soldBy(1, 10_000),
    await program.soldBy(0, 5000, 'jpy'),
    await program.soldBy(0, 700),
  ]
  await approveCommissions(
    db,
    programId,
    [first, refunded, yen].map(({ commissionId }) => commissionId),
  )
  await program.refund(refunded.id, 2500)
  const withdrawal = await askWithdrawal(db, {
    programId,
    partnerId,
    currency: 'usd',
    amountCents: 1500,
    requestId: randomUUID(),
  })
  await sql.query("update partners set payout_email = 'pay@example.com' where id = $1", [partnerId])
  await sql.query('update partners set email = null where id = $1', [other])

  expect(await exportWithdrawals(db, programId, 'paypal', 'usd')).toBe(
    `pay@example.com,15.00,USD,withdrawal-${withdrawal},Ledger,PayPal\r\n`,
  )
  expect(await exportWithdrawals(db, programId, 'paypal', 'jpy')).toBe('')
  expect(await exportCommissions(db, programId, 'paypal', 'usd')).toBe(
    `pay@example.com,20.00,USD,commission-${first.commissionId},Ledger,PayPal\r\n`,
  )
  await sql.query("update partners set email = 'other@example.com' where id = $1", [other])
  expect((await exportCommissions(db, programId, 'paypal', 'usd')).split('\r\n')[1]).toBe(
    `other@example.com,15.00,USD,commission-${refunded.commissionId},Ledger,PayPal`,
  )
  expect(await exportCommissions(db, programId, 'wise', 'jpy')).toContain(
    `commission-${yen.commissionId},PERSON,target,1000,JPY,JPY`,
  )
  expect(pending.commissionCents).toBe(140)
})
