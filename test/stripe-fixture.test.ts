import { describe, expect, test } from 'vitest'
import type { Shop } from '../lib/local/stripe-events.ts'
import { connectProgram, findProgram, passHolds, renewalsIn, stripeFixtures } from '../lib/local/stripe-fixture.ts'
import { programOfTestClick } from '../lib/tracking/test-links.ts'
import { handledEventTypes } from '../lib/processors/stripe/read-event.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql, db } = endpoint
const { send, salesOf } = await openWebhook(endpoint)

describe('npm run stripe:fixture', () => {
  const kinds = Object.keys(stripeFixtures)
  test('has an event of each handled kind', () => {
    const shop = { ...({} as Shop), generation: 'new' as const }
    const types = new Set(kinds.map((name) => stripeFixtures[name]?.(shop, '1').type))
    expect(types).toEqual(new Set(handledEventTypes))
  })

  test.for(kinds.flatMap((name) => (['old', 'new'] as const).map((generation) => [name, generation] as const)))(
    '%s is recognized, in the %s generation',
    async ([name, generation]) => {
      const shop = await createShop(sql, { generation })
      const fixture = stripeFixtures[name]?.(shop, '1')
      const answer = await send(shop, fixture?.type ?? '', fixture?.object ?? {})
      expect(answer.status).toBe(200)
      expect(answer.body.reason ?? '').not.toMatch(/could not be read|not used|Its metadata/)
    },
  )

  test('uses the latest visitor, even a test visitor, and connects each program once', async () => {
    const shop = await createShop(sql, {})
    const found = async () => (await findProgram(db, String(shop.programId)))?.visitor
    expect(await found()).toEqual({ click_id: shop.clickId, customer_key: null })
    await sql.query(
      `insert into affiliate_lead_events (program_id, is_test, lead_timestamp, customer_key) values ($1, true, now() + interval '1 s', 'tester')`,
      [shop.programId],
    )
    expect(await found()).toEqual({ click_id: null, customer_key: 'tester' })
    // A visitor who came through the test link without a lead gets the test link's click id.
    await sql.query(
      `insert into affiliate_click_events (program_id, is_test, click_timestamp, id) values ($1, true, now() + interval '2 s', 1)`,
      [shop.programId],
    )
    const visitor = await found()
    expect([programOfTestClick(visitor?.click_id ?? ''), visitor?.customer_key]).toEqual([shop.programId, null])
    expect(await connectProgram(db, shop.programId)).toBe(shop.account)
    await sql.query('update programs set processor_account_id = null where id = $1', [shop.programId])
    expect(await connectProgram(db, shop.programId)).toBe(`acct_local${shop.programId}`)
  })

  test.each([true, false])(
    'advances time: subscriptions renew and hold periods end, in live mode %s',
    async (livemode) => {
      const shop = { ...(await createShop(sql, { holdDays: 14 })), livemode }
      const other = await createShop(sql, { holdDays: 14 })
      for (const of of [shop, other]) {
        const first = stripeFixtures['invoice.payment_succeeded:first']?.(of, '1')
        await send(of, first?.type ?? '', first?.object ?? {})
      }
      const pass = async (days: number) => {
        const credited = await passHolds(db, 'key', shop.programId, days)
        for (const { shop: of, fixture } of await renewalsIn(db, shop, days))
          await send(of, fixture.type, fixture.object)
        return credited
      }
      const earning = livemode ? 1 : 0
      expect(await pass(13)).toBe(0)
      expect(await salesOf(shop)).toHaveLength(1)
      expect(await pass(62)).toBe(earning)
      const renewal = {
        is_recurring: true,
        is_test: !livemode,
        subscription_id: 'sub_1',
        amount: 4900,
        customer_key: 'user-1',
        partner_id: shop.partnerId,
      }
      expect(await salesOf(shop)).toMatchObject([{ is_recurring: false }, renewal, renewal])
      expect(await pass(31)).toBe(2 * earning)
      expect(await salesOf(shop)).toHaveLength(4)
      expect(await salesOf(other)).toMatchObject([{ status: 'pending' }])
    },
  )
})

testStoredState(sql)
