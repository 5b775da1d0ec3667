import { attempt, type Failures, throwFailures } from '../lib/batches.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { type NotificationMailEnv, sendNotificationMails } from '../lib/notifications/notification-mails.ts'
import { sendPayeeMails } from '../lib/notifications/payee-mails.ts'
import { sendQueuedInvitations } from '../lib/programs/queued-invitations.ts'

/** A Worker that runs twice an hour may take 15 minutes. */
const sendMilliseconds = 600_000

/** Scheduled: sends digests, mails about payouts and queued invitations, and repeats mails whose first attempt failed. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & NotificationMailEnv): Promise<void> {
    const [db, deadline] = [openDatabase(env), Date.now() + sendMilliseconds]
    const failures: Failures = new Map()
    const sent = await attempt(failures, 'notifications', () => sendNotificationMails(db, env, deadline), 0)
    const payees = await attempt(failures, 'payees', () => sendPayeeMails(db, env, deadline), 0)
    const invitations = await attempt(failures, 'invitations', () => sendQueuedInvitations(db, env, deadline), 0)
    if (sent + payees + invitations > 0)
      console.log(JSON.stringify({ function: 'send-mails', sent: sent + payees, invitations }))
    throwFailures('send-mails', failures)
  },
}
