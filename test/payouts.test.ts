import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { listAdjustments, createAdjustment } from '../lib/money/adjustments.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import {
  exportPayments,
  listAskedFiles,
  maxPayments,
  payoutFile,
  type PayoutLayout,
  payoutLayouts,
  pays,
} from '../lib/money/payout-files.ts'
import { erasePayee } from '../lib/money/payees.ts'
import { listPayoutLines } from '../lib/money/payout-lines.ts'
import {
  listPayoutsDue,
  createPayoutRun,
  payByHand,
  payPayoutRun,
  readPayoutRun,
  readPayoutRunPart,
  reopenPayoutRun,
  setMinimumPayout,
} from '../lib/money/payout-runs.ts'
import { askPayout, cancelPayout, payPayout, refusePayout, returnPayout } from '../lib/money/payouts.ts'
import { listStatementEntries } from '../lib/money/statements.ts'
import { createPerson, tiePartner } from '../lib/local/people.ts'
import { setPayoutAddress } from '../lib/programs/partnerships.ts'
import { createLedgerProgram, transfer } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, databaseUrl } = await startEndpoint()

const differencesIn = (programId: number) => findDifferences(sql, programId)

const payment = {
  id: 7,
  name: 'Ann',
  email: 'ann@example.com',
  amount_cents: 100,
  currency: 'usd',
  program_name: 'Shop',
}

const amounts: [currency: string, cents: number, amount: string][] = [
  ['usd', 1050, '10.50'],
  ['usd', 5, '0.05'],
  ['jpy', 1050, '1050'],
  ['eur', 9_999_999_999_999, '99999999999.99'],
]

test.for(amounts)('the amount %s %s is written as %s', ([currency, amount_cents, amount]) => {
  const code = currency.toUpperCase()
  const payments = [{ ...payment, amount_cents, currency }]
  expect(payoutFile('paypal', payments)).toBe(`ann@example.com,${amount},${code},payout-7,Shop,PayPal\r\n`)
  expect(payoutFile('wise', payments)).toBe(
    'name,recipientEmail,paymentReference,receiverType,amountCurrency,amount,sourceCurrency,targetCurrency\r\n' +
      `Ann,ann@example.com,payout-7,PERSON,target,${amount},${code},${code}\r\n`,
  )
  expect(payoutFile('csv', payments)).toBe(
    `reference,partner,payout_email,amount,currency,program\r\npayout-7,Ann,ann@example.com,${amount},${code},Shop\r\n`,
  )
})

test.for([
  ['an unsupported currency', [{ currency: 'kwd' }], 'PayPal does not pay in KWD'],
  ['a fraction of a forint', [{ currency: 'huf', amount_cents: 150 }], 'whole HUF, and Ann has 1.50'],
  ['two currencies', [{ currency: 'usd' }, { currency: 'eur' }], 'one of usd, eur'],
] as const)("PayPal's file refuses %s", ([, payments, message]) => {
  expect(() =>
    payoutFile(
      'paypal',
      payments.map((more) => ({ ...payment, ...more })),
    ),
  ).toThrow(message)
  expect(pays('wise', 'kwd')).toBe(true)
})

test.for([
  ['=1+1', '=1+1', "'=1+1"],
  ['+ann@p.example', '+ann@p.example', "'+ann@p.example"],
  ['-ann@p.example', '-ann@p.example', "'-ann@p.example"],
  ['@SUM(A1)', '@SUM(A1)', "'@SUM(A1)"],
  ['＋1', '＋1', "'＋1"],
  ['Ann, "the" partner', '"Ann, ""the"" partner"', '"Ann, ""the"" partner"'],
  ['=HYPERLINK("a","b")', '"=HYPERLINK(""a"",""b"")"', `"'=HYPERLINK(""a"",""b"")"`],
  // Spreadsheets in many languages split cells at semicolons, even inside these quotes.
  ['a;=1;b', 'a;=1;b', "a;'=1;b"],
  ['a;" "=1', '"a;"" ""=1"', `"a;'"" ""=1"`],
])('payment files hold %j unchanged, but the plain CSV has no formula', ([value = '', cell, guarded]) => {
  const lastLine = (layout: PayoutLayout) =>
    payoutFile(layout, [{ ...payment, name: value, email: value, program_name: value }])
      .trimEnd()
      .split('\r\n')
      .at(-1)
  expect(lastLine('paypal')).toBe(`${cell},1.00,USD,payout-7,${cell},PayPal`)
  expect(lastLine('wise')).toBe(`${cell},${cell},payout-7,PERSON,target,1.00,USD,USD`)
  expect(lastLine('csv')).toBe(`payout-7,${guarded},${cell},1.00,USD,${guarded}`)
})

