import { describe, expect, test } from 'vitest'
import type { Sandbox } from '../lib/local/sandbox.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { clickPath, leadPath, salePath, startTrackingApi, times } from './support/api.ts'

const api = await startTrackingApi({ functions: ['track-click', 'track-lead', 'track-sale'] })
const verified = await api.program({ lead_commission_cents: 250 })
const allowed = await api.program({ lead_auth_policy: 'browser_allowed', lead_commission_cents: 250 })
const key = { key: verified.apiKey }

const customerOf = async (clickId: string) =>
  (
    await api.rows(
      `select id, customer_key, customer_status, partner_id, link_id, click_id, signup_date, provisional_lead_at,
         encode(email_hash, 'hex') as email_hash
       from customers where click_id = $1`,
      [clickId],
    )
  )[0]
const eventsOf = (clickId: string) =>
  api.rows(
    `select e.id, e.customer_key, e.provisional, e.session_id, e.page_url, e.is_test from customers c
     join affiliate_lead_events e on e.program_id = c.program_id and e.customer_id = c.id where c.click_id = $1 order by e.lead_timestamp`,
    [clickId],
  )
/** Reads everything that a lead can change in the program. */
const state = async ({ programId }: Sandbox) =>
  (
    await api.rows(
      `select (select count(*)::int from affiliate_lead_events where program_id = $1) as events,
         (select count(*)::int from customers where program_id = $1 and customer_key is not null) as keys,
         (select count(*)::int from customers where program_id = $1 and customer_status = 'lead') as leads,
         (select coalesce(sum(leads), 0)::int from daily_totals where program_id = $1) as counted,
         (select count(*)::int from commissions where program_id = $1 and kind = 'lead') as commissions`,
      [programId],
    )
  )[0]
/** Moves a customer's latest click to a few seconds inside or outside the program's window of 30 days. */
const age = (clickId: string, seconds: number) =>
  api.stack.sql.query(
    `update customers set last_click_at = now() - interval '30 days' + make_interval(secs => $2) where click_id = $1`,
    [clickId, seconds],
  )

let users = 0
const email = (user: string) => `${user}@example.com`
const newUser = () => `user-${(users += 1)}`

