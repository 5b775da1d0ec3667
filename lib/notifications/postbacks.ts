import * as z from 'zod/mini'
import { hmac } from '../hmac.ts'
import { currencyExponent, majorUnits } from '../money.ts'
import { type LoopbackEnv, refusalOfAddress } from './public-address.ts'
import type { WebhookSecretEnv } from './webhook-secrets.ts'
import { testType, webhookId, type WebhookMessage, webhookPayload } from './webhook-types.ts'

/** The placeholders of a GET template, and the fields of a signed postback. None of these identifies a buyer. */
export const placeholders = [
  'event',
  'event_id',
  'program_id',
  'link_code',
  'sub1',
  'sub2',
  'sub3',
  'utm_source',
  'utm_campaign',
  'commission',
  'commission_cents',
  'currency',
  'status',
  'reason',
  'sale_key',
  'timestamp',
] as const
type Placeholder = (typeof placeholders)[number]
export type PostbackValues = Record<Placeholder, string | number>

const maxTemplate = 2000
/** Limits the length of the sent address. */
const maxPlaceholders = 30

const placeholdersIn = (template: string) => Array.from(template.matchAll(/\{([^{}]*)\}/g), ([, name = '']) => name)

/** Returns the first unknown placeholder of a template with its braces, cut to 40 characters. */
export function unknownPlaceholder(template: string): string | undefined {
  const unknown = placeholdersIn(template).find((name) => !placeholders.some((known) => known === name))
  return unknown === undefined ? undefined : `{${unknown.slice(0, 40)}}`
}

/**
 * Returns the reason why postbacks can't be sent to a template, or undefined if they can. Placeholders are only allowed after the
 * question mark, so that no value from a visitor's link can change the host or the path.
 */
export function refusalOfTemplate(template: string, env: LoopbackEnv): string | undefined {
  if (template.length > maxTemplate) return `must have at most ${maxTemplate} characters`
  const used = placeholdersIn(template)
  const unknown = unknownPlaceholder(template)
  if (unknown !== undefined) return `contains the unknown placeholder ${unknown}`
  if (template.includes('#')) return 'must not contain a #, because nothing after it is sent'
  if (used.length > maxPlaceholders) return `must have at most ${maxPlaceholders} placeholders`
  const [place = '', ...query] = template.split('?')
  if (/[{}]/.test(place)) return 'must have its placeholders after the question mark'
  if (/[{}]/.test(query.join('?').replaceAll(/\{[^{}]*\}/g, ''))) return 'contains a single brace'
  return refusalOfAddress(template, env)
}

/** Replaces the placeholders of a template with their percent-encoded values. */
export function postbackUrl(template: string, values: PostbackValues): string {
  return template.replaceAll(/\{([^{}]*)\}/g, (text, name: string) => {
    const known = placeholders.find((placeholder) => placeholder === name)
    return known === undefined ? text : encodeURIComponent(String(values[known]).toWellFormed())
  })
}

const stored = z.object({
  commission_cents: z.prefault(z.number(), 0),
  currency: z.prefault(z.string(), ''),
  status: z.prefault(z.string(), ''),
  reason: z.prefault(z.string(), ''),
  sale_id: z.optional(z.number()),
  link_code: z.prefault(z.string(), ''),
  campaign: z.prefault(z.record(z.string(), z.string()), {}),
})

const testData = {
  currency: 'usd',
  status: 'test',
  link_code: 'test-link',
  campaign: {
    sub1: 'test-sub1',
    sub2: 'test-sub2',
    sub3: 'test-sub3',
    utm_source: 'test-source',
    utm_campaign: 'test-campaign',
  },
}

/** Returns the placeholders' values for a message. A test message has made-up values and no amount. */
export function postbackValues(env: WebhookSecretEnv, programId: number, message: WebhookMessage): PostbackValues {
  const isTest = message.type === testType
  const { campaign, sale_id: saleId, ...data } = stored.parse(isTest ? testData : message.data)
  return {
    event: isTest ? 'test' : message.type,
    event_id: webhookId(message.message_id),
    program_id: programId,
    link_code: data.link_code,
    sub1: campaign['sub1'] ?? '',
    sub2: campaign['sub2'] ?? '',
    sub3: campaign['sub3'] ?? '',
    utm_source: campaign['utm_source'] ?? '',
    utm_campaign: campaign['utm_campaign'] ?? '',
    commission: majorUnits(data.commission_cents, data.currency).toFixed(currencyExponent(data.currency)),
    commission_cents: data.commission_cents,
    currency: data.currency,
    status: data.status,
    reason: data.reason,
    sale_key: saleId === undefined ? '' : saleKey(env, programId, saleId),
    timestamp: message.created_at.toISOString(),
  }
}

/**
 * Returns a key that identifies a sale in all its postbacks. The key is derived with the deployment's secret, so nobody can compute the
 * sale's id from it.
 */
function saleKey({ WEBHOOK_SECRET }: WebhookSecretEnv, programId: number, saleId: number): string {
  const bytes = hmac(WEBHOOK_SECRET, `sale ${saleId} of program ${programId}`).subarray(0, 12)
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Returns the body of a signed postback, which is a webhook with the placeholders' values as its data. */
export const postbackBody = (env: WebhookSecretEnv, programId: number, message: WebhookMessage) =>
  JSON.stringify(webhookPayload({ ...message, data: postbackValues(env, programId, message) }))
