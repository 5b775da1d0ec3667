import { Stripe } from 'stripe'
import type { Story } from '../../lib/local/processor-events.ts'
import { processorFixtures } from '../../lib/local/processor-fixture.ts'
import { type Shop, stripeEvent } from '../../lib/local/stripe-events.ts'
import { stripeFixtures } from '../../lib/local/stripe-fixture.ts'
import { type Connection, connectionSecret } from './calls.ts'
import type { Random } from './random.ts'

/** The program that receives deliveries, with its Stripe account and its connections. */
export interface Receiver {
  programId: number
  account: string
  stripeSecret: string
  connections: Connection[]
  clickId: string
}

export interface Delivery {
  path: string
  headers: Record<string, string>
  body: string
  /** Whether the signature is wrong or older than five minutes. */
  isForged: boolean
}

/** Creates a processor's event with some odd values, and signs it. */
export function makeDelivery(to: Receiver, random: Random, oddValue: () => unknown): Delivery {
  const connection = to.connections[random.integer(0, to.connections.length)]
  const event = connection ? eventOf(connection, to, random) : stripeEventOf(to, random)
  const changes = random.pick([0, 0, 1, 1, 2, 6]) ?? 0
  let changed: unknown = event
  for (let change = 0; change < changes; change++) changed = withOddValue(changed, random, oddValue)
  const body = JSON.stringify(changed) ?? ''
  const forgery = random.chance(0.9) ? undefined : random.pick(['secret', 'time', 'body'] as const)
  // Lemon Squeezy's signature doesn't cover a timestamp.
  const isForged = forgery !== undefined && !(forgery === 'time' && connection?.processor === 'lemonsqueezy')
  const signedAt = new Date(Date.now() - (forgery === 'time' ? 301_000 : 0))
  const signed = forgery === 'body' ? `${body} ` : body
  const secretOf = (secret: string) => (forgery === 'secret' ? `${secret}x` : secret)
  if (connection) {
    const { processor, accountId } = connection
    const headers = processorFixtures[processor].headersOf(signed, secretOf(connectionSecret), signedAt)
    return { path: `/api/v1/webhooks/${processor}/${accountId}`, headers, body, isForged }
  }
  const signature = Stripe.webhooks.generateTestHeaderString({
    payload: signed,
    secret: secretOf(to.stripeSecret),
    timestamp: Math.floor(signedAt.getTime() / 1000),
  })
  return { path: '/api/v1/webhooks/stripe', headers: { 'stripe-signature': signature }, body, isForged }
}

const amounts = [1, 4900, 4901, 9_999_999_999_999]

function eventOf({ processor }: Connection, to: Receiver, random: Random): object {
  const amount = random.pick(amounts) ?? 1
  const story: Story = {
    order: String(random.integer(1, 200)),
    programId: to.programId,
    clickId: random.chance(0.7) ? to.clickId : null,
    customerKey: random.chance(0.7) ? `buyer-${random.integer(1, 20)}` : null,
    email: random.chance(0.7) ? `buyer-${random.integer(1, 20)}@example.com` : null,
    amount,
    tax: random.integer(0, Math.min(amount, 900)),
    fee: random.integer(0, 100),
    refunded: random.integer(0, amount),
    currency: random.pick(['usd', 'jpy', 'kwd']) ?? 'usd',
    now: new Date(Date.now() + 1000 * random.integer(-100_000, 1000)),
    isTest: random.chance(0.1),
  }
  return random.pick(Object.values(processorFixtures[processor].events))?.(story) ?? {}
}

function stripeEventOf(to: Receiver, random: Random): object {
  const shop: Shop = {
    generation: random.pick(['old', 'new']) ?? 'new',
    account: to.account,
    programId: to.programId,
    clickId: random.chance(0.7) ? to.clickId : null,
    customerKey: random.chance(0.7) ? `buyer-${random.integer(1, 20)}` : null,
    email: null,
    customer: `cus_${random.integer(1, 50)}`,
    livemode: random.chance(0.9),
    now: Math.floor(Date.now() / 1000) - random.integer(0, 100_000),
  }
  // A deauthorization would disconnect the account.
  const names = Object.keys(stripeFixtures).filter((name) => name !== 'account.application.deauthorized')
  const fixture = stripeFixtures[random.pick(names) ?? '']?.(shop, `fuzz${random.integer(1, 200)}`)
  if (!fixture) throw new Error('There are no fixtures.')
  return stripeEvent(shop, `evt_${random.integer(1, 1_000_000)}`, fixture.type, fixture.object)
}

/** Replaces, removes or adds a field at a random place. */
function withOddValue(value: unknown, random: Random, oddValue: () => unknown): unknown {
  if (typeof value !== 'object' || value === null || random.chance(0.1)) return oddValue()
  if (Array.isArray(value)) {
    if (value.length === 0) return [oddValue()]
    const at = random.integer(0, value.length - 1)
    return value.map((one: unknown, place) => (place === at ? withOddValue(one, random, oddValue) : one))
  }
  const fields = Object.entries(value)
  const [name] = random.pick(fields) ?? []
  if (name === undefined || random.chance(0.05)) return Object.fromEntries([...fields, ['extra', oddValue()]])
  if (random.chance(0.1)) return Object.fromEntries(fields.filter(([other]) => other !== name))
  return Object.fromEntries(
    fields.map(([other, inner]): [string, unknown] => [
      other,
      other === name ? withOddValue(inner, random, oddValue) : inner,
    ]),
  )
}
