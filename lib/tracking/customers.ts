import { bytesToHex } from '@noble/hashes/utils.js'
import { retryOnce, violatedConstraint } from '../database.ts'
import { hmac } from '../hmac.ts'
import { mailboxOf } from '../access/mailbox.ts'

/**
 * Runs `attempt`, a request that may give a key to a customer, like `retryOnce`. If another call has given the key to another customer in
 * the meantime, runs it once more. The second attempt finds that customer.
 */
export async function retryBinding<Result>(attempt: () => Promise<Result>): Promise<Result> {
  return await retryOnce(async () => {
    try {
      return await attempt()
    } catch (error) {
      if (violatedConstraint(error) !== 'customers_customer_key_key') throw error
      return await attempt()
    }
  })
}

/**
 * Returns the keyed hash that is stored instead of an e-mail address: HMAC-SHA-256 (hex) of its normalized form (trimmed, lower case,
 * NFKC), under the secret EMAIL_HASH_KEY.
 */
export async function emailHash(secret: string, email: string): Promise<string> {
  return bytesToHex(hmac(secret, normalizedEmail(email)))
}

/** Normalizes an address for hashing. */
export const normalizedEmail = (email: string) => email.trim().normalize('NFKC').toLowerCase()

/** Returns the stored hashes of an address: of the address itself, and of its mailbox if that is spelled differently. */
export async function emailHashes(hash: (address: string) => Promise<string>, email: string | null | undefined) {
  if (!email) return { email_hash: null }
  const mailbox = mailboxOf(normalizedEmail(email))
  return {
    email_hash: await hash(email),
    ...(mailbox !== normalizedEmail(email) && { mailbox_hash: await hash(mailbox) }),
  }
}
