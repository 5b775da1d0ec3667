import { describe, expect, test } from 'vitest'
import { clickPath, goodCalls, leadPath, refundPath, salePath, startTrackingApi } from './support/api.ts'

const api = await startTrackingApi()
const program = await api.program()
const { goodBody, keyOf } = goodCalls(api, program)
const paths = [clickPath, leadPath, salePath, refundPath]

describe('unknown fields', () => {
  test.for(paths)('%s lists them and otherwise responds as without them', async (path) => {
    const body = await goodBody(path)
    const plain = await api.call(path, await goodBody(path), keyOf(path))
    const { status, body: answer } = await api.call(path, { ...body, foo: 1, toString: null, '😀': [] }, keyOf(path))
    expect(status).toBe(200)
    expect(answer.ignored_fields.toSorted()).toEqual(['foo', 'toString', '😀'])
    expect(Object.keys(plain.body)).not.toContain('ignored_fields')
    expect(Object.keys(answer).filter((name) => name !== 'ignored_fields')).toEqual(Object.keys(plain.body))
  })

  test('are limited to twenty names of 100 characters', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `${index}`.padEnd(200, 'x'))
    const unknown = Object.fromEntries(names.map((name) => [name, 1]))
    const { body } = await api.call(clickPath, { ...(await goodBody(clickPath)), ...unknown })
    expect(body.ignored_fields).toEqual(names.slice(0, 20).map((name) => name.slice(0, 100)))
  })

  test('are also listed for a test click and a browser lead', async () => {
    const additional_data = { test_mode: true, program_id: program.programId }
    const affiliate_url = 'https://shop.example.com/?aff=x'
    const click = await api.call(clickPath, { affiliate_url, additional_data, program: 1 })
    expect(click.body).toMatchObject({ message: expect.any(String), ignored_fields: ['program'] })
    const lead = await api.call(leadPath, { ...(await goodBody(leadPath)), user: 1 })
    expect(lead.body).toMatchObject({ provisional: true, ignored_fields: ['user'] })
  })
})

describe('a refund with an amount in an unknown field', () => {
  test.for([
    ['amount'],
    ['amount_cents'],
    ['refund_amount'],
    ['amountCents'],
    ['refundAmountCents'],
    ['amount_cents', 'refund_amount_cents'],
  ])('is refused and changes nothing: %s', async (names) => {
    const { transaction_id } = await goodBody(refundPath)
    const fields = Object.fromEntries(names.map((name) => [name, 100]))
    const { status, body } = await api.call(refundPath, { transaction_id, ...fields }, { key: program.apiKey })
    const message = `must be sent instead of ${names[0]}`
    expect([status, body.error.code, body.error.details]).toEqual([
      400,
      'invalid_request',
      [{ field: 'refund_amount_cents', message }],
    ])
    expect(await api.rows('select refunded_cents::int from sales where transaction_id = $1', [transaction_id])).toEqual(
      [{ refunded_cents: 0 }],
    )
  })

  test('gets 401 before 400', async () => {
    const { status } = await api.call(refundPath, { transaction_id: 'x', amount: 1 }, { key: 'svc_live_unknown' })
    expect(status).toBe(401)
  })
})

describe('a sale without a currency', () => {
  test("uses the program's currency", async () => {
    const euros = await api.program({ currency: 'eur' })
    const key = { key: euros.apiKey }
    const click_id = await api.click(euros)
    const sale = { transaction_id: 'o-1', customer_key: 'u-1', click_id, amount_cents: 1000 }
    const { body } = await api.call(salePath, sale, key)
    expect(body).toMatchObject({ attributed: true, currency: 'eur', commission_cents: 200 })
    expect(body).not.toHaveProperty('warning')
    expect(await api.rows("select currency from sales where transaction_id = 'o-1'")).toEqual([{ currency: 'eur' }])
    const repeat = await api.call(salePath, { ...sale, currency: 'EUR' }, key)
    expect(repeat.body.error).toMatchObject({ code: 'duplicate_transaction', same_payload: true })
    const dollars = await api.call(salePath, { ...sale, transaction_id: 'o-2', currency: 'usd' }, key)
    expect(dollars.body).toMatchObject({ currency: 'usd', warning: expect.stringContaining('correct_currency') })
    const right = { ...sale, transaction_id: 'o-2', amount_cents: 900, correct_currency: true }
    const corrected = await api.call(salePath, right, key)
    expect(corrected).toMatchObject({
      status: 200,
      body: {
        sale_id: dollars.body.sale_id,
        currency: 'eur',
        commission_id: dollars.body.commission_id,
        commission_cents: 180,
      },
    })
    expect((await api.call(salePath, right, key)).body.error).toMatchObject({ same_payload: true })
    await api.rows('select credit_commissions(array[program_id], array[id]) from commissions')
    const late = await api.call(salePath, { ...right, currency: 'usd' }, key)
    expect(late).toMatchObject({ status: 409, body: { error: { code: 'duplicate_transaction' } } })
    expect(await api.rows("select currency, amount_cents::int from sales where transaction_id = 'o-2'")).toEqual([
      { currency: 'eur', amount_cents: 900 },
    ])
  })
})

