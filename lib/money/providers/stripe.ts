import * as z from 'zod/mini'
import { currencyExponent } from '../../money.ts'
import { hexBytesOf, isHmac, isRecent } from '../../processors/processor.ts'
import { type Account, call, type ItemReport, type Outcome, type PayoutProvider, Refused } from './provider.ts'

const origin = 'https://api.stripe.com'
const path = '/v2/money_management/outbound_payments'
const version = '2026-10-28.endive'

const detail = z.optional(z.looseObject({ reason: z.optional(z.string()) }))
const payment = z.looseObject({
  id: z.string(),
  status: z.string(),
  amount: z.looseObject({ value: z.number(), currency: z.string() }),
  metadata: z.optional(z.record(z.string(), z.string())),
  status_details: z.optional(z.looseObject({ failed: detail, returned: detail, processing: detail })),
})

const outcomes: Record<string, Outcome> = {
  processing: 'sent',
  posted: 'paid',
  returned: 'returned',
  failed: 'failed',
  canceled: 'failed',
}

/** Refusals of a single payment. Other refusals concern the account, such as an empty balance, and a person must resolve them. */
const aboutOne = /"code":\s*"[a-z_]{0,80}(?:recipient|payout_method|amount_too)/

/** For these currencies, Stripe's unit differs from ISO 4217. They can be paid with a file. */
const otherUnits = new Set(['huf', 'mga', 'mru', 'twd'])

/** The maximum number of payments that one step sends. Each payment takes one call. */
const atOnce = 200

/**
 * Stripe Outbound Payments (Global Payouts) to recipients that the program created in Stripe. Each payment has an idempotency key, which
 * Stripe keeps for 30 days.
 *
 * @see https://docs.stripe.com/api/v2/money-management/outbound-payments
 */
export const stripe: PayoutProvider = {
  title: 'Stripe',
  keys: {
    secret_key: { label: 'Secret key', hint: 'A restricted key that can write outbound payments is enough.' },
    financial_account: { label: 'Financial account', isAccount: true, hint: 'It begins with fa_.' },
    webhook_secret: {
      label: 'Webhook secret',
      isOptional: true,
      hint: 'Stripe shows it after you add the webhook address.',
    },
  },
  most: 1000,
  readsAtOnce: 200,
  pays: (currency) => (currencyExponent(currency) === 2 && !otherUnits.has(currency)) || currency === 'jpy',

  async createBatch(account, batch, progress) {
    const items = batch.items.slice(0, atOnce)
    for (const item of items) {
      if ((await progress.begin([item])).length === 0) continue
      try {
        const answer = await call(account, origin + path, {
          method: 'POST',
          headers: { ...headersOf(account), 'Idempotency-Key': item.key },
          body: {
            from: { financial_account: account.keys['financial_account'], currency: batch.currency },
            to: { recipient: item.recipient, currency: batch.currency },
            amount: { value: item.amountCents, currency: batch.currency },
            description: `payout-${item.payoutId}`,
            metadata: { payout_key: item.key },
          },
        })
        await progress.itemHasId(item, payment.parse(answer).id)
      } catch (error) {
        if (!(error instanceof Refused)) throw error
        await progress.undo([item])
        if (!aboutOne.test(error.body)) throw error
        const [{ payoutId }, reason] = [item, error.body.slice(0, 300)]
        await progress.report([{ payoutId, outcome: 'failed', status: 'refused', reason, reference: item.key }])
      }
    }
    return items.length === batch.items.length
  },

  async readItems(account, batch) {
    const reports: ItemReport[] = []
    for (const { payoutId, id, key, amountCents } of batch.items) {
      if (id === null) continue
      const url = `${origin}${path}/${encodeURIComponent(id)}`
      const {
        status,
        amount,
        metadata,
        status_details: details,
      } = payment.parse(await call(account, url, { headers: headersOf(account) }))
      if (metadata?.['payout_key'] !== key || amount.value !== amountCents)
        throw new Error(`Stripe returned a different payment for payout ${payoutId}.`)
      const reason = (details?.failed ?? details?.returned ?? details?.processing)?.reason ?? null
      reports.push({ payoutId, outcome: outcomes[status] ?? 'sent', status, reason, reference: id })
    }
    return reports
  },

  async isWebhook(account, { body, header, now }) {
    const parts = (header('stripe-signature') ?? '').slice(0, 2000).split(',')
    const valuesOf = (name: string) =>
      parts.filter((part) => part.startsWith(`${name}=`)).map((part) => part.slice(name.length + 1))
    const [time = ''] = valuesOf('t')
    if (!/^\d{1,12}$/.test(time) || !isRecent(Number(time), now)) return false
    for (const signature of valuesOf('v1')) {
      if (await isHmac(account.keys['webhook_secret'] ?? '', `${time}.${body}`, hexBytesOf(signature))) return true
    }
    return false
  },
}

const headersOf = (account: Account) => ({
  authorization: `Bearer ${account.keys['secret_key'] ?? ''}`,
  'Stripe-Version': version,
})
