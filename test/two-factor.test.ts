import { createServer } from 'node:http'
import { afterAll, describe, expect, test, vi } from 'vitest'
import auth from '../functions/auth.ts'
import { addMember } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { createWorkspace } from '../lib/programs/workspaces.ts'
import { refusalIn } from './support/refusal.ts'
import { startStack } from './support/stack.ts'
import { totp } from './support/totp.ts'
import { inNoWorker, newEmail, password, peopleOf } from './support/people.ts'

const stack = await startStack({
  functions: ['auth', 'dashboard', 'relay-outbox', 'apply-retention', 'tracking-performance'],
  environment: {
    GITHUB_CLIENT_ID: 'github-client',
    GOOGLE_CLIENT_ID: 'google-client',
  },
  common: { GITHUB_CLIENT_SECRET: 'secret', GOOGLE_CLIENT_SECRET: 'secret' },
})
const { env, call, signUp, signedInPerson, isSignedIn, mailedLink, post, isVerified, get } = peopleOf(stack)

/** Returns the session in an answer's cookies. */
function sessionIn(headers: Headers) {
  const cookie = headers.getSetCookie().find((text) => text.startsWith('__Host-svc_session='))
  return decodeURIComponent(/=([^;]*)/.exec(cookie ?? '')?.[1] ?? '')
}

/** Creates a person with two-factor codes. Returns the key for their app and their recovery codes. */
async function personWithCodes() {
  const person = await signedInPerson()
  const page = await (await post('/account/two-factor', person.token, { password })).text()
  const key = /aria-label="key for the app">\s*([A-Z2-7=]+)/.exec(page)?.[1] ?? ''
  const recoveryCodes = page.match(/\b[A-Za-z0-9]{5}-[A-Za-z0-9]{5}\b/g) ?? []
  const confirmed = await post('/account/two-factor/confirm', person.token, { code: totp(key) })
  return { ...person, key, recoveryCodes: [...new Set(recoveryCodes)], page, token: sessionIn(confirmed.headers) }
}

/** Signs in with a password and returns the cookie of the pending sign-in. */
async function beginSignIn(email: string) {
  const response = await post('/sign-in?next=/account', undefined, { email, password })
  const [cookie = ''] =
    response.headers
      .getSetCookie()
      .find((text) => text.includes('two_factor='))
      ?.split(';') ?? []
  return { location: response.headers.get('location'), cookie, session: sessionIn(response.headers) }
}

const wrongCode = expect.stringContaining('This code is wrong or was already used.')

async function giveCode(cookie: string, code: string) {
  const response = await fetch(`${stack.baseUrl}/two-factor?next=/account`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin: stack.baseUrl, cookie },
    body: new URLSearchParams({ code }),
  })
  return { refusal: refusalIn(response.headers), session: sessionIn(response.headers) }
}

test('with two-factor codes the password alone is not enough, and a code from the app signs in', async () => {
  const { email, key, page, recoveryCodes, token } = await personWithCodes()
  expect(page).toContain('<svg')
  expect(recoveryCodes).toHaveLength(10)
  expect((await get('/account/two-factor', token)).text).toContain('Disable two-factor codes')
  const { location, cookie, session } = await beginSignIn(email)
  expect([location, session]).toEqual(['/two-factor?next=%2Faccount', ''])
  const byApi = await call('sign-in/email', { email, password })
  expect([byApi.answer.token, byApi.headers.get('set-auth-token')]).toEqual([undefined, null])
  expect(await giveCode(cookie, '000000')).toMatchObject({ refusal: wrongCode, session: '' })
  expect(await giveCode('', totp(key))).toMatchObject({ refusal: wrongCode, session: '' })
  const right = await giveCode(cookie, totp(key))
  expect([right.refusal, await isSignedIn(right.session)]).toEqual(['', true])
  const { rows } = await stack.sql.query(
    'select secret, backup_codes from two_factors t join users u on u.id = t.user_id where email = $1',
    [email],
  )
  for (const plain of [key, recoveryCodes[0] ?? '']) expect(JSON.stringify(rows)).not.toContain(plain)
})

