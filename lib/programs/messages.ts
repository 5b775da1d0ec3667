import { call, type Database } from '../database.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'

/**
 * Sends a message of a bulk job (`Database.inJob`) to partners who have an account, once to each. They read it under Notifications and get it
 * by e-mail, unless they disabled that. Adds the messages to `outbox`.
 */
export async function messagePartners(
  db: Database,
  programId: number,
  partnerIds: number[],
  text: string,
  outbox: RelayMessage[],
): Promise<void> {
  const message = call('message_partners', { of_program_id: programId, partner_ids: partnerIds, of_text: text })
  const [, [written]] = await db.batch([message, writtenMessages()])
  outbox.push(...messagesAbout({ program_id: programId, ...written }))
}