describe('server lead', () => {
  test('with a click id is recorded and settled: status, signup date, event, pay per lead, count', async () => {
    const clickId = await api.click(verified)
    const before = await state(verified)
    const customer_key = newUser()
    const answer = await api.call(
      leadPath,
      { customer_key, click_id: clickId, session_id: 's', page_url: 'https://shop.example.com/signup' },
      key,
    )
    expect(answer).toMatchObject({ status: 200 })
    expect(answer.body).toEqual({
      success: true,
      lead_id: expect.any(Number),
      click_id: clickId,
      customer_status: 'lead',
    })
    expect(await customerOf(clickId)).toMatchObject({
      customer_key,
      customer_status: 'lead',
      signup_date: expect.any(Date),
    })
    expect(await eventsOf(clickId)).toEqual([
      {
        id: String(answer.body.lead_id),
        customer_key,
        provisional: false,
        session_id: 's',
        page_url: 'https://shop.example.com/signup',
        is_test: false,
      },
    ])
    expect(await state(verified)).toEqual({
      events: before.events + 1,
      keys: before.keys + 1,
      leads: before.leads + 1,
      counted: before.counted + 1,
      commissions: before.commissions + 1,
    })
    expect(
      await api.rows(
        `select m.amount_cents, m.currency, m.status from commissions m join customers c on c.id = m.customer_id where c.click_id = $1`,
        [clickId],
      ),
    ).toEqual([{ amount_cents: '250', currency: 'usd', status: 'pending' }])
  })

  test.for([['click_id'], ['clickId']] as const)('accepts %s', async ([field]) => {
    const clickId = await api.click(verified)
    const answer = await api.call(leadPath, { customer_key: newUser(), [field]: clickId }, key)
    expect(answer.body).toMatchObject({ click_id: clickId, customer_status: 'lead' })
  })

  test("a known customer key doesn't need a click id; a repeat gets 200, changes nothing and reports the duplicate", async () => {
    const clickId = await api.click(verified)
    const customer_key = newUser()
    const first = await api.call(leadPath, { customer_key, click_id: clickId }, key)
    const before = [await state(verified), await customerOf(clickId)]
    for (const click_id of [undefined, clickId, await api.click(verified)]) {
      const again = await api.call(leadPath, { customer_key, click_id, email: 'new@example.com' }, key)
      expect(again.body).toEqual({ ...first.body, duplicate: true })
    }
    expect([await state(verified), await customerOf(clickId)]).toEqual(before)
  })

  test('a known key takes precedence over a different click id', async () => {
    const [first, second] = [await api.click(verified), await api.click(verified)]
    const customer_key = newUser()
    await api.call(leadPath, { customer_key, click_id: first }, key)
    await api.call(leadPath, { customer_key, click_id: second }, key)
    expect(await customerOf(second)).toMatchObject({ customer_key: null, customer_status: 'click' })
  })

  test('a second person on one click becomes a second customer with the same link and partner', async () => {
    const clickId = await api.click(verified)
    const first = await api.call(leadPath, { customer_key: newUser(), click_id: clickId }, key)
    const second = await api.call(leadPath, { customer_key: newUser(), click_id: clickId }, key)
    expect(second.body).toMatchObject({ success: true, customer_status: 'lead' })
    expect(second.body.click_id).not.toBe(first.body.click_id)
    const [one, other] = [await customerOf(clickId), await customerOf(second.body.click_id)]
    expect(other).toMatchObject({ partner_id: one.partner_id, link_id: one.link_id })
  })

  test('the e-mail address is stored only as a keyed hash of its normalized form', async () => {
    const [one, other] = [await api.click(verified), await api.click(verified)]
    await api.call(leadPath, { customer_key: newUser(), click_id: one, email: ' Ann@Example.com ' }, key)
    await api.call(leadPath, { customer_key: newUser(), click_id: other, email: 'ann@example.com' }, key)
    const { email_hash } = await customerOf(one)
    expect(email_hash).toMatch(/^[0-9a-f]{64}$/)
    expect(await customerOf(other)).toMatchObject({ email_hash })
  })

  test('after a sale the lead still counts, and the status stays conversion', async () => {
    const clickId = await api.click(verified)
    const customer_key = newUser()
    await api.call(salePath, { transaction_id: customer_key, customer_key, click_id: clickId, amount_cents: 100 }, key)
    const before = await state(verified)
    const answer = await api.call(leadPath, { customer_key }, key)
    expect(answer.body).toMatchObject({ success: true, customer_status: 'conversion' })
    expect(answer.body).not.toHaveProperty('duplicate')
    expect((await state(verified)).counted).toBe(before.counted + 1)
  })

  test("a program without pay per lead doesn't create a commission", async () => {
    const unpaid = await api.program()
    await api.call(leadPath, { customer_key: 'u', click_id: await api.click(unpaid) }, { key: unpaid.apiKey })
    expect(await state(unpaid)).toMatchObject({ counted: 1, commissions: 0 })
  })

  describe('without a click id and without a known customer gets 400, and nothing is recorded', async () => {
    const foreign = await api.click(allowed)
    const expired = await api.click(verified)
    await age(expired, -1)
    test.for([
      ['no click id', {}],
      ['click id null', { click_id: null }],
      ['click id empty', { click_id: '', clickId: '' }],
      ['invalid click id', { click_id: 'abc' }],
      ['click id that was never issued', { click_id: `cust_1767225600000_${'1'.repeat(20)}${verified.programId}` }],
      ["another program's click id", { click_id: foreign }],
      ['click id a second outside the cookie window', { click_id: expired }],
    ] as const)('%s', async ([, fields]) => {
      const before = await state(verified)
      const answer = await api.call(leadPath, { customer_key: newUser(), email: 'a@example.com', ...fields }, key)
      expect(answer).toMatchObject({ status: 400, body: { error: { code: 'no_attribution' } } })
      expect(await state(verified)).toEqual(before)
    })
  })

  test('a click id just inside the cookie window is valid, and a new click restarts the window', async () => {
    const clickId = await api.click(verified)
    await age(clickId, 60)
    expect((await api.call(leadPath, { customer_key: newUser(), click_id: clickId }, key)).status).toBe(200)
    const renewed = await api.click(verified)
    await age(renewed, -60)
    await api.click(verified, { existing_click_id: renewed })
    expect((await api.call(leadPath, { customer_key: newUser(), click_id: renewed }, key)).status).toBe(200)
  })

  test.for([
    ["the key's own", () => verified.programId, 200],
    ['another', () => allowed.programId, 400],
  ] as const)('additional_data.program_id: %s', async ([, programId, status]) => {
    const body = {
      customer_key: newUser(),
      click_id: await api.click(verified),
      additional_data: { program_id: programId() },
    }
    const answer = await api.call(leadPath, body, key)
    expect(answer.status).toBe(status)
    if (status === 400) expect(answer.body.error.details).toMatchObject([{ field: 'additional_data.program_id' }])
  })
})

