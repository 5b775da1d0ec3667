import { sessionCookie } from '../../lib/access/sessions.ts'
import { createPerson, tiePartner } from '../../lib/local/people.ts'
import { createSandbox } from '../../lib/local/sandbox.ts'
import { addPartner } from '../../lib/programs/partners.ts'
import { startStack } from './stack.ts'

const hostile = '<img src=x onerror=alert(1)>"\'&'

export const partnerPaths = `
  /partner /partner/links /partner/campaigns /partner/commissions /partner/commissions.csv /partner/payouts
  /partner/payouts.csv /partner/notifications /partner/notifications.csv
`
  .trim()
  .split(/\s+/)

export function cookieOf(token: string) {
  return `${sessionCookie}=${encodeURIComponent(token)}`
}

/**
 * Starts the dashboard for one test file, with a program whose partner has a partly refunded sale. Data that other readers must not see
 * contains the word "secret".
 */
export async function startDashboard() {
  const stack = await startStack({
    functions: ['dashboard', 'relay-outbox', 'track-click', 'track-lead', 'track-sale', 'track-refund'],
  })
  const env = { ...stack.env, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }
  const sandbox = await createSandbox(stack.db, env, { name: `Secret program ${hostile}` })
  const other = await createSandbox(stack.db, env)

  async function person(name: string) {
    return await createPerson(stack.db, env, { name, email: `${name}-${crypto.randomUUID()}@example.com` })
  }

  /** Another partner of the same program, who must not see the first partner's sales. */
  const rival = await person('rival')
  const { partnerId: rivalId } = await addPartner(stack.db, {
    programId: sandbox.programId,
    name: `=cmd|' /C calc'!A0 ${hostile}`,
    email: rival.email,
    code: null,
  })
  await tiePartner(stack.db, rivalId, rival.userId)

  async function track(path: string, body: object, apiKey?: string) {
    const response = await fetch(`${stack.baseUrl}/api/v1/track/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
      body: JSON.stringify(body),
    })
    const answer: { click_id?: string; commission_id?: number } = await response.json()
    if (!response.ok) throw new Error(JSON.stringify(answer))
    return answer
  }

  const { click_id: clickId } = await track('click', {
    affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}`,
    page_url: `https://shop.example.com/secret-page`,
  })
  await track('lead', { customer_key: 'secret-customer', click_id: clickId }, sandbox.apiKey)
  await track(
    'sale',
    { transaction_id: 'secret-transaction', customer_key: 'secret-customer', amount_cents: 10_000 },
    sandbox.apiKey,
  )
  await track('refund', { transaction_id: 'secret-transaction', refund_amount_cents: 2500 }, sandbox.apiKey)

  async function get(path: string, token?: string) {
    const headers = { ...(token && { cookie: cookieOf(token) }) }
    const response = await fetch(stack.baseUrl + path, { redirect: 'manual', headers })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  async function post(path: string, fields: Record<string, string>, token?: string, origin = stack.baseUrl) {
    const response = await fetch(stack.baseUrl + path, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin, ...(token && { cookie: cookieOf(token) }) },
      body: new URLSearchParams(fields),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  return { stack, env, sandbox, other, rival, person, track, get, post }
}
