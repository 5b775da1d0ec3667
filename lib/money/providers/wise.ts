import * as z from 'zod/mini'
import { majorUnits } from '../../money.ts'
import {
  type Account,
  type BatchItem,
  call,
  type ItemReport,
  type Outcome,
  type PayoutProvider,
  Refused,
} from './provider.ts'

const originOf = ({ livemode }: Account) => (livemode ? 'https://api.wise.com' : 'https://api.wise-sandbox.com')
const inProfile = (account: Account) => `/v3/profiles/${encodeURIComponent(account.keys['profile_id'] ?? '')}`

const group = z.looseObject({
  id: z.string(),
  version: z.int(),
  status: z.string(),
  transferIds: z.optional(z.array(z.unknown())),
})
const withId = z.looseObject({ id: z.union([z.int(), z.string()]) })
const transfer = z.looseObject({
  id: z.int(),
  status: z.string(),
  targetValue: z.number(),
  customerTransactionId: z.optional(z.nullable(z.string())),
})

/** Wise repairs or refunds a bounced transfer. */
const outcomes: Record<string, Outcome> = {
  bounced_back: 'held',
  outgoing_payment_sent: 'paid',
  funds_refunded: 'returned',
  charged_back: 'returned',
  cancelled: 'failed',
}

/** The maximum number of payments that one step sends. Each payment takes three calls. */
const atOnce = 100

/**
 * Wise batch transfers to recipients with an e-mail address. Repeating a `customerTransactionId` returns the first transfer. A person funds
 * the batch in Wise, because in many countries Wise does not accept funding by API key alone.
 *
 * @see https://docs.wise.com/api-reference/batch-group
 */
export const wise: PayoutProvider = {
  title: 'Wise',
  keys: {
    token: { label: 'API token' },
    profile_id: { label: 'Profile ID', isAccount: true, hint: 'The number of your business profile.' },
    webhook_key: {
      label: 'Public key of webhooks',
      isOptional: true,
      rows: 4,
      hint: 'The PEM text from Wise’s documentation. Without it, the service polls Wise for results.',
    },
  },
  most: 1000,
  readsAtOnce: 200,
  pays: () => true,
  remaining: "Fund the batch in Wise. Until then, Wise doesn't pay anybody.",

  async createBatch(account, batch, progress) {
    const { currency } = batch
    let { id } = batch
    if (id === null) {
      // If this call is repeated, an empty group is left at Wise, but nobody funds it.
      const body = { sourceCurrency: currency.toUpperCase(), name: `${batch.programName.slice(0, 60)} ${batch.key}` }
      id = group.parse(await send(account, `${inProfile(account)}/batch-groups`, 'POST', body)).id
      await progress.batchHasId(id)
    }
    const path = `${inProfile(account)}/batch-groups/${encodeURIComponent(id)}`
    const items = batch.items.slice(0, atOnce)
    for (const item of items) {
      const body = await prepare(account, item, currency)
      if (typeof body === 'string') {
        // Wise accepted the recipient in an earlier call, which may have created a transfer. So this refusal isn't final.
        if (item.isAttempted) throw new Error(`Wise refused the recipient of payout ${item.payoutId}: ${body}`)
        const { payoutId } = item
        await progress.report([{ payoutId, outcome: 'failed', status: 'refused', reason: body, reference: item.key }])
        continue
      }
      if ((await progress.begin([item])).length === 0) continue
      try {
        const created = withId.parse(await send(account, `${path}/transfers`, 'POST', body))
        await progress.itemHasId(item, String(created.id))
      } catch (error) {
        if (error instanceof Refused) await progress.undo([item])
        throw error
      }
    }
    if (items.length < batch.items.length) return false
    const { version, status, transferIds } = group.parse(await send(account, path))
    if (status === 'NEW' && transferIds?.length) await send(account, path, 'PATCH', { status: 'COMPLETED', version })
    return true
  },

  async readItems(account, batch) {
    const reports: ItemReport[] = []
    for (const { payoutId, id, key, amountCents } of batch.items) {
      if (id === null) continue
      const found = transfer.parse(await send(account, `/v1/transfers/${encodeURIComponent(id)}`))
      if (found.customerTransactionId !== key || found.targetValue !== majorUnits(amountCents, batch.currency))
        throw new Error(`Wise returned a different transfer for payout ${payoutId}.`)
      const { status } = found
      reports.push({ payoutId, outcome: outcomes[status] ?? 'sent', status, reason: null, reference: id })
    }
    return reports
  },

  async isWebhook(account, { body, header }) {
    const der = bytesOf((account.keys['webhook_key'] ?? '').replaceAll(/-----[A-Z ]+-----|\s/g, ''))
    const signature = bytesOf(header('x-signature-sha256') ?? '')
    if (!der || der.length === 0 || !signature) return false
    const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }
    const key = await crypto.subtle.importKey('spki', der, algorithm, false, ['verify'])
    return await crypto.subtle.verify(algorithm.name, key, signature, new TextEncoder().encode(body))
  },
}

const send = async (account: Account, path: string, method: 'GET' | 'POST' | 'PATCH' = 'GET', body?: object) =>
  await call(account, originOf(account) + path, {
    method,
    headers: { authorization: `Bearer ${account.keys['token'] ?? ''}` },
    body,
  })

/** Creates the recipient and the quote of a payment. Returns the transfer to create, or why Wise refuses the recipient. */
async function prepare(account: Account, item: BatchItem, currency: string): Promise<object | string> {
  const code = currency.toUpperCase()
  try {
    const recipient = withId.parse(
      await send(account, '/v1/accounts', 'POST', {
        profile: Number(account.keys['profile_id']),
        accountHolderName: item.name,
        currency: code,
        type: 'email',
        details: { email: item.recipient },
      }),
    )
    const quote = withId.parse(
      await send(account, `${inProfile(account)}/quotes`, 'POST', {
        sourceCurrency: code,
        targetCurrency: code,
        targetAmount: majorUnits(item.amountCents, currency),
        targetAccount: recipient.id,
      }),
    )
    return {
      targetAccount: recipient.id,
      quoteUuid: quote.id,
      customerTransactionId: item.key,
      details: { reference: `payout-${item.payoutId}` },
    }
  } catch (error) {
    if (error instanceof Refused) return error.body.slice(0, 300)
    throw error
  }
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) return undefined
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
  } catch {
    return undefined
  }
}
