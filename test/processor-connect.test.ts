import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { wayToConnect } from '../functions/dashboard/program/stripe-connection.tsx'
import { createSandbox } from '../lib/local/sandbox.ts'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { checkoutSession, refund, stripeEvent } from '../lib/local/stripe-events.ts'
import {
  connectAddress,
  connectByCode,
  connectProcessor,
  disconnectProcessor,
  takeConnectState,
} from '../lib/processors/stripe/connect.ts'
import { ownAccount } from '../lib/processors/stripe/client.ts'
import { askOwnAccountCode, readOwnAccountState } from '../lib/processors/stripe/own-account.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startStack } from './support/stack.ts'
import { signatureOf } from './support/webhook.ts'

const stack = await startStack({ on: 'workers', functions: ['processor-webhook', 'relay-outbox', 'apply-retention'] })
const { db, sql } = stack
const stripe = await startLocalStripe()
afterAll(() => stripe.close())
const env = { STRIPE_SECRET_KEY: 'sk_test', STRIPE_API_URL: stripe.url, STRIPE_CLIENT_ID: 'ca_local' }
const callback = 'https://app.example.com/processor/callback'

test.each([
  ["Stripe's page if the deployment has one", { BASE_URL: 'http://127.0.0.1:1', STRIPE_CLIENT_ID: 'ca_1' }, 'consent'],
  ['a name at the emulator on this machine', { BASE_URL: 'http://127.0.0.1:1', STRIPE_API_URL: stripe.url }, 'name'],
  ['none for Stripe itself, even on this machine', { BASE_URL: 'http://127.0.0.1:1' }, undefined],
  [
    'none for the emulator in production',
    { BASE_URL: 'https://app.example.com', STRIPE_API_URL: stripe.url },
    undefined,
  ],
])('the way to connect an account is %s', (_what, deployment, way) => {
  expect(wayToConnect(deployment)).toBe(way)
})

async function stateFor(shop: TestShop, session: string) {
  const address = new URL(await connectAddress(db, env, shop.programId, session, callback))
  return { address, state: address.searchParams.get('state') ?? '' }
}

async function accountOf(shop: TestShop) {
  const { rows } = await sql.query('select processor_account_id as account from programs where id = $1', [
    shop.programId,
  ])
  return rows[0]?.account as string | null
}

