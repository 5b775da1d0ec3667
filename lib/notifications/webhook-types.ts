/** What a program's own server can be told. The domain `webhook_type` in the database holds the same words. */
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

/** What a test message is, which no endpoint has to want. */
export const testType = 'webhook.test'

/** A message as the database keeps it: a `WebhookType`, or `webhook.test`, and what it says. */
export interface WebhookMessage {
  message_id: number
  type: string
  data: unknown
  created_at: Date
}

/** The id under which a message is told, the same in every try and at every endpoint. */
export const webhookId = (messageId: number) => `evt_${messageId}`

/** The message that an id of `webhookId` names, or undefined where it is none. */
export function messageOfWebhookId(id: string): number | undefined {
  const number = Number(/^evt_([1-9]\d{0,15})$/.exec(id)?.[1])
  return Number.isSafeInteger(number) ? number : undefined
}

/** What a message says. Of two about one sale, the one with the larger `sequence` came later. */
export const webhookPayload = ({ message_id, type, data, created_at }: WebhookMessage) => ({
  id: webhookId(message_id),
  type,
  timestamp: created_at.toISOString(),
  sequence: message_id,
  data,
})

/** The body of a message: the same bytes in every attempt. */
export const webhookBody = (message: WebhookMessage) => JSON.stringify(webhookPayload(message))
