import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { afterAll, expect, test, vi } from 'vitest'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import { signUpUnmailed } from '../lib/access/sign-in.ts'
import auth from '../functions/auth.ts'
import dashboard from '../functions/dashboard.tsx'
import { sendMail } from '../lib/mail.ts'
import { newEmail, password } from './support/people.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, neon, env: databaseEnv } = await startEndpoint()
const mail = { to: 'ada@example.com', subject: 'Join Analytical', text: 'Accept within 7 days.' }

const requests: { authorization: string | undefined; body: unknown }[] = []
let status = 200
async function take(request: IncomingMessage, response: ServerResponse) {
  requests.push({ authorization: request.headers.authorization, body: await json(request) })
  response.writeHead(status).end('{}')
}
const api = createServer((request, response) => void take(request, response))
api.listen(0, '127.0.0.1')
await once(api, 'listening')
afterAll(() => void api.close())
const address = api.address()
const env = {
  MAIL_API_URL: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/emails`,
  MAIL_API_KEY: 're_key',
  MAIL_FROM: 'Partner Tracking <mail@example.com>',
}

const context = { waitUntil: () => undefined, passThroughOnException: () => undefined, props: {} }

test('mail goes to the configured mail API, and is stored nowhere else', async () => {
  await sendMail(db, env, mail)
  const html = expect.stringContaining('<p>Accept within 7 days.</p>')
  const body = { from: env.MAIL_FROM, to: [mail.to], subject: mail.subject, text: mail.text, html }
  expect(requests).toEqual([{ authorization: 'Bearer re_key', body }])
  const from = 'Tracking <mail@example.com>'
  await sendMail(
    db,
    { ...env, MAIL_FROM: from },
    {
      ...mail,
      sender: { name: 'A "shop" <x@example.org>', color: '#ffcc00' },
    },
  )
  expect(requests[1]?.body).toMatchObject({ from: '"A  shop   x@example.org via Tracking" <mail@example.com>' })
  expect(requests[1]?.body).toMatchObject({ html: expect.stringContaining('background: #ffcc00; color: #000000') })
  expect((await sql.query('select 1 from mails')).rows).toEqual([])
})

test.each([
  ['refuses it', 500, env],
  ['is not reached', 200, { ...env, MAIL_API_URL: 'http://127.0.0.1:9/emails' }],
])('a mail API that %s causes a retry', async (_what, answer, configuration) => {
  status = answer
  await expect(sendMail(db, configuration, mail)).rejects.toMatchObject({ code: 'unavailable' })
})

const signUpEnv = { ...databaseEnv, ...env, AUTH_SECRET: 'x'.repeat(32), BASE_URL: 'https://api.example.com' }

async function post(
  app: Pick<typeof auth | typeof dashboard, 'request'>,
  path: string,
  body: BodyInit,
  { environment = signUpEnv, type = 'application/x-www-form-urlencoded' } = {},
): Promise<[status: number, location: string | null, cookies: string, text: string]> {
  const headers = { origin: environment.BASE_URL, 'content-type': type }
  const response = await app.request(path, { method: 'POST', headers, body }, environment, context)
  const cookies = decodeURIComponent(response.headers.getSetCookie().join())
  return [response.status, response.headers.get('location'), cookies, await response.text()]
}
const signUpOnPage = async (person: { name: string; email: string; password: string }) =>
  await post(dashboard, '/sign-up', new URLSearchParams(person))
const byApi = async (path: string, body: object) =>
  await post(auth, `/api/auth/${path}`, JSON.stringify(body), { type: 'application/json' })

test('a sign-up reports that its mail could not be sent, with or without an existing account, which can still sign in', async () => {
  status = 500
  const ada = { name: 'Ada', email: newEmail(), password }
  const newOnPage = await signUpOnPage(ada)
  expect(newOnPage).toEqual([303, '/', expect.stringContaining(signUpUnmailed.message), ''])
  expect(newOnPage[2]).toContain('__Host-svc_session=')
  const [knownOnPage, known, unknown] = await Promise.all([
    signUpOnPage({ ...ada, password: `${password}, mistyped` }),
    byApi('sign-up/email', ada),
    byApi('sign-up/email', { ...ada, email: newEmail() }),
  ])
  expect(knownOnPage).toEqual([303, '/sign-in', expect.stringContaining(signUpUnmailed.message), ''])
  expect(unknown).toEqual([503, null, '', expect.stringContaining(signUpUnmailed.message)])
  expect(known).toEqual(unknown)
  expect((await byApi('sign-in/email', ada))[0]).toBe(200)
})

test.each(['insert into "sign_in_attempts"', 'from "users"', 'insert into "users"', 'insert into "accounts"'])(
  'a sign-up whose database fails at %s asks the person to try again, and reveals no account or mail',
  async (matching) => {
    status = 200
    requests.length = 0
    for (const signUp of [signUpOnPage, (person: object) => byApi('sign-up/email', person)]) {
      neon.inject({ action: 'drop-before', matching })
      const [answered, location, cookies, text] = await signUp({ name: 'Ada', email: newEmail(), password })
      expect([matching, answered, location, cookies]).toEqual([matching, 503, null, ''])
      expect(text).toMatch(/Send the same request again|Try again in a minute/)
      expect(text).not.toMatch(/mail/i)
    }
    expect(requests).toEqual([])
  },
)

test('without a mail API, sending mail is refused, and nothing is printed or stored', async () => {
  const printed = [vi.spyOn(console, 'log'), vi.spyOn(console, 'error')]
  await expect(sendMail(db, { MAIL_API_URL: '' }, mail)).rejects.toMatchObject({ code: 'unavailable' })
  for (const spy of printed) expect(spy).not.toHaveBeenCalled()
  expect((await sql.query('select 1 from mails')).rows).toEqual([])
})

test('without mail the pages say so, and no link is created or printed', async () => {
  const printed = [vi.spyOn(console, 'log'), vi.spyOn(console, 'error')]
  const environment = { ...signUpEnv, MAIL_API_URL: '' }
  const ada = { name: 'Ada', email: 'ada@example.com', password }
  for (const [path, location, cookie] of [
    ['/sign-up', '/', '__Host-svc_session='],
    ['/forgot-password', '/forgot-password', "This service can't send e-mail yet."],
  ] as const)
    expect(await post(dashboard, path, new URLSearchParams(ada), { environment })).toEqual([
      303,
      location,
      expect.stringContaining(cookie),
      '',
    ])
  for (const spy of printed) expect(JSON.stringify(spy.mock.calls)).not.toMatch(/token|Mail to/)
  const { rows } = await sql.query('select body from mails union all select identifier from verifications')
  expect(rows).toEqual([])
})

test('the local stack prints mail and keeps it in the database', async () => {
  await sendMail(db, { MAIL_API_URL: '', MAIL_INBOX: 'mails' }, mail)
  const { rows } = await sql.query('select recipient, subject, body from mails')
  expect(rows).toEqual([{ recipient: mail.to, subject: mail.subject, body: mail.text }])
})

test('the local stack deletes a mail after a week', async () => {
  await sendMail(db, { MAIL_INBOX: 'mails' }, { ...mail, subject: 'Old' })
  await sql.query("update mails set created_at = now() - interval '8 days' where subject = 'Old'")
  await deleteExpired(db)
  const { rows } = await sql.query('select subject from mails')
  expect(rows).toEqual([{ subject: mail.subject }])
})

test('the text of a mail becomes HTML that loads nothing and links only to the service', async () => {
  const paragraphs = [
    'Tom & <b>Jerry</b> of https://evil.example/x',
    'See https://api.example.com/partner?a=1&b=2',
    'https://api.example.com/links',
  ]
  const text = paragraphs.join('\n\n')
  await sendMail(db, { MAIL_INBOX: 'mails', BASE_URL: 'https://api.example.com' }, { ...mail, subject: 'A & B', text })
  const { rows } = await sql.query<{ html: string }>(`select html from mails where subject = 'A & B'`)
  const page = rows[0]?.html ?? ''
  expect(page).toContain('<title>A &amp; B</title>')
  expect(page).toContain('<p>Tom &amp; &lt;b&gt;Jerry&lt;/b&gt; of https://evil.example/x</p>')
  expect(page.match(/href="[^"]*"/g)).toEqual([
    'href="https://api.example.com/partner?a=1&amp;b=2"',
    'href="https://api.example.com/links"',
  ])
  expect(page).toContain('class="button" href="https://api.example.com/links"')
  expect(page).not.toMatch(/<img|<script|<link|url\(/)
})
