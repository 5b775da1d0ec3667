import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { SvcClient } from '@affiliate-tracking/svc-tracker'
import { SvcApi } from '@affiliate-tracking/svc-tracker/api'
import { verifyWebhook } from '@affiliate-tracking/svc-tracker/webhooks'
import { sessionCookie } from '../lib/access/sessions.ts'
import { proxyKey } from '../lib/access/proxy-keys.ts'
import { webhookBodySchema, webhookPayloads } from '../lib/api/webhook-payloads.ts'
import { freePort } from '../lib/serve/embedded-postgres.ts'
import { webhookTypes } from '../lib/notifications/webhook-types.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { proxyPath } from '../lib/programs/proxy-path.ts'
import { packageFile } from '../tracker/dist/served/package.js'
import { axeFindings } from './support/axe.ts'
import { launchBrowser } from './support/browser.ts'
import { drawInPlace } from './support/draw.ts'
import { startReceiver } from './support/receiver.ts'
import { startStack } from './support/stack.ts'

const run = promisify(execFile)
const stack = await startStack({
  functions: `
    dashboard codes docs api-reference tracker-package tracker-script track-click track-lead track-sale
    track-refund partners groups links sales commissions adjustments applications webhook-endpoints deliver-webhooks
  `
    .trim()
    .split(/\s+/),
  // Allows webhooks to receivers on this machine.
  common: { WEBHOOK_LOOPBACK: 'on' },
})
const sandbox = await createSandbox(stack.db, { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET })
const browser = await launchBrowser()
afterAll(() => browser.close())

const get = async (path: string) => {
  const response = await fetch(new URL(path, stack.baseUrl))
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
}
const index = await get('/llms.txt')
const pages = Array.from(index.text.matchAll(/\/docs\/([\w-]+)\.md\)/g), ([, name = '']) => name)

/** Opens a dashboard page with the session of a person. */
async function openDashboard(token: string, path: string) {
  const page = await browser.newPage({ baseURL: stack.baseUrl })
  const { hostname: domain } = new URL(stack.baseUrl)
  const session = { name: sessionCookie, value: encodeURIComponent(token) }
  await page.context().addCookies([{ ...session, domain, path: '/', secure: true }])
  await page.goto(path)
  return page
}

/** Returns the code block of a page for a file. */
async function codeOf(page: string, file: string): Promise<string> {
  const { text } = await get(`/docs/${page}.md`)
  return (
    new RegExp(`^\`\`\`js run file=${file}\\n([^]*?)^\`\`\`$`, 'm')
      .exec(text)?.[1]
      ?.replace('PROGRAM_CURRENCY', 'usd') ?? ''
  )
}

test('llms.txt lists each page, and each exists as HTML and as Markdown', async () => {
  expect(index).toMatchObject({ status: 200, type: 'text/plain; charset=utf-8' })
  expect(pages).toContain('nextjs')
  for (const name of pages) {
    const page = await get(`/docs/${name}`)
    expect(page).toMatchObject({ status: 200, type: 'text/html; charset=UTF-8' })
    const markdown = await get(`/docs/${name}.md`)
    expect(markdown).toMatchObject({ status: 200, type: 'text/markdown; charset=utf-8' })
    // No placeholders from the page or the instructions are left.
    expect(page.text + markdown.text).not.toContain('{{')
  }
})

test('llms.txt says how to authenticate and begin, and llms-full.txt contains every page', async () => {
  expect(index.text).toMatch(/## Authentication[^]*Bearer svc_live_[^]*## Quick start[^]*npx --yes --package=http/)
  const whole = await get('/llms-full.txt')
  expect(whole.text).not.toContain('{{')
  for (const name of pages) {
    const [title = ''] = (await get(`/docs/${name}.md`)).text.split('\n')
    expect(whole.text).toContain(`${title}\n`)
  }
})

test('each call is shown in one of six languages at a time, and can be copied', async () => {
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] })
  const page = await context.newPage()
  await page.goto(`${stack.baseUrl}/docs/calls`)
  const shown = () => page.locator('figure[data-tab]:visible figcaption').allTextContents()
  expect(await shown()).toEqual(['curl', 'curl', 'curl', 'curl'])
  await page.getByRole('button', { name: 'Python' }).nth(1).click()
  expect(await shown()).toEqual(['Python', 'Python', 'Python', 'Python'])
  await page.goto(`${stack.baseUrl}/docs/renewals`)
  expect(await shown()).toEqual(['Python'])
  await page.locator('figure[data-tab]:visible').getByRole('button', { name: 'Copy' }).click()
  await page.getByRole('button', { name: 'Copied' }).waitFor()
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain('"is_recurring": True,')
  await context.close()
})