const created = (program: Sandbox) => `cust_1767225600000_${'2'.repeat(20)}${program.programId}`

describe('browser lead', () => {
  const browser = { headers: { origin: 'https://shop.example.com' } }

  test('on a server-verified program gets 200 provisional and does not settle, store the user id, count or pay', async () => {
    const clickId = await api.click(verified)
    const before = await state(verified)
    const body = {
      customer_key: newUser(),
      click_id: clickId,
      email: 'a@example.com',
      program_id: verified.programId,
    }
    const answer = await api.call(leadPath, body, browser)
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({
      success: true,
      lead_id: expect.any(Number),
      click_id: clickId,
      customer_status: 'click',
      provisional: true,
    })
    expect(await customerOf(clickId)).toMatchObject({
      customer_key: null,
      customer_status: 'click',
      signup_date: null,
      email_hash: null,
    })
    expect(await eventsOf(clickId)).toMatchObject([{ provisional: true, customer_key: null }])
    expect(await state(verified)).toEqual({ ...before, events: before.events + 1 })
  })

  test('a repeated browser signup of a provisional lead gets 200 provisional, and nothing changes', async () => {
    const clickId = await api.click(verified)
    const first = await api.call(leadPath, { customer_key: newUser(), click_id: clickId })
    const before = await state(verified)
    const again = await api.call(leadPath, { customer_key: newUser(), click_id: clickId })
    expect(again).toMatchObject({ status: 200, body: first.body })
    expect(await state(verified)).toEqual(before)
  })

  test('a server lead call settles a provisional lead, which then counts and pays per lead', async () => {
    const clickId = await api.click(verified)
    const customer_key = newUser()
    await api.call(leadPath, { customer_key, click_id: clickId })
    const before = await state(verified)
    const answer = await api.call(leadPath, { customer_key, click_id: clickId }, key)
    expect(answer.body).toMatchObject({ customer_status: 'lead', click_id: clickId })
    expect(answer.body).not.toHaveProperty('provisional')
    expect(await state(verified)).toMatchObject({
      counted: before.counted + 1,
      commissions: before.commissions + 1,
    })
  })

  test('a sale call does not settle a provisional lead', async () => {
    const clickId = await api.click(verified)
    const customer_key = newUser()
    await api.call(leadPath, { customer_key, click_id: clickId })
    const before = await state(verified)
    await api.call(salePath, { transaction_id: customer_key, customer_key, click_id: clickId, amount_cents: 100 }, key)
    expect(await customerOf(clickId)).toMatchObject({ signup_date: null, provisional_lead_at: expect.any(Date) })
    expect(await state(verified)).toMatchObject({ counted: before.counted, commissions: before.commissions })
  })

  test("a settled lead gets the same response as a provisional one, so that browsers can't find out", async () => {
    const clickId = await api.click(verified)
    await api.call(leadPath, { customer_key: newUser(), click_id: clickId }, key)
    const before = await state(verified)
    const answer = await api.call(leadPath, { customer_key: newUser(), click_id: clickId })
    expect(answer.body).toMatchObject({ success: true, customer_status: 'click', provisional: true })
    expect(await state(verified)).toEqual(before)
  })

  test('on a browser_allowed program is settled', async () => {
    const clickId = await api.click(allowed)
    const before = await state(allowed)
    const customer_key = newUser()
    const { body, status } = await api.call(leadPath, { customer_key, clickId })
    expect(status).toBe(200)
    expect(body).toEqual({ success: true, lead_id: expect.any(Number), click_id: clickId, customer_status: 'lead' })
    expect(await customerOf(clickId)).toMatchObject({ customer_key, signup_date: expect.any(Date) })
    expect(await state(allowed)).toMatchObject({ counted: before.counted + 1, commissions: before.commissions + 1 })
  })

  test('a repeated browser signup of a settled lead on browser_allowed gets 400 already_settled, and nothing changes', async () => {
    const clickId = await api.click(allowed)
    const body = { customer_key: newUser(), click_id: clickId }
    await api.call(leadPath, body)
    const before = await state(allowed)
    expect(await api.call(leadPath, body)).toMatchObject({
      status: 400,
      body: { error: { code: 'already_settled' } },
    })
    expect(await state(allowed)).toEqual(before)
  })

  describe('browser reports', async () => {
    const { code: squatterCode } = await addPartner(api.stack.db, {
      programId: allowed.programId,
      name: 'Squatter',
      email: null,
      code: null,
    })
    const allowedKey = { key: allowed.apiKey }
    /** Acts as a stranger who has guessed a key, clicks on their own link and signs up. */
    const squat = async (customer_key: string) => {
      const click_id = await api.click({ ...allowed, partnerCode: squatterCode })
      return await api.call(leadPath, { customer_key, click_id, email: email(customer_key) })
    }
    const sell = (customer_key: string, click_id?: string) =>
      api.call(
        salePath,
        { transaction_id: crypto.randomUUID(), customer_key, amount_cents: 1000, click_id },
        allowedKey,
      )
    /** Returns the partner codes and review flags of the commissions on a customer key's sales. */
    const paid = async (customerKey: string) =>
      (
        await api.rows(
          `select l.code, m.review_reason from sales s join commissions m on m.program_id = s.program_id and m.sale_id = s.id
           join referral_links l on l.partner_id = m.partner_id where s.program_id = $1 and s.customer_key = $2 order by s.id`,
          [allowed.programId, customerKey],
        )
      ).map(({ code, review_reason: review }) => [code === squatterCode ? 'squatter' : 'honest', review])

    const flagged = 'unverified_customer'
    const later: [string, (user: string) => Promise<unknown>, [partner: string, review: string | null][]][] = [
      [
        'a sale with only the key is attributed, and its first commission is flagged',
        (user) => sell(user),
        [['squatter', flagged]],
      ],
      [
        'a second sale is not flagged',
        async (user) => [await sell(user), await sell(user)],
        [
          ['squatter', flagged],
          ['squatter', null],
        ],
      ],
      [
        'a sale with a valid click takes over the key',
        async (user) => sell(user, await api.click(allowed)),
        [['honest', null]],
      ],
      [
        'a server lead with a valid click takes over the key for later sales',
        async (user) => {
          await api.call(leadPath, { customer_key: user, click_id: await api.click(allowed) }, allowedKey)
          await sell(user)
        },
        [['honest', null]],
      ],
      [
        "a server lead with only the key doesn't verify it",
        async (user) => {
          await api.call(leadPath, { customer_key: user, email: email(user) }, allowedKey)
          await sell(user)
          await sell(user, await api.click(allowed))
        },
        [
          ['squatter', flagged],
          ['honest', null],
        ],
      ],
      [
        "a sale with the click of another key's customer takes over the key for a second customer",
        async (user) => {
          const click_id = await api.click(allowed)
          await sell(newUser(), click_id)
          await sell(user, click_id)
        },
        [['honest', null]],
      ],
      [
        "a click outside the window doesn't take over the key",
        async (user) => {
          const click_id = await api.click(allowed)
          await age(click_id, -1)
          await sell(user, click_id)
        },
        [['squatter', flagged]],
      ],
      [
        "a refused duplicate doesn't take over the key",
        async (user) => {
          const sale = { transaction_id: crypto.randomUUID(), customer_key: user, amount_cents: 1000 }
          await api.call(salePath, sale, allowedKey)
          const again = await api.call(salePath, { ...sale, click_id: await api.click(allowed) }, allowedKey)
          expect(again.status).toBe(409)
          await sell(user)
        },
        [
          ['squatter', flagged],
          ['squatter', null],
        ],
      ],
    ]
    test.for(later)('%s', async ([, act, expected]) => {
      const user = newUser()
      expect((await squat(user)).status).toBe(200)
      await act(user)
      expect(await paid(user)).toEqual(expected)
    })

    test('are verified when the server sends the click id of the same customer', async () => {
      const [user, click_id] = [newUser(), await api.click(allowed)]
      await api.call(leadPath, { customer_key: user, click_id, email: email(user) })
      const unverified =
        'select key_unverified_since as key, email_unverified_since as email from customers where click_id = $1'
      expect(await api.rows(unverified, [click_id])).toEqual([{ key: expect.any(Date), email: expect.any(Date) }])
      const server = { customer_key: user, click_id, email: email(user) }
      expect((await api.call(leadPath, server, allowedKey)).body).toMatchObject({ click_id, duplicate: true })
      expect(await api.rows(unverified, [click_id])).toEqual([{ key: null, email: null }])
      await squat(user)
      await sell(user)
      expect(await paid(user)).toEqual([['honest', null]])
    })

    test('flag the commission if only a browser reported the signup', async () => {
      const { body } = await squat(newUser())
      const [commission] = await api.rows(
        `select m.review_reason from commissions m join customers c on c.program_id = m.program_id and c.id = m.customer_id where c.click_id = $1`,
        [body.click_id],
      )
      expect(commission).toEqual({ review_reason: flagged })
    })

    test('the response shows only its own click, whether the key is known or not, and the other customer stays unchanged', async () => {
      const victim = { user: newUser(), click: await api.click(allowed) }
      await api.call(
        leadPath,
        { customer_key: victim.user, click_id: victim.click, email: email(victim.user) },
        allowedKey,
      )
      await sell(victim.user)
      const before = await customerOf(victim.click)
      const [guessed, unknown] = [await squat(victim.user), await squat(newUser())]
      const form = { success: true, lead_id: expect.any(Number), click_id: expect.any(String), customer_status: 'lead' }
      expect([guessed.body, unknown.body]).toEqual([form, form])
      expect(guessed.body.click_id).not.toBe(victim.click)
      expect(await customerOf(victim.click)).toEqual(before)
      // Neither the key nor the address is stored a second time.
      expect(await customerOf(guessed.body.click_id)).toMatchObject({ customer_key: null, email_hash: null })
      await sell(victim.user)
      expect(await paid(victim.user)).toEqual([
        ['honest', null],
        ['honest', null],
      ])
    })

    test('twenty signups of one key on separate clicks settle twenty leads, and one has the key', async () => {
      const clickIds = await Promise.all(times(20, () => api.callAll(clickPath, [clickOf(allowed)])))
      const customer_key = newUser()
      const before = await state(allowed)
      const answers = await api.callAll(
        leadPath,
        clickIds.map(([answer]) => ({ customer_key, click_id: answer?.body.click_id })),
      )
      expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
      expect(await state(allowed)).toMatchObject({ keys: before.keys + 1, counted: before.counted + 20 })
    })

    test('simultaneous sales that swap two keys are all recorded', async () => {
      for (let round = 0; round < 5; round++) {
        const keys = [newUser(), newUser()]
        const clicks: string[] = []
        for (const user of keys) clicks.push((await squat(user)).body.click_id)
        const bodies = times(10, (n) => ({
          transaction_id: crypto.randomUUID(),
          customer_key: keys[n % 2],
          click_id: clicks[(n + 1) % 2],
          amount_cents: 1000,
        }))
        const answers = await api.callAll(salePath, bodies, allowedKey)
        expect(answers.map(({ status }) => status)).toEqual(times(10, () => 200))
      }
    })
  })

  describe('gets 400, and nothing is recorded', async () => {
    const click = { verified: await api.click(verified), allowed: await api.click(allowed) }
    const expired = { verified: await api.click(verified), allowed: await api.click(allowed) }
    await Promise.all(Object.values(expired).map((clickId) => age(clickId, -1)))
    await api.call(leadPath, { customer_key: 'known', click_id: await api.click(allowed) })
    test.for([
      ['no click id', {}, 'no_attribution'],
      ['invalid click id', { click_id: 'x' }, 'no_attribution'],
      ['click id that was never issued, server-verified', { click_id: created(verified) }, 'no_attribution'],
      ['click id that was never issued, browser_allowed', { click_id: created(allowed) }, 'no_attribution'],
      [
        'click id that was never issued with a known key',
        { click_id: created(allowed), customer_key: 'known' },
        'no_attribution',
      ],
      ['outside the window, server-verified', { click_id: expired.verified }, 'no_attribution'],
      ['outside the window, browser_allowed', { click_id: expired.allowed }, 'no_attribution'],
      ['program_id of another program', { click_id: click.verified, program_id: allowed.programId }, 'invalid_request'],
      ['customer_key missing', { click_id: click.verified, customer_key: undefined }, 'invalid_request'],
    ] as const)('%s', async ([, fields, code]) => {
      const before = [await state(verified), await state(allowed)]
      const answer = await api.call(leadPath, { customer_key: newUser(), ...fields })
      expect(answer).toMatchObject({ status: 400, body: { error: { code } } })
      expect([await state(verified), await state(allowed)]).toEqual(before)
    })
  })

  test('any Authorization header means a server lead: an invalid one gets 401 and never becomes a browser lead', async () => {
    const click_id = await api.click(allowed)
    const before = await state(allowed)
    for (const authorization of ['Bearer', 'Bearer nonsense', 'Basic YTpi']) {
      const answer = await api.call(leadPath, { customer_key: newUser(), click_id }, { headers: { authorization } })
      expect(answer).toMatchObject({ status: 401, body: { error: { code: 'unauthorized' } } })
    }
    expect(await state(allowed)).toEqual(before)
  })
})

