import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { drainQueue, parseOutboxMessage, writeNotifications } from '../lib/notifications/in-app.ts'
import { type NotificationMailEnv, sendNotificationMails } from '../lib/notifications/notification-mails.ts'
import { sendPayeeMails } from '../lib/notifications/payee-mails.ts'
import { openQueue, type QueueEnv } from '../lib/notifications/queue.ts'

const drainMilliseconds = 50_000 // It runs every minute.
/** After 60 seconds, the queue gives an unfinished message to another consumer. */
const sendMilliseconds = 20_000

/** Scheduled Worker: reads the queue for most of a minute, writes notifications, and sends immediate mails. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & QueueEnv & NotificationMailEnv): Promise<void> {
    const db = openDatabase(env)
    const deadline = Date.now() + drainMilliseconds
    const delivered = await drainQueue(db, openQueue(env), env.QUEUE_URL, deadline)
    if (delivered === 0) return
    const mails = await sendNotificationMails(db, env, deadline)
    console.log(JSON.stringify({ function: 'deliver-notifications', delivered, mails }))
  },
}

interface SqsEvent {
  Records: { messageId: string; body: string }[]
}

/**
 * The same consumer as an AWS Lambda function on the queue's event source with `ReportBatchItemFailures`. The response lists the failed
 * messages, and the queue repeats only these.
 */
export async function handler(
  event: SqsEvent,
  _context?: unknown,
  env: DatabaseEnv & NotificationMailEnv = lambdaEnv(),
): Promise<{ batchItemFailures: { itemIdentifier: string }[] }> {
  const parsed = event.Records.map((record) => ({ record, content: parseOutboxMessage(record.body) }))
  const messages = parsed.flatMap(({ content }) => (content ? [content] : []))
  const db = openDatabase(env)
  const done = new Set(await writeNotifications(db, messages))
  // Notifications stay written if the mail fails. The next run sends the mail again.
  if (done.size > 0) {
    const deadline = Date.now() + sendMilliseconds
    await sendNotificationMails(db, env, deadline)
      .then(() => sendPayeeMails(db, env, deadline))
      .catch(logFailure)
  }
  return {
    batchItemFailures: parsed
      .filter(({ content }) => !content || !done.has(content))
      .map(({ record }) => ({ itemIdentifier: record.messageId })),
  }
}

/** Logs the name of an error, never its message, which can quote an address. */
function logFailure(error: unknown): void {
  console.error(JSON.stringify({ error: 'mails_failed', name: error instanceof Error ? error.name : typeof error }))
}

/**
 * The variables of the Lambda function. Without the mail variables it doesn't send mail, and `send-mails` sends it twice an hour instead.
 */
function lambdaEnv(): DatabaseEnv & NotificationMailEnv {
  const {
    DATABASE_URL,
    NEON_ENDPOINT,
    MAIL_API_URL,
    MAIL_API_KEY,
    MAIL_FROM,
    BASE_URL = '',
    AUTH_SECRET = '',
  } = process.env
  if (!DATABASE_URL)
    throw new Error('DATABASE_URL is not set. Give the function the connection string of the database.')
  const mail = BASE_URL && AUTH_SECRET && MAIL_API_URL && { MAIL_API_URL, MAIL_API_KEY, MAIL_FROM }
  return { DATABASE_URL, BASE_URL, AUTH_SECRET, ...(NEON_ENDPOINT && { NEON_ENDPOINT }), ...mail }
}
