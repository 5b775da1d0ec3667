import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import axe from 'axe-core'
import { proxyKey } from '../lib/access/proxy-keys.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { launchBrowser } from './support/browser.ts'
import { startStack } from './support/stack.ts'

const run = promisify(execFile)
const stack = await startStack({
  functions: [
    'docs',
    'api-reference',
    'tracker-package',
    'tracker-script',
    'track-click',
    'track-lead',
    'track-sale',
    'track-refund',
    'partners',
    'links',
    'sales',
    'commissions',
  ],
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

test('llms.txt names each page, and each is there for people and as Markdown', async () => {
  expect(index).toMatchObject({ status: 200, type: 'text/plain; charset=utf-8' })
  expect(pages).toContain('nextjs')
  for (const name of pages) {
    const page = await get(`/docs/${name}`)
    expect(page).toMatchObject({ status: 200, type: 'text/html; charset=UTF-8' })
    const markdown = await get(`/docs/${name}.md`)
    expect(markdown).toMatchObject({ status: 200, type: 'text/markdown; charset=utf-8' })
    // No placeholder is left, neither one of a page nor one of the instructions that the code is taken from.
    expect(page.text + markdown.text).not.toContain('{{')
  }
})

test('the first page too is Markdown where .md is added to its address', async () => {
  expect(await get('/docs.md')).toEqual(await get('/docs/index.md'))
})

test('every link within the documentation leads to a place that is there', async () => {
  for (const name of ['', ...pages]) {
    const { text } = await get(`/docs/${name}`.replace(/\/$/, ''))
    for (const [, href = ''] of text.matchAll(/href="([^"]+)"/g)) {
      const { pathname, hash } = new URL(href, `${stack.baseUrl}/docs/${name}`)
      if (pathname === '/' || pathname === '/sign-up') continue // The dashboard, which is not started here.
      const target = await get(pathname)
      expect([href, target.status]).toEqual([href, 200])
      if (hash) expect(target.text).toContain(`id="${hash.slice(1)}"`)
    }
  }
})

test.each([
  ['chargeback', '/docs/refunds'],
  ['safari cookie', '/docs/own-domain'],
  ['duplicate_transaction', '/docs/errors'],
  ['TCF', '/docs/consent#iab-tcf'],
  ['nginx', '/docs/own-domain#php-python-ruby-go'],
])('a search for %s finds %s', async (query, address) => {
  expect((await get(`/docs/search?q=${encodeURIComponent(query)}`)).text).toContain(`<a href="${address}`)
})

test('a search without a hit says what to try, and repeats no markup', async () => {
  const { text } = await get(`/docs/search?q=${encodeURIComponent('<script>alert(1)</script>')}`)
  expect(text).toContain('Nothing about')
  expect(text).not.toContain('<script>alert')
})

test('a page that is not there is a 404 which names all', async () => {
  expect(await get('/docs/nothing')).toMatchObject({ status: 404, text: expect.stringContaining('/docs for all') })
})

test('the package is served as a tarball that can be installed, and tells npm when it is the same', async () => {
  const response = await fetch(`${stack.baseUrl}/svc-tracker.tgz`)
  expect(response.headers.get('content-type')).toBe('application/gzip')
  const again = await fetch(`${stack.baseUrl}/svc-tracker.tgz`, {
    headers: { 'if-none-match': response.headers.get('etag') ?? '' },
  })
  expect(again.status).toBe(304)
})

test('the commands of the pages run as they stand', async () => {
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

test('the walk through the program API runs as it stands', async () => {
  const { text } = await get('/docs/program-api.md')
  const [, code = ''] = /^```js run file=walk.mjs\n([^]*?)^```$/m.exec(text) ?? []
  const args = ['--input-type=module', '--eval', code]
  const { stdout } = await run(process.execPath, args, { env: { SVC_API_KEY: sandbox.apiKey } })
  const lines = stdout.split('\n')
  expect(lines[0]).toMatch(/^true \{/)
  expect(stdout).toMatch(/status: 'pending',\s+amount_cents: 980,/)
  expect(lines).toContain(`Nora Field [ { currency: 'usd', balance_cents: 980 } ]`)

  const { text: page } = await get('/docs/why-this-partner.md')
  const [, question = ''] = /^```js run file=why.mjs\n([^]*?)^```$/m.exec(page) ?? []
  const why = await run(process.execPath, ['--input-type=module', '--eval', question], {
    env: { SVC_API_KEY: sandbox.apiKey },
  })
  expect(why.stdout).toMatch(/^Nora Field brought the buyer by the link \S+\. 20 % of \$49\.00 is \$9\.80\.$/m)
})

test('the proxy beside a server of another language runs as it stands, and sets the cookies', async () => {
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

/** What the page does with the visitor's choice: how often it gave consent to the tracker. */
async function consents(file: string, before: string, after: string): Promise<number> {
  const { text } = await get('/docs/consent.md')
  const code = new RegExp(`^\`\`\`html file=${file}\n([^]*?)^\`\`\`$`, 'm').exec(text)?.[1] ?? ''
  const page = await browser.newPage()
  await page.setContent(
    `<script>let given = 0; const svc = { consent: () => given++ }; ${before}</script>${code}<script>${after}</script>`,
  )
  const given = await page.evaluate<number>('given')
  await page.close()
  return given
}

const gtag = 'window.dataLayer ||= []; function gtag() { dataLayer.push(arguments) };'
const tcf = (state: object) =>
  `const __tcfapi = (command, version, listener) => listener(${JSON.stringify(state)}, true);`
const choices: [choice: string, file: string, before: string, after: string, given: boolean][] = [
  ['granted before', 'consent-mode.html', `${gtag} gtag('consent', 'default', { ad_storage: 'granted' })`, '', true],
  ['granted on the page', 'consent-mode.html', gtag, `gtag('consent', 'update', { ad_storage: 'granted' })`, true],
  ['denied', 'consent-mode.html', gtag, `gtag('consent', 'update', { ad_storage: 'denied' })`, false],
  ['another command', 'consent-mode.html', gtag, `gtag('event', 'ad_storage', { ad_storage: 'granted' })`, false],
  [
    'both purposes',
    'tcf.html',
    tcf({ eventStatus: 'tcloaded', gdprApplies: true, purpose: { consents: { 1: true, 7: true } } }),
    '',
    true,
  ],
  [
    'storing alone',
    'tcf.html',
    tcf({ eventStatus: 'useractioncomplete', gdprApplies: true, purpose: { consents: { 1: true } } }),
    '',
    false,
  ],
  [
    'a banner still open',
    'tcf.html',
    tcf({ eventStatus: 'cmpuishown', gdprApplies: true, purpose: { consents: { 1: true, 7: true } } }),
    '',
    false,
  ],
  [
    'outside the law',
    'tcf.html',
    tcf({ eventStatus: 'tcloaded', gdprApplies: false, purpose: { consents: {} } }),
    '',
    true,
  ],
]

test.each(choices)('consent: %s (%s)', async (_, file, before, after, given) => {
  expect((await consents(file, before, after)) > 0).toBe(given)
})

test.each(['light', 'dark'] as const)('the pages have no findings of axe in %s', async (colorScheme) => {
  const context = await browser.newContext({ colorScheme, bypassCSP: true })
  const page = await context.newPage()
  for (const path of ['/docs', '/docs/nextjs', '/docs/figures', '/docs/search?q=refund']) {
    await page.goto(stack.baseUrl + path)
    await page.evaluate(axe.source)
    const violations = await page.evaluate(
      'axe.run().then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes[0].html]))',
    )
    expect([path, violations]).toEqual([path, []])
  }
  await context.close()
})
