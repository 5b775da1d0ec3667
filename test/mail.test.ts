import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { afterAll, expect, test } from 'vitest'
import { sendMail } from '../lib/notifications/mail.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()
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

test('mail goes to the mail API where one is configured, and is kept nowhere else', async () => {
  await sendMail(db, env, mail)
  const body = { from: env.MAIL_FROM, to: [mail.to], subject: mail.subject, text: mail.text }
  expect(requests).toEqual([{ authorization: 'Bearer re_key', body }])
  expect((await sql.query('select 1 from mails')).rows).toEqual([])
})

test.each([
  ['refuses it', 500, env],
  ['is not reached', 200, { ...env, MAIL_API_URL: 'http://127.0.0.1:9/emails' }],
])('a mail API that %s is an error to try again after', async (_what, answer, configuration) => {
  status = answer
  await expect(sendMail(db, configuration, mail)).rejects.toMatchObject({ code: 'unavailable' })
})

test('mail without a mail API is printed and kept in the database', async () => {
  await sendMail(db, { MAIL_API_URL: '' }, mail)
  const { rows } = await sql.query('select recipient, subject, body from mails')
  expect(rows).toEqual([{ recipient: mail.to, subject: mail.subject, body: mail.text }])
})
