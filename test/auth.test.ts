import { expect, test, vi } from 'vitest'
import dashboard from '../functions/dashboard.tsx'
import { apiKeyHash, checkApiKey } from '../lib/access/api-keys.ts'
import { findAccess } from '../lib/access/program-access.ts'
import { delayAfter } from '../lib/access/attempts.ts'
import { openAuth } from '../lib/access/sign-in.ts'
import { addMember, createPerson } from '../lib/local/people.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { invitePartner } from '../lib/programs/partner-invitations.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { refusalIn } from './support/refusal.ts'
import { startStack } from './support/stack.ts'
import { inNoWorker, newEmail, password, peopleOf, sessionCookieOf } from './support/people.ts'

const stack = await startStack({
  functions: ['auth', 'dashboard', 'relay-outbox', 'apply-retention', 'tracking-performance'],
  environment: {
    GITHUB_CLIENT_ID: 'github-client',
    GOOGLE_CLIENT_ID: 'google-client',
  },
  common: { GITHUB_CLIENT_SECRET: 'secret', GOOGLE_CLIENT_SECRET: 'secret' },
})
const { env, call, signUp, signedInPerson, isSignedIn, mailsTo, lastMail, mailedLink, post, isVerified, get } =
  peopleOf(stack)

test('sign-up creates an account, and sign-in creates a session in an HTTP-only cookie of this host', async () => {
  const email = newEmail()
  const created = await call('sign-up/email', { name: 'Ada', email: email.toUpperCase(), password })
  expect([created.status, created.answer.user?.email]).toEqual([200, email])
  const { status, headers, answer } = await call('sign-in/email', { email, password })
  expect(status).toBe(200)
  expect(answer.user?.email).toBe(email)
  expect(headers.get('cache-control')).toBe('no-store')
  const cookie = headers.get('set-cookie') ?? ''
  expect(cookie).toMatch(/^__Host-svc_session=[^;]+; Max-Age=2592000; Path=\/; HttpOnly; Secure; SameSite=Lax$/)
  expect(await isSignedIn(answer.token ?? '')).toBe(true)
  const fromCookie = new Headers({ cookie: cookie.split(';')[0] ?? '' })
  await expect(findAccess(stack.db, env, fromCookie, undefined)).resolves.toMatchObject({ access: { user: { email } } })
})

test('a sign-in sends four database requests, and none reads the catalog', async () => {
  const { email } = await signUp()
  const before = stack.neon.requests
  expect((await call('sign-in/email', { email, password })).status).toBe(200)
  expect(stack.neon.requests - before).toBe(4)

  const compareTables = async () => {
    const { explicitSchemaCheck } = await openAuth({ env: { ...stack.environment, ...env }, executionCtx: inNoWorker })
      .$context
    if (!explicitSchemaCheck) throw new Error('better-auth compares nothing.')
    await explicitSchemaCheck()
  }
  await compareTables()
  await stack.sql.query('alter table sessions rename column token to another')
  await expect(compareTables()).rejects.toThrow('token')
  await stack.sql.query('alter table sessions rename column another to token')
})