test.for(['a\tb', 'a\r\nb', '\n=1', 'a\u2028b'])('payment files refuse %j', (value) => {
  for (const layout of payoutLayouts)
    expect(() => payoutFile(layout, [{ ...payment, name: value }])).toThrow('control characters')
})

/** A program whose first two partners have balances of 20.00 and 10.00. */
async function createPaying() {
  const program = await createLedgerProgram(sql, db)
  const { programId, partnerIds } = program
  const [first = 0, second = 0] = partnerIds
  const sales = [await program.soldBy(0, 10_000), await program.soldBy(1, 5000)] as const
  await approveCommissions(
    db,
    programId,
    sales.map(({ commissionId }) => commissionId),
  )
  const ask = (amountCents: number) =>
    askPayout(db, { programId, partnerId: first, currency: 'usd', amountCents, requestId: randomUUID() })
  const run = () => createPayoutRun(db, programId, randomUUID())
  const amountsOf = async (runId: number | null) =>
    (await readPayoutRun(db, programId, runId ?? 0)).payouts.map((w) => [w.partner_id, w.amount_cents, w.status])
  const due = async () =>
    (await listPayoutsDue(db, programId)).map((d) => [d.partner_id, d.payable_cents, d.exclusion_reason] as const)
  const balances = async () =>
    (
      await sql.query<{ balance_cents: string }>(
        'select balance_cents from balances where program_id = $1 order by partner_id',
        [programId],
      )
    ).rows.map((row) => Number(row.balance_cents))
  return { program, programId, first, second, sales, ask, run, amountsOf, due, balances }
}