test('the examples show the program that the reader opened last, until they sign out', async () => {
  const env = { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET }
  const { dashboardToken, programId: id } = await createSandbox(stack.db, env, { domain: 'shop.acme.com' })
  const page = await openDashboard(dashboardToken, `/programs/${id}/check`)
  await page.getByRole('link', { name: 'HTML and any server' }).click()
  const tag = page.locator('figure.code', { hasText: 'data-svc-program-id' }).first()
  const path = await proxyPath({ id, domain: 'shop.acme.com' })
  expect(await tag.locator('code').textContent()).toContain(`src="/${path}" data-svc-program-id="${id}"`)
  await page.getByText('The examples are filled in for shop.acme.com').waitFor()
  await page.goto('/docs/several-programs')
  expect(await tag.locator('code').textContent()).toContain('data-svc-program-id="OTHER_PROGRAM_ID"')
  expect(await page.locator('figure.code').nth(1).textContent()).toContain("currency: 'usd'")
  await page.context().clearCookies()
  await page.goto('/sign-in')
  await page.goto('/docs/html')
  expect(await tag.locator('code').textContent()).toContain('src="/YOUR_PATH" data-svc-program-id="PROGRAM_ID"')
  await page.close()
})

test('the first page is available as Markdown with .md in its address', async () => {
  expect(await get('/docs.md')).toEqual(await get('/docs/index.md'))
})

