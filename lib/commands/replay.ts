import { parseArgs } from 'node:util'
import { OperatorError } from './operator-error.ts'
import { openCommandDatabase, runCommand, stripeEnvironment } from './command.ts'

const usage =
  'npm run -s replay -- --program 1    applies the waiting processor events of a program, or of all programs without --program'

/**
 * `npm run -s replay -- [--program 1]`: after a fix, applies the processor events that the service could not read. The service keeps their
 * payloads for 30 days. Uses DATABASE_URL, EMAIL_HASH_KEY and STRIPE_SECRET_KEY, or the running stack.
 */
async function replay(): Promise<void> {
  const { values } = parseArgs({ options: { program: { type: 'string' } } })
  const programId = values.program === undefined ? undefined : Number(values.program)
  if (programId !== undefined && !Number.isSafeInteger(programId))
    throw new OperatorError('--program takes the id of a program.')
  const env = stripeEnvironment()
  // The heavy modules are loaded only after the arguments have been checked.
  const { openStripe } = await import('../processors/stripe/client.ts')
  const { listUnreadEvents, replayWebhookEvent } = await import('../processors/webhook-events.ts')
  const db = openCommandDatabase(env)
  const stripe = openStripe(env)
  const events = await listUnreadEvents(db, programId)
  for (const { event_id: id, program_id: program } of events) {
    // The relay sends the notifications from the outbox within a minute.
    const { outcome, reason } = await replayWebhookEvent(db, stripe, env.EMAIL_HASH_KEY, program, id)
    console.log(`${id}: ${outcome}${reason === null ? '' : `. ${reason}`}`)
  }
  console.log(`${events.length} event${events.length === 1 ? '' : 's'} replayed.`)
}

await runCommand(usage, replay)