describe('a payout run', () => {
  test('pays each partner the payable amount once: a second run is empty', async () => {
    const { programId, first, second, run, amountsOf, due, balances } = await createPaying()
    const runId = await run()
    expect(await amountsOf(runId)).toEqual([
      [first, 2000, 'in_run'],
      [second, 1000, 'in_run'],
    ])
    expect(await run()).toBeNull()
    expect(await due()).toEqual([])
    expect(await balances()).toEqual([2000, 1000])

    await payPayoutRun(db, programId, runId ?? 0, transfer, 3000)
    await payPayoutRun(db, programId, runId ?? 0, { ...transfer, reference: 'again' }, 3000)
    expect(await balances()).toEqual([0, 0])
    expect(await readPayoutRun(db, programId, runId ?? 0)).toMatchObject({ reference: 'transfer-1' })
    expect(await run()).toBeNull()
    const { rows } = await sql.query<{ kind: string; count: string }>(
      'select kind, count(*) from outbox where program_id = $1 group by kind',
      [programId],
    )
    expect(rows).toEqual([{ kind: 'payout_paid', count: '2' }])
  })

  test('leaves open payouts unchanged, and each payout is in only one file', async () => {
    const { programId, first, second, ask, run, amountsOf } = await createPaying()
    const asked = await ask(1500)
    const runId = (await run()) ?? 0
    expect(await amountsOf(runId)).toEqual([
      [first, 500, 'in_run'],
      [second, 1000, 'in_run'],
    ])
    const file = { layout: 'paypal', currency: 'usd' } as const
    const lines = async (of: Parameters<typeof exportPayments>[2]) =>
      (await exportPayments(db, programId, of, file))
        .split('\r\n')
        .slice(0, -1)
        .map((line) => line.split(',').slice(1, 4))
    expect(await lines({ askedIn: 'usd' })).toEqual([['15.00', 'USD', `payout-${asked}`]])
    const inRun = await lines({ payoutRunId: runId })
    expect(inRun.map(([amount]) => amount)).toEqual(['5.00', '10.00'])
    await payPayoutRun(db, programId, runId, transfer, 1500)
    expect(await lines({ payoutRunId: runId })).toEqual(inRun)
  })

  test('settles each payment separately, and the next run pays an excluded one', async () => {
    const { programId, first, second, run, amountsOf, balances } = await createPaying()
    const runId = (await run()) ?? 0
    const [one = 0, two = 0] = (await readPayoutRun(db, programId, runId)).payouts.map(({ id }) => id)
    await expect(cancelPayout(db, programId, first, one)).rejects.toThrow('is in a payout run')
    await refusePayout(db, programId, one, 'Details are missing')
    await payPayout(db, programId, two, 1000, transfer)
    expect(await amountsOf(runId)).toEqual([
      [first, 2000, 'refused'],
      [second, 1000, 'paid'],
    ])
    expect(await balances()).toEqual([2000, 0])
    expect(await amountsOf(await run())).toEqual([[first, 2000, 'in_run']])
    expect(await differencesIn(programId)).toEqual([])
  })

  test('uses the payout address at its creation', async () => {
    const { programId, second, run } = await createPaying()
    const runId = (await run()) ?? 0
    const file = () => exportPayments(db, programId, { payoutRunId: runId }, { layout: 'csv' })
    const before = await file()
    await sql.query("update partners set payout_email = 'moved@example.com' where id = $1", [second])
    expect(await file()).toBe(before)
  })

  test('excludes partners who changed their payout address within a day of requesting a payout, and the file excludes them too', async () => {
    const { programId, first, second, run, due, ask } = await createPaying()
    const move = async (partnerId: number, to: string) =>
      await sql.query('update partners set payout_email = $2 where id = $1', [partnerId, to])
    await move(second, 'first@example.com')
    expect((await due()).map(([, , reason]) => reason)).toEqual([null, null])
    const asked = await ask(500)
    const file = () => exportPayments(db, programId, { askedIn: 'usd' }, { layout: 'csv' })
    await move(first, 'moved@example.com')
    await expect(file()).rejects.toThrow('No requested payout in USD is waiting')
    const runId = (await run()) ?? 0
    const { payouts, excluded } = await readPayoutRun(db, programId, runId)
    expect(payouts.map((w) => w.partner_id)).toEqual([second])
    expect(excluded).toMatchObject([{ partner_id: first, reason: 'payout_address_changed' }])
    await sql.query("update partners set payout_waits_until = payout_waits_until - interval '24 hours'")
    expect(await file()).toContain(`payout-${asked},Partner 0,moved@example.com`)
    expect(await run()).not.toBeNull()
  })

  test('that is created during an address change pays the previous address or excludes the partner', async () => {
    for (let round = 0; round < 4; round++) {
      const { programId, first, run, ask } = await createPaying()
      const environment = { AUTH_SECRET: 'x'.repeat(32) }
      const email = `ann-${randomUUID()}@example.com`
      const { userId } = await createPerson(db, environment, { name: 'Ann', email })
      await tiePartner(db, first, userId)
      await ask(500)
      const [runId] = await Promise.all([run(), setPayoutAddress(db, userId, 'moved@example.com')])
      const { rows } = await sql.query(
        "select 1 from payouts where program_id = $1 and payout_address = 'moved@example.com'",
        [programId],
      )
      expect([runId !== null, rows]).toEqual([true, []])
    }
  })

  test('excludes partners below the minimum or without an address, gives the reason, and allows manual payouts', async () => {
    const { programId, first, second, run, due, balances, ask } = await createPaying()
    await setMinimumPayout(db, programId, 'usd', 1500)
    expect(await due()).toEqual([
      [first, 2000, null],
      [second, 1000, 'below_minimum'],
    ])
    await expect(ask(1499)).rejects.toThrow('This program only pays amounts of $15.00 or more.')
    await sql.query('update partners set email = null where id = $1', [first])
    expect(await run()).toBeNull()
    await setMinimumPayout(db, programId, 'usd', 0)
    const runId = (await run()) ?? 0
    const { payouts, excluded } = await readPayoutRun(db, programId, runId)
    expect(payouts.map((w) => w.partner_id)).toEqual([second])
    expect(excluded).toMatchObject([{ partner_id: first, payable_cents: 2000, reason: 'no_payout_address' }])

    const requestId = randomUUID()
    const byHand = { programId, partnerId: first, currency: 'usd', amountCents: 2000, requestId }
    await expect(payByHand(db, { ...byHand, amountCents: 1999 }, transfer)).rejects.toThrow('$20.00 is payable')
    await Promise.all(Array.from({ length: 4 }, () => payByHand(db, byHand, transfer)))
    expect(await balances()).toEqual([0, 1000])
  })

  test("is reduced by a later reversal and can't be paid at the old sum, so payouts equal transfers", async () => {
    const { program, programId, sales, run, amountsOf, first, second, balances } = await createPaying()
    const runId = (await run()) ?? 0
    await program.refund(sales[0].id, 4000)
    expect(await amountsOf(runId)).toEqual([
      [first, 1200, 'in_run'],
      [second, 1000, 'in_run'],
    ])
    await expect(payPayoutRun(db, programId, runId, transfer, 3000)).rejects.toThrow('amounts of this run have changed')
    expect(await balances()).toEqual([1200, 1000])
    await payPayoutRun(db, programId, runId, transfer, 2200)
    expect(await balances()).toEqual([0, 0])
    await program.refund(sales[0].id, 1000)
    expect(await balances()).toEqual([-200, 0])
    expect(await run()).toBeNull()
    const { rows } = await sql.query<{ kind: string; amount: string }>(
      `select kind, payload->>'amount_cents' as amount from outbox where program_id = $1 and audience = 'advertiser' order by kind`,
      [programId],
    )
    expect(rows).toEqual([
      { kind: 'balance_negative', amount: '200' },
      { kind: 'paid_commission_reversed', amount: '200' },
    ])
    expect(await differencesIn(programId)).toEqual([])
  })

  test('pays manual commissions net of deductions, even of later ones, and is paid once', async () => {
    const { programId, first, second, run, amountsOf, due } = await createPaying()
    const adjust = (partnerId: number, amountCents: number, currency = 'usd') =>
      createAdjustment(db, programId, { partnerId, amountCents, currency, note: 'By hand' }, randomUUID(), [])
    await adjust(first, 500)
    await adjust(second, -300)
    await adjust(second, 700, 'eur')
    const runId = (await run()) ?? 0
    expect(await amountsOf(runId)).toEqual([
      [first, 2500, 'in_run'],
      [second, 700, 'in_run'],
      [second, 700, 'in_run'],
    ])
    await adjust(first, -600)
    await expect(payPayoutRun(db, programId, runId, transfer, 3900)).rejects.toThrow('amounts of this run have changed')
    for (const reference of ['transfer-1', 'again'])
      await payPayoutRun(db, programId, runId, { ...transfer, reference }, 3300)
    expect((await amountsOf(runId)).map(([, cents, status]) => [cents, status])).toEqual([
      [1900, 'paid'],
      [700, 'paid'],
      [700, 'paid'],
    ])
    expect([await due(), await run()]).toEqual([[], null])
    const { rows } = await sql.query<{ currency: string; entries: string; balance: string }>(
      `select e.currency, string_agg(e.amount_cents::text, ' ' order by e.entry_number) as entries, sum(e.amount_cents) as balance
      from balance_entries e where e.program_id = $1 group by e.partner_id, e.currency order by e.partner_id, e.currency`,
      [programId],
    )
    expect(rows).toEqual([
      { currency: 'usd', entries: '2000 500 -600 -1900', balance: '0' },
      { currency: 'eur', entries: '700 -700', balance: '0' },
      { currency: 'usd', entries: '1000 -300 -700', balance: '0' },
    ])
    // Deductions are never payable.
    const created = await listAdjustments(db, { programId }, { limit: 10 })
    expect(created.map((one) => [one.amount_cents, one.paid_at !== null])).toEqual([
      [-600, false],
      [700, true],
      [-300, false],
      [500, true],
    ])
    expect(await differencesIn(programId)).toEqual([])
  })
})

