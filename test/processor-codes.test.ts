import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { erasePayee } from '../lib/money/payees.ts'
import { findDifferences } from '../lib/commands/audit.ts'
import { ApiError } from '../lib/errors.ts'
import applyParked from '../functions/apply-parked-events.ts'
import { apiKeyHash } from '../lib/access/api-keys.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { createPerson, tiePartner } from '../lib/local/people.ts'
import { paymentIntent, refund } from '../lib/local/stripe-events.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { recordSale } from '../lib/money/sales.ts'
import { endPartnership } from '../lib/programs/partnerships.ts'
import { deleteWorkspace } from '../lib/programs/workspaces.ts'
import { attributeKnownCustomers } from '../lib/processors/known-customers.ts'
import { applyParkedEvents } from '../lib/processors/parked-events.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { createPartnerCode, type Promotion, revokePartnerCode } from '../lib/programs/promotion-codes.ts'
import { noSale } from './support/ledger.ts'
import { bill, firstPayment, oneTime } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, send, stripe } = await openWebhook(endpoint)

/** A shop whose second partner has a promotion code. Nothing in its payments identifies the buyer. */
async function createPromotedShop(customer: string | null = 'cus_ann', generation: TestShop['generation'] = 'new') {
  const shop = await createShop(sql, { generation })
  await sql.query(
    `insert into partner_codes (program_id, partner_id, code, promotion_code_id, account_id, created_at)
    values ($1, $2, 'JANE20', 'promo_' || $1::bigint, $3, now() - interval '1 day')`,
    [shop.programId, shop.otherPartnerId, shop.account],
  )
  stripe.calls.length = 0
  return { ...shop, customer, promotion: `promo_${shop.programId}`, bare: { metadata: {} } }
}
type Promoted = Awaited<ReturnType<typeof createPromotedShop>>

async function outcomeOf({ programId, partnerId, otherPartnerId }: TestShop) {
  const { rows } = await sql.query<{
    transaction_id: string
    partner_id: string | null
    coupon: string | null
    cents: string | null
  }>(
    `select s.transaction_id, s.partner_id, s.coupon, c.amount_cents as cents
    from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id where s.program_id = $1 order by s.id`,
    [programId],
  )
  const names = new Map([
    [partnerId, 'first'],
    [otherPartnerId, 'code'],
  ])
  return rows.map((sale) => [
    sale.transaction_id,
    sale.partner_id === null ? null : names.get(Number(sale.partner_id)),
    Number(sale.cents ?? 0),
  ])
}
const stripeCalls = () => stripe.calls.filter((call) => !call.includes('invoice_payments'))
const make = (shop: TestShop, partner: number, code: string | undefined, promotion: Promotion) =>
  createPartnerCode(db, env, shop.programId, { partner_id: partner, code, stripe: promotion })

/** Links the first partner of a shop to a person, and gives its workspace an owner. */
const ownerOf = async (shop: TestShop) => {
  const user = await createPerson(db, { AUTH_SECRET: 'test' }, { name: 'Nora', email: `${randomUUID()}@example.com` })
  await tiePartner(db, shop.partnerId, user.userId)
  const { rows } = await sql.query<{ workspace_id: string }>('select workspace_id from programs where id = $1', [
    shop.programId,
  ])
  return { userId: user.userId, workspaceId: rows[0]?.workspace_id ?? '' }
}

/** Completes a session with these discounts, by default the promotion code. */
const buy = (
  shop: Promoted,
  more: Parameters<typeof oneTime>[1] = {},
  discounts: object[] = [{ coupon: 'cou_1', promotion_code: shop.promotion }],
) => send(shop, 'checkout.session.completed', { ...oneTime(shop, more), discounts })

const intent = (shop: TestShop) => paymentIntent(shop, { id: 'pi_1', charge: 'ch_1', amount: 10_000 })

