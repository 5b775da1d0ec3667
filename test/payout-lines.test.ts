import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { exportPayments } from '../lib/money/payout-files.ts'
import { listPayoutLines } from '../lib/money/payout-lines.ts'
import { createPayoutRun, payPayoutRun, readPayoutRun } from '../lib/money/payout-runs.ts'
import { askPayout, payPayout, returnPayout } from '../lib/money/payouts.ts'
import { createLedgerProgram, type LedgerProgram, transfer } from './support/ledger.ts'
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
  await sql.query(
    "update payouts set status = 'sent', sent_at = now(), payment_file_number = 1 where program_id = $1",
    [programId],
  )
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

test('the number of rows that a payment reads grows with its commissions, and not with their square', async () => {
  const rowsRead: number[] = []
  for (const count of [50, 200]) {
    const { programId, partnerIds } = await createLedgerProgram(sql, db)
    const partnerId = partnerIds[0] ?? 0
    await sql.query('set session_replication_role = replica')
    await sql.query(
      `with credited as (
        insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until, credited_at)
        select $1, 'sale', $2, n, n, 'usd', 5, now(), now() from generate_series(1, $3::int) n
        returning *, sale_id as place
      ),
      entry as (
        insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
          balance_after_cents, cause, commission_id, entry_hash)
        select program_id, partner_id, currency, place, 5, 5 * (place - 1), 5 * place, 'commission_credited', id, sha256('') from credited
      )
      insert into balances (program_id, partner_id, currency, balance_cents, entry_count) values ($1, $2, 'usd', 5 * $3::int, $3::int)`,
      [programId, partnerId, count],
    )
    await sql.query('reset session_replication_role')
    const asked = "select payout_id from ask_payout($1, $2, 'usd', $3, gen_random_uuid())"
    const { rows } = await sql.query<{ payout_id: string }>(asked, [programId, partnerId, 5 * count])
    await sql.query('begin')
    await sql.query("select from pay_payout($1, $2, $3, 'transfer', current_date)", [
      programId,
      rows[0]?.payout_id,
      5 * count,
    ])
    const read =
      'select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as count from pg_stat_xact_user_tables'
    rowsRead.push((await sql.query<{ count: number }>(read)).rows[0]?.count ?? NaN)
    await sql.query('commit')
  }
  expect((rowsRead[1] ?? NaN) / (rowsRead[0] ?? NaN)).toBeLessThan(6)
})

const decimals: Record<string, number> = { eur: 2, jpy: 0, usd: 2 }
const currencies = Object.keys(decimals)

const sumOf = (numbers: number[]) => numbers.reduce((sum, one) => sum + one, 0)

/** Adds partners with a link to a program that already has two, up to `count`. */
async function addPartners(program: LedgerProgram, count: number) {
  const { rows } = await sql.query<{ id: string; code: string }>(
    `with partner as (
      insert into partners (program_id, name, email)
      select $1::bigint, 'Partner ' || n, n || '-' || $1::bigint || '@example.com' from generate_series(3, $2::int) n returning program_id, id
    )
    insert into referral_links (program_id, partner_id, code) select program_id, id, 'p' || id from partner
    returning partner_id as id, code`,
    [program.programId, count],
  )
  for (const { id, code } of rows) program.add({ partnerId: Number(id), code })
}

