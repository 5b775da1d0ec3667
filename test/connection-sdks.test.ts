import type { Order as LemonOrder, Subscription, SubscriptionInvoice } from '@lemonsqueezy/lemonsqueezy.js'
import {
  type IAdjustmentNotificationResponse,
  type ITransactionNotificationResponse,
  Paddle,
} from '@paddle/paddle-node-sdk'
import { type models, webhooks } from '@polar-sh/sdk/2026-04'
import { expect, test } from 'vitest'
import { lemonInvoice, lemonOrder, lemonSubscription } from '../lib/local/lemonsqueezy-events.ts'
import { paddleAdjustment, paddleTransaction } from '../lib/local/paddle-events.ts'
import { polarOrder, polarRefund } from '../lib/local/polar-events.ts'
import { processorFixtures } from '../lib/local/processor-fixture.ts'
import type { Story } from '../lib/local/processor-events.ts'

/** A part of an object from a vendor's SDK. Dates and enums are plain strings, as in a payload. */
type Part<T> = T extends string
  ? string
  : T extends Date
    ? string
    : T extends (infer Item)[]
      ? Part<Item>[]
      : T extends object
        ? { [Key in keyof T]?: Part<T[Key]> | undefined }
        : T

/** Returns a function that compiles only for objects whose fields the type has, with the same types. */
const documentedAs =
  <T>() =>
  <Ours extends Part<T>>(ours: Ours & Record<Exclude<keyof Ours, keyof T>, never>) =>
    ours

const story: Story = {
  order: '1',
  programId: 1,
  clickId: 'cust_1_1',
  customerKey: 'user-1',
  email: 'buyer@example.com',
  amount: 12_000,
  tax: 2000,
  fee: 600,
  refunded: 3000,
  currency: 'usd',
  now: new Date(),
  isTest: false,
}

test("the fixtures have the fields of the vendors' types", () => {
  documentedAs<ITransactionNotificationResponse>()(paddleTransaction(story))
  documentedAs<IAdjustmentNotificationResponse>()(
    paddleAdjustment(story, { id: 'adj_1', action: 'refund', amount: 3000 }),
  )
  documentedAs<LemonOrder['data']['attributes']>()(lemonOrder(story).attributes)
  documentedAs<SubscriptionInvoice['data']['attributes']>()(lemonInvoice(story, 1, 'renewal').attributes)
  documentedAs<Subscription['data']['attributes']>()(lemonSubscription(story).attributes)
  documentedAs<models.Order>()(polarOrder(story))
  documentedAs<models.Refund>()(polarRefund(story, { id: 'refund', status: 'succeeded', amount: 3000 }))
})

const bodiesOf = (processor: 'paddle' | 'polar') => {
  const { events, headersOf } = processorFixtures[processor]
  return Object.entries(events).map(([name, event]) => {
    const body = JSON.stringify(event(story))
    return { name, body, headers: headersOf(body, 'whsec_secret', new Date()) }
  })
}

test("Paddle's SDK accepts the signature of each fixture and reads it", async () => {
  const { webhooks: reader } = new Paddle('key')
  for (const { name, body, headers } of bodiesOf('paddle')) {
    const event = await reader.unmarshal(body, 'whsec_secret', headers['paddle-signature'] ?? '')
    expect(event.eventType, name).toBe(name.split(':')[0])
    expect(event.data).toMatchObject({ id: JSON.parse(body).data.id })
  }
})

test("Polar's SDK accepts the signature of each fixture", async () => {
  for (const { name, body, headers } of bodiesOf('polar')) {
    const event = await webhooks.validateEvent(body, headers, 'whsec_secret')
    expect(event.type, name).toBe(name.split(':')[0])
  }
})
