import { type RawBuilder, sql } from 'kysely'
import { newToken } from '../access/tokens.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import type { SecretsEnv } from '../processors/connections.ts'
import { seal, unseal } from '../processors/seal.ts'
import type { Account, PayoutProvider } from './providers/provider.ts'
import { isProvider, type ProviderName, providers } from './providers/providers.ts'

const keysOf = async ({ EMAIL_HASH_KEY: secret }: SecretsEnv, id: string, sealed: string | null) => {
  const text = sealed === null ? undefined : await unseal(secret, 'payout keys', id, sealed)
  // oxlint-disable-next-line no-unsafe-type-assertion -- only this file writes it
  return text === undefined ? undefined : (JSON.parse(text) as Record<string, string>)
}

/**
 * Connects a program to its account at a provider, or replaces the account's keys. If a key is empty, the existing value is kept. Returns
 * the connection's id, which is part of its webhook address. Throws `invalid_request` if a key is missing, and `conflict` if the new keys
 * belong to another account although the old one has payments. A payment would be repeated there, because its key only prevents a second
 * payment within one account.
 */
export async function connectProvider(
  db: Database,
  env: SecretsEnv,
  programId: number,
  to: { provider: ProviderName; livemode: boolean; keys: Record<string, string | undefined> },
): Promise<string> {
  const { provider, livemode, keys: newKeys } = to
  const { title, keys: fields }: PayoutProvider = providers[provider]
  const [existing] = await db.query(connectionsOf(programId).where('provider', '=', provider))
  const id = existing?.id ?? `pay_${newToken()}`
  // Keys that were encrypted with a former secret of the deployment can't be decrypted.
  const oldKeys = (existing && (await keysOf(env, id, existing.keys))) ?? {}
  const keys = { ...oldKeys }
  for (const [name, { label, isOptional }] of Object.entries(fields)) {
    const key = newKeys[name]?.trim() || keys[name] || ''
    if (key === '' && !isOptional) throw new ApiError('invalid_request', `Enter the ${label.toLowerCase()}.`)
    keys[name] = key
  }
  const sealed = sql<Uint8Array>`${await seal(env.EMAIL_HASH_KEY, 'payout keys', id, JSON.stringify(keys))}::bytea`
  if (!existing) {
    await db.query(
      kysely.insertInto('payout_connections').values({ id, program_id: programId, provider, livemode, keys: sealed }),
    )
    return id
  }
  const isSameAccount = Object.entries(fields).every(
    ([name, { isAccount }]) => !isAccount || keys[name] === oldKeys[name],
  )
  await replaceKeys(db, { ...existing, title }, sealed, isSameAccount)
  return id
}

/** Replaces the keys of a connection, unless its payments or another change forbid it. */
async function replaceKeys(
  db: Database,
  { id, keys: oldKeys, title }: { id: string; keys: string; title: string },
  sealed: RawBuilder<Uint8Array>,
  isSameAccount: boolean,
) {
  const replace = kysely
    .updateTable('payout_connections')
    .set({ keys: sealed })
    .where('id', '=', id)
    .where('keys', '=', sql<Uint8Array>`${oldKeys}::bytea`)
    .returning('id')
  const batches = kysely.selectFrom('payout_batches').where('connection_id', '=', id).where('status', '!=', 'stopped')
  const [, [replaced], [batch]] = await db.batch([
    // Waits for a run that is being sent (create_payout_batches).
    kysely.selectFrom('payout_connections').select('id').where('id', '=', id).forUpdate(),
    isSameAccount ? replace : replace.where((eb) => eb.not(eb.exists(batches))),
    batches.select('id').limit(1),
  ])
  if (replaced) return
  throw new ApiError(
    'conflict',
    batch && !isSameAccount
      ? `The old account has payments of this program, and another account could repeat them. Disconnect ${title} first, and then connect the new account.`
      : `Somebody else has just changed the keys of ${title}. Reload the page and try again.`,
  )
}

/** Deletes a provider's keys. After that, people decide on its remaining payments. Throws `not_found`. */
export async function disconnectProvider(db: Database, programId: number, provider: ProviderName): Promise<void> {
  const ended = await db.query(
    kysely
      .updateTable('payout_connections')
      .set({ keys: null })
      .where('program_id', '=', programId)
      .where('provider', '=', provider)
      .where('keys', 'is not', null)
      .returning('id'),
  )
  if (ended.length === 0) throw new ApiError('not_found', 'This program is not connected to this provider.')
}

/** The connected providers of a program, without their keys. */
export async function listProviders(db: Database, programId: number) {
  const rows = await db.query(connectionsOf(programId))
  return rows.map(({ id, provider, livemode }) => ({ id, provider, livemode }))
}

function connectionsOf(programId: number) {
  return kysely
    .selectFrom('payout_connections')
    .select(['id', 'provider', 'livemode', sql<string>`keys::text`.as('keys')])
    .where('program_id', '=', programId)
    .where('keys', 'is not', null)
    .orderBy('provider')
}

/** The account of a connection with its decrypted keys, or undefined if the connection has ended. */
export async function readAccount(db: Database, env: SecretsEnv, id: string, fetcher: typeof fetch) {
  const [found] = await db.query(
    kysely
      .selectFrom('payout_connections')
      .select(['provider', 'livemode', sql<string | null>`keys::text`.as('keys')])
      .where('id', '=', id),
  )
  const keys = found && (await keysOf(env, id, found.keys))
  if (!keys || !isProvider(found.provider)) return undefined
  const account: Account = { livemode: found.livemode, keys, fetch: fetcher }
  return { account, provider: providers[found.provider] }
}

/** Reads lines such as `17, acct_1Abc`: a partner's id and their recipient at Stripe. Returns undefined if a line has another format. */
export function parseRecipients(text: string): { partnerId: number; recipientId: string }[] | undefined {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  const parsed = lines.flatMap((line) => {
    const [, id, recipientId] = /^\s*([1-9]\d{0,14})[\s,;]+(acct_[A-Za-z0-9]{1,100})\s*$/.exec(line) ?? []
    return recipientId === undefined ? [] : [{ partnerId: Number(id), recipientId }]
  })
  return parsed.length === lines.length ? parsed : undefined
}

/** Stores the Stripe recipients of partners. Returns how many of these partners belong to the program. */
export async function setRecipients(
  db: Database,
  programId: number,
  recipients: { partnerId: number; recipientId: string }[],
): Promise<number> {
  const byPartner = new Map(recipients.map(({ partnerId, recipientId }) => [partnerId, recipientId]))
  if (byPartner.size === 0) return 0
  const rows = sql<{ partner_id: number; recipient_id: string }>`unnest(
    ${[...byPartner.keys()]}::bigint[], ${[...byPartner.values()]}::text[])`.as<'r'>(sql`r (partner_id, recipient_id)`)
  const stored = await db.query(
    kysely
      .insertInto('payout_recipients')
      .columns(['program_id', 'partner_id', 'recipient_id'])
      .expression(
        kysely
          .selectFrom('partners as p')
          .innerJoin(rows, 'r.partner_id', 'p.id')
          .select(['p.program_id', 'p.id', 'r.recipient_id'])
          .where('p.program_id', '=', programId),
      )
      .onConflict((conflict) =>
        conflict
          .columns(['program_id', 'partner_id'])
          .doUpdateSet({ recipient_id: sql<string>`excluded.recipient_id` }),
      )
      .returning('partner_id'),
  )
  return stored.length
}