test('a code from the app signs in once, even if two sign-ins use it at once', async () => {
  const { email, key } = await personWithCodes()
  const begun = [await beginSignIn(email), await beginSignIn(email), await beginSignIn(email)]
  const code = totp(key)
  const answers = await Promise.all(begun.map(async ({ cookie }) => await giveCode(cookie, code)))
  expect(answers.map(({ refusal }) => refusal).toSorted()).toEqual(['', wrongCode, wrongCode])
  const sessions = await Promise.all(answers.map(async ({ session }) => await isSignedIn(session)))
  expect(sessions.filter(Boolean)).toHaveLength(1)
})

/** Signs in through the API and returns the pending sign-in. */
async function beginByApi(email: string, more: string[] = []) {
  const { headers, answer } = await call(
    'sign-in/email',
    { email, password },
    { cookie: more.join('; '), origin: stack.baseUrl },
  )
  return { cookie: cookiesIn(headers).find((text) => text.includes('two_factor=')) ?? '', answer }
}

const cookiesIn = (headers: Headers) => headers.getSetCookie().map((text) => text.split(';')[0] ?? '')

test('a code also signs in once through the API, and a refused one leaves nothing behind', async () => {
  const { email, key } = await personWithCodes()
  const code = totp(key)
  const begun = []
  for (let number = 0; number < 4; number++) begun.push((await beginByApi(email)).cookie)
  const [first = '', ...later] = begun
  const verify = async (cookie: string, more = {}) =>
    await call('two-factor/verify-totp', { code, ...more }, { cookie, origin: stack.baseUrl })
  const right = await verify(first)
  expect([right.status, await isSignedIn(right.answer.token ?? '')]).toEqual([200, true])
  for (const more of [{}, { trustDevice: true }]) {
    const { status, headers, answer } = await verify(later.pop() ?? '', more)
    expect([status, answer.error?.code, answer.token, headers.get('set-auth-token'), cookiesIn(headers)]).toEqual([
      401,
      'unauthorized',
      undefined,
      null,
      [],
    ])
  }
  expect(await giveCode((await beginSignIn(email)).cookie, code)).toEqual({ refusal: wrongCode, session: '' })
  const { rows } = await stack.sql.query(
    'select count(*)::int from sessions s join users u on u.id = s.user_id where email = $1',
    [email],
  )
  expect(rows).toEqual([{ count: 2 }])
})

test('no device can sign in without a code, whatever it requests', async () => {
  const { email, key } = await personWithCodes()
  const { cookie } = await beginByApi(email)
  const right = await call(
    'two-factor/verify-totp',
    { code: totp(key), trustDevice: true },
    { cookie, origin: stack.baseUrl },
  )
  expect(right.status).toBe(200)
  const { answer } = await beginByApi(email, cookiesIn(right.headers))
  expect([answer.token, answer]).toEqual([undefined, expect.objectContaining({ twoFactorRedirect: true })])
})

test.each([
  ['setting up two-factor codes again while they are enabled', true, '/account/two-factor', { password }],
  [
    'a request for recovery codes while two-factor codes are disabled',
    false,
    '/account/two-factor/recovery-codes',
    { recovery_password: password },
  ],
])('%s is refused and leaves the codes unchanged', async (_what, isOn, path, fields) => {
  const { email, token } = isOn ? await personWithCodes() : await signedInPerson()
  const codes = async () =>
    (
      await stack.sql.query(
        'select secret, backup_codes from two_factors t join users u on u.id = t.user_id where u.email = $1',
        [email],
      )
    ).rows
  const before = await codes()
  expect((await post(path, token, fields)).status).toBe(409)
  expect(await codes()).toEqual(before)
})