async function post(event: object) {
  const body = JSON.stringify(event)
  const headers = { 'stripe-signature': await signatureOf(body, stack.environment.STRIPE_WEBHOOK_SECRET) }
  const response = await fetch(`${stack.baseUrl}/api/v1/webhooks/stripe`, { method: 'POST', headers, body })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

describe("connecting a program to its owner's Stripe account", () => {
  test('redirects to Stripe and back, and connects the account of the code', async () => {
    const shop = await createShop(sql)
    const { address, state } = await stateFor(shop, 'session-a')
    expect(address.origin + address.pathname).toBe('https://connect.stripe.com/oauth/authorize')
    expect(Object.fromEntries(address.searchParams)).toEqual({
      response_type: 'code',
      client_id: 'ca_local',
      scope: 'read_only',
      redirect_uri: callback,
      state,
    })
    expect(await takeConnectState(db, state, 'session-a')).toBe(shop.programId)
    stripe.accounts.set('ac_1', 'acct_connected')
    await connectByCode(db, env, shop.programId, 'ac_1')
    expect(await accountOf(shop)).toBe('acct_connected')
  })

  test.for<[string, (state: string) => Promise<[string, string]> | [string, string]]>([
    ['in another session', (state) => [state, 'session-b']],
    ['forged', (state) => [`${state.slice(0, -2)}xx`, 'session-a']],
    ['empty', () => ['', 'session-a']],
    [
      'used before',
      async (state) => {
        await takeConnectState(db, state, 'session-a')
        return [state, 'session-a']
      },
    ],
    [
      'from a failed attempt in another session',
      async (state) => {
        await takeConnectState(db, state, 'session-b')
        return [state, 'session-a']
      },
    ],
    [
      'after 15 minutes',
      async (state) => {
        await sql.query(`update processor_connect_states set expires_at = expires_at - interval '15 minutes'`)
        return [state, 'session-a']
      },
    ],
  ])('refuses a state %s', async ([, arrange]) => {
    const { state } = await stateFor(await createShop(sql), 'session-a')
    const [sent, session] = await arrange(state)
    expect(await takeConnectState(db, sent, session)).toBeUndefined()
  })

  test("refuses a code that Stripe doesn't know, and an account of another workspace", async () => {
    const shop = await createShop(sql)
    const other = await createShop(sql)
    await expect(connectByCode(db, env, shop.programId, 'ac_unknown')).rejects.toMatchObject({ code: 'conflict' })
    stripe.accounts.set('ac_2', other.account)
    await expect(connectByCode(db, env, shop.programId, 'ac_2')).rejects.toMatchObject({ code: 'conflict' })
    expect(await accountOf(shop)).toBe(shop.account)
  })

  test("disconnecting the account's last program revokes the access, even if Stripe doesn't answer", async () => {
    const shop = await createShop(sql)
    await sql.query(
      `insert into programs (workspace_id, name, domain) select workspace_id, 'Twin', 'shop.example.com' from programs where id = $1`,
      [shop.programId],
    )
    const { rows } = await sql.query('select max(id)::int as id from programs')
    await connectProcessor(db, rows[0]?.id, shop.account)
    const before = stripe.calls.length
    await disconnectProcessor(db, env, shop.programId)
    expect(stripe.calls.slice(before)).toEqual([])
    stripe.fail(400, 1)
    await disconnectProcessor(db, env, rows[0]?.id)
    expect(stripe.calls.slice(before)).toEqual(['POST /oauth/deauthorize'])
    expect(await accountOf(shop)).toBeNull()
  })
})

const named = { account: ownAccount, livemode: false }
const codeFor = async (key = 'sk_test_1', programId?: number) => {
  const { programId: id, dashboardToken: token } = await createSandbox(db, { ...stack.env, AUTH_SECRET: 'secret' })
  const of = programId ?? id
  await sql.query('update programs set processor_account_id = null where id = $1', [of])
  const { rows } = await sql.query<{ id: string }>('select user_id as id from sessions where token = $1', [
    token.split('.')[0],
  ])
  const userId = rows[0]?.id ?? ''
  await askOwnAccountCode(db, { STRIPE_SECRET_KEY: key }, of, userId)
  return { programId: of, userId, code: (await readOwnAccountState(db, of))?.code ?? '' }
}
const report = async (
  object: object,
  more: { account?: string; livemode?: boolean } = {},
  type = 'product.updated',
) => {
  const reported = {
    ...({} as TestShop),
    generation: 'new' as const,
    now: Math.floor(Date.now() / 1000),
    ...named,
    ...more,
  }
  return await post(
    stripeEvent(reported, `evt_${crypto.randomUUID()}`, type, { id: 'prod_1', object: 'product', ...object }),
  )
}
const coded = (code: string) => ({ metadata: { svc_connect_code: code } })
const connected = async () =>
  (await sql.query("select id::int from programs where processor_account_id = 'platform'")).rows.map(
    ({ id }) => id as number,
  )

describe("connecting the deployment's own account", () => {
  afterEach(async () => {
    await sql.query("update programs set processor_account_id = null where processor_account_id = 'platform'")
  })

  test.each(['product.created', 'product.updated'])('accepts %s with the code in its metadata once', async (type) => {
    const { programId, userId, code } = await codeFor()
    expect(await report(coded(code), {}, type)).toMatchObject({ status: 200, body: { outcome: 'recorded' } })
    expect(await connected()).toEqual([programId])
    const { rows } = await sql.query(
      "select user_id from audit_log where program_id = $1 and action = 'processor.connected' order by id desc limit 1",
      [programId],
    )
    expect(rows).toEqual([{ user_id: userId }])
    await disconnectProcessor(db, env, programId)
    expect(await report(coded(code), {}, type)).toMatchObject({ body: { outcome: 'ignored' } })
    expect(await connected()).toEqual([])
  })

  test.each<[string, (asked: { programId: number; userId: string; code: string }) => Promise<unknown>, string]>([
    ['of a connected account', ({ code }) => report(coded(code), { account: 'acct_attacker' }), 'connected account'],
    [
      'from an event that a buyer controls',
      ({ code }) => report({ name: code, description: code, client_reference_id: code }),
      '',
    ],
    ['of another type', ({ code }) => report(coded(code), {}, 'customer.created'), ''],
    ['with a guessed code', () => report(coded('x'.repeat(43))), ''],
    [
      "with a code that can't be stored",
      async () => expect(await report(coded('a\0b'))).toMatchObject({ status: 200, body: { outcome: 'ignored' } }),
      '',
    ],
    [
      'without a valid signature',
      async ({ code }) => {
        const body = JSON.stringify({
          id: 'evt_1',
          type: 'product.updated',
          livemode: false,
          created: 1,
          data: { object: coded(code) },
        })
        const headers = { 'stripe-signature': await signatureOf(body, 'whsec_guessed') }
        await fetch(`${stack.baseUrl}/api/v1/webhooks/stripe`, { method: 'POST', headers, body })
      },
      '',
    ],
    [
      'a day later',
      async ({ programId, code }) => {
        await sql.query(
          "update own_account_codes set expires_at = expires_at - interval '1 day' where program_id = $1",
          [programId],
        )
        await report(coded(code))
      },
      '',
    ],
    [
      'after a newer code was requested',
      async ({ programId, userId, code }) => {
        await askOwnAccountCode(db, { STRIPE_SECRET_KEY: 'sk_test_1' }, programId, userId)
        await report(coded(code))
      },
      '',
    ],
    [
      'created by a former owner',
      async ({ userId, code }) => {
        await sql.query("update workspace_members set role = 'admin' where user_id = $1", [userId])
        await report(coded(code))
      },
      'no longer an owner',
    ],
    [
      'while another program is connected to the account',
      async ({ code }) => {
        const first = await codeFor()
        await report(coded(first.code))
        await report(coded(code))
        await disconnectProcessor(db, env, first.programId)
      },
      'Another program',
    ],
  ])('refuses one %s', async (_what, attempt, refusal) => {
    const asked = await codeFor()
    await attempt(asked)
    expect(await connected()).toEqual([])
    expect((await readOwnAccountState(db, asked.programId))?.refusal ?? '').toContain(refusal)
  })

  test('accepts a test-mode event if the key is not a live one', async () => {
    const { programId, code } = await codeFor('rk_live_1')
    expect(await report(coded(code))).toMatchObject({
      body: { outcome: 'ignored', reason: expect.stringContaining('test mode') },
    })
    expect(await connected()).toEqual([])
    expect(await report(coded(code), { livemode: true })).toMatchObject({ body: { outcome: 'recorded' } })
    expect(await connected()).toEqual([programId])
  })

  test('connects only one program, even if several send their codes at once, and no page shows the account', async () => {
    const asked = []
    for (let number = 0; number < 5; number++) asked.push(await codeFor())
    const answers = await Promise.all(asked.map(({ code }) => report(coded(code))))
    expect(answers.map(({ body }) => String(body['outcome'])).toSorted()).toEqual([
      'ignored',
      'ignored',
      'ignored',
      'ignored',
      'recorded',
    ])
    const [winner] = await connected()
    const loser = asked.find(({ programId }) => programId !== winner)
    if (!loser) throw new Error('no program lost')
    const taken = { code: 'conflict', message: expect.stringContaining('connected to another program') }
    await expect(connectProcessor(db, loser.programId, ownAccount)).rejects.toMatchObject(taken)
    await expect(askOwnAccountCode(db, env, loser.programId, loser.userId)).rejects.toMatchObject(taken)
    await expect(
      sql.query("update programs set processor_account_id = 'platform' where id = $1", [loser.programId]),
    ).rejects.toMatchObject({ constraint: 'programs_own_account_key' })
  })

  test('the scheduled function deletes expired codes', async () => {
    await sql.query("update own_account_codes set expires_at = now() - interval '1 second'")
    await stack.scheduled('apply-retention')
    expect((await sql.query('select from own_account_codes')).rowCount).toBe(0)
  })
})

describe('the webhook in workerd', () => {
  test('records a sale and a refund, and sends their notifications', async () => {
    const shop = await createShop(sql)
    const sale = checkoutSession(shop, { id: 'cs_1', total: 10_000, payment_intent: 'pi_1' })
    expect(await post(stripeEvent(shop, 'evt_1', 'checkout.session.completed', sale))).toEqual({
      status: 200,
      body: { success: true, outcome: 'recorded', reason: null },
    })
    const refunded = refund(shop, { id: 're_1', amount: 2500, payment_intent: 'pi_1' })
    expect(await post(stripeEvent(shop, 'evt_2', 'refund.created', refunded))).toMatchObject({
      body: { outcome: 'recorded' },
    })
    await expect.poll(() => stack.queue.messages().length).toBe(1)
  })
})
