import type { Page } from 'playwright-core'
import { vi } from 'vitest'
import { findAccess } from '../../lib/access/program-access.ts'
import { createPerson } from '../../lib/local/people.ts'
import type { TestStack } from './stack.ts'

export const password = 'correct horse battery'

/** The execution context of a function in this process. */
export const inNoWorker = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }

interface Answer {
  token?: string
  user?: { email: string }
  error?: { code: string }
}

export function newEmail() {
  return `ada-${crypto.randomUUID()}@example.com`
}

export const sessionCookieOf = (token: string) => ({ cookie: `__Host-svc_session=${encodeURIComponent(token)}` })

/** Creates a person who signs up on the open page. After that, the person is signed in. */
export async function signUpInBrowser(page: Page, name: string, email: string) {
  await page.getByLabel('Your name').fill(name)
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Create account' }).click()
}

/** People who act through the sign-in API, their mail and the forms of pages. */
export function peopleOf(stack: TestStack) {
  const env = { ...stack.env, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }

  async function call(path: string, body: object, headers: Record<string, string> = {}) {
    const response = await fetch(`${stack.baseUrl}/api/auth/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    const answer: Answer = await response.json()
    return { status: response.status, headers: response.headers, answer }
  }

  async function signUp(email = newEmail()) {
    await call('sign-up/email', { name: 'Ada', email, password })
    const { answer } = await call('sign-in/email', { email, password })
    return { email, token: answer.token ?? '' }
  }

  /** A signed-in person with a confirmed address, without a sign-up mail. */
  async function signedInPerson() {
    return await createPerson(stack.db, env, { name: 'Ada', email: newEmail(), password })
  }

  /** Returns whether a token is a valid session, according to the dashboard's reads. */
  async function isSignedIn(token: string) {
    return await findAccess(stack.db, env, new Headers({ authorization: `Bearer ${token}` }), undefined).then(
      () => true,
      () => false,
    )
  }

  async function mailsTo(recipient: string) {
    const { rows } = await stack.sql.query<{ subject: string; body: string }>(
      'select subject, body from mails where recipient = $1 order by id',
      [recipient],
    )
    return rows
  }

  async function lastMail(recipient: string) {
    return (await mailsTo(recipient)).at(-1)?.body ?? ''
  }

  /** Returns the link to `page` in the latest mail. Waits for the mail, which is sent after the response. */
  async function mailedLink(recipient: string, page: string) {
    const pattern = new RegExp(`/${page}\\?token=([^&\\s]+)`)
    return await vi.waitFor(async () => {
      const token = pattern.exec(await lastMail(recipient))?.[1]
      if (token === undefined) throw new Error(`no mail with /${page} to ${recipient}`)
      return token
    }, 60_000)
  }

  /** Posts the form on a page with the session `token`. */
  async function post(
    path: string,
    token?: string,
    fields: Record<string, string> = {},
    others: Record<string, string> = {},
  ) {
    return await fetch(stack.baseUrl + path, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: stack.baseUrl, ...others, ...(token && sessionCookieOf(token)) },
      body: new URLSearchParams(fields),
    })
  }

  async function isVerified(email: string) {
    const { rows } = await stack.sql.query('select email_verified from users where email = $1', [email])
    return rows[0]?.email_verified
  }

  const get = async (path: string, token: string) => {
    const response = await fetch(stack.baseUrl + path, { headers: sessionCookieOf(token), redirect: 'manual' })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  return { env, call, signUp, signedInPerson, isSignedIn, mailsTo, lastMail, mailedLink, post, isVerified, get }
}
