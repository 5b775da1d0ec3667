import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { OperatorError } from './operator-error.ts'
import type { Backfill } from '../processors/stripe/backfill.ts'
import { openCommandDatabase, runCommand, stripeEnvironment } from './command.ts'

const usage =
  'npm run -s backfill -- PROGRAM [--months 12]    imports the past payments of its Stripe account. Without --months, it continues from where it stopped'

/** Stripe's rate limits last seconds. */
const pauseMilliseconds = 5000

/**
 * `npm run -s backfill -- PROGRAM [--months 12]`: imports the last months of a program's Stripe account. Ctrl-C stops it after
 * the current page. It uses DATABASE_URL, EMAIL_HASH_KEY and STRIPE_SECRET_KEY, or the running stack.
 */
async function backfill(): Promise<void> {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { months: { type: 'string' } } })
  const programId = Number(positionals[0])
  if (!Number.isSafeInteger(programId)) throw new OperatorError(`Name the program: ${usage}`)
  const months = Number(values.months ?? 12)
  if (!Number.isInteger(months) || months < 1 || months > 120)
    throw new OperatorError('--months takes a number from 1 to 120.')
  const env = stripeEnvironment()
  // The heavy modules are loaded only after the arguments have been checked.
  const { openStripe } = await import('../processors/stripe/client.ts')
  const { readBackfill, resumeBackfill, startBackfill, stepBackfill, stopBackfill } =
    await import('../processors/stripe/backfill.ts')
  const db = openCommandDatabase(env)
  const stripe = openStripe(env)

  const known = await readBackfill(db, programId)
  if (values.months === undefined && known?.is_connected && known.status !== 'done') await resumeBackfill(db, programId)
  else await startBackfill(db, programId, months)
  process.once('SIGINT', () => void stopBackfill(db, programId))
  for (;;) {
    // The relay sends the notifications from the outbox.
    const { status } = await stepBackfill(db, stripe, env.EMAIL_HASH_KEY, programId)
    const now = await readBackfill(db, programId)
    if (now) console.log(progressOf(now))
    if (status === 'waits') await pause(pauseMilliseconds)
    else if (status !== 'running') {
      if (now?.problem) process.exitCode = 1
      return
    }
  }
}

function progressOf({ status, kind, objects_read: read, events_recorded: recorded, problem }: Backfill): string {
  const where = status === 'running' ? `reading ${kind}` : status === 'done' ? 'done' : `stopped at ${kind}`
  return `${where}: ${read} read, ${recorded} recorded${problem === null ? '' : `. ${problem}`}`
}

await runCommand(usage, backfill)