test('a recovery code works once, in any spelling, and new codes replace the old ones', async () => {
  const { email, recoveryCodes, token } = await personWithCodes()
  const [first = '', second = '', third = ''] = recoveryCodes
  expect(recoveryCodes.join('')).toMatch(/^[-0-9a-hjkmnp-tv-z]+$/)
  const misread = first.toUpperCase().replaceAll('0', 'O').replaceAll('1', 'I').replace('-', ' ')
  const used = await giveCode((await beginSignIn(email)).cookie, misread)
  expect([used.refusal, await isSignedIn(used.session)]).toEqual(['', true])
  expect((await giveCode((await beginSignIn(email)).cookie, first)).refusal).toEqual(wrongCode)
  // Of several sign-ins at once, at most one gets in with a code, and the others can try again.
  const begun = await Promise.all([0, 1, 2].map(() => beginSignIn(email)))
  const atOnce = await Promise.all(
    begun.map(async ({ cookie }) => {
      const response = await fetch(`${stack.baseUrl}/api/auth/two-factor/verify-backup-code`, {
        method: 'POST',
        headers: { origin: stack.baseUrl, cookie, 'content-type': 'application/json' },
        body: JSON.stringify({ code: second }),
      })
      return response.status
    }),
  )
  expect(atOnce.toSorted((a, b) => a - b)).toEqual([200, expect.toBeOneOf([401, 409]), expect.toBeOneOf([401, 409])])
  const refused = await post('/account/two-factor/recovery-codes', token, { recovery_password: 'x' })
  expect(refusalIn(refused.headers)).toContain('This is not your password.')
  expect((await post('/account/two-factor/recovery-codes', token, { recovery_password: password })).status).toBe(200)
  expect((await giveCode((await beginSignIn(email)).cookie, third)).refusal).toEqual(wrongCode)
})

test('after five wrong codes people have to sign in again, and after ten in a row no code works for a quarter of an hour', async () => {
  const { email, key } = await personWithCodes()
  for (let round = 0; round < 2; round++) {
    const { cookie } = await beginSignIn(email)
    for (let attempt = 0; attempt < 5; attempt++) await giveCode(cookie, '000000')
    expect(await giveCode(cookie, totp(key))).toMatchObject({ session: '' })
  }
  const { cookie } = await beginSignIn(email)
  const refused = await giveCode(cookie, totp(key))
  expect(refused).toEqual({ refusal: expect.stringContaining('Too many attempts'), session: '' })
  await stack.sql.query(
    "update two_factors set locked_until = now() - interval '1 second' where user_id = (select id from users where email = $1)",
    [email],
  )
  expect((await giveCode((await beginSignIn(email)).cookie, totp(key))).refusal).toBe('')
})

test('the password disables two-factor codes', async () => {
  const { email, token } = await personWithCodes()
  const refused = await post('/account/two-factor/off', token, { off_password: 'a wrong horse' })
  expect(refusalIn(refused.headers)).toContain('This is not your password.')
  expect((await beginSignIn(email)).session).toBe('')
  expect((await post('/account/two-factor/off', token, { off_password: password })).status).toBe(303)
  expect(await isSignedIn((await beginSignIn(email)).session)).toBe(true)
})

test("an account with an unconfirmed address can't enable two-factor codes, which would lock out the address's owner", async () => {
  const { email, token } = await signedInPerson()
  await stack.sql.query('update users set email_verified = false where email = $1', [email])
  expect((await post('/account/two-factor', token, { password })).status).toBe(403)
})

test('every page of a workspace that requires codes redirects a member without them to the setup', async () => {
  const sandbox = await createSandbox(stack.db, env)
  const page = `/workspaces/${sandbox.workspaceId}/members`
  const demand = async () => await post(`${page}/two-factor`, sandbox.dashboardToken, { demanded: 'yes' })
  expect((await demand()).status).toBe(409)
  await stack.sql.query(
    `update users set two_factor_enabled = true
    where id = (select user_id from workspace_members where workspace_id = $1 and role = 'owner')`,
    [sandbox.workspaceId],
  )
  expect((await demand()).status).toBe(303)
  expect((await get(page, sandbox.dashboardToken)).text).toContain('Stop requiring them')
  for (const path of ['/', `/programs/${sandbox.programId}`, page]) {
    const { status, headers } = await get(path, sandbox.billingToken)
    expect([path, status, headers.get('location')]).toEqual([path, 303, '/account/two-factor'])
  }
  const setUp = await get('/account/two-factor', sandbox.billingToken)
  expect(setUp.text).toContain('requires two-factor codes.')
})

type Provider = 'github' | 'google'
/** The person who owns the account at the provider. */
const provided = { email: '', verified: true }

