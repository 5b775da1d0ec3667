import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { drainQueue, parseOutboxMessage, writeNotifications } from '../lib/notifications/in-app.ts'
import { openQueue, type QueueEnv } from '../lib/notifications/queue.ts'

const drainMilliseconds = 50_000 // It runs every minute.

/** Scheduled Worker: takes messages off the queue for most of a minute and writes their notifications. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & QueueEnv): Promise<void> {
    const delivered = await drainQueue(openDatabase(env), openQueue(env), env.QUEUE_URL, Date.now() + drainMilliseconds)
    if (delivered > 0) console.log(JSON.stringify({ function: 'deliver-notifications', delivered }))
  },
}

interface SqsEvent {
  Records: { messageId: string; body: string }[]
}

/**
 * The same consumer as an AWS Lambda function on the queue's event source with `ReportBatchItemFailures`: what could not be told
 * is named in the answer, and the queue sends only that again.
 */
export async function handler(
  event: SqsEvent,
  _context?: unknown,
  env: DatabaseEnv = lambdaEnv(),
): Promise<{ batchItemFailures: { itemIdentifier: string }[] }> {
  const parsed = event.Records.map((record) => ({ record, content: parseOutboxMessage(record.body) }))
  const messages = parsed.flatMap(({ content }) => (content ? [content] : []))
  const done = new Set(await writeNotifications(openDatabase(env), messages))
  return {
    batchItemFailures: parsed
      .filter(({ content }) => !content || !done.has(content))
      .map(({ record }) => ({ itemIdentifier: record.messageId })),
  }
}

function lambdaEnv(): DatabaseEnv {
  const { DATABASE_URL, NEON_ENDPOINT } = process.env
  if (!DATABASE_URL)
    throw new Error('DATABASE_URL is not set. Give the function the connection string of the database.')
  return { DATABASE_URL, ...(NEON_ENDPOINT && { NEON_ENDPOINT }) }
}
