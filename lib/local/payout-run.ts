import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import { runCommand } from '../commands/command.ts'
import { type Database, type DatabaseEnv, openDatabase } from '../database.ts'
import { exportPayments, payoutLayouts } from '../money/payout-files.ts'
import { listPayoutsDue, createPayoutRun, payPayoutRun, readPayoutRun } from '../money/payout-runs.ts'
import { type Transfer, transferDay } from '../money/payouts.ts'
import { OperatorError } from '../commands/operator-error.ts'
import { readRunningStack } from '../commands/running-stack.ts'

const help = `npm run -s payout-run -- PROGRAM                                 makes a payout run and prints it as JSON
npm run -s payout-run -- PROGRAM --paid RUN --reference TEXT     marks a run as paid, today or with --paid-on YYYY-MM-DD
npm run -s payout-run -- PROGRAM --file RUN --layout ${payoutLayouts.join('|')}   prints a run's file; --currency eur for one currency, --part 2 for a part`

const options = {
  paid: { type: 'string' },
  reference: { type: 'string' },
  'paid-on': { type: 'string' },
  file: { type: 'string' },
  layout: { type: 'string' },
  currency: { type: 'string' },
  part: { type: 'string' },
} as const

function idOf(text: string | undefined, what: string): number {
  const id = Number(text)
  if (!Number.isSafeInteger(id) || id <= 0) throw new OperatorError(`Pass the id of a ${what}.\n\n${help}`)
  return id
}

const parse = () => parseArgs({ options, allowPositionals: true })

function transferOf({ reference = '', 'paid-on': paidOn }: ReturnType<typeof parse>['values']): Transfer {
  const name = reference.trim()
  if (name === '' || name.length > 200) {
    throw new OperatorError('Set --reference to the reference of the transfer, at most 200 characters.')
  }
  const day = transferDay(paidOn ?? new Date().toISOString().slice(0, 10))
  if (!day) throw new OperatorError('Set --paid-on YYYY-MM-DD to the day on which the money left: today or earlier.')
  return { reference: name, paid_on: day }
}

/** A parsed command line. `run` runs the command on a database and returns the text to print. */
function read({ values, positionals }: ReturnType<typeof parse>): (db: Database) => Promise<string> {
  const programId = idOf(positionals[0], 'program')
  if (values.file !== undefined) {
    const layout = payoutLayouts.find((known) => known === (values.layout ?? 'csv'))
    if (!layout) throw new OperatorError(`--layout is one of ${payoutLayouts.join(', ')}.`)
    const payoutRunId = idOf(values.file, 'payout run')
    const part = values.part === undefined ? undefined : Number(values.part)
    if (part !== undefined && !(Number.isSafeInteger(part) && part > 0)) {
      throw new OperatorError('Set --part to 1 or more.')
    }
    const of = { payoutRunId, part }
    return async (db) => await exportPayments(db, programId, of, { layout, currency: values.currency })
  }
  if (values.paid !== undefined) {
    const runId = idOf(values.paid, 'payout run')
    const transfer = transferOf(values)
    return async (db) => {
      await payPayoutRun(db, programId, runId, transfer)
      return await printed(db, programId, runId)
    }
  }
  return async (db) => await printed(db, programId, await createPayoutRun(db, programId, randomUUID()))
}

/**
 * Prints a run as JSON. If no payout was due, the id is null and the exclusions are the current ones. Scripts read `withdrawals` and
 * `left_out`, so these documented names stay.
 */
async function printed(db: Database, programId: number, runId: number | null): Promise<string> {
  if (runId === null) {
    const due = await listPayoutsDue(db, programId)
    const excluded = due.map(
      ({ partner_id, partner_name: partner, currency, payable_cents, exclusion_reason: reason }) => ({
        partner_id,
        partner,
        currency,
        payable_cents,
        reason,
      }),
    )
    return JSON.stringify({ id: null, withdrawals: [], left_out: excluded }, null, 2)
  }
  const { payouts, excluded, ...run } = await readPayoutRun(db, programId, runId)
  return JSON.stringify(
    {
      id: run.id,
      created_at: run.created_at,
      reference: run.reference,
      paid_on: run.paid_on?.toISOString().slice(0, 10) ?? null,
      withdrawals: payouts.map(({ partner_name: partner, ...payout }) => ({ ...payout, partner })),
      left_out: excluded.map(({ partner_name: partner, ...left }) => ({ ...left, partner })),
    },
    null,
    2,
  )
}

await runCommand(help, async () => {
  const carryOut = read(parse())
  const environment: DatabaseEnv = readRunningStack().environment
  console.log(await carryOut(openDatabase(environment)))
})