/** The entries of a program's balances, and the notifications to the advertiser or the partner. */
async function bookedIn(programId: number) {
  const { rows: entries } = await sql.query<{ cause: string; amount_cents: string }>(
    `select cause, amount_cents from balance_entries where program_id = $1 and cause like 'payout%' order by created_at, entry_number`,
    [programId],
  )
  const { rows: notifications } = await sql.query<{ audience: string; kind: string; cents: string }>(
    `select audience, kind, payload->>'amount_cents' as cents from outbox where program_id = $1 order by id`,
    [programId],
  )
  return {
    entries: entries.map(({ cause, amount_cents: cents }) => `${cause} ${cents}`),
    notifications: notifications.map(({ audience, kind, cents }) => `${audience} ${kind} ${cents}`),
  }
}

/** Lets a file for Wise hold one payment until the test ends. */
function holdOnePayment() {
  const { wise } = maxPayments
  maxPayments.wise = 1
  onTestFinished(() => void Object.assign(maxPayments, { wise }))
}

/** The ids of the payouts in a file. */
const idsIn = (file: string) => [...file.matchAll(/payout-(\d+)/g)].map(([, id]) => Number(id))

describe('a payout that is in a file', () => {
  test('keeps its amount: a refund lowers the balance below zero, and both sides are notified', async () => {
    const { program, programId, sales, run, amountsOf, balances, due } = await createPaying()
    const runId = (await run()) ?? 0
    const file = await exportPayments(db, programId, { payoutRunId: runId }, { layout: 'csv' })
    await program.refund(sales[0].id, 5000)
    expect((await amountsOf(runId)).map(([, cents, status]) => [cents, status])).toEqual([
      [2000, 'sent'],
      [1000, 'sent'],
    ])
    expect(await exportPayments(db, programId, { payoutRunId: runId }, { layout: 'csv' })).toBe(file)
    expect((await bookedIn(programId)).notifications).toEqual([
      'partner commission_refunded 1000',
      'advertiser balance_negative 1000',
    ])
    expect([await due(), await run()]).toEqual([[], null])
    await payPayoutRun(db, programId, runId, transfer, 3000)
    expect(await balances()).toEqual([-1000, 0])
    expect(await run()).toBeNull()
    expect(await differencesIn(programId)).toEqual([])
  })

  test('is not canceled, refused or paid again by the next run', async () => {
    const { programId, first, ask, run, due } = await createPaying()
    const asked = await ask(2000)
    await exportPayments(db, programId, { askedIn: 'usd' }, { layout: 'paypal', currency: 'usd' })
    await expect(cancelPayout(db, programId, first, asked)).rejects.toThrow('This payout is on its way')
    await expect(refusePayout(db, programId, asked, 'No')).rejects.toThrow('This payout was sent.')
    const runId = (await run()) ?? 0
    expect((await readPayoutRun(db, programId, runId)).payouts.map((w) => w.amount_cents)).toEqual([1000])
    await payPayout(db, programId, asked, 2000, transfer)
    expect(await due()).toEqual([])
    expect(await differencesIn(programId)).toEqual([])
  })

  test('stays in its part of a run, in any order of downloads and after another payout failed', async () => {
    const { programId, run } = await createPaying()
    const runId = (await run()) ?? 0
    const [first = 0, second = 0] = (await readPayoutRun(db, programId, runId)).payouts.map(({ id }) => id)
    holdOnePayment()
    const download = async (part: number) =>
      idsIn(await exportPayments(db, programId, { payoutRunId: runId, part }, { layout: 'wise', currency: 'usd' }))
    expect([await download(2), await download(1)]).toEqual([[second], [first]])
    await returnPayout(db, programId, first, 'failed', 'Account closed')
    expect(await download(2)).toEqual([second])
    await expect(download(1)).rejects.toThrow('has nothing left to pay')
    const whole = exportPayments(db, programId, { payoutRunId: runId }, { layout: 'wise' })
    expect(idsIn(await whole)).toEqual([second])
  })

  test('is only in one file of requested payouts, which can be downloaded again', async () => {
    const { programId, first, second, ask } = await createPaying()
    const asked = [
      await ask(1000),
      await askPayout(db, {
        programId,
        partnerId: second,
        currency: 'usd',
        amountCents: 1000,
        requestId: randomUUID(),
      }),
    ]
    const file = (fileNumber?: number, layout: PayoutLayout = 'csv') =>
      exportPayments(db, programId, { askedIn: 'usd', fileNumber }, { layout })
    const old = await file()
    expect(idsIn(old)).toEqual(asked)
    await expect(file()).rejects.toThrow('No requested payout in USD is waiting for a file')
    const later = await ask(400)
    expect(idsIn(await file())).toEqual([later])
    await sql.query("update partners set payout_email = 'moved@example.com' where id = $1", [first])
    expect(await file(1)).toBe(old)
    expect(idsIn(await file(2))).toEqual([later])
    await expect(file(3)).rejects.toThrow('no such file')
    const { rows } = await sql.query<{ sent_at: Date }>(
      'select distinct sent_at from payouts where program_id = $1 order by sent_at desc',
      [programId],
    )
    const numbered = { currency: 'usd', payment_file_number: expect.any(Number) }
    expect(await listAskedFiles(db, programId)).toEqual([
      { ...numbered, payment_file_number: 2, sent_at: rows[0]?.sent_at, payments: 1 },
      { ...numbered, payment_file_number: 1, sent_at: rows[1]?.sent_at, payments: 2 },
    ])
    holdOnePayment()
    await expect(file(1, 'wise')).rejects.toThrow('can hold 1 payments, but there are 2')
    await returnPayout(db, programId, asked[0] ?? 0, 'failed', 'Account closed')
    expect(idsIn(await file(1))).toEqual(asked.slice(1))
  })

  test('is in one of several new files that are downloaded at once', async () => {
    const { programId, second, ask } = await createPaying()
    const asked = [
      await ask(1000),
      await ask(1000),
      await askPayout(db, {
        programId,
        partnerId: second,
        currency: 'usd',
        amountCents: 1000,
        requestId: randomUUID(),
      }),
    ]
    holdOnePayment()
    const downloads = Array.from({ length: 5 }, () =>
      exportPayments(db, programId, { askedIn: 'usd' }, { layout: 'wise' }),
    )
    const files = (await Promise.allSettled(downloads)).flatMap((file) =>
      file.status === 'fulfilled' ? [idsIn(file.value)] : [],
    )
    expect(files.flat().toSorted((a, b) => a - b)).toEqual(asked)
    expect((await listAskedFiles(db, programId)).map((file) => file.payment_file_number)).toEqual([3, 2, 1])
  })

  test("stays open if it doesn't fit the file format", async () => {
    const { programId, run, amountsOf } = await createPaying()
    await createAdjustment(
      db,
      programId,
      {
        partnerId: (await listPayoutsDue(db, programId))[0]?.partner_id ?? 0,
        amountCents: 500,
        currency: 'kwd',
        note: 'By hand',
      },
      randomUUID(),
      [],
    )
    const runId = (await run()) ?? 0
    const refused = exportPayments(db, programId, { payoutRunId: runId }, { layout: 'paypal' })
    await expect(refused).rejects.toThrow('PayPal accepts one currency per file')
    expect((await amountsOf(runId)).map(([, , status]) => status)).toEqual(['in_run', 'in_run', 'in_run'])
  })

  test('equals the balance debits despite concurrent refunds, cancellations and runs', async () => {
    const paying = await createPaying()
    const { programId, first, program, sales, ask, run } = paying
    const [asked, runId] = [await ask(700), (await run()) ?? 0]
    const files: string[] = []
    await Promise.allSettled([
      ...Array.from({ length: 4 }, (_, index) => program.refund(sales[0].id, 900, `r-${index}`)),
      ...Array.from({ length: 2 }, async () =>
        files.push(await exportPayments(db, programId, { payoutRunId: runId }, { layout: 'csv' })),
      ),
      exportPayments(db, programId, { askedIn: 'usd' }, { layout: 'csv' }).then((file) => files.push(file)),
      cancelPayout(db, programId, first, asked),
      ...Array.from({ length: 4 }, (_, index) => program.refund(sales[1].id, 400, `s-${index}`)),
      run(),
    ])
    await payPayoutRun(db, programId, runId, transfer)
    const { rows: open } = await sql.query<{ id: string; amount_cents: string }>(
      "select id, amount_cents from payouts where program_id = $1 and status = 'sent'",
      [programId],
    )
    for (const { id, amount_cents: cents } of open) await payPayout(db, programId, Number(id), Number(cents), transfer)
    const { rows } = await sql.query<{ id: string; amount_cents: string }>(
      'select payout_id as id, -amount_cents as amount_cents from balance_entries where program_id = $1 and payout_id is not null',
      [programId],
    )
    const left = new Map(rows.map(({ id, amount_cents: cents }) => [`payout-${id}`, (Number(cents) / 100).toFixed(2)]))
    for (const file of files)
      for (const line of file.trim().split('\r\n').slice(1)) {
        const [reference = '', , , amount = ''] = line.split(',')
        expect([reference, left.get(reference)]).toEqual([reference, amount])
      }
    expect(files.length).toBeGreaterThan(0)
    expect(await differencesIn(programId)).toEqual([])
  })
})