const taxedSale = async (fields: Record<string, unknown>) =>
  await api.call(salePath, { ...(await goodBody(salePath)), amount_cents: 1190, ...fields }, { key: program.apiKey })

describe('the tax of a sale', () => {
  test.for([[{ tax: 190 }], [{ tax_cents: 190 }], [{ tax_cents: 190, tax: 0 }]] as const)(
    "%o doesn't earn commission",
    async ([fields]) => {
      const { body } = await taxedSale(fields)
      expect(body).toMatchObject({ success: true, commission_cents: 200 })
      expect(body).not.toHaveProperty('ignored_fields')
    },
  )

  test.for([[{ tax: 1191 }], [{ tax: -1 }], [{ tax: 1.5 }], [{ tax: '190' }]] as const)(
    '%o is refused',
    async ([fields]) => {
      const { status, body } = await taxedSale(fields)
      expect([status, body.error.code]).toEqual([400, 'invalid_request'])
    },
  )
})

describe('text that Postgres cannot store, and text over the limit,', () => {
  const texts = {
    [clickPath]: ['page_title', 'session_id', 'user_agent', 'language', 'timezone', 'existing_click_id', 'page_url'],
    [leadPath]: ['customer_key', 'click_id', 'clickId', 'email', 'session_id', 'page_url'],
    [salePath]: [
      'transaction_id',
      'customer_key',
      'coupon',
      'sale_type',
      'saleType',
      'subscription_id',
      'subscriptionId',
      'currency',
    ],
    [refundPath]: ['transaction_id', 'refund_id', 'refund_reason', 'reason', 'status'],
  }
  const wrong: [name: string, text: string][] = [
    ['NUL', 'a\0'],
    ['a lone surrogate', 'a\ud83d'],
    ['9,000 characters', 'x'.repeat(9000)],
  ]
  test.for(
    Object.entries(texts).flatMap(([path, fields]) =>
      fields.flatMap((field) => wrong.map(([name, text]) => [path, field, name, text] as const)),
    ),
  )('%s: %s with %s is refused or ignored', async ([path, field, name, text]) => {
    const { status, body } = await api.call(path, { ...(await goodBody(path)), [field]: text }, keyOf(path))
    if (field === 'status' && name.startsWith('9')) expect(body.ignored_fields).toEqual(['status'])
    else expect([status, body.error?.code]).toEqual([400, 'invalid_request'])
  })
})

describe('the stored text of a call without a key', () => {
  const eventColumns =
    'session_id, affiliate_url, page_url, page_title, referrer_url, user_agent, language, timezone, campaign::text as campaign'

  test('is at most 2 KB for a click, whatever it sends', async () => {
    const address = `https://shop.example.com/${'é'.repeat(500)}`
    const campaign = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content', 'sub1', 'sub2', 'sub3']
    const query = campaign.map((name) => `${name}=${'ü'.repeat(200)}`).join('&')
    const { body } = await api.call(clickPath, {
      affiliate_url: `${address}?aff=${program.partnerCode}&${query}`,
      page_url: `${address}?${query}`,
      referrer_url: `${address}?${query}`,
      session_id: 's'.repeat(255),
      page_title: 't'.repeat(1024),
      user_agent: 'u'.repeat(2048),
      language: 'l'.repeat(64),
      timezone: 'z'.repeat(64),
    })
    const [stored] = await api.rows(`select ${eventColumns} from affiliate_click_events where click_id = $1`, [
      body.click_id,
    ])
    const bytes = Object.values(stored ?? {}).map((text) => Buffer.byteLength(String(text)))
    for (const part of ['affiliate_url', 'page_url', 'referrer_url', 'user_agent'])
      expect(stored?.[part]).toMatch(/.{50}/)
    // The service's own names for campaign values don't count.
    expect(bytes.reduce((sum, one) => sum + one)).toBeLessThanOrEqual(2048 + campaign.join('": "",').length)
  })

  test('contains an address without its unused parameters', async () => {
    const page = 'https://shop.example.com/pricing'
    const { body } = await api.call(clickPath, {
      affiliate_url: `${page}?token=secret&aff=${program.partnerCode}&gclid=ad&sub1=a&resub1=b#access_token=secret`,
      page_url: `${page}?email=ann@example.com&utm_source=mail`,
      referrer_url: `${page}#secret`,
    })
    const lead = await api.call(leadPath, {
      customer_key: 'u',
      click_id: body.click_id,
      page_url: `${page}?token=secret`,
    })
    expect(lead.status).toBe(200)
    expect(
      await api.rows(
        `select e.affiliate_url, e.page_url, e.referrer_url, l.page_url as lead_page
        from affiliate_click_events e join affiliate_lead_events l using (customer_id) where e.click_id = $1`,
        [body.click_id],
      ),
    ).toEqual([
      {
        affiliate_url: `${page}?aff=${program.partnerCode}&gclid=ad&sub1=a`,
        page_url: `${page}?utm_source=mail`,
        referrer_url: page,
        lead_page: page,
      },
    ])
  })
})
