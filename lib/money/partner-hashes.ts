import { mailboxOf } from '../access/mailbox.ts'
import { call, type Database } from '../database.ts'
import { normalizedEmail } from '../tracking/customers.ts'

/**
 * Hashes the addresses of up to `limit` partners without hashes, in one program or in all, with `hash` (hex). Returns their number.
 * `of.commissionIds` lists commissions that are about to be approved, and selects only their partners.
 */
export async function hashPartnerEmails(
  db: Database,
  hash: (address: string) => Promise<string>,
  limit: number,
  of: { programId?: number | null; commissionIds?: number[] } = {},
): Promise<number> {
  const partners = await db.query(
    call('partners_to_hash', {
      at_most: limit,
      of_program_id: of.programId ?? null,
      commission_ids: of.commissionIds ?? null,
    }),
  )
  const statements = await Promise.all(
    partners.map(async ({ program_id, partner_id, addresses }) => {
      const texts = (addresses ?? []).map(String)
      const hashes = await Promise.all(
        [...new Set(texts.flatMap((text) => [text, mailboxOf(normalizedEmail(text))]))].map(hash),
      )
      return call('keep_email_hashes', {
        of_program_id: program_id,
        of_partner_id: partner_id,
        addresses: texts,
        // The hashes are passed as text, because Neon's driver doesn't accept an array of bytes.
        hashes,
      })
    }),
  )
  if (statements.length > 0) await db.batch(statements)
  return partners.length
}
