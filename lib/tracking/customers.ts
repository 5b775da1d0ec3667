import { bytesToHex } from '@noble/hashes/utils.js'
import { retryOnce, violatedConstraint } from '../database.ts'
import { hmac } from '../hmac.ts'

/**
 * Runs `attempt`, a request that may give a key to a customer, like `retryOnce`. If another call gave the key to another customer
 * meanwhile, runs it once more. The next attempt finds that customer.
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
  return bytesToHex(hmac(secret, normalized(email)))
}

const normalized = (email: string) => email.trim().normalize('NFKC').toLowerCase()

/**
 * Returns the mailbox of an address, as far as its text shows it: without a plus sign and its suffix, and for Gmail without dots and under
 * one domain. Use it only to compare people: in a shop each such address can be its own account.
 */
export function mailboxOf(email: string): string {
  const [, name = '', domain = ''] = /^(.[^+@]*)[^@]*@(.*)$/.exec(normalized(email)) ?? []
  if (domain === '') return normalized(email)
  return /^(gmail|googlemail)\.com$/.test(domain) ? `${name.replaceAll('.', '')}@gmail.com` : `${name}@${domain}`
}

/** Returns the stored hashes of an address: of the address itself, and of its mailbox if that is spelled differently. */
export async function emailHashes(hash: (address: string) => Promise<string>, email: string | null | undefined) {
  if (!email) return { email_hash: null }
  const mailbox = mailboxOf(email)
  return {
    email_hash: await hash(email),
    ...(mailbox !== normalized(email) && { mailbox_hash: await hash(mailbox) }),
  }
}