describe('a returned payout', () => {
  test.for(['returned', 'failed'] as const)('%s after it was paid: an entry makes it payable again', async (status) => {
    const { programId, first, sales, run, balances, due } = await createPaying()
    const runId = (await run()) ?? 0
    await payPayoutRun(db, programId, runId, transfer, 3000)
    const { payouts } = await readPayoutRun(db, programId, runId)
    const id = payouts[0]?.id ?? 0
    for (const _ of ['once', 'again']) await returnPayout(db, programId, id, status, 'Account closed')
    expect(await balances()).toEqual([2000, 0])
    expect((await bookedIn(programId)).entries).toEqual([
      'payout_paid -2000',
      'payout_paid -1000',
      'payout_returned 2000',
    ])
    expect((await bookedIn(programId)).notifications.at(-1)).toBe('partner payout_returned 2000')
    expect(await due()).toEqual([[first, 2000, null]])
    const again = (await run()) ?? 0
    await payPayoutRun(db, programId, again, { ...transfer, reference: 'transfer-2' }, 2000)
    const { rows } = await sql.query<{ paid: boolean }>(
      'select payout_id = (select max(id) from payouts where program_id = $1) as paid from commissions where id = $2',
      [programId, sales[0].commissionId],
    )
    expect(rows).toEqual([{ paid: true }])
    expect(await differencesIn(programId)).toEqual([])
  })

  test('before it was marked as paid: its amount is payable again without an entry', async () => {
    const { programId, first, ask, due } = await createPaying()
    const asked = await ask(2000)
    await expect(returnPayout(db, programId, asked, 'failed', 'No')).rejects.toThrow('has not been sent yet')
    await exportPayments(db, programId, { askedIn: 'usd' }, { layout: 'csv' })
    await returnPayout(db, programId, asked, 'failed', 'Account closed')
    await expect(payPayout(db, programId, asked, 2000, transfer)).rejects.toThrow('is failed')
    expect((await bookedIn(programId)).entries).toEqual([])
    expect(await due()).toContainEqual([first, 2000, null])
    expect(await differencesIn(programId)).toEqual([])
  })
})

