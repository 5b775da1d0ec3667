import { parseCsv } from '../support/csv.ts'
import { createPerson } from '../../lib/local/people.ts'
import { sessionCookie } from '../../lib/access/sessions.ts'
import { loadModule } from '../chaos/bundle.ts'
import { currencyOf } from './currencies.ts'
import type { Desk } from './desk.ts'
import type { Payment } from './objects.ts'

/** An amount that a partner earned or, if negative, owes. */
export interface Amount {
  partner: number
  currency: string
  cents: bigint
}

interface Books {
  programId: number
  /** Whether the first payment of the first run comes back. In that case, a second run pays it again. */
  isReturned: boolean
  /** The remaining commission of each payment. */
  credits: (Amount & { payment: Payment; isCredited: boolean })[]
  adjustments: Amount[]
}

const secret = 'x'.repeat(32)

/** The dashboard, which is built once for all histories. */
let dashboard: ReturnType<typeof loadDashboard> | undefined
const loadDashboard = () => loadModule<typeof import('../../functions/dashboard.tsx')>('functions/dashboard.tsx')

/**
 * Pays a program's balances in payout runs, and compares the payment files and the CSV files of commissions, payouts, payout lines and
 * statements with the amounts of the oracle. Lists the differences.
 */
export async function checkBooks(
  desk: Desk,
  { programId, isReturned, credits, adjustments }: Books,
): Promise<string[]> {
  const { sql, db, service } = desk
  const wrong: string[] = []
  const same = (what: string, is: unknown, must: unknown) => {
    if (String(is) !== String(must)) wrong.push(`${what}: ${String(is)}, expected ${String(must)}`)
  }
  const owed = sumsOf(
    [...credits.filter(({ isCredited }) => isCredited), ...adjustments],
    ({ partner, currency }) => `${partner} ${currency}`,
    ({ cents }) => cents,
  )
  const due = new Map([...owed].filter(([, cents]) => cents > 0n))
  await sql.query(
    "update partners set payout_email = id || '@partner.example.com', payout_waits_until = null where program_id = $1",
    [programId],
  )

  /** Creates, downloads and pays a run of these balances. */
  async function pay(expected: Map<string, bigint>, reference: string): Promise<number | null> {
    const run = await service.createPayoutRun(db, programId, crypto.randomUUID())
    if (run === null) {
      same('payments of a run', 0, expected.size)
      return null
    }
    const file = parseCsv(await service.exportPayments(db, programId, { payoutRunId: run }, { layout: 'csv' }))
    const paid = sumsOf(
      file,
      (row) => `${row['payout_email']?.replace('@partner.example.com', '')} ${row['currency']?.toLowerCase()}`,
      amountOf,
    )
    same(`file of run ${reference}`, textOf(paid), textOf(expected))
    const sum = [...expected.values()].reduce((all, cents) => all + cents, 0n)
    const transfer = { reference, paid_on: new Date() }
    await service.payPayoutRun(db, programId, run, transfer, Number(sum))
    return run
  }

  const runs = [await pay(due, 'bank-1')]
  const [first] = due
  if (isReturned && first) {
    const { rows } = await sql.query<{ id: string }>(
      'select id from payouts where program_id = $1 and partner_id = $2 and currency = $3',
      [programId, ...first[0].split(' ')],
    )
    await service.returnPayout(db, programId, Number(rows[0]?.id), 'returned', 'The account is closed')
    runs.push(await pay(new Map([first]), 'bank-2'))
  }

  const read = await openExports(desk, programId)
  const commissions = await read('/commissions.csv')
  const payouts = await read('/payouts.csv')
  const paidRuns = runs.filter((run) => run !== null)
  const lines = (await Promise.all(paidRuns.map((run) => read(`/payout-runs/${run}/lines.csv`)))).flat()
  const kept = lines.filter(({ returned }) => returned === 'no')
  for (const { partner, currency, cents, payment, isCredited } of credits) {
    const isOf = ({ transaction_id: id }: Row) => id !== undefined && payment.ids.includes(id)
    const earned = commissions.filter(isOf)
    const left = earned.map(
      (row) => centsOf(row['amount'], row['currency']) - centsOf(row['reversed'], row['currency']),
    )
    same(`${payment.label} in commissions.csv`, sum(left), cents)
    if (!isCredited || !due.has(`${partner} ${currency}`)) continue
    same(`${payment.label} in the lines of payouts`, sum(kept.filter(isOf).map(amountOf)), cents)
    for (const { status, payout_id: id } of earned)
      if (status === 'paid')
        same(`payout of ${payment.label}`, payouts.find((one) => one['id'] === id)?.['status'], 'paid')
  }
  for (const payout of payouts) {
    const own = lines.filter(({ payout_id: id }) => id === payout['id'])
    same(`lines of payout ${payout['id']}`, sum(own.map(amountOf)), centsOf(payout['amount'], payout['currency']))
    same(`run of payout ${payout['id']}`, runs.includes(Number(payout['payout_run_id'])), true)
  }
  const paid = sumsOf(
    payouts.filter(({ status }) => status === 'paid'),
    (row) => `${row['partner_id']} ${row['currency']}`,
    amountOf,
  )
  same('paid in payouts.csv', textOf(paid), textOf(due))
  const month = new Date().toISOString().slice(0, 7)
  for (const [name, cents] of owed) {
    const [partner, currency] = name.split(' ')
    const entries = await read(`/partners/${partner}/statement.csv?month=${month}&currency=${currency}`)
    same(`statement of ${name}`, sum(entries.map(amountOf)), cents > 0n ? 0n : cents)
  }
  const times = [...commissions.map(({ created }) => created), ...payouts.map(({ created }) => created)]
  for (const time of times) {
    const isNow = /^\d{4}-\d\d-\d\dT.*Z$/.test(time ?? '') && Math.abs(Date.parse(time ?? '') - Date.now()) < 600_000
    if (!isNow) wrong.push(`the time ${time} in an export, expected about ${new Date().toISOString()}`)
  }
  return wrong
}