test.each(['html', 'nextjs', 'react'])('%s covers every step from the tag to the installation check', async (name) => {
  const { text } = await get(`/docs/${name}.md`)
  const headings = Array.from(text.matchAll(/^## (.+)$/gm), ([, heading = '']) => heading)
  for (const step of [/^1\. The t/, '2. The lead', '3. The sale', 'Check it'])
    expect(headings).toContainEqual(typeof step === 'string' ? step : expect.stringMatching(step))
  // The page, or one that it links to, also shows a server that handles the form.
  const server = name === 'react' ? (await get('/docs/html.md')).text : text
  expect(server).toMatch(/api\/signup/)
  if (name === 'react') expect(text).toMatch(/\(\/docs\/html#with-node\)[^]*proxy: \{ '\/api'/)
})

test('every link within the documentation has a target', async () => {
  for (const name of ['', ...pages]) {
    const { text } = await get(`/docs/${name}`.replace(/\/$/, ''))
    for (const [, href = ''] of text.matchAll(/href="([^"]+)"/g)) {
      const { pathname, hash } = new URL(href, `${stack.baseUrl}/docs/${name}`)
      if (pathname === '/' || pathname === '/sign-up') continue // Excluded, because the dashboard doesn't run here.
      const target = await get(pathname)
      expect([href, target.status]).toEqual([href, 200])
      if (hash) expect(target.text).toContain(`id="${hash.slice(1)}"`)
    }
  }
})

test.each([
  ['chargeback', '/docs/refunds'],
  ['renewal', '/docs/renewals'],
  ['recurring', '/docs/renewals'],
  ['payout', '/docs/payouts'],
  ['CSP', '/docs/csp'],
  ['migrate', '/docs/migrate'],
  ['safari cookie', '/docs/own-domain'],
  ['duplicate_transaction', '/docs/errors'],
  ['TCF', '/docs/consent#iab-tcf'],
  ['nginx', '/docs/own-domain#php-python-ruby-go'],
])('a search for %s finds %s', async (query, address) => {
  expect((await get(`/docs/search?q=${encodeURIComponent(query)}`)).text).toContain(`<a href="${address}`)
})

test('a search without a hit suggests what to try, and escapes markup', async () => {
  const { text } = await get(`/docs/search?q=${encodeURIComponent('<script>alert(1)</script>')}`)
  expect(text).toContain('No results for')
  expect(text).not.toContain('<script>alert')
})

test.each(['/docs/nothing', '/docs/stripe/more'])('%s is a 404 that shows the menu', async (path) => {
  expect(await get(path)).toMatchObject({ status: 404, text: expect.stringMatching(/Page not found[^]*href="\/docs"/) })
})

test('a page without Markdown returns 404 and mentions the list of pages', async () => {
  expect(await get('/docs/nothing.md')).toMatchObject({ status: 404, text: expect.stringContaining('/llms.txt') })
})

test('the package is served forever under its version, and every page shows this address', async () => {
  const { text } = await get('/docs/command.md')
  const [address = ''] = /http\S+\.tgz/.exec(text) ?? []
  expect(address).toBe(`${stack.baseUrl}/packages/${packageFile}`)
  const response = await fetch(address)
  expect(response.headers.get('content-type')).toBe('application/gzip')
  expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  for (const name of ['svc-tracker-0.0.1.tgz', 'constructor'])
    expect(await get(`/packages/${name}`)).toMatchObject({ status: 404, text: expect.stringContaining(address) })
})

test("no page shows a command that could reach someone else's package", async () => {
  for (const name of pages) {
    const { text } = await get(`/docs/${name}.md`)
    expect(text).not.toMatch(
      /npx (?!--yes --package=http)|(install|add) svc-tracker|[^/]svc-tracker['/](?!svc-tracker\.js)/,
    )
  }
})

test('the commands of the pages run unchanged', async () => {
  const click = await fetch(`${stack.baseUrl}/api/v1/track/click`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}` }),
  })
  const { click_id: clickId } = await click.json()
  const answers: Record<string, unknown>[] = []
  for (const name of ['html', 'refunds', 'test-data', 'program-api']) {
    const { text } = await get(`/docs/${name}.md`)
    for (const [, script = ''] of text.matchAll(/^```sh run\n([^]*?)^```$/gm)) {
      const env = { PATH: process.env['PATH'] ?? '', SVC_API_KEY: sandbox.apiKey, CLICK_ID: clickId }
      const { stdout } = await run('bash', ['-c', script], { env })
      answers.push(JSON.parse(stdout))
    }
  }
  expect(answers).toMatchObject([
    { success: true, customer_status: 'lead' },
    { success: true, attributed: true, commission_cents: 998 },
    { success: true, status: 'refunded', deduction_cents: 200 },
    { success: true, commission_id: null },
    { success: true, partner: { name: 'Ada Lovelace' } },
    { success: true, data: [{ name: 'Ada Lovelace' }], next_cursor: null },
  ])
})

test.each([
  ['program-api', 'partners.mjs', /^\d+\nNora Field \[\]\n/],
  ['program-api', 'groups.mjs', /^1$/m],
  ['program-api', 'by-hand.mjs', /^5000\n-1200\n$/],
  ['joining', 'apply.mjs', /^unverified\n$/],
])('%s: %s runs unchanged', async (page, file, expected) => {
  const args = ['--input-type=module', '--eval', await codeOf(page, file)]
  const { stdout } = await run(process.execPath, args, { env: { SVC_API_KEY: sandbox.apiKey } })
  expect(stdout).toMatch(expected)
})

test('a code is created and used as described on the codes page', async () => {
  const args = ['--input-type=module', '--eval', await codeOf('codes', 'codes.mjs')]
  const { stdout } = await run(process.execPath, args, { env: { SVC_API_KEY: sandbox.apiKey } })
  expect(stdout).toMatch(/^true true$/m)
})

test(
  'the walkthrough runs unchanged: it tracks from another process, and explains the sale as JSON and in the dashboard',
  { timeout: 120_000 },
  async () => {
    const shop = await createSandbox(stack.db, { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET })
    const port = await freePort()
    const { text } = await get('/docs/walk.md')
    const blocks = Array.from(
      text.matchAll(/^```(\w+) walk(?: file=(\S+))?\n([^]*?)^```$/gm),
      ([, kind, file, code = '']) => ({
        kind,
        file,
        code: code
          .replace('PROGRAM_CURRENCY', 'usd')
          .replace('.listen(3000)', `.listen(${port})`)
          .replace('localhost:3000', `localhost:${port}`),
      }),
    )
    const folder = mkdtempSync(join(tmpdir(), 'walk-'))
    // The same files as after `npm install` of the two packages. This checkout has no `.bin/svc`, because `npm install` ran before the
    // build.
    for (const name of ['.bin', '@affiliate-tracking'])
      mkdirSync(join(folder, 'node_modules', name), { recursive: true })
    for (const name of ['@affiliate-tracking/svc-tracker', 'standardwebhooks'])
      symlinkSync(resolve('node_modules', name), join(folder, 'node_modules', name))
    symlinkSync(resolve('tracker/dist/svc.js'), join(folder, 'node_modules/.bin/svc'))
    for (const { file, code } of blocks) if (file) writeFileSync(join(folder, file), code)
    const env = {
      PATH: process.env['PATH'] ?? '',
      HOME: folder,
      SVC_BASE_URL: stack.baseUrl,
      SVC_API_KEY: shop.apiKey,
      SVC_WEBHOOK_SECRET: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=',
    }
    const options = { cwd: folder, env }
    const [servers = '', walk = '', questions = ''] = blocks.flatMap(({ kind, code }) => (kind === 'sh' ? [code] : []))

    const background = spawn('bash', ['-c', `${servers}\nwait`], { ...options, detached: true })
    onTestFinished(async () => {
      const ended = once(background, 'close')
      process.kill(-(background.pid ?? 0), 'SIGTERM')
      await ended
      rmSync(folder, { recursive: true })
    })
    const output = { printed: '' }
    for (const stream of [background.stdout, background.stderr])
      stream.setEncoding('utf8').on('data', (printed: string) => (output.printed += printed))
    await expect.poll(() => output.printed, { timeout: 60_000 }).toContain('forwards to')

    const { stdout: walked } = await run('bash', ['-c', walk], options)
    expect(walked).toMatch(/^true \{ id: \d+, status: 'refunded', amount_cents: 980, reversed_cents: 180 \}\n/)
    expect(walked.split('\n')).toContain(`Nora Field [ { currency: 'usd', balance_cents: 800 } ]`)
    const reported = blocks.find(({ kind }) => kind === 'text')?.code
    await expect.poll(() => output.printed.match(/^[a-z]+\.[a-z]+ order-81.*\n/gm)?.join('')).toBe(reported)

    const summary = /Nora Field referred the buyer through the link \S+\. 20% of \$49\.00 is \$9\.80\./
    const { stdout: explained } = await run('bash', ['-c', questions], options)
    expect(explained.split(summary)).toHaveLength(3)
    const why = ['--input-type=module', '--eval', await codeOf('why-this-partner', 'why.mjs')]
    const asked = await run(process.execPath, why, { env: { SVC_API_KEY: shop.apiKey } })
    expect(asked.stdout).toMatch(summary)

    const page = await openDashboard(shop.dashboardToken, `/programs/${shop.programId}/commissions`)
    await page.getByRole('link', { name: 'order-81' }).click()
    await page.getByRole('heading', { name: 'Why this partner?' }).waitFor()
    expect(await page.locator('main').innerText()).toMatch(summary)
    const history = page.getByRole('table', { name: /^History/ }).getByRole('row')
    const events = await history.locator('td:nth-child(2)').allInnerTexts()
    expect(events.map((event) => event.toLowerCase())).toEqual(['recorded', 'commission', 'refund', 'approved'])
    await page.close()
  },
)

test('the proxy beside a server in another language runs unchanged and sets the cookies', async () => {
  const { text } = await get('/docs/own-domain.md')
  const [, code = ''] = /^```js file=proxy.mjs\n([^]*?)^```$/m.exec(text) ?? []
  const onAnyPort = code
    .replace('.listen(4000,', '.listen(0,')
    .replace(/\)\n$/, ').on("listening", function () { console.log(this.address().port) })')
  const server = spawn(process.execPath, ['--input-type=module', '--eval', onAnyPort], {
    env: { SVC_PROXY_KEY: await proxyKey(stack.environment, sandbox.programId) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const [port] = await once(server.stdout, 'data')
    const address = `http://127.0.0.1:${String(port).trim()}/mybhqzlr`
    const script = await fetch(address)
    expect([script.status, script.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8'])
    expect(await script.text()).not.toContain('/api/v1/track/')
    const click = await fetch(address, {
      method: 'POST',
      headers: { origin: 'https://shop.example.com', 'x-forwarded-for': '198.51.100.7' },
      body: JSON.stringify({ affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}` }),
    })
    expect(await click.json()).toMatchObject({ success: true, cookie_set: true })
    expect(click.headers.getSetCookie().map((cookie) => cookie.split('=')[0])).toEqual([
      'svc_click_id',
      'svc_click_id_kept',
    ])
  } finally {
    server.kill()
  }
})

interface Sent {
  body: string
  headers: Record<string, string>
  secret: string | string[]
}

const header =
  (name: string, change: (value: string) => string): ((of: Sent) => Partial<Sent>) =>
  ({ headers }) => ({ headers: { ...headers, [name]: change(headers[name] ?? '') } })
const without =
  (name: string): ((of: Sent) => Partial<Sent>) =>
  ({ headers }) => ({ headers: Object.fromEntries(Object.entries(headers).filter(([given]) => given !== name)) })
describe('webhooks, with a partner, a link, a click, a sale, a refund', () => {
  const servers: ChildProcess[] = []
  afterAll(() => servers.forEach((server) => void server.kill()))
  const receiving = startReceiver()
  afterAll(async () => (await receiving).close())
  const walk = async () => {
    const shop = await createSandbox(stack.db, { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET })
    const options = { apiKey: shop.apiKey, baseUrl: stack.baseUrl }
    const [client, service] = [new SvcClient(options), new SvcApi(options)]
    const receiver = await receiving
    const port = await freePort()

    const created = await service.webhookEndpoints.create({
      url: receiver.urlOf('walk', 'ok'),
      types: [...webhookTypes],
    })
    const secret = created.data?.secret ?? ''
    receiver.expect('walk', secret)
    const own = await service.webhookEndpoints.create({
      url: `http://127.0.0.1:${port}/hooks`,
      types: ['sale.created'],
    })
    const env = { SVC_WEBHOOK_SECRET: own.data?.secret, PORT: String(port) }
    const args = ['--input-type=module', '--eval', await codeOf('webhooks', 'hooks.mjs')]
    const server = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
    servers.push(server)
    const output = { printed: '' }
    server.stdout.setEncoding('utf8').on('data', (text: string) => (output.printed += text))
    const answers = () =>
      fetch(`http://127.0.0.1:${port}/`).then(
        ({ status }) => status,
        () => 0,
      )
    while ((await answers()) !== 400) await sleep(50)

    const partner = await service.partners.create({ name: 'Walk' })
    const link = await service.links.create({ partner_id: partner.data?.id ?? 0 })
    const click = await fetch(`${stack.baseUrl}/api/v1/track/click`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ affiliate_url: link.data?.url }),
    })
    const { click_id: clickId } = await click.json()
    const sale = { customerExternalId: 'walker', clickId, amount: 4900, invoiceId: 'walk-1' }
    await client.trackSale(sale)
    await client.trackRefund({ invoiceId: 'walk-1', amount: 900 })
    await service.webhookEndpoints.test(created.data?.id ?? 0)
    const ids = () => new Set(receiver.of('walk').map(({ id }) => id))
    while (ids().size < 5) {
      await stack.scheduled('deliver-webhooks')
      await receiver.settle()
    }
    const webhooks = receiver.of('walk')
    return { service, webhooks, secret, output, endpointId: created.data?.id ?? 0, partnerId: partner.data?.id }
  }
  let done: Awaited<ReturnType<typeof walk>>
  beforeAll(async () => void (done = await walk()), 120_000)

  test("the Standard Webhooks library verifies deliveries in another process, and so do the page's code and verifyWebhook", async () => {
    const { webhooks, secret, output, endpointId, partnerId } = done
    expect(webhooks.map(({ signed }) => signed)).toEqual(webhooks.map(() => true))
    const events = await Promise.all(webhooks.map(({ body, headers }) => verifyWebhook(body, headers, secret)))
    const inOrder = events.toSorted((a, b) => a.sequence - b.sequence)
    expect(inOrder).toMatchObject([
      { type: 'sale.created', data: { transaction_id: 'walk-1', amount_cents: 4900, partner_id: partnerId } },
      { type: 'commission.created', data: { amount_cents: 980, partner_id: partnerId } },
      { type: 'sale.refunded', data: { refunded_by_cents: 900, reason: 'refund' } },
      { type: 'commission.reversed', data: { reversed_by_cents: 180, is_full: false } },
      { type: 'webhook.test', data: { endpoint_id: endpointId } },
    ])
    for (const event of inOrder) expect(webhookBodySchema(event.type).safeParse(event)).toMatchObject({ success: true })
    const reported = inOrder[0]
    await expect.poll(() => output.printed).toBe(`${reported?.id} walk-1 4900\n`)
  })

  test('deliveries and the explanation of the sale are available as JSON', async () => {
    const { service, webhooks, secret, endpointId: id } = done
    const page = await service.webhookEndpoints.deliveries(id, { status: 'delivered' }).page()
    expect(page.data?.data.map(({ type }) => type)).toHaveLength(5)
    const [first] = page.data?.data ?? []
    const delivery = await service.webhookEndpoints.delivery(id, first?.id ?? '')
    expect(delivery.data).toMatchObject({ attempt_count: 1, attempts: [{ status: 200, error: null }] })
    expect(JSON.stringify(first?.payload)).toBe(webhooks.find((webhook) => webhook.id === first?.id)?.body)
    const explanation = await service.sales.explanation('walk-1')
    expect(explanation.data).toMatchObject({
      summary: expect.stringContaining('Walk referred the buyer'),
      sale: { amount_cents: 4900, refunded_cents: 900 },
    })
    expect(await service.webhookEndpoints.replay(id, { delivery_id: first?.id ?? '' })).toMatchObject({ data: 1 })
    const rotated = await service.webhookEndpoints.rotateSecret(id)
    expect(rotated.data?.secret).not.toBe(secret)
    expect(await service.webhookEndpoints.delete(id)).toMatchObject({ ok: true, data: id })
    expect(await service.webhookEndpoints.get(id)).toMatchObject({ ok: false, status: 404 })
  })

  const old = String(Math.floor(Date.now() / 1000) - 301)
  const late = String(Math.floor(Date.now() / 1000) + 360)
  const other = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo='
  const sent = (): Sent => ({
    body: done.webhooks[0]?.body ?? '',
    headers: done.webhooks[0]?.headers ?? {},
    secret: done.secret,
  })
  const tamperings: [what: string, change: (of: Sent) => Partial<Sent>][] = [
    ['another body', ({ body }) => ({ body: body.replace(/"sequence":\d+/, '"sequence":999999') })],
    ['an extra space', ({ body }) => ({ body: `${body} ` })],
    ['another id', header('webhook-id', () => 'evt_999')],
    ['another time', header('webhook-timestamp', (at) => String(Number(at) + 1))],
    ['a time that is too old', header('webhook-timestamp', () => old)],
    ['a time in the future', header('webhook-timestamp', () => late)],
    ['an invalid time', header('webhook-timestamp', () => 'now')],
    ['another secret', () => ({ secret: other })],
    ['no secret', () => ({ secret: '' })],
    ['another kind of secret', () => ({ secret: 'sk_live_1' })],
    ['no secrets', () => ({ secret: [] })],
    ['another version', header('webhook-signature', (value) => value.replace('v1,', 'v2,'))],
    ['an invalid signature', header('webhook-signature', () => 'v1,!')],
    ['no webhook-id', without('webhook-id')],
    ['no webhook-timestamp', without('webhook-timestamp')],
    ['no webhook-signature', without('webhook-signature')],
  ]

  test.each(tamperings)('verifyWebhook refuses %s', async (_what, change) => {
    const { body, headers, secret } = { ...sent(), ...change(sent()) }
    await expect(verifyWebhook(body, headers, secret)).rejects.toMatchObject({ name: 'WebhookVerificationError' })
  })

  test('verifyWebhook accepts bytes, fetch headers in any case, several secrets and several signatures', async () => {
    const { body, headers } = sent()
    const { secret } = done
    const event = JSON.parse(body)
    const shouted = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]))
    const rotated = { ...headers, 'webhook-signature': `v1,AAAA ${headers['webhook-signature']}` }
    expect(await verifyWebhook(new TextEncoder().encode(body), new Headers(headers), secret)).toEqual(event)
    expect(await verifyWebhook(body, shouted, [other, secret])).toEqual(event)
    expect(await verifyWebhook(body, rotated, secret)).toEqual(event)
  })

  test('the code that creates an endpoint runs unchanged, and the page lists every event type', async () => {
    const code = await codeOf('webhooks', 'endpoint.mjs')
    const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', code], {
      env: { SVC_API_KEY: sandbox.apiKey },
    })
    expect(stdout).toMatch(/^\d+ whsec_\S+\nwebhook\.test \[\]\n$/)
    const { text } = await get('/docs/webhooks.md')
    for (const type of Object.keys(webhookPayloads)) expect(text).toContain(`| \`${type}\` |`)
  })
})