/** Fakes the providers' tokens and user data. */
const provider = createServer((request, response) => {
  const { email, verified } = provided
  const claims = { sub: email, email, email_verified: verified, name: 'Ada', iss: 'https://accounts.google.com' }
  const unsigned = [{ alg: 'RS256' }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
  const answers: Record<string, unknown> = {
    '/login/oauth/access_token': { access_token: 'token', token_type: 'bearer', scope: 'user:email' },
    '/user': { id: email, login: 'ada', name: 'Ada', email, avatar_url: '' },
    '/user/emails': [{ email, primary: true, verified }],
    '/token': { access_token: 'token', token_type: 'bearer', expires_in: 3600, id_token: `${unsigned.join('.')}.none` },
  }
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(answers[request.url ?? '']))
})
provider.listen(0, '127.0.0.1')
afterAll(() => provider.close())

/**
 * Signs in through a provider as `email`. The provider's response goes to the function in this process, and the function's calls go to the
 * fake.
 */
async function signInByProvider(email: string, by: Provider = 'github', verified = true) {
  Object.assign(provided, { email, verified })
  const begun = await post(`/sign-in/${by}?next=/account`)
  const state = new URL(begun.headers.get('location') ?? '').searchParams.get('state')
  const address = provider.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const reach = globalThis.fetch
  vi.stubGlobal('fetch', (input: string | URL | Request, init?: RequestInit) => {
    const url = new URL(input instanceof Request ? input.url : input)
    return /(github|googleapis)\.com$/.test(url.hostname)
      ? reach(`http://127.0.0.1:${port}${url.pathname}`, init)
      : reach(input, init)
  })
  try {
    const response = await auth.request(
      `${stack.baseUrl}/api/auth/callback/${by}?code=code&state=${state}`,
      { headers: { cookie: cookiesIn(begun.headers).join('; ') } },
      { ...stack.environment, ...stack.env, GITHUB_CLIENT_SECRET: 'secret', GOOGLE_CLIENT_SECRET: 'secret' },
      inNoWorker,
    )
    return { status: response.status, location: response.headers.get('location'), cookies: cookiesIn(response.headers) }
  } finally {
    vi.unstubAllGlobals()
  }
}

/** Returns the session that the given cookies belong to. */
async function sessionOf(cookies: string[]) {
  for (const cookie of cookies.filter((text) => text.startsWith('__Host-svc_session='))) {
    const token = decodeURIComponent(cookie.slice(cookie.indexOf('=') + 1))
    if (await isSignedIn(token)) return token
  }
  return undefined
}

async function signInsOf(userId: string) {
  const { rows } = await stack.sql.query<{ count: number }>(
    "select count(*)::int from audit_log where user_id = $1 and action = 'member.signed_in'",
    [userId],
  )
  return rows[0]?.count
}

test('a person who signs in through a provider also has to enter the code', async () => {
  const { email, userId, key } = await personWithCodes()
  await createWorkspace(stack.db, { name: 'Coded', ownerId: userId })
  await stack.sql.query(
    "insert into accounts (id, user_id, provider_id, account_id) values (gen_random_uuid(), $1, 'github', $2)",
    [userId, email],
  )
  const begun = await signInByProvider(email)
  expect([begun.status, begun.location, await sessionOf(begun.cookies)]).toEqual([
    303,
    `${stack.baseUrl}/two-factor?next=%2Faccount`,
    undefined,
  ])
  await beginSignIn(email)
  expect(await signInsOf(userId)).toBe(0)
  const { refusal, session } = await giveCode(begun.cookies.join('; '), totp(key))
  expect([refusal, await isSignedIn(session), await signInsOf(userId)]).toEqual(['', true, 1])
})

/** Returns the sign-in methods of an account. */
async function waysOf(email: string) {
  const { rows } = await stack.sql.query<{ way: string }>(
    'select a.provider_id as way from accounts a join users u on u.id = a.user_id where u.email = $1 order by way',
    [email],
  )
  return rows.map(({ way }) => way)
}

