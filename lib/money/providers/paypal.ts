import * as z from 'zod/mini'
import { decimalAmount, majorUnits } from '../../money.ts'
import { pays } from '../payout-files.ts'
import { type Account, call, type ItemReport, type Outcome, type PayoutProvider, Refused } from './provider.ts'

const originOf = ({ livemode }: Account) => (livemode ? 'https://api-m.paypal.com' : 'https://api-m.sandbox.paypal.com')

const token = z.looseObject({ access_token: z.string() })
const created = z.looseObject({ batch_header: z.looseObject({ payout_batch_id: z.string() }) })
const money = z.looseObject({ value: z.string(), currency: z.string() })
const item = z.looseObject({
  payout_item_id: z.string(),
  transaction_id: z.optional(z.string()),
  transaction_status: z.optional(z.string()),
  time_processed: z.optional(z.string()),
  errors: z.optional(z.looseObject({ name: z.optional(z.string()), message: z.optional(z.string()) })),
  payout_item: z.looseObject({ sender_item_id: z.optional(z.string()), amount: money }),
})
const page = z.looseObject({
  batch_header: z.looseObject({
    batch_status: z.string(),
    sender_batch_header: z.looseObject({ sender_batch_id: z.string() }),
  }),
  total_pages: z.optional(z.int()),
  items: z.optional(z.array(item)),
})

/** Every state that PayPal documents. A payment that is on hold or blocked can still go out or come back. */
const outcomes: Record<string, Outcome> = {
  SUCCESS: 'paid',
  PENDING: 'sent',
  ONHOLD: 'held',
  BLOCKED: 'held',
  UNCLAIMED: 'unclaimed',
  RETURNED: 'returned',
  REFUNDED: 'returned',
  REVERSED: 'returned',
  FAILED: 'failed',
  DENIED: 'failed',
  CANCELED: 'failed',
}

/** PayPal returns unclaimed money after 30 days. */
const claimDays = 30

/** PayPal accepts forints and Taiwan dollars only in whole units. These currencies can be paid with a file. */
const wholeUnits = new Set(['huf', 'twd'])

/**
 * PayPal Payouts. PayPal executes each `sender_batch_id` only once within 30 days. It refuses a repeat, and its response links to the first
 * batch.
 *
 * @see https://developer.paypal.com/docs/api/payments.payouts-batch/v1/
 */