type Row = Record<string, string | undefined>

/** Signs an owner in. Returns a function that reads a CSV file of the program. */
async function openExports({ sql, db, env }: Desk, programId: number): Promise<(path: string) => Promise<Row[]>> {
  const { userId, token } = await createPerson(
    db,
    { AUTH_SECRET: secret },
    { name: 'Owner', email: `${crypto.randomUUID()}@example.com` },
  )
  await sql.query(
    `insert into workspace_members (workspace_id, user_id, role) select workspace_id, $2, 'owner' from programs where id = $1`,
    [programId, userId],
  )
  const { default: app } = await (dashboard ??= loadDashboard())
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }
  return async (path) => {
    const response = await app.request(
      `/programs/${programId}${path}`,
      { headers: { cookie: `${sessionCookie}=${encodeURIComponent(token)}` } },
      { ...env, AUTH_SECRET: secret, BASE_URL: 'http://svc.test' },
      context,
    )
    if (response.status !== 200) throw new Error(`${path} was answered ${response.status} ${await response.text()}`)
    return parseCsv(await response.text())
  }
}

function sumsOf<Of>(all: Of[], nameOf: (one: Of) => string, centsIn: (one: Of) => bigint): Map<string, bigint> {
  const sums = new Map<string, bigint>()
  for (const one of all) sums.set(nameOf(one), (sums.get(nameOf(one)) ?? 0n) + centsIn(one))
  return sums
}

const sum = (all: bigint[]) => all.reduce((total, cents) => total + cents, 0n)
const amountOf = (row: Row) => centsOf(row['amount'], row['currency'])
const textOf = (sums: Map<string, bigint>) =>
  [...sums]
    .map(([name, cents]) => `${name}: ${cents}`)
    .toSorted()
    .join(', ')

/** Parses an amount with the decimals of its currency. */
function centsOf(text = '', currency = ''): bigint {
  const { decimals } = currencyOf(currency.toLowerCase())
  const form = new RegExp(decimals === 0 ? String.raw`^-?\d+$` : String.raw`^-?\d+\.\d{${decimals}}$`)
  if (!form.test(text)) throw new Error(`The amount ${text} ${currency} has not the decimals of its currency.`)
  return BigInt(text.replace('.', ''))
}