/** A purchase some minutes ago, with or without the code. */
const bought = (shop: Promoted, number: number, code: boolean) => {
  const then = { ...shop, now: shop.now - (10 - number) * 60 }
  const session = oneTime(then, { id: `cs_${number}`, payment_intent: `pi_${number}` })
  return send(then, 'checkout.session.completed', {
    ...session,
    discounts: code ? [{ promotion_code: shop.promotion }] : [],
  })
}

const ordersOf = (items: number[]): number[][] =>
  items.length < 2
    ? [items]
    : items.flatMap((one, at) => ordersOf(items.toSpliced(at, 1)).map((rest) => [one, ...rest]))

describe('a Stripe payment', () => {
  const byCode = [['pi_1', 'code', 2000]]

  test.each<[string, (shop: Promoted) => Promise<unknown>, unknown[], number]>([
    ['by a session with the code', (shop) => buy(shop, shop.bare), byCode, 0],
    [
      "by a guest's session with the expanded code",
      (shop) =>
        buy({ ...shop, customer: null }, shop.bare, [
          { coupon: { id: 'cou_1' }, promotion_code: { id: shop.promotion, object: 'promotion_code' } },
        ]),
      byCode,
      0,
    ],
    [
      'by a session from before 2025, which is fetched from Stripe',
      (shop) => {
        const discount = { id: 'di_1', promotion_code: shop.promotion }
        stripe.objects.set('cs_1', {
          id: 'cs_1',
          total_details: { breakdown: { discounts: [{ amount: 1, discount }] } },
        })
        return send(shop, 'checkout.session.completed', oneTime(shop, { ...shop.bare, discount: 500 }))
      },
      byCode,
      1,
    ],
    ["by a session with another partner's click", (shop) => buy(shop), byCode, 0],
    [
      "by a session with another partner's click, if clicks take precedence",
      async (shop) => {
        await sql.query("update programs set attribution_priority = 'click' where id = $1", [shop.programId])
        await buy(shop)
      },
      [['pi_1', 'first', 2000]],
      0,
    ],
    [
      'by an intent with the click, before the session with the code',
      async (shop) => {
        await send(shop, 'payment_intent.succeeded', intent(shop))
        expect(await outcomeOf(shop)).toEqual([])
        await buy(shop)
      },
      byCode,
      0,
    ],
    [
      'by an intent with the click, without a session within an hour',
      async (shop) => {
        await send(shop, 'payment_intent.succeeded', intent(shop))
        await sql.query(
          "update processor_events set event_created_at = now() - interval '61 minutes' where account_id = $1",
          [shop.account],
        )
        await applyParkedEvents(db, openStripe(env), { limit: 100 })
      },
      [['pi_1', 'first', 2000]],
      0,
    ],
    [
      'by a session with an unknown code',
      (shop) =>
        buy(shop, shop.bare, [
          { coupon: 'cou_1', promotion_code: 'promo_other' },
          { coupon: 'cou_2', promotion_code: null },
        ]),
      [],
      0,
    ],
    [
      'by an invoice with discount ids, which is fetched from Stripe',
      (shop) => {
        stripe.objects.set('in_1', { id: 'in_1', discounts: [{ id: 'di_1', promotion_code: { id: shop.promotion } }] })
        return send(shop, 'invoice.paid', { ...bill(shop, shop.bare), discounts: ['di_1'] })
      },
      [['in_1', 'code', 2000]],
      1,
    ],
    [
      'by an older invoice with its expanded discount',
      (shop) =>
        send({ ...shop, generation: 'old' }, 'invoice.payment_succeeded', {
          ...bill({ ...shop, generation: 'old' }, shop.bare),
          discount: { id: 'di_1', coupon: { id: 'cou_1' }, promotion_code: shop.promotion },
          discounts: ['di_1'],
        }),
      [['in_1', 'code', 2000]],
      0,
    ],
    [
      'by an invoice that Stripe no longer knows',
      (shop) => {
        stripe.objects.delete('in_1')
        return send(shop, 'invoice.paid', { ...bill(shop, shop.bare), discounts: ['di_1'] })
      },
      [],
      1,
    ],
    [
      'by a session after the code was revoked',
      async (shop) => {
        await sql.query("update partner_codes set revoked_at = now() - interval '1 hour' where program_id = $1", [
          shop.programId,
        ])
        await buy(shop)
      },
      [['pi_1', 'first', 2000]],
      0,
    ],
    [
      'by the session and the first invoice of a subscription in either order, and a renewal of the known customer',
      async (shop) => {
        await attributeKnownCustomers(db, shop.programId)
        stripe.objects.set('in_1', { id: 'in_1', discounts: [{ id: 'di_1', promotion_code: shop.promotion }] })
        const first = { ...bill(shop, { ...shop.bare, billing_reason: 'subscription_create' }), discounts: ['di_1'] }
        await send(shop, 'invoice.paid', first)
        await send(shop, 'checkout.session.completed', {
          ...firstPayment(shop, shop.bare),
          discounts: [{ promotion_code: shop.promotion }],
        })
        await applyParkedEvents(db, openStripe(env), { limit: 100 })
        await send(shop, 'invoice.payment_succeeded', first)
        await send(
          shop,
          'invoice.paid',
          bill(shop, { ...shop.bare, id: 'in_2', payment_intent: 'pi_2', charge: 'ch_2' }),
        )
      },
      [
        ['in_1', 'code', 2000],
        ['in_2', 'code', 2000],
      ],
      1,
    ],
  ])('%s', async (_, pay, sales, requests) => {
    const shop = await createPromotedShop()
    await pay(shop)
    expect(await outcomeOf(shop)).toEqual(sales)
    expect(stripeCalls()).toHaveLength(requests)
    // The shop's first visitor has no click event.
    const wrong = await findDifferences(sql, shop.programId)
    expect(wrong.filter((one) => !one.startsWith('a customer came by a click'))).toEqual([])
  })

  test.each([
    [[true, false, true, false], 'code', ['code', 'code', 'code', 'code']],
    [[false, true, false], 'code', ['first', 'code', 'first']],
    [[true, false], 'click', ['first', 'first']],
  ])(
    'purchases with codes %j and priority %s have the same partners in any order',
    async (codes, priority, expected) => {
      for (const order of ordersOf([...codes.keys()])) {
        const shop = await createPromotedShop()
        await sql.query('update programs set attribution_priority = $2 where id = $1', [shop.programId, priority])
        for (const number of order) await bought(shop, number, codes[number] === true)
        const found = (await outcomeOf(shop)).toSorted(([a], [b]) => String(a).localeCompare(String(b)))
        expect(found, `the order ${order.join(' ')}`).toEqual(
          expected.map((partner, number) => [`pi_${number}`, partner, 2000]),
        )
        const wrong = await findDifferences(sql, shop.programId)
        expect(wrong.filter((one) => !one.startsWith('a customer came by a click'))).toEqual([])
      }
    },
  )

  test.each<[string, (shop: Promoted) => (() => Promise<unknown>)[], unknown[]]>([
    [
      'an intent and a session that is paid later',
      (shop) => {
        const session = { ...oneTime(shop, { discount: 500 }), payment_status: 'unpaid' }
        return [
          () => send(shop, 'payment_intent.succeeded', { ...intent(shop), metadata: {} }),
          () => send(shop, 'checkout.session.completed', session),
          () => send(shop, 'checkout.session.async_payment_succeeded', { ...session, payment_status: 'paid' }),
        ]
      },
      [['pi_1', 'code', 2000]],
    ],
    [
      'the session, the first invoice and a renewal of a subscription',
      (shop) => {
        const renewed = { ...shop, now: shop.now + 60 }
        const renewal = bill(renewed, { id: 'in_2', payment_intent: 'pi_2', charge: 'ch_2' })
        return [
          () => send(shop, 'checkout.session.completed', firstPayment(shop, { discount: 500 })),
          () => send(shop, 'invoice.paid', bill(shop, { billing_reason: 'subscription_create' })),
          () => send(renewed, 'invoice.paid', renewal),
        ]
      },
      [
        ['in_1', 'code', 2000],
        ['in_2', 'code', 2000],
      ],
    ],
  ])('asks Stripe for the code of a session from before 2025 in any order of %s', async (_, eventsOf, expected) => {
    for (const order of ordersOf([0, 1, 2])) {
      const shop = await createPromotedShop('cus_ann', 'old')
      const discount = { id: 'di_1', promotion_code: shop.promotion }
      stripe.objects.set('cs_1', { id: 'cs_1', total_details: { breakdown: { discounts: [{ amount: 1, discount }] } } })
      const events = eventsOf(shop)
      for (const at of order) await events[at]?.()
      const found = (await outcomeOf(shop)).toSorted(([a], [b]) => String(a).localeCompare(String(b)))
      expect(found, `the order ${order.join(' ')}`).toEqual(expected)
      const wrong = await findDifferences(sql, shop.programId)
      expect(wrong.filter((one) => !one.startsWith('a customer came by a click'))).toEqual([])
    }
  })

  test('keeps the partner of a credited commission', async () => {
    const shop = await createPromotedShop()
    await bought(shop, 1, false)
    const { rows } = await sql.query<{ id: string }>('select id from commissions where program_id = $1', [
      shop.programId,
    ])
    await approveCommissions(db, shop.programId, [Number(rows[0]?.id)])
    await bought(shop, 2, false)
    await bought(shop, 0, true)
    expect(await outcomeOf(shop)).toEqual([
      ['pi_1', 'first', 2000],
      ['pi_2', 'code', 2000],
      ['pi_0', 'code', 2000],
    ])
  })

  test('moves a refunded commission to the partner of an earlier code, and the books accept the report to the first partner', async () => {
    const shop = await createPromotedShop()
    await bought(shop, 1, false)
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 2500, payment_intent: 'pi_1' }))
    await bought(shop, 0, true)
    await send(shop, 'refund.created', refund(shop, { id: 're_2', amount: 2500, payment_intent: 'pi_1' }))
    expect(await outcomeOf(shop)).toEqual([
      ['pi_1', 'code', 2000],
      ['pi_0', 'code', 2000],
    ])
    const { rows } = await sql.query(
      `select partner_id, payload->>'amount_cents' as cents from outbox
      where program_id = $1 and audience = 'partner' and kind = 'commission_refunded' order by id`,
      [shop.programId],
    )
    expect(rows).toEqual([
      { partner_id: String(shop.partnerId), cents: '500' },
      { partner_id: String(shop.otherPartnerId), cents: '500' },
    ])
    const wrong = await findDifferences(sql, shop.programId)
    expect(wrong.filter((one) => !one.startsWith('a customer came by a click'))).toEqual([])
  })

  test.each([null, 'released'])(
    'checks a moved commission again, after a review of the first partner with the decision %s',
    async (decision) => {
      const shop = await createPromotedShop()
      await sql.query("update programs set review_rules = '{bot,self_referral}' where id = $1", [shop.programId])
      await bought(shop, 1, false)
      await sql.query(
        `with reviewed as (
        update commissions set held_at = case when $2::text is null then now() end, flags_checked_at = now()
        where program_id = $1 returning program_id, id
      )
      insert into commission_reviews (program_id, commission_id, flags, decision, decided_at)
      select program_id, id, '[{"rule": "bot", "evidence": {}}, {"rule": "self_referral", "evidence": {}}]', $2, case when $2 is not null then now() end
      from reviewed`,
        [shop.programId, decision],
      )
      await bought(shop, 0, true)
      const read = `select c.partner_id, c.held_at, c.flags_checked_at, v.decision from commissions c
      left join commission_reviews v on v.program_id = c.program_id and v.commission_id = c.id where c.program_id = $1 order by c.id limit 1`
      const { rows } = await sql.query(read, [shop.programId])
      expect(rows).toEqual([
        { partner_id: String(shop.otherPartnerId), held_at: null, flags_checked_at: null, decision: null },
      ])
      const wrong = await findDifferences(sql, shop.programId)
      expect(wrong.filter((one) => !one.startsWith('a customer came by a click'))).toEqual([])
    },
  )

  test.each(['API', 'Stripe'])('counts with the Stripe code if the %s reports the payment first', async (first) => {
    const shop = await createPromotedShop()
    const ledger = await createApiKey(db, shop.programId, 'sales')
    const byApi = async () =>
      recordSale(
        db,
        await apiKeyHash(`Bearer ${ledger}`),
        {
          ...noSale,
          transaction_id: 'pi_1',
          customer_key: 'user-1',
          click_id: shop.clickId,
          coupon: null,
          amount_cents: 10_000,
          currency: 'usd',
        },
        null,
        randomUUID(),
      ).catch((error: unknown) => expect(error).toMatchObject({ code: 'duplicate_transaction' }))
    const byStripe = () => bought(shop, 1, true)
    for (const report of first === 'API' ? [byApi, byStripe] : [byStripe, byApi]) await report()
    expect(await outcomeOf(shop)).toEqual([['pi_1', 'code', 2000]])
    const wrong = await findDifferences(sql, shop.programId)
    expect(wrong.filter((one) => !one.startsWith('a customer came by a click'))).toEqual([])
  })

  test("doesn't cause a request to Stripe if no program of the account has a Stripe code", async () => {
    const shop = await createShop(sql)
    stripe.calls.length = 0
    await send(shop, 'invoice.paid', { ...bill(shop), discounts: ['di_1'] })
    expect(await outcomeOf(shop)).toEqual([['in_1', 'first', 2000]])
    expect(stripeCalls()).toEqual([])
  })

  describe('a code that is created in Stripe', () => {
    const percent = { percent_off: 20, duration: 'once' } as const

    test('is deactivated in Stripe when it is revoked, and created again for the same partner', async () => {
      const shop = await createShop(sql)
      const code = await make(shop, shop.partnerId, 'NORA', percent)
      const promotion = stripe.promotions.get(code.promotion_code_id ?? '')
      expect(promotion).toMatchObject({ account: shop.account, body: { code: 'NORA', active: true } })
      await send(shop, 'checkout.session.completed', {
        ...oneTime({ ...shop, clickId: null, customerKey: null, email: null }, { metadata: {} }),
        discounts: [{ promotion_code: code.promotion_code_id }],
      })
      expect(await outcomeOf(shop)).toEqual([['pi_1', 'first', 2000]])
      expect((await revokePartnerCode(db, env, shop.programId, code.id)).revoked_at).not.toBeNull()
      expect(stripe.promotions.get(code.promotion_code_id ?? '')?.body).toMatchObject({ active: false })
      const again = await make(shop, shop.partnerId, 'nora', percent)
      expect(again).toMatchObject({ id: code.id, revoked_at: null })
      expect(again.promotion_code_id).not.toBe(code.promotion_code_id)
    })

    test.each<[string, (shop: TestShop, of: Awaited<ReturnType<typeof ownerOf>>) => Promise<void>]>([
      ['the program ends the partnership', ({ programId, partnerId }) => endPartnership(db, { programId, partnerId })],
      ['the partner does', ({ programId }, { userId }) => endPartnership(db, { programId, userId })],
      ['the partner erases their account', (_, { userId }) => erasePayee(db, 'key', userId)],
      ['the workspace is deleted', (_, { workspaceId }) => deleteWorkspace(db, env, workspaceId)],
    ])("is deactivated in Stripe after %s, even if Stripe doesn't answer at first", async (_what, end) => {
      const [shop, untouched] = [await createShop(sql), await createShop(sql)]
      const of = await ownerOf(shop)
      const [code, other] = [
        await make(shop, shop.partnerId, 'GONE', percent),
        await make(untouched, untouched.partnerId, 'GONE', percent),
      ]
      const isActive = ({ promotion_code_id: id }: typeof code) => stripe.promotions.get(id ?? '')?.body['active']
      const path = `/v1/promotion_codes/${code.promotion_code_id}`
      stripe.failing.set(path, 500)
      await end(shop, of)
      await applyParked.scheduled(undefined, { ...env, ...endpoint.env })
      expect(isActive(code)).toBe(true)
      stripe.failing.delete(path)
      stripe.calls.length = 0
      await applyParked.scheduled(undefined, { ...env, ...endpoint.env })
      await applyParked.scheduled(undefined, { ...env, ...endpoint.env })
      expect([isActive(code), isActive(other)]).toEqual([false, true])
      expect(stripe.calls.filter((call) => call.includes(path))).toHaveLength(1)
    })

    test('is deactivated before a deleted workspace loses its access to the account', async () => {
      const shop = await createShop(sql)
      const { workspaceId } = await ownerOf(shop)
      const { promotion_code_id: id } = await make(shop, shop.partnerId, 'GONE', percent)
      stripe.calls.length = 0
      await deleteWorkspace(db, { ...env, STRIPE_CLIENT_ID: 'ca_test' }, workspaceId)
      expect(stripe.calls).toEqual([`POST /v1/promotion_codes/${id} ${shop.account}`, 'POST /oauth/deauthorize'])
      expect(stripe.promotions.get(id ?? '')?.body).toMatchObject({ active: false })
    })

    test('is requested once if Stripe refuses', async () => {
      const shop = await createShop(sql)
      const { promotion_code_id: id } = await make(shop, shop.partnerId, 'GONE', percent)
      await endPartnership(db, shop)
      const path = `/v1/promotion_codes/${id}`
      stripe.failing.set(path, 403)
      stripe.calls.length = 0
      for (let run = 0; run < 2; run++) await applyParked.scheduled(undefined, { ...env, ...endpoint.env })
      stripe.failing.delete(path)
      expect(stripe.calls.filter((call) => call.includes(path))).toHaveLength(1)
    })

    test('is added by its id and belongs to one partner', async () => {
      const shop = await createShop(sql)
      stripe.promotions.set('promo_own', {
        account: shop.account,
        body: { id: 'promo_own', code: 'OWN', active: true },
      })
      expect(await make(shop, shop.partnerId, undefined, { promotion_code_id: 'promo_own' })).toMatchObject({
        code: 'OWN',
      })
      await expect(make(shop, shop.otherPartnerId, undefined, { promotion_code_id: 'promo_own' })).rejects.toThrow(
        'has this code',
      )
      await expect(make(await createShop(sql), 1, undefined, { promotion_code_id: 'promo_own' })).rejects.toThrow(
        'Stripe refused',
      )
      await expect(make(shop, shop.otherPartnerId, 'own', percent)).rejects.toThrow(
        'give it to the partner by its id, promo_own',
      )
    })

    test('is not left active in Stripe if it already belongs to another partner', async () => {
      const shop = await createShop(sql)
      await createPartnerCode(db, env, shop.programId, { partner_id: shop.partnerId, code: 'NORA' })
      await expect(make(shop, shop.otherPartnerId, 'NORA', percent)).rejects.toThrow('has this code')
      const left = [...stripe.promotions.values()].filter(
        ({ account, body }) =>
          account === shop.account && body['active'] === true && body['object'] === 'promotion_code',
      )
      expect(left).toEqual([])
    })

    test('is created once, even by concurrent requests', async () => {
      const shop = await createShop(sql)
      const first = await make(shop, shop.partnerId, 'NORA', percent)
      expect(await make(shop, shop.partnerId, 'NORA', percent)).toMatchObject({
        id: first.id,
        promotion_code_id: first.promotion_code_id,
      })
    })

    test.each([
      [403, 'Connect Stripe again'],
      [500, 'did not respond'],
    ])('is refused if Stripe answers %i', async (status, message) => {
      const shop = await createShop(sql)
      stripe.failing.set('/v1/coupons', status)
      const refused = await make(shop, shop.partnerId, 'NORA', percent).catch((error: unknown) => error)
      stripe.failing.delete('/v1/coupons')
      expect(refused).toBeInstanceOf(ApiError)
      expect(String(refused)).toContain(message)
      const { rows } = await sql.query('select from partner_codes where program_id = $1', [shop.programId])
      expect(rows).toEqual([])
    })
  })
})