describe('test lead', () => {
  const test_mode = true
  test.for([
    ['from the server, no click id', key, {}, verified],
    ['from the server, program_id of the key', key, { additional_data: { program_id: verified.programId } }, verified],
    ['from the browser, program_id', {}, { additional_data: { program_id: allowed.programId } }, allowed],
    ['from the browser, program_id outside additional_data', {}, { program_id: verified.programId }, verified],
    [
      'from the browser, click id',
      {},
      { click_id: `cust_1767225600000_${'3'.repeat(20)}${verified.programId}` },
      verified,
    ],
  ] as const)('%s: an event with is_test and nothing else', async ([, options, fields, program]) => {
    const before = await state(program)
    const additional_data = { test_mode, ...('additional_data' in fields ? fields.additional_data : {}) }
    const answer = await api.call(leadPath, { customer_key: newUser(), ...fields, additional_data }, options)
    expect(answer).toMatchObject({
      status: 200,
      body: { success: true, lead_id: expect.any(Number), customer_status: 'lead', test_mode: true },
    })
    expect(await state(program)).toEqual({ ...before, events: before.events + 1 })
    expect(
      await api.rows(`select is_test, customer_id, program_id::int from affiliate_lead_events where id = $1`, [
        answer.body.lead_id,
      ]),
    ).toEqual([{ is_test: true, customer_id: null, program_id: program.programId }])
  })

  test.for([
    ["from the server, another program's id", key, { program_id: allowed.programId }],
    ['from the browser, no program', {}, {}],
    ['from the browser, missing program', {}, { program_id: 999_999_999 }],
  ] as const)('400 %s', async ([, options, data]) => {
    const answer = await api.call(
      leadPath,
      { customer_key: newUser(), additional_data: { test_mode, ...data } },
      options,
    )
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
  })
})

