import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { type NotificationMailEnv, sendNotificationMails } from '../lib/notifications/notification-mails.ts'

/** A Worker with two runs an hour can take 15 minutes. */
const sendMilliseconds = 600_000

/** Scheduled: sends digests, and repeats mails whose first attempt failed. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & NotificationMailEnv): Promise<void> {
    const sent = await sendNotificationMails(openDatabase(env), env, Date.now() + sendMilliseconds)
    if (sent > 0) console.log(JSON.stringify({ function: 'send-mails', sent }))
  },
}