/** Returns the page's last call to the tracker: `consent`, `revoked`, or none. */
async function consents(file: string, before: string, after: string): Promise<string> {
  const { text } = await get('/docs/consent.md')
  const code = new RegExp(`^\`\`\`html file=${file}\n([^]*?)^\`\`\`$`, 'm').exec(text)?.[1] ?? ''
  const page = await browser.newPage()
  await page.setContent(
    `<script>let given = ''; const svc = { consent: () => (given = 'given'), revokeConsent: () => (given = 'revoked') }; ${before}</script>${code}<script>${after}</script>`,
  )
  const given = await page.evaluate<string>('given')
  await page.close()
  return given
}

const gtag = 'window.dataLayer ||= []; function gtag() { dataLayer.push(arguments) };'
const tcf = (state: object) =>
  `const __tcfapi = (command, version, listener) => listener(${JSON.stringify(state)}, true);`
const cookiebot = (marketing: boolean) => `const Cookiebot = { consent: { marketing: ${marketing} } };`
const fire = (name: string, detail: object) =>
  `dispatchEvent(new CustomEvent('${name}', { detail: ${JSON.stringify(detail)} }))`
const choices: [choice: string, file: string, before: string, after: string, last: string][] = [
  ['granted before', 'consent-mode.html', `${gtag} gtag('consent', 'default', { ad_storage: 'granted' })`, '', 'given'],
  ['granted on the page', 'consent-mode.html', gtag, `gtag('consent', 'update', { ad_storage: 'granted' })`, 'given'],
  ['denied', 'consent-mode.html', gtag, `gtag('consent', 'update', { ad_storage: 'denied' })`, 'revoked'],
  [
    'denied before a choice',
    'consent-mode.html',
    `${gtag} gtag('consent', 'default', { ad_storage: 'denied' })`,
    '',
    '',
  ],
  ['another command', 'consent-mode.html', gtag, `gtag('event', 'ad_storage', { ad_storage: 'granted' })`, ''],
  ['accepted', 'cookiebot.html', cookiebot(true), `dispatchEvent(new Event('CookiebotOnAccept'))`, 'given'],
  ['declined', 'cookiebot.html', cookiebot(false), `dispatchEvent(new Event('CookiebotOnDecline'))`, 'revoked'],
  ['accepted', 'onetrust.html', '', fire('OneTrustGroupsUpdated', ['C0001', 'C0004']), 'given'],
  ['declined', 'onetrust.html', '', fire('OneTrustGroupsUpdated', ['C0001']), 'revoked'],
  [
    'accepted',
    'usercentrics.html',
    '',
    fire('ucEvent', { event: 'consent_status', 'Affiliate tracking': true }),
    'given',
  ],
  [
    'declined',
    'usercentrics.html',
    '',
    fire('ucEvent', { event: 'consent_status', 'Affiliate tracking': false }),
    'revoked',
  ],
  [
    'both purposes',
    'tcf.html',
    tcf({ eventStatus: 'tcloaded', gdprApplies: true, purpose: { consents: { 1: true, 7: true } } }),
    '',
    'given',
  ],
  [
    'storage only',
    'tcf.html',
    tcf({ eventStatus: 'useractioncomplete', gdprApplies: true, purpose: { consents: { 1: true } } }),
    '',
    'revoked',
  ],
  [
    'an open banner',
    'tcf.html',
    tcf({ eventStatus: 'cmpuishown', gdprApplies: true, purpose: { consents: { 1: true, 7: true } } }),
    '',
    '',
  ],
  [
    'a visitor outside the GDPR',
    'tcf.html',
    tcf({ eventStatus: 'tcloaded', gdprApplies: false, purpose: { consents: {} } }),
    '',
    'given',
  ],
]

test.each(choices)('consent: %s (%s)', async (_, file, before, after, last) => {
  expect(await consents(file, before, after)).toBe(last)
})

test("axe doesn't find accessibility problems on the pages in light and dark mode", async () => {
  const context = await browser.newContext({ bypassCSP: true })
  const page = await context.newPage()
  await page.goto(`${stack.baseUrl}/docs`)
  for (const path of ['/docs', '/docs/nextjs', '/docs/figures', '/docs/webhooks', '/docs/search?q=refund']) {
    expect(await drawInPlace(page, path)).toMatchObject({ status: 200 })
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      // In dark mode, only colors differ.
      const found = await axeFindings(page, { colours: colorScheme === 'dark' })
      expect([path, colorScheme, found]).toEqual([path, colorScheme, []])
    }
  }
  await context.close()
})