describe('simultaneous leads', () => {
  test('twenty of one key on one click are one lead', async () => {
    const clickId = await api.click(verified)
    const before = await state(verified)
    const body = { customer_key: newUser(), click_id: clickId }
    const answers = await api.callAll(
      leadPath,
      times(20, () => body),
      key,
    )
    expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
    expect(answers.filter((answer) => !('duplicate' in answer.body))).toHaveLength(1)
    expect(new Set(answers.map((answer) => answer.body.lead_id)).size).toBe(1)
    expect(await state(verified)).toEqual({
      events: before.events + 1,
      keys: before.keys + 1,
      leads: before.leads + 1,
      counted: before.counted + 1,
      commissions: before.commissions + 1,
    })
  })

  test('twenty of one key on separate clicks are one lead', async () => {
    const clickIds = await Promise.all(times(20, () => api.callAll(clickPath, [clickOf(verified)])))
    const before = await state(verified)
    const customer_key = newUser()
    const bodies = clickIds.map(([answer]) => ({ customer_key, click_id: answer?.body.click_id }))
    const answers = await api.callAll(leadPath, bodies, key)
    expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
    expect(await state(verified)).toMatchObject({ keys: before.keys + 1, counted: before.counted + 1 })
  })

  test('twenty keys on one click are twenty customers of its partner', async () => {
    const clickId = await api.click(verified)
    const before = await state(verified)
    const answers = await api.callAll(
      leadPath,
      times(20, () => ({ customer_key: newUser(), click_id: clickId })),
      key,
    )
    expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
    expect(new Set(answers.map((answer) => answer.body.click_id)).size).toBe(20)
    expect(await state(verified)).toMatchObject({ keys: before.keys + 20, counted: before.counted + 20 })
  })

  test('twenty browser signups on browser_allowed: one settles, the others get 400 already_settled', async () => {
    const body = { customer_key: newUser(), click_id: await api.click(allowed) }
    const answers = await api.callAll(
      leadPath,
      times(20, () => body),
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.filter((answer) => answer.body.error?.code === 'already_settled')).toHaveLength(19)
  })

  test('twenty provisional signups are one event', async () => {
    const clickId = await api.click(verified)
    await api.callAll(
      leadPath,
      times(20, () => ({ customer_key: newUser(), click_id: clickId })),
    )
    expect(await eventsOf(clickId)).toHaveLength(1)
  })
})

function clickOf(program: Sandbox) {
  return { affiliate_url: `https://shop.example.com/?aff=${program.partnerCode}` }
}
