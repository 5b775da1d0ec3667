/** The types of webhooks. The domain `webhook_type` in the database has the same values. */
export const webhookTypes = [
  'lead.created',
  'sale.created',
  'sale.refunded',
  'commission.created',
  'commission.approved',
  'commission.reversed',
  'commission.flagged',
  'commission.released',
  'partner.applied',
  'partner.joined',
  'adjustment.created',
  'payout.requested',
  'payout.reduced',
  'payout.paid',
] as const
export type WebhookType = (typeof webhookTypes)[number]

/** The events of a partner's postbacks. */
export const postbackEvents = ['lead', 'sale', 'commission_approved', 'commission_reversed', 'payout_paid'] as const
export type PostbackEvent = (typeof postbackEvents)[number]

/** The type of a test message. Every endpoint accepts it. */
export const testType = 'webhook.test'

/** A stored message: one of the `webhookTypes` or `webhook.test`, and its data. */
export interface WebhookMessage {
  message_id: number
  type: string
  data: unknown
  created_at: Date
}

/** Returns the id of a message, which is the same in every attempt and at every endpoint. */
export const webhookId = (messageId: number) => `evt_${messageId}`

/** Returns the message number of an id, or undefined if the id is invalid. */
export function messageOfWebhookId(id: string): number | undefined {
  const number = Number(/^evt_([1-9]\d{0,15})$/.exec(id)?.[1])
  return Number.isSafeInteger(number) ? number : undefined
}

/** Returns the payload of a message. Of two messages about one sale, the later one has the larger `sequence`. */
export const webhookPayload = ({ message_id, type, data, created_at }: WebhookMessage) => ({
  id: webhookId(message_id),
  type,
  timestamp: created_at.toISOString(),
  sequence: message_id,
  data,
})

/** Returns the body of a message, with the same bytes in every attempt. */
export const webhookBody = (message: WebhookMessage) => JSON.stringify(webhookPayload(message))