test('every path that hashes a password takes from the budget of the address, and a path that only sends a mail does not', async () => {
  const { email, token } = await signUp()
  const asked: (string | null)[] = []
  const takeHashing = (address: string | null) => {
    asked.push(address)
    return false
  }
  const { handler } = openAuth({
    env: { ...stack.environment, ...env, MAIL_INBOX: 'mails', VISITOR_BUDGET: { takeHashing } },
    executionCtx: inNoWorker,
  })
  const secrets = { email, password, name: 'Ann', newPassword: password, currentPassword: password, token: 'x' }
  const statuses: Record<string, number> = {}
  for (const path of [
    'sign-in/email',
    'sign-up/email',
    'reset-password',
    'change-password',
    'verify-password',
    'two-factor/enable',
    'two-factor/disable',
    'two-factor/generate-backup-codes',
    'request-password-reset',
  ]) {
    const request = new Request(`${stack.environment.BASE_URL}/api/auth/${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        origin: stack.environment.BASE_URL,
        authorization: `Bearer ${token}`,
        'cf-connecting-ip': '203.0.113.7',
      },
      body: JSON.stringify(secrets),
    })
    statuses[path] = (await handler(request)).status
  }
  const { 'request-password-reset': reset, ...hashing } = statuses
  expect([reset, new Set(Object.values(hashing))]).toEqual([200, new Set([429])])
  expect(asked).toEqual(Object.keys(hashing).map(() => '203.0.113.7'))
})

test('nobody can sign in with a database copy: stored tokens lack their signature, and passwords are hashed', async () => {
  const { email, token } = await signUp()
  const { rows } = await stack.sql.query<{ token: string; password: string }>(
    'select s.token, a.password from users u join sessions s on s.user_id = u.id join accounts a on a.user_id = u.id where u.email = $1',
    [email],
  )
  expect(token.startsWith(`${rows[0]?.token}.`)).toBe(true)
  expect(await isSignedIn(rows[0]?.token ?? '')).toBe(false)
  expect(rows[0]?.password).not.toContain(password)
})

const reported = (response: Response) => decodeURIComponent(response.headers.getSetCookie().join())

test("sign-up from an invitation doesn't send a confirmation, because accepting the invitation confirms the address", async () => {
  const { programId, workspaceId } = await createSandbox(stack.db, env)
  const owner = await createPerson(stack.db, env, { name: 'Owner', email: newEmail() })
  await addMember(stack.db, workspaceId, owner.userId, 'owner')
  const [email, stranger] = [newEmail(), newEmail()]
  const { partnerId } = await addPartner(stack.db, { programId, name: 'Invited', email, code: null })
  const invitation = await invitePartner(stack.db, { programId, partnerId, invitedBy: owner.userId })
  const invited = await fetch(
    `${stack.baseUrl}/partner-invitation?token=${encodeURIComponent(invitation?.token ?? '')}`,
  )
  const [, link = ''] = /href="(\/sign-up[^"]*)"/.exec(await invited.text()) ?? []
  const page = link.replaceAll('&amp;', '&')
  const filled = await (await fetch(stack.baseUrl + page)).text()
  expect([filled.includes(`value="${email}"`), filled.includes('value="Invited"')]).toEqual([true, true])
  const signedUp = await post(page, undefined, { name: 'Ada', email: email.toUpperCase(), password })
  expect([signedUp.headers.get('location'), reported(signedUp)]).toEqual([
    expect.stringContaining('/partner-invitation?token='),
    expect.stringContaining('__Host-svc_session='),
  ])
  const again = await post(page, undefined, { name: 'Ada', email, password: `${password}, mistyped` })
  expect([again.headers.get('location'), reported(again)]).toEqual([
    expect.stringContaining('/sign-in?next='),
    expect.stringContaining('Sign in, then accept'),
  ])
  await post(page, undefined, { name: 'Ada', email: stranger, password })
  await post('/sign-up', undefined, { name: 'Ada', email, password })
  await vi.waitFor(async () => {
    const subjects = [await mailsTo(stranger), await mailsTo(email)].map((mails) => mails.map(({ subject }) => subject))
    expect(subjects).toEqual([
      ['Confirm your e-mail address'],
      ['You already have an account', 'You already have an account'],
    ])
  }, 60_000)
})

test('account mails are in the saved language, or else in the language of a page for partners', async () => {
  const [email, german] = [newEmail(), { 'accept-language': 'de' }]
  const fields = { name: 'Ada', email, password }
  const latest = async (count: number) => {
    await vi.waitFor(async () => expect(await mailsTo(email)).toHaveLength(count), 60_000)
    return (await mailsTo(email)).at(-1)
  }
  await post('/sign-up?next=%2Fpartner', undefined, fields, german)
  expect(await latest(1)).toMatchObject({ subject: 'Bestätigen Sie Ihre E-Mail-Adresse' })
  await post('/sign-up', undefined, fields, german)
  expect(await latest(2)).toMatchObject({ subject: 'You already have an account' })
  await stack.sql.query(
    `insert into partner_profiles (user_id, language) select id, 'fr' from users where email = $1`,
    [email],
  )
  await post('/forgot-password?next=%2Fpartner', undefined, { email }, german)
  expect(await latest(3)).toMatchObject({
    subject: 'Choisir un nouveau mot de passe',
    body: expect.stringContaining('Votre mot de passe reste le même.'),
  })
})

test("sign-up with an existing address returns the same response, doesn't sign a stranger in, and notifies only that mailbox", async () => {
  const email = newEmail()
  const strip = (response: Response, text: string) => [
    response.status,
    [...response.headers.keys()].toSorted(),
    text.replaceAll(email, '').replace(/"(id|createdAt|updatedAt)":"[^"]+"/g, '"$1":""'),
  ]
  const responses = []
  for (let number = 0; number < 2; number++) {
    const response = await fetch(`${stack.baseUrl}/api/auth/sign-up/email`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'Ada', email, password }),
    })
    responses.push(strip(response, await response.text()))
  }
  expect(responses[1]).toEqual(responses[0])
  const stranger = await post('/sign-up', undefined, { name: 'Eve', email, password: `${password} of Eve` })
  expect([stranger.headers.get('location'), reported(stranger)]).toEqual([
    '/sign-in',
    expect.not.stringContaining('__Host-svc_session='),
  ])
  expect(reported(stranger)).toContain(`Check your e-mail: we sent a message to ${email}.`)
  await vi.waitFor(async () => {
    const mails = await mailsTo(email)
    expect(mails.map(({ subject }) => subject)).toEqual([
      'Confirm your e-mail address',
      'You already have an account',
      'You already have an account',
    ])
    for (const link of ['/sign-in', '/forgot-password']) expect(mails[1]?.body).toContain(stack.baseUrl + link)
  }, 60_000)
  await setAttempts(`sign-up of ${email}`, 5)
  await post('/sign-up', undefined, { name: 'Ada', email, password })
  expect(await mailsTo(email)).toHaveLength(3)
})

test('the mailed link confirms an address if its owner is signed in and presses the button', async () => {
  const { email, token } = await signUp()
  const stranger = await signUp()
  const path = `/verify-email?token=${await mailedLink(email, 'verify-email')}`
  const page = await fetch(stack.baseUrl + path, { headers: sessionCookieOf(token) })
  expect([page.status, (await page.text()).includes('Yes, confirm it')]).toEqual([200, true])
  expect((await post(path)).headers.get('location')).toBe('/sign-in')
  expect((await post(path, stranger.token)).status).toBe(403)
  expect((await post(`${path}x`, token)).status).toBe(403)
  expect([await isVerified(email), await isVerified(stranger.email)]).toEqual([false, false])
  expect((await post(path, token)).status).toBe(303)
  expect([await isVerified(email), await isVerified(stranger.email)]).toEqual([true, false])
})

test('the link is sent again on request, up to five times a day, until it is used', async () => {
  const { email, token } = await signUp()
  const first = await mailedLink(email, 'verify-email')
  await post('/account/verification', token)
  await vi.waitFor(async () => expect(await mailsTo(email)).toHaveLength(2), 60_000)
  await setAttempts(`verification of ${email}`, 5)
  const refused = await post('/account/verification', token)
  expect(decodeURIComponent(refused.headers.getSetCookie().join())).toContain('maximum number of e-mails for today')
  await post(`/verify-email?token=${first}`, token)
  await setAttempts(`verification of ${email}`, 1)
  const late = await post('/account/verification', token)
  expect(decodeURIComponent(late.headers.getSetCookie().join())).toContain('already confirmed')
  expect(await mailsTo(email)).toHaveLength(2)
})

test('a password set through a mailed link also confirms the address', async () => {
  const { email } = await signUp()
  await call('request-password-reset', { email })
  const token = await mailedLink(email, 'reset-password')
  expect((await call('reset-password', { token, newPassword: 'a new horse battery' })).status).toBe(200)
  expect(await isVerified(email)).toBe(true)
})

test('every page shows a warning until the address is confirmed', async () => {
  const { email, token } = await signUp()
  const account = async () =>
    await (await fetch(`${stack.baseUrl}/account`, { headers: sessionCookieOf(token) })).text()
  expect(await account()).toContain('Confirm your e-mail address: we sent a link to')
  await post(`/verify-email?token=${await mailedLink(email, 'verify-email')}`, token)
  expect(await account()).not.toContain('we sent a link to')
})

test('sign-out ends the session immediately', async () => {
  const { token } = await signedInPerson()
  expect((await call('sign-out', {}, { authorization: `Bearer ${token}` })).status).toBe(200)
  expect(await isSignedIn(token)).toBe(false)
})

test('a person signs in with the password that an operator set', async () => {
  const { email } = await createPerson(stack.db, env, { name: 'Grace', email: newEmail(), password })
  const { status, answer } = await call('sign-in/email', { email, password })
  expect(status).toBe(200)
  expect(await isSignedIn(answer.token ?? '')).toBe(true)
})

const taken = await signedInPerson()
const refusals: [what: string, path: string, body: object, status: number, code: string][] = [
  ['a wrong password', 'sign-in/email', { email: taken.email, password: 'wrong horse' }, 401, 'unauthorized'],
  ['an unknown address', 'sign-in/email', { email: newEmail(), password }, 401, 'unauthorized'],
  ['a short password', 'sign-up/email', { name: 'Eve', email: newEmail(), password: 'short' }, 400, 'invalid_request'],
  ['a name with two lines', 'sign-up/email', { name: 'Eve\nAda', email: newEmail(), password }, 400, 'invalid_request'],
  [
    'a name of 60,000 characters',
    'sign-up/email',
    { name: 'x'.repeat(60_000), email: newEmail(), password },
    400,
    'invalid_request',
  ],
  ['no address', 'sign-up/email', { name: 'Eve', password }, 400, 'invalid_request'],
  ['a made-up reset token', 'reset-password', { token: 'nonsense', newPassword: password }, 400, 'invalid_request'],
  [
    'a password change without a session',
    'change-password',
    { currentPassword: password, newPassword: password },
    401,
    'unauthorized',
  ],
  ['a nonexistent path', 'sign-in/magic', {}, 404, 'not_found'],
]

test.each(refusals)('%s is refused with a platform error', async (_what, path, body, status, code) => {
  expect(await call(path, body)).toMatchObject({ status, answer: { success: false, error: { code } } })
})

const origins: [what: string, headers: (cookie: string) => Record<string, string>, status: number][] = [
  ['of this origin', (cookie) => ({ cookie, origin: stack.baseUrl }), 200],
  ['of another origin', (cookie) => ({ cookie, origin: 'https://evil.example' }), 403],
  ['of no origin', (cookie) => ({ cookie, origin: 'null' }), 403],
]

test.each(origins)(
  'a cookie from a request %s is accepted only if the request comes from this site',
  async (_what, headersFor, status) => {
    const { token } = await signedInPerson()
    const cookie = `__Host-svc_session=${encodeURIComponent(token)}`
    expect((await call('sign-out', {}, headersFor(cookie))).status).toBe(status)
    expect(await isSignedIn(token)).toBe(status !== 200)
  },
)

test("a page from another origin cannot sign its visitor in to someone else's account", async () => {
  const headers = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
  expect((await call('sign-in/email', { email: taken.email, password }, headers)).status).toBe(403)
})

test('a password change signs out all other sessions', async () => {
  const { email, token } = await signedInPerson()
  const { answer: other } = await call('sign-in/email', { email, password })
  const newPassword = 'a new horse battery'
  const body = { currentPassword: password, newPassword, revokeOtherSessions: true }
  const { status, answer } = await call('change-password', body, { authorization: `Bearer ${token}` })
  expect(status).toBe(200)
  expect(await isSignedIn(other.token ?? '')).toBe(false)
  expect(await isSignedIn(token)).toBe(false)
  expect(await isSignedIn(answer.token ?? '')).toBe(true)
  expect((await call('sign-in/email', { email, password })).status).toBe(401)
  expect((await call('sign-in/email', { email, password: newPassword })).status).toBe(200)
})

test('the mailed link resets a forgotten password once and ends every session', async () => {
  const { email, token } = await signedInPerson()
  expect((await post('/forgot-password?next=%2Fpartner', undefined, { email })).status).toBe(303)
  const resetToken = await mailedLink(email, 'reset-password')
  expect(await lastMail(email)).toContain(`${stack.baseUrl}/reset-password?token=${resetToken}&next=%2Fpartner`)
  await post('/forgot-password?next=%2Fcall-0800-123456-now', undefined, { email })
  await vi.waitFor(async () => expect(await mailsTo(email)).toHaveLength(2), 60_000)
  expect(await lastMail(email)).not.toContain('call')
  const { rows } = await stack.sql.query('select 1 from verifications where identifier like $1', [`%${resetToken}%`])
  expect(rows).toEqual([])
  const newPassword = 'a new horse battery'
  expect((await call('reset-password', { token: resetToken, newPassword })).status).toBe(200)
  expect((await call('reset-password', { token: resetToken, newPassword: password })).status).toBe(400)
  expect(await isSignedIn(token)).toBe(false)
  expect((await call('sign-in/email', { email, password: newPassword })).status).toBe(200)
})

test("a reset request doesn't reveal whether an account exists, and sends mail only if it does", async () => {
  const unknown = newEmail()
  const [known, other] = await Promise.all([
    call('request-password-reset', { email: taken.email }),
    call('request-password-reset', { email: unknown }),
  ])
  expect(other.answer).toEqual(known.answer)
  expect(await lastMail(unknown)).toBe('')
})

test('nobody can sign in with an expired session', async () => {
  const { email, token } = await signedInPerson()
  await stack.sql.query(
    "update sessions set expires_at = now() - interval '1 second' where user_id = (select id from users where email = $1)",
    [email],
  )
  expect(await isSignedIn(token)).toBe(false)
})

/** Sets the number of attempts for this key in `sign_in_attempts`. */
async function setAttempts(key: string, attempts: number) {
  await stack.sql.query(
    `insert into sign_in_attempts (key, attempts) values ($1, $2)
    on conflict (key) do update set attempts = $2, window_started_at = now()`,
    [key, attempts],
  )
}

/** The caller's address in the headers of the edge and of a proxy. */
const from = (address: string) => ({ 'cf-connecting-ip': address, 'x-forwarded-for': address })

test('sign-in attempts on an account from one address are limited for 15 minutes, even with the right password', async () => {
  const { email } = await signedInPerson()
  const key = `sign-in of ${email} from 203.0.113.1`
  await setAttempts(key, 18)
  const attempt = () => call('sign-in/email', { email, password }, from('203.0.113.1'))
  const responses = await Promise.all(Array.from({ length: 4 }, attempt))
  expect(responses.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 200, 429, 429])
  const refused = responses.find(({ status }) => status === 429)
  expect(refused?.headers.get('retry-after')).toBe('900')
  expect(refused?.answer.error?.code).toBe('rate_limited')
  await stack.sql.query(
    "update sign_in_attempts set window_started_at = window_started_at - interval '16 minutes' where key = $1",
    [key],
  )
  expect((await attempt()).status).toBe(200)
})

test("attempts by strangers don't block an owner's sign-in or reset", async () => {
  const { email } = await signedInPerson()
  const stranger = from('2001:db8:1:2::1')
  for (const path of ['sign-in/email', 'request-password-reset']) {
    const kind = path === 'sign-in/email' ? 'sign-in' : 'reset'
    await setAttempts(`${kind} of ${email} from 2001:db8:1:2::/64`, 20)
    expect((await call(path, { email, password: 'a wrong horse' }, stranger)).status).toBe(429)
  }
  await setAttempts(`sign-in of ${email}`, 100_000)
  expect((await call('sign-in/email', { email, password }, from('203.0.113.2'))).status).toBe(200)
  expect((await call('request-password-reset', { email }, from('203.0.113.2'))).status).toBe(200)
  await mailedLink(email, 'reset-password')
})

test("an account gets up to twenty reset mails a day, and the response doesn't reveal the limit", async () => {
  const { email } = await signedInPerson()
  const first = await call('request-password-reset', { email }, from('203.0.113.3'))
  await mailedLink(email, 'reset-password')
  const mail = await lastMail(email)
  await setAttempts(`reset of ${email}`, 20)
  await stack.sql.query(
    "update sign_in_attempts set window_started_at = window_started_at - interval '23 hours' where key = $1",
    [`reset of ${email}`],
  )
  const more = await call('request-password-reset', { email }, from('203.0.113.3'))
  expect([more.status, more.answer]).toEqual([first.status, first.answer])
  expect(await lastMail(email)).toBe(mail)
})

test.each([
  [1, 0],
  [20, 0],
  [21, 100],
  [50, 3000],
  [1_000_000, 5000],
])('after %i attempts at an account, its response takes %i ms longer', (attempts, wait) => {
  expect(delayAfter(attempts)).toBe(wait)
})

test('a page shows an error after too many attempts', async () => {
  const { email, token } = await signedInPerson()
  const address = '203.0.113.4'
  for (const kind of ['sign-in', 'sign-up', 'reset']) await setAttempts(`${kind} from ${address}`, 100)
  const cookie = `__Host-svc_session=${encodeURIComponent(token)}`
  const forms: [path: string, fields: Record<string, string>, headers?: Record<string, string>][] = [
    ['/sign-in', { email, password }],
    ['/sign-up', { name: 'Ada', email: newEmail(), password }],
    ['/forgot-password', { email }],
    ['/reset-password?token=x', { password }],
    ['/account/password', { current: password, new: password }, { cookie }],
    ['/account/email', { email: newEmail(), email_password: password }, { cookie }],
    ['/account/two-factor', { password }, { cookie }],
  ]
  for (const [path, fields, headers] of forms) {
    const response = await fetch(stack.baseUrl + path, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: stack.baseUrl, ...from(address), ...headers },
      body: new URLSearchParams(fields),
    })
    expect([path, refusalIn(response.headers)]).toEqual([
      path,
      expect.stringContaining('Too many attempts. Wait 15 minutes, then try again.'),
    ])
  }
})

test.each([
  ['verify-password', { password }],
  ['update-user', { name: 'Eve' }],
  ['change-email', { newEmail: 'eve@example.com' }],
  ['delete-user', {}],
  ['revoke-sessions', {}],
  ['list-sessions', undefined],
  ['ok', undefined],
  ['error', undefined],
])('the sign-in library’s %s is not available', async (path, body) => {
  const { token } = await signedInPerson()
  const response = await fetch(`${stack.baseUrl}/api/auth/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  expect([response.status, await response.json()]).toMatchObject([404, { error: { code: 'not_found' } }])
})

test('sign-ups with plus tags send up to five mails a day to one mailbox', async () => {
  const name = `eve-${crypto.randomUUID()}`
  for (let n = 0; n < 7; n++) await call('sign-up/email', { name: 'Eve', email: `${name}+${n}@example.com`, password })
  const { rows } = await stack.sql.query('select from mails where recipient like $1', [`${name}+%`])
  expect(rows).toHaveLength(5)
})

test('a network causes up to 200 mails a day to unconfirmed addresses of others', async () => {
  await setAttempts('new addresses from 203.0.113.0/24', 199)
  const strangers = [newEmail(), newEmail()]
  for (const [n, email] of strangers.entries())
    expect((await call('sign-up/email', { name: 'Eve', email, password }, from(`203.0.113.${n}`))).status).toBe(200)
  expect((await Promise.all(strangers.map(mailsTo))).map(({ length }) => length)).toEqual([1, 0])
  const eve = await signedInPerson()
  const change = { email: newEmail(), email_password: password }
  const refused = await post('/account/email', eve.token, change, from('203.0.113.9'))
  expect(refusalIn(refused.headers)).toContain('Your network has caused the maximum number')
})

test('a password change ends other sessions and earlier reset links, and keeps its own session', async () => {
  const { email, token } = await signedInPerson()
  await call('request-password-reset', { email })
  const link = await mailedLink(email, 'reset-password')
  const { answer: other } = await call('sign-in/email', { email, password })
  const newPassword = 'a new horse battery'
  const changed = await call(
    'change-password',
    { currentPassword: password, newPassword },
    { authorization: `Bearer ${token}` },
  )
  expect(changed.status).toBe(200)
  expect([await isSignedIn(token), await isSignedIn(other.token ?? '')]).toEqual([true, false])
  expect((await call('reset-password', { token: link, newPassword: password })).status).toBe(400)
  expect((await call('sign-in/email', { email, password: newPassword })).status).toBe(200)
})

test('password guesses in a session count against its account, whatever address the body contains', async () => {
  const { email, token } = await signedInPerson()
  await setAttempts(`sign-in of ${email} from 203.0.113.9`, 18)
  const guess = (body: object) =>
    call(
      'change-password',
      { currentPassword: 'a wrong horse', newPassword: 'a new horse battery', ...body },
      { authorization: `Bearer ${token}`, ...from('203.0.113.9') },
    )
  const statuses = []
  for (const body of [{}, { email: newEmail() }, {}, { email: newEmail() }]) statuses.push((await guess(body)).status)
  expect(statuses).toEqual([400, 400, 429, 429])
})

test('a reset of an unconfirmed account also revokes the keys and endpoints that a stranger could have created', async () => {
  const { email, userId } = await signedInPerson()
  const { programId, workspaceId, apiKey } = await createSandbox(stack.db, env)
  await addMember(stack.db, workspaceId, userId, 'owner')
  await stack.sql.query(
    `with endpoint as (
      insert into webhook_endpoints (program_id, url, types) values ($1, 'https://hooks.example.com', '{sale.created}')
    )
    insert into processor_connections (account_id, program_id, processor, secret, livemode)
    values ('conn_' || repeat('x', 43), $1, 'paddle', 'known', true)`,
    [programId],
  )
  const reset = async () => {
    await call('request-password-reset', { email })
    const token = await mailedLink(email, 'reset-password')
    expect((await call('reset-password', { token, newPassword: password })).status).toBe(200)
    const { rows } = await stack.sql.query(
      `select (select bool_and(revoked_at is not null) from api_keys where program_id = $1) as is_revoked,
        (select bool_and(disabled_at is not null) from webhook_endpoints where program_id = $1) as is_disabled,
        (select secret is null from processor_connections where program_id = $1) as is_forgotten,
        (select proxy_key_number > 0 from programs where id = $1) as is_rotated`,
      [programId],
    )
    return Object.values(rows[0] ?? {})
  }
  const keyHash = await apiKeyHash(`Bearer ${apiKey}`)
  expect(await reset()).toEqual([false, false, false, false])
  await checkApiKey(stack.db, keyHash)
  await stack.sql.query('update users set email_verified = false where id = $1', [userId])
  expect(await reset()).toEqual([true, true, true, true])
  await expect(checkApiKey(stack.db, keyHash)).rejects.toMatchObject({ code: 'api_key_retired' })
})

test('a password reset ends earlier reset links', async () => {
  const { email } = await signedInPerson()
  const links: string[] = []
  for (let mails = 0; mails < 2; mails++) {
    await call('request-password-reset', { email })
    await vi.waitFor(async () => expect(await mailsTo(email)).toHaveLength(mails + 1), 60_000)
    links.push(/token=(\S+)/.exec(await lastMail(email))?.[1] ?? '')
  }
  const [older, newer] = links
  expect((await call('reset-password', { token: newer, newPassword: 'a new horse battery' })).status).toBe(200)
  expect((await call('reset-password', { token: older, newPassword: password })).status).toBe(400)
})

test.each([
  ['NUL', 'a\0b@example.com'],
  ['40 KB', `${'a'.repeat(40_000)}@example.com`],
  ['a lone surrogate', '\ud83d@example.com'],
])('%s is refused as an e-mail address everywhere', async (_what, email) => {
  for (const path of ['sign-in/email', 'sign-up/email', 'request-password-reset']) {
    const { status, answer } = await call(path, { name: 'Eve', email, password })
    expect([path, status, answer.error?.code]).toEqual([path, 400, 'invalid_request'])
  }
  for (const page of ['sign-in', 'sign-up', 'forgot-password']) {
    const response = await fetch(`${stack.baseUrl}/${page}`, {
      method: 'POST',
      headers: { origin: stack.baseUrl },
      body: new URLSearchParams({ name: 'Eve', email, password: 'a wrong horse' }),
    })
    expect([page, response.status]).toEqual([page, expect.toBeOneOf([200, 303, 400, 401])])
  }
})

test.each([
  ['github', 'GitHub', 'https://github.com/login/oauth/authorize'],
  ['google', 'Google', 'https://accounts.google.com/o/oauth2/v2/auth'],
] as const)('%s works for sign-in if its id is set', async (id, name, page) => {
  const signIn = await fetch(`${stack.baseUrl}/sign-in`)
  expect(signIn.headers.get('content-security-policy')).toContain(
    "form-action 'self' https://github.com https://accounts.google.com;",
  )
  expect(await signIn.text()).toContain(`Continue with ${name}`)
  const long = { provider: id, callbackURL: '/account', additionalData: { text: 'x'.repeat(1000) } }
  expect((await call('sign-in/social', long, { origin: stack.baseUrl })).status).toBe(400)
  const response = await post(`/sign-in/${id}?next=/account`)
  expect(response.status).toBe(303)
  const address = new URL(response.headers.get('location') ?? '')
  expect(address.origin + address.pathname).toBe(page)
  expect(address.searchParams.get('client_id')).toBe(`${id}-client`)
  expect(address.searchParams.get('redirect_uri')).toBe(`${stack.baseUrl}/api/auth/callback/${id}`)
  expect(address.searchParams.get('state')).toMatch(/.{20,}/)
  expect(response.headers.getSetCookie().join()).toMatch(/^__Host-svc\.\w+=.*; Path=\/; HttpOnly; Secure; SameSite=Lax/)
})

test.each(['github', 'google'])('sign-in with %s is disabled if its id is not set', async (id) => {
  const none = { ...stack.environment, ...stack.env, GITHUB_CLIENT_ID: '', GOOGLE_CLIENT_ID: '' }
  const request = (path: string, init?: RequestInit) => dashboard.request(stack.baseUrl + path, init, none, inNoWorker)
  expect(await (await request('/sign-in')).text()).not.toContain('Continue with')
  expect((await request(`/sign-in/${id}`, { method: 'POST', headers: { origin: stack.baseUrl } })).status).toBe(404)
})

test('only expired rows are deleted', async () => {
  const { email, token } = await signedInPerson()
  await call('sign-in/email', { email, password })
  await stack.sql.query(
    `update sessions set expires_at = now() - interval '1 second'
    where user_id = (select id from users where email = $1) and token <> $2`,
    [email, token.split('.')[0]],
  )
  await stack.scheduled('apply-retention')
  const { rows } = await stack.sql.query(
    'select token from sessions s join users u on u.id = s.user_id where email = $1',
    [email],
  )
  expect(rows).toEqual([{ token: token.split('.')[0] }])
  expect(await isSignedIn(token)).toBe(true)
})

const agent =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1'

test('a person lists their own sessions, ends one of them, and ends all', async () => {
  const [ada, eve] = await Promise.all([signedInPerson(), signedInPerson()])
  const { answer: phone } = await call('sign-in/email', { email: ada.email, password }, { 'user-agent': agent })
  const page = await get('/account/sessions', ada.token)
  expect(page.text).toContain('Safari on iOS')
  expect(page.text.match(/This device/g)).toHaveLength(1)
  for (const token of [ada.token, phone.token ?? '']) expect(page.text).not.toContain(token.split('.')[0])
  const { rows } = await stack.sql.query<{ id: string }>(
    'select id from sessions where user_id = $1 and user_agent = $2',
    [ada.userId, agent],
  )
  const end = `/account/sessions/${rows[0]?.id}/end`
  await post(end, eve.token)
  expect(await isSignedIn(phone.token ?? '')).toBe(true)
  await post(end, ada.token)
  expect([await isSignedIn(phone.token ?? ''), await isSignedIn(ada.token)]).toEqual([false, true])
  await post('/account/sessions/end', ada.token)
  expect([await isSignedIn(ada.token), await isSignedIn(eve.token)]).toEqual([false, true])
})

/** Another network than the previous tests use, because each may only check and mail a bounded number of times. */
const atHome = from('198.51.100.40')

test('a person changes their name within the naming rules', async () => {
  const { token } = await signedInPerson()
  expect(refusalIn((await post('/account/name', token, { name: 'a\u202Eb' })).headers)).toContain('80 characters')
  expect((await post('/account/name', token, { name: 'Ada Lovelace' })).status).toBe(303)
  expect((await get('/account', token)).text).toContain('Ada Lovelace')
})

test('an address change requires the password and the mailed link, and notifies the previous address', async () => {
  const { email, token, userId } = await signedInPerson()
  const next = newEmail()
  const wrong = await post('/account/email', token, { email: next, email_password: 'a wrong horse' }, atHome)
  expect(refusalIn(wrong.headers)).toContain('This is not your password.')
  expect(await mailsTo(next)).toEqual([])
  await call('request-password-reset', { email })
  const reset = await mailedLink(email, 'reset-password')
  expect((await post('/account/email', token, { email: next, email_password: password }, atHome)).status).toBe(303)
  expect(await lastMail(email)).toContain(`asked to change the address of your account to ${next}`)
  const emailOf = async () => (await stack.sql.query('select email from users where id = $1', [userId])).rows[0]?.email
  expect(await emailOf()).toBe(email)
  const path = `/verify-email?token=${await mailedLink(next, 'verify-email')}`
  expect((await post(path, (await signedInPerson()).token)).status).toBe(403)
  expect((await post(path, token)).status).toBe(303)
  expect([await emailOf(), await isVerified(next)]).toEqual([next, true])
  expect((await call('reset-password', { token: reset, newPassword: 'a new horse battery' })).status).toBe(400)
})

test('an unconfirmed address, which can belong to a stranger, gets no mail about its change', async () => {
  const { email, token, userId } = await signedInPerson()
  await stack.sql.query('update users set email_verified = false where id = $1', [userId])
  const next = newEmail()
  expect((await post('/account/email', token, { email: next, email_password: password }, atHome)).status).toBe(303)
  expect([(await mailsTo(email)).length, (await mailsTo(next)).length]).toEqual([0, 1])
})

test('a change to an existing address gets the same response and notifies only that mailbox', async () => {
  const [ada, grace] = await Promise.all([signedInPerson(), signedInPerson()])
  const answers = []
  for (const email of [grace.email, newEmail()]) {
    const { status, headers } = await post('/account/email', ada.token, { email, email_password: password }, atHome)
    answers.push([status, decodeURIComponent(headers.getSetCookie().join()).replaceAll(email, '')])
  }
  expect(answers[0]).toEqual(answers[1])
  expect(await lastMail(grace.email)).toContain('You already have an account')
  await setAttempts(`change of ${ada.email}`, 5)
  const often = await post('/account/email', ada.token, { email: newEmail(), email_password: password }, atHome)
  expect(refusalIn(often.headers)).toContain('maximum number of e-mails for today')
})

test('a change of the payout address requires the password, and notifies the account and, a few times per day, the previous address', async () => {
  const sandbox = await createSandbox(stack.db, env)
  const { rows } = await stack.sql.query<{ user_id: string; email: string }>(
    'select user_id, email from partners where id = $1',
    [sandbox.partnerId],
  )
  const email = rows[0]?.email ?? ''
  await stack.sql.query(
    `insert into accounts (id, user_id, provider_id, account_id, password)
    select gen_random_uuid(), $1, 'credential', $1, password from accounts where password is not null limit 1`,
    [rows[0]?.user_id],
  )
  const move = async (payout_email: string, payout_password: string) =>
    await post('/partner/payout', sandbox.partnerToken, { payout_email, payout_password }, atHome)
  const addressOf = async () =>
    (await stack.sql.query('select payout_email from partners where id = $1', [sandbox.partnerId])).rows[0]
      ?.payout_email
  const first = newEmail()
  expect(refusalIn((await move(first, 'a wrong horse')).headers)).toContain('This is not your password.')
  expect([await addressOf(), await mailsTo(email)]).toEqual([null, []])
  expect((await move(first, password)).status).toBe(303)
  const second = newEmail()
  expect((await move(second, password)).status).toBe(303)
  expect(await addressOf()).toBe(second)
  await vi.waitFor(async () => {
    expect(await lastMail(first)).toContain(`go to ${second} from now on`)
    expect(await mailsTo(email)).toHaveLength(2)
  }, 60_000)
  // Nobody has confirmed the previous address, so it gets only a few mails.
  await setAttempts(`payout address to ${second}`, 5)
  expect((await move(first, password)).status).toBe(303)
  await vi.waitFor(async () => expect(await mailsTo(email)).toHaveLength(3), 60_000)
  expect(await mailsTo(second)).toEqual([])
  await setAttempts(`payout address of ${rows[0]?.user_id}`, 5)
  expect(refusalIn((await move(second, password)).headers)).toContain('five times today')
  expect(await addressOf()).toBe(first)
})

test("every member except the last owner can leave a workspace, and strangers can't see it", async () => {
  const sandbox = await createSandbox(stack.db, env)
  const leave = async (token: string) => (await post(`/workspaces/${sandbox.workspaceId}/leave`, token)).status
  const members = async () => {
    const { rows } = await stack.sql.query<{ role: string }>(
      'select role from workspace_members where workspace_id = $1 and removed_at is null order by role',
      [sandbox.workspaceId],
    )
    return rows.map(({ role }) => role)
  }
  expect((await get('/account', sandbox.billingToken)).text).toContain(`/workspaces/${sandbox.workspaceId}/leave`)
  expect([await leave(sandbox.outsiderToken), await leave(sandbox.dashboardToken)]).toEqual([404, 409])
  expect(await members()).toEqual(['billing', 'owner'])
  expect(await leave(sandbox.billingToken)).toBe(303)
  expect([await members(), await leave(sandbox.billingToken)]).toEqual([['owner'], 404])
})