describe('undoing a paid run', () => {
  test('returns its payouts as entries, which keep their reference, and it can be paid again', async () => {
    const { program, programId, first, sales, run, amountsOf, balances } = await createPaying()
    const runId = (await run()) ?? 0
    await payPayoutRun(db, programId, runId, transfer, 3000)
    await Promise.all(Array.from({ length: 3 }, () => reopenPayoutRun(db, programId, runId)))
    expect(await balances()).toEqual([2000, 1000])
    expect((await amountsOf(runId)).map(([, , status]) => status)).toEqual(['sent', 'sent'])
    expect(await readPayoutRun(db, programId, runId)).toMatchObject({ reference: null, paid_on: null })
    expect(await run()).toBeNull()
    await program.refund(sales[0].id, 500)
    await payPayoutRun(db, programId, runId, { ...transfer, reference: 'right' }, 3000)
    expect(await balances()).toEqual([-100, 0])
    expect((await bookedIn(programId)).entries.toSorted()).toEqual([
      'payout_paid -1000',
      'payout_paid -1000',
      'payout_paid -2000',
      'payout_paid -2000',
      'payout_returned 1000',
      'payout_returned 2000',
    ])
    const lines = await listPayoutLines(db, { programId }, { limit: 100, payoutRunId: runId })
    expect(lines.map((line) => [line.reference, line.returned_at !== null])).toEqual([
      ['right', false],
      ['right', false],
      ['transfer-1', true],
      ['transfer-1', true],
    ])
    const ever = { from: new Date(0), to: new Date('2100-01-01T00:00:00Z'), currency: 'usd' }
    const entries = await listStatementEntries(db, { programId, partnerId: first }, ever, { limit: 10 })
    expect(entries.map((entry) => entry.reference)).toEqual(['right', null, 'transfer-1', 'transfer-1', null])
    expect(await differencesIn(programId)).toEqual([])
  })

  test('returns the payout of an erased account, which no file can pay anymore', async () => {
    const { programId, first, second, run, amountsOf, due, balances } = await createPaying()
    const { userId } = await createPerson(
      db,
      { AUTH_SECRET: 'x'.repeat(32) },
      { name: 'Ann', email: `ann-${randomUUID()}@example.com` },
    )
    await tiePartner(db, first, userId)
    const runId = (await run()) ?? 0
    await payPayoutRun(db, programId, runId, transfer, 3000)
    await erasePayee(db, 'key', userId)
    await reopenPayoutRun(db, programId, runId)
    expect(await amountsOf(runId)).toEqual([
      [first, 2000, 'returned'],
      [second, 1000, 'sent'],
    ])
    expect(await due()).toEqual([[first, 2000, 'no_payout_address']])
    const file = await exportPayments(db, programId, { payoutRunId: runId }, { layout: 'csv' })
    expect(idsIn(file)).toHaveLength(1)
    await payPayoutRun(db, programId, runId, transfer, 1000)
    expect(await balances()).toEqual([2000, 0])
    expect(await differencesIn(programId)).toEqual([])
  })

  test('is possible for 24 hours, unless there is a newer run', async () => {
    const { program, programId, run } = await createPaying()
    const runId = (await run()) ?? 0
    await payPayoutRun(db, programId, runId, transfer, 3000)
    await sql.query("update payout_runs set paid_at = paid_at - interval '25 hours' where program_id = $1", [programId])
    await expect(reopenPayoutRun(db, programId, runId)).rejects.toThrow('24 hours')
    await sql.query('update payout_runs set paid_at = now() where program_id = $1', [programId])
    const sale = await program.soldBy(0, 10_000)
    await approveCommissions(db, programId, [sale.commissionId])
    const isReopenable = async () =>
      (await readPayoutRunPart(db, programId, runId, { payments: { limit: 0 } })).is_reopenable
    expect(await isReopenable()).toBe(true)
    await run()
    expect(await isReopenable()).toBe(false)
    await expect(reopenPayoutRun(db, programId, runId)).rejects.toThrow('later run')
  })
})