export const paypal: PayoutProvider = {
  title: 'PayPal',
  keys: {
    client_id: { label: 'Client ID', isAccount: true },
    client_secret: { label: 'Client secret' },
    webhook_id: { label: 'Webhook ID', isOptional: true, hint: 'PayPal shows it after you add the webhook address.' },
  },
  most: 5000,
  readsAtOnce: 5000,
  pays: (currency) => pays('paypal', currency) && !wholeUnits.has(currency),

  async createBatch(account, batch, progress) {
    if (batch.id !== null) return true
    const headers = { ...(await authorize(account)), 'PayPal-Request-Id': batch.key }
    const items = await progress.begin(batch.items)
    if (items.length === 0) return true
    const body = {
      sender_batch_header: {
        sender_batch_id: batch.key,
        email_subject: `Your payout from ${batch.programName}`.slice(0, 255),
      },
      items: items.map((one) => ({
        recipient_type: 'EMAIL',
        receiver: one.recipient,
        amount: { value: decimalAmount(one.amountCents, batch.currency), currency: batch.currency.toUpperCase() },
        sender_item_id: one.key,
        note: `payout-${one.payoutId}`,
      })),
    }
    try {
      const answer = await call(account, `${originOf(account)}/v1/payments/payouts`, { method: 'POST', headers, body })
      await progress.batchHasId(created.parse(answer).batch_header.payout_batch_id)
    } catch (error) {
      const first = error instanceof Refused ? firstBatchIn(error.body) : undefined
      if (first === undefined) {
        if (error instanceof Refused) await progress.undo(items)
        throw error
      }
      await progress.batchHasId(first)
    }
    return true
  },

  async readItems(account, batch) {
    const headers = await authorize(account)
    const byKey = new Map(batch.items.map((one) => [one.key, one]))
    const reports: ItemReport[] = []
    for (let number = 1, pages = 1; number <= pages; number++) {
      const query = `page=${number}&page_size=1000&total_required=true`
      const url = `${originOf(account)}/v1/payments/payouts/${encodeURIComponent(batch.id ?? '')}?${query}`
      const { batch_header: header, total_pages, items = [] } = page.parse(await call(account, url, { headers }))
      if (header.sender_batch_header.sender_batch_id !== batch.key)
        throw new Error('PayPal returned a different batch.')
      pages = Math.min(total_pages ?? 1, 100)
      for (const one of items) {
        const { sender_item_id: key = '', amount } = one.payout_item
        const known = byKey.get(key)
        if (!known) continue
        byKey.delete(key)
        if (Number(amount.value) !== majorUnits(known.amountCents, batch.currency)) {
          throw new Error(`PayPal returned payout ${known.payoutId} with a different amount: ${amount.value}.`)
        }
        reports.push(reportOf(known.payoutId, one))
      }
      if (number >= pages && (header.batch_status === 'DENIED' || header.batch_status === 'CANCELED')) {
        for (const { payoutId } of byKey.values()) {
          const reason = 'PayPal refused the whole batch.'
          reports.push({ payoutId, outcome: 'failed', status: header.batch_status, reason, reference: batch.key })
        }
      }
    }
    return reports
  },

  async isWebhook(account, { body, header }) {
    const webhookId = account.keys['webhook_id']
    if (!webhookId || !isJson(body)) return false
    const text = (name: string) => JSON.stringify(header(name) ?? '')
    // PayPal checks the signature of the exact text that it sent, so the text is passed on unchanged.
    const verification = `{"transmission_id":${text('paypal-transmission-id')},"transmission_time":${text('paypal-transmission-time')},
      "cert_url":${text('paypal-cert-url')},"auth_algo":${text('paypal-auth-algo')},"transmission_sig":${text('paypal-transmission-sig')},
      "webhook_id":${JSON.stringify(webhookId)},"webhook_event":${body}}`
    const answer = await call(account, `${originOf(account)}/v1/notifications/verify-webhook-signature`, {
      method: 'POST',
      headers: { ...(await authorize(account)), 'content-type': 'application/json' },
      body: verification,
    })
    return z.looseObject({ verification_status: z.literal('SUCCESS') }).safeParse(answer).success
  },
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

async function authorize(account: Account): Promise<Record<string, string>> {
  const { client_id: id = '', client_secret: secret = '' } = account.keys
  const answer = await call(account, `${originOf(account)}/v1/oauth2/token`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${btoa(`${id}:${secret}`)}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: 'grant_type=client_credentials',
  })
  return { authorization: `Bearer ${token.parse(answer).access_token}` }
}

/** Reads the id of the first batch from PayPal's refusal of a repeated `sender_batch_id`. */
function firstBatchIn(body: string): string | undefined {
  if (!/sender_batch_id|DUPLICATE/i.test(body)) return undefined
  return /\/v1\/payments\/payouts\/([A-Za-z0-9]{1,60})/.exec(body)?.[1]
}

function reportOf(payoutId: number, one: z.infer<typeof item>): ItemReport {
  const status = one.transaction_status ?? 'PENDING'
  const outcome = outcomes[status] ?? 'sent'
  const sent = Date.parse(one.time_processed ?? '')
  const claimUntil = new Date((Number.isNaN(sent) ? Date.now() : sent) + claimDays * 86_400_000)
  return {
    payoutId,
    outcome,
    status,
    reason: one.errors?.message ?? one.errors?.name ?? null,
    reference: one.transaction_id ?? one.payout_item_id,
    ...(outcome === 'unclaimed' && { claimUntil: claimUntil.toISOString().slice(0, 10) }),
  }
}