describe.each(['github', 'google'] as const)('a person from %s', (by) => {
  test.each([
    ['confirmed on both sides', 'is signed in', true, true],
    ['confirmed only here', 'is refused', true, false],
    ['confirmed only there', 'is refused', false, true],
    ['confirmed nowhere', 'is refused', false, false],
  ])('with the address of an account, %s, %s', async (_, outcome, here, there) => {
    const { email } = here ? await signedInPerson() : await signUp()
    const { location, cookies } = await signInByProvider(email, by, there)
    const isLetIn = outcome !== 'is refused'
    expect([Boolean(await sessionOf(cookies)), await waysOf(email), await isVerified(email)]).toEqual([
      isLetIn,
      isLetIn ? ['credential', by] : ['credential'],
      here,
    ])
    if (isLetIn) return expect(location).toBe('/account')
    const page = await (await fetch(new URL(location ?? '', stack.baseUrl))).text()
    return expect(page).toContain('An account with this address exists')
  })

  test.each([true, false])('with a new address is confirmed if the provider confirmed it: %s', async (verified) => {
    const email = newEmail()
    const { cookies } = await signInByProvider(email, by, verified)
    expect([Boolean(await sessionOf(cookies)), await isVerified(email)]).toEqual([true, verified])
  })

  test("with someone else's address loses the account once the owner of the address sets a password by mail", async () => {
    const email = newEmail()
    const squatter = (await sessionOf((await signInByProvider(email, by, false)).cookies)) ?? ''
    await stack.sql.query(
      `with codes as (
        insert into two_factors (id, user_id, secret, backup_codes) select gen_random_uuid(), id, 'x', 'x' from users where email = $1
      ) update users set two_factor_enabled = true where email = $1`,
      [email],
    )
    await call('request-password-reset', { email })
    const token = await mailedLink(email, 'reset-password')
    expect((await call('reset-password', { token, newPassword: password })).status).toBe(200)
    const { answer } = await call('sign-in/email', { email, password })
    expect([await isSignedIn(squatter), await waysOf(email), await isSignedIn(answer.token ?? '')]).toEqual([
      false,
      ['credential'],
      true,
    ])
    expect(await sessionOf((await signInByProvider(email, by, false)).cookies)).toBeUndefined()
  })
})

test('a workspace that requires codes also requires them from members without a password, who must first set one', async () => {
  const sandbox = await createSandbox(stack.db, env)
  const email = newEmail()
  const { cookies } = await signInByProvider(email)
  const token = (await sessionOf(cookies)) ?? ''
  const { rows } = await stack.sql.query<{ id: string }>('select id from users where email = $1', [email])
  const userId = rows[0]?.id ?? ''
  await addMember(stack.db, sandbox.workspaceId, userId, 'owner')
  const page = `/programs/${sandbox.programId}/settings`
  expect((await get(page, token)).status).toBe(200)
  await stack.sql.query('update workspaces set requires_two_factor = true where id = $1', [sandbox.workspaceId])
  const again = (await sessionOf((await signInByProvider(email)).cookies)) ?? ''
  for (const session of [token, again]) {
    const { status, headers } = await get(page, session)
    expect([status, headers.get('location')]).toEqual([303, '/account/two-factor'])
    const read = await fetch(`${stack.baseUrl}/api/tracking/performance/${sandbox.programId}`, {
      headers: { authorization: `Bearer ${session}` },
    })
    expect(read.status).toBe(403)
  }
  const refused = await post('/account/two-factor', again, { password })
  expect(refusalIn(refused.headers)).toContain('has no password yet')
  await call('request-password-reset', { email })
  const reset = await mailedLink(email, 'reset-password')
  expect((await call('reset-password', { token: reset, newPassword: password })).status).toBe(200)
  const { answer } = await call('sign-in/email', { email, password })
  const setUp = await (await post('/account/two-factor', answer.token, { password })).text()
  const key = /aria-label="key for the app">\s*([A-Z2-7=]+)/.exec(setUp)?.[1] ?? ''
  const confirmed = await post('/account/two-factor/confirm', answer.token, { code: totp(key) })
  expect((await get(page, sessionIn(confirmed.headers))).status).toBe(200)
  expect((await signInByProvider(email)).location).toBe(`${stack.baseUrl}/two-factor?next=%2Faccount`)
})