const races: [
  what: string,
  calls: (paying: Awaited<ReturnType<typeof createPaying>>, index: number) => Promise<unknown>,
][] = [
  ['runs', ({ run }) => run()],
  [
    'runs and refunds',
    ({ run, program, sales }, index) => (index % 2 ? run() : program.refund(sales[0].id, 700, `r-${index}`)),
  ],
  ['runs and requests', ({ run, ask }, index) => (index % 2 ? run() : ask(800))],
  [
    'runs, payments of them and refunds',
    async ({ run, programId, program, sales }, index) => {
      if (index % 2) return await program.refund(sales[index % 4 === 1 ? 0 : 1].id, 300, `r-${index}`)
      const runId = await run()
      return runId === null ? runId : await payPayoutRun(db, programId, runId, transfer)
    },
  ],
]

test.for(races)('with concurrent %s, no money is in two payouts', async ([, calls]) => {
  const paying = await createPaying()
  const outcomes = await Promise.allSettled(Array.from({ length: 16 }, (_, index) => calls(paying, index)))
  const refusals = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
  expect(refusals.filter((reason) => reason.code !== 'conflict')).toEqual([])
  expect(await differencesIn(paying.programId)).toEqual([])
})

test('a credit that is reversed while a run is created is not in the run', async () => {
  const program = await createLedgerProgram(sql, db)
  const [first, second] = [await program.soldBy(0, 10_000), await program.soldBy(1, 10_000)]
  await approveCommissions(db, program.programId, [first.commissionId])
  const run = new Client({ connectionString: databaseUrl })
  await run.connect()
  await sql.query('begin')
  await sql.query('select from balances where program_id = $1 for no key update', [program.programId])
  await run.query('begin')
  const created = run.query('select create_payout_run($1, $2)', [program.programId, randomUUID()])
  await vi.waitFor(async () => {
    const { rows } = await sql.query(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
    expect(rows).toHaveLength(1)
  }, 60_000)
  await approveCommissions(db, program.programId, [second.commissionId])
  await sql.query('rollback')
  await created
  await program.refund(second.id, 10_000)
  await run.query('commit')
  await run.end()
  expect(await differencesIn(program.programId)).toEqual([])
})

test('a partner cancels an open payout once, but not a paid one', async () => {
  const { programId, first, second, ask, due } = await createPaying()
  const [paidPayout, taken] = [await ask(500), await ask(1500)]
  await expect(cancelPayout(db, programId, second, taken)).rejects.toThrow('You have no such payout')
  await Promise.all(Array.from({ length: 4 }, () => cancelPayout(db, programId, first, taken)))
  expect(await due()).toContainEqual([first, 1500, null])
  await payPayout(db, programId, paidPayout, 500, transfer)
  await expect(cancelPayout(db, programId, first, paidPayout)).rejects.toThrow('was decided')
  await expect(payPayout(db, programId, taken, 1500, transfer)).rejects.toThrow('is canceled')
})