test('in a month with three runs, clawbacks and a returned payment, each amount of each file is the sum of its commissions', async () => {
  const program = await createLedgerProgram(sql, db)
  const { programId, partnerIds } = program
  await addPartners(program, 20)
  /** The remaining amount of each commission after refunds. `paid` has the payments by partner and currency. */
  const sales = new Map<number, { id: string; place: number; currency: string; cents: number; left: number }>()
  const paid = new Map<string, number>()
  const owed = (place: number, currency: string) =>
    sumOf(
      [...sales.values()].filter((one) => one.place === place && one.currency === currency).map(({ left }) => left),
    ) - (paid.get(`${place} ${currency}`) ?? 0)

  const sell = async (place: number, currency: string, amount: number) => {
    const { id, commissionId, commissionCents: cents } = await program.soldBy(place, amount, currency)
    sales.set(commissionId, { id, place, currency, cents, left: cents })
    return commissionId
  }
  /** Sells once for each partner, in a currency that changes each week, and credits all commissions. */
  const sellAll = async (week: number) => {
    const sold = partnerIds.map((_, place) =>
      sell(place, currencies[(place + week) % 3] ?? '', 5 * (1001 + 37 * place + week)),
    )
    const ids = await Promise.all(sold)
    await approveCommissions(db, programId, ids)
    return ids
  }
  const refund = async (commissionId: number | undefined, share: number) => {
    const sale = sales.get(commissionId ?? 0)
    if (!sale) throw new Error('There is no such commission.')
    const refundedCents = Math.round(sale.cents * share)
    await program.refund(sale.id, share === 1 ? null : refundedCents * 5)
    sale.left -= refundedCents
  }

  const runIds: number[] = []
  const linesOf = (runId: number) => listPayoutLines(db, { programId }, { limit: 1000, payoutRunId: runId })

  /** Reads the files of a run, compares them with the model and with the lines of the payments, and pays the run. */
  const run = async (reference: string, beforePaying = async () => {}) => {
    const expected = partnerIds.flatMap((_, place) =>
      currencies.flatMap((currency) =>
        owed(place, currency) > 0 ? [[place, currency, owed(place, currency)] as const] : [],
      ),
    )
    const runId = (await createPayoutRun(db, programId, randomUUID())) ?? 0
    const { payouts } = await readPayoutRun(db, programId, runId)
    expect(payouts.map((one) => [partnerIds.indexOf(one.partner_id), one.currency, one.amount_cents])).toEqual(expected)
    const inFiles = new Map<number, string>()
    for (const currency of currencies) {
      const file = await exportPayments(db, programId, { payoutRunId: runId }, { layout: 'paypal', currency })
      for (const line of file.trimEnd().split('\r\n')) {
        const [, amount = '', code, payoutReference = ''] = line.split(',')
        const id = Number(payoutReference.replace('payout-', ''))
        expect([inFiles.has(id), code]).toEqual([false, currency.toUpperCase()])
        inFiles.set(id, amount)
      }
    }
    await beforePaying()
    await payPayoutRun(db, programId, runId, { ...transfer, reference }, sumOf(payouts.map((one) => one.amount_cents)))
    runIds.push(runId)
    const lines = await linesOf(runId)
    for (const { id, partner_id: partnerId, currency, amount_cents: cents } of payouts) {
      const own = lines.filter((line) => line.payout_id === id)
      expect(sumOf(own.map((line) => line.amount_cents))).toBe(cents)
      for (const line of own) {
        const sale = sales.get(line.commission_id ?? 0)
        expect([sale && partnerIds[sale.place], sale?.currency, line.reference]).toEqual([
          partnerId,
          currency,
          reference,
        ])
      }
      expect(inFiles.get(id)).toBe((cents / 10 ** (decimals[currency] ?? 0)).toFixed(decimals[currency]))
      const whose = `${partnerIds.indexOf(partnerId)} ${currency}`
      paid.set(whose, (paid.get(whose) ?? 0) + cents)
    }
    expect(inFiles.size).toBe(payouts.length)
    return payouts
  }

  const first = await sellAll(0)
  await refund(first[0], 0.5)
  await run('week 1', () => refund(first[1], 1))
  // Clawbacks of money that was paid: the next payment in the currency is smaller, or the partner owes the rest.
  await refund(first[2], 0.25)
  await refund(first[3], 1)
  const second = await sellAll(3)
  const payouts = await run('week 2')
  const bounced = payouts.find((one) => one.partner_id === partnerIds[7])
  await returnPayout(db, programId, bounced?.id ?? 0, 'returned', 'The account is closed.')
  paid.set(`7 ${bounced?.currency}`, (paid.get(`7 ${bounced?.currency}`) ?? 0) - (bounced?.amount_cents ?? 0))
  await refund(second[7], 0.5)
  await sellAll(1)
  await sellAll(2)
  await run('week 3')
  await refund(second[4], 1)

  const { rows: balances } = await sql.query<{ partner_id: string; currency: string; cents: string }>(
    'select partner_id, currency, balance_cents as cents from balances where program_id = $1',
    [programId],
  )
  expect(balances).toHaveLength(60)
  for (const { partner_id: id, currency, cents } of balances) {
    const place = partnerIds.indexOf(Number(id))
    expect([place, currency, Number(cents)]).toEqual([place, currency, owed(place, currency)])
  }
  // Each commission is paid once to the cent. Only the last refund still waits for a payment from which it is deducted.
  const lines = (await Promise.all(runIds.map(linesOf))).flat().filter((line) => !line.is_returned)
  const wrong = [...sales].flatMap(([commissionId, { left, cents }]) => {
    const own = sumOf(lines.filter((line) => line.commission_id === commissionId).map((line) => line.amount_cents))
    return own === (commissionId === second[4] ? cents : left) ? [] : [{ commissionId, own, left }]
  })
  expect(wrong).toEqual([])
  expect(await findDifferences(sql, programId)).toEqual([])
})
