import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { type NotificationMailEnv, sendNotificationMails } from '../lib/notifications/notification-mails.ts'

/** A Worker that runs twice an hour is given 15 minutes. */
const sendMilliseconds = 600_000

/** Scheduled: sends digests, and mails that were not taken at once. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & NotificationMailEnv): Promise<void> {
    const sent = await sendNotificationMails(openDatabase(env), env, Date.now() + sendMilliseconds)
    if (sent > 0) console.log(JSON.stringify({ function: 'send-mails', sent }))
  },
}
