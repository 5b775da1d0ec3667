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
    const sent = await sendNotificationMails(db, env, deadline)
    const payees = await sendPayeeMails(db, env, deadline)
    const invitations = await sendQueuedInvitations(db, env, deadline)
    if (sent + payees + invitations > 0)
      console.log(JSON.stringify({ function: 'send-mails', sent: sent + payees, invitations }))
  },
}
