import { describe, expect, test } from 'vitest'
import type { Shop } from '../lib/local/stripe-events.ts'
import { stripeFixtures } from '../lib/local/stripe-fixture.ts'
import { handledEventTypes } from '../lib/stripe/read-event.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testWhatIsKept } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql } = endpoint
const { send } = await openWebhook(endpoint)

describe('npm run stripe:fixture', () => {
  const kinds = Object.keys(stripeFixtures)
  test('has an event of each kind that is handled', () => {
    const shop = { ...({} as Shop), generation: 'new' as const }
    const types = new Set(kinds.map((name) => stripeFixtures[name]?.(shop, '1').type))
    expect(types).toEqual(new Set(handledEventTypes))
  })

  test.for(kinds.flatMap((name) => (['old', 'new'] as const).map((generation) => [name, generation] as const)))(
    '%s is understood, in the %s generation',
    async ([name, generation]) => {
      const shop = await createShop(sql, { generation })
      const fixture = stripeFixtures[name]?.(shop, '1')
      const answer = await send(shop, fixture?.type ?? '', fixture?.object ?? {})
      expect(answer.status).toBe(200)
      expect(answer.body.reason ?? '').not.toMatch(/could not be read|not used|metadata/)
    },
  )
})

testWhatIsKept(sql)
