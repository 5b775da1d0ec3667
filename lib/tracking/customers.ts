import { bytesToHex } from '@noble/hashes/utils.js'
import { retryOnce, violatedConstraint } from '../database.ts'
import { hmac } from '../hmac.ts'

/**
 * Runs `attempt`, a request that may give a customer key to a customer, as `retryOnce` does, and once more where another call gave
 * the key to another customer meanwhile: the next try finds that customer.
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
 * The keyed hash of an e-mail address that is stored in its place: HMAC-SHA-256 (hex) of its normalised form (trimmed,
 * lower case, NFKC), under the secret EMAIL_HASH_KEY.
 */
export async function emailHash(secret: string, email: string): Promise<string> {
  return bytesToHex(hmac(secret, normalised(email)))
}

const normalised = (email: string) => email.trim().normalize('NFKC').toLowerCase()

/**
 * The mailbox that an address reaches, as far as its text says: without what follows a `+`, and of Gmail's without the dots and under one domain.
 * For comparing people with each other only: in a shop each such address can be an account of its own.
 */
export function mailboxOf(email: string): string {
  const [, name = '', domain = ''] = /^(.[^+@]*)[^@]*@(.*)$/.exec(normalised(email)) ?? []
  if (domain === '') return normalised(email)
  return /^(gmail|googlemail)\.com$/.test(domain) ? `${name.replaceAll('.', '')}@gmail.com` : `${name}@${domain}`
}

/** What is kept of an address in its place, each by `hash`: of the address, and of its mailbox where that is written otherwise. */
export async function emailHashes(hash: (address: string) => Promise<string>, email: string | null | undefined) {
  if (!email) return { email_hash: null }
  const mailbox = mailboxOf(email)
  return {
    email_hash: await hash(email),
    ...(mailbox !== normalised(email) && { mailbox_hash: await hash(mailbox) }),
  }
}
