import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { build as esbuild } from 'esbuild'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { createElement, type ComponentType, type ReactNode } from 'react'
import { renderToString } from 'react-dom/server'
import { Stripe } from 'stripe'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { build as viteBuild } from 'vite'
import { proxyKey } from '../lib/access/proxy-keys.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { freePort } from '../lib/serve/embedded-postgres.ts'
import { pages } from '../tracker/dist/served/docs.js'
import { packageFile, version } from '../tracker/dist/served/package.js'
import { packages } from '../tracker/dist/served/packages.js'
import { pack, packFor, unpack } from '../tracker/pack.ts'
import { versionOf } from '../tracker/released.ts'
import { launchBrowser } from './support/browser.ts'
import { asRequest } from './support/shop.ts'
import { bareEnvironment } from './support/spawned.ts'
import { startStack } from './support/stack.ts'

const root = fileURLToPath(new URL('../', import.meta.url))
const run = promisify(execFile)

const stack = await startStack({
  functions: [
    'tracker-script',
    'track-click',
    'track-lead',
    'track-sale',
    'track-refund',
    'cli-status',
    'tracker-package',
  ],
})
const env = { ...stack.env, ...stack.environment, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }
const sandbox = await createSandbox(stack.db, env)
const port = await freePort()
const browser = await launchBrowser(`--host-resolver-rules=MAP * 127.0.0.1:${port}`)
const shopUrl = 'http://www.shop.example.com'

/** A folder with the installed package and the packages of a shop: React, Express, Stripe and types. */
const folder = mkdtempSync(path.join(tmpdir(), 'svc-package-'))
const inFolder = (file: string) => path.join(folder, file)
afterAll(() => rmSync(folder, { recursive: true }))

const address = `${stack.baseUrl}/packages/${packageFile}`
/** Packages that a command requested from the npm registry. */
const strangers: string[] = []
const registry = createServer(({ url = '' }, outgoing) => {
  strangers.push(url)
  outgoing.writeHead(404).end('{}')
})
afterAll(() => registry.close())

function write(file: string, text: string): void {
  mkdirSync(path.dirname(inFolder(file)), { recursive: true })
  writeFileSync(inFolder(file), text)
}

/** The code blocks of AGENTS.md, by the file that they belong to. */
let blocks: Record<string, string> = {}
/** The path that `init` generated for the proxy. */
let mount = ''

beforeAll(async () => {
  write('package.json', JSON.stringify({ name: 'shop', private: true, type: 'module' }))
  await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve))
  // The command from the dashboard, with an empty package registry.
  await run('bash', ['-euc', `npm install ${address} && npx --yes --package=${address} svc init`], {
    cwd: folder,
    env: {
      ...bareEnvironment,
      HOME: folder,
      SVC_API_KEY: sandbox.apiKey,
      SVC_BASE_URL: stack.baseUrl,
      npm_config_registry: `http://127.0.0.1:${(registry.address() as AddressInfo).port}`,
      npm_config_cache: inFolder('.npm'),
      npm_config_audit: 'false',
      npm_config_update_notifier: 'false',
    },
  })
  mkdirSync(inFolder('node_modules/@types'))
  for (const name of ['react', 'react-dom', 'express', 'stripe', '@types/react', '@types/react-dom', '@types/node']) {
    symlinkSync(path.join(root, 'node_modules', name), inFolder(`node_modules/${name}`))
  }
  const instructions = readFileSync(inFolder('.svc/AGENTS.md'), 'utf8')
  const found = instructions.matchAll(/^```\w+ file=(.+)\n([^]*?)^```$/gm)
  blocks = Object.fromEntries([...found].map(([, file = '', code = '']) => [file, code]))
  for (const [file, code] of Object.entries(blocks)) write(file, code)
  mount = /app\.all\('\/(\w+)'/.exec(blocks['server.js'] ?? '')?.[1] ?? ''
  for (const { markdown } of pages)
    for (const [, file = '', code = ''] of markdown.matchAll(/^```tsx file=(src\/.+)\n([^]*?)^```$/gm))
      write(file, code)
})

/** Returns the exports of one of the TypeScript blocks, as a server would load them. */
async function load<Exports>(file: string): Promise<Exports> {
  const outfile = inFolder(`built/${file.replaceAll(/\W/g, '-')}.mjs`)
  const options = { bundle: true, packages: 'external', format: 'esm', jsx: 'automatic' } as const
  await esbuild({ entryPoints: [inFolder(file)], outfile, ...options })
  return import(outfile)
}

/** The functions of a shop's server, which tests call as the shop's own code would. */
type Actions = Record<string, (...args: unknown[]) => Promise<unknown>>

async function respond(outgoing: ServerResponse, response: Response): Promise<void> {
  outgoing.writeHead(response.status, [...response.headers].flat())
  outgoing.end(Buffer.from(await response.arrayBuffer()))
}

/** Serves one shop on the port to which Chromium sends every host name, until the test ends. */
async function serve(answer: (request: Request) => Response | Promise<Response>): Promise<void> {
  const server = createServer((incoming, outgoing) => {
    void asRequest(incoming).then(async (request) => respond(outgoing, await answer(request)))
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
}

/** Starts a server in the folder in its own process, as AGENTS.md says. Waits until it answers, and ends it with the test. */
async function start(file: string): Promise<void> {
  const child = spawn(process.execPath, [`--env-file=${inFolder('.svc/.env')}`, path.basename(file)], {
    cwd: path.dirname(inFolder(file)),
    env: { ...bareEnvironment, PORT: String(port) },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  onTestFinished(async () => {
    child.kill()
    await once(child, 'exit')
  })
  await expect
    .poll(() =>
      fetch(`http://127.0.0.1:${port}/`).then(
        () => true,
        () => false,
      ),
    )
    .toBe(true)
}

async function newLink(): Promise<string> {
  const code = `code-${crypto.randomUUID().slice(0, 8)}`
  await stack.sql.query('insert into referral_links (program_id, partner_id, code) values ($1, $2, $3)', [
    sandbox.programId,
    sandbox.partnerId,
    code,
  ])
  return code
}

/** Reads the customers of a link from the service. */
async function customersOf(code: string) {
  const { rows } = await stack.sql.query(
    `select c.customer_status, s.transaction_id, s.amount_cents::int, m.amount_cents::int as commission_cents, m.status,
       m.reversed_cents::int
     from customers c join referral_links l on l.id = c.link_id
     left join sales s on s.customer_id = c.id left join commissions m on m.sale_id = s.id
     where l.code = $1 order by s.id`,
    [code],
  )
  return rows
}

/** Follows a partner's link, signs up on the page, and returns the page's response. */
async function signUp(page: string): Promise<{ code: string; said: string | null; complaints: string[] }> {
  const code = await newLink()
  const context = await browser.newContext()
  const complaints: string[] = []
  const tab = await context.newPage()
  tab.on('pageerror', (error) => complaints.push(error.message))
  tab.on('console', (message) => void (message.type() === 'error' && complaints.push(message.text())))
  await tab.goto(`${shopUrl}${page}?aff=${code}`)
  await tab.waitForFunction(() => window.svc?.getClickId())
  await tab.fill('[name=email]', 'a@example.com')
  await tab.click('button')
  await tab.waitForFunction(() => document.querySelector('output')?.textContent)
  const said = await tab.textContent('output')
  await context.close()
  return { code, said, complaints }
}

const template = Buffer.from(packages[version] ?? '', 'base64')
const files = unpack(packFor(template, { baseUrl: stack.baseUrl, version }))

test('the package contains only the files that it needs', () => {
  expect(Object.keys(files).toSorted()).toEqual(
    `
    LICENSE README.md dist/addresses.d.ts dist/api-types.d.ts dist/api.d.ts dist/api.js dist/browser.d.ts
    dist/cookies.d.ts dist/embed-react.d.ts dist/embed-react.js dist/embed.d.ts dist/embed.js dist/proxy.d.ts dist/proxy.js dist/react.d.ts dist/react.js dist/send.d.ts
    dist/server.d.ts dist/server.js dist/stripe-amounts.d.ts dist/stripe.d.ts dist/stripe.js
    dist/svc-payment-links.js dist/svc-tracker-consent.js dist/svc-tracker.js dist/svc.js dist/svc.js.LICENSES.txt dist/webhook-types.d.ts
    dist/webhooks.d.ts dist/webhooks.js package.json templates/AGENTS.md templates/env.example
    templates/section.md
  `
      .trim()
      .split(/\s+/),
  )
})

test('its version matches its address, and only its templates contain placeholders', () => {
  expect(JSON.parse(files['package.json'] ?? '')).toMatchObject({ version })
  for (const [name, text] of Object.entries(files))
    if (!name.startsWith('templates/')) expect([name, text]).toEqual([name, expect.not.stringContaining('{{svc_')])
})

test('changed content requires a new version, and a released version keeps its content', () => {
  const older = { 'package.json': '{"version": "{{svc_version}}"}' }
  const newer = { ...older, 'dist/server.js': '' }
  const before = versionOf(older, '1.0.0', {})
  expect(before).toMatch(/^1\.0\.0-dev\.\w{10}$/)
  expect(versionOf(newer, '1.0.0', {})).not.toBe(before)
  const released = { '1.0.0': pack(older) }
  expect(versionOf(older, '1.0.0', released)).toBe('1.0.0')
  expect(() => versionOf(newer, '1.0.0', released)).toThrow('Raise the version')
  expect(versionOf(newer, '1.0.1', released)).toMatch(/^1\.0\.1-dev/)
  expect(unpack(pack(newer))).toEqual(newer)
})

test('its setup installs only its optional peer from the registry, so no unrelated package can slip in', () => {
  expect(strangers.filter((url) => url !== '/react')).toEqual([])
})

test('it has no dependencies', () => {
  const lock = JSON.parse(readFileSync(inFolder('package-lock.json'), 'utf8'))
  expect(Object.keys(lock.packages)).toEqual(['', 'node_modules/@affiliate-tracking/svc-tracker'])
})

describe.each([
  ['Workers', ['workerd', 'worker', 'browser'], 'neutral'],
  ['a browser', ['browser'], 'browser'],
  ['Node', ['node'], 'node'],
] as const)('for %s', (_, conditions, platform) => {
  test('the server entry is one file that imports nothing', async () => {
    const result = await esbuild({
      stdin: { contents: `export * from '@affiliate-tracking/svc-tracker'`, resolveDir: folder },
      bundle: true,
      write: false,
      format: 'esm',
      metafile: true,
      conditions: [...conditions],
      platform,
    })
    expect(Object.keys(result.metafile.inputs)).toEqual([
      expect.stringMatching(/svc-tracker\/dist\/server.js$/),
      '<stdin>',
    ])
    expect(Object.values(result.metafile.outputs).flatMap(({ imports }) => imports)).toEqual([])
  })
})

test('client and proxy run on Workers', async () => {
  const contents = `
    import { getClickId, SvcClient } from '@affiliate-tracking/svc-tracker'
import { createTrackerProxy } from '@affiliate-tracking/svc-tracker/proxy'
    const baseUrl = '${stack.baseUrl}'
    export default {
      async fetch(request, { SVC_API_KEY, SVC_PROXY_KEY }) {
        if (request.url.endsWith('/mount')) return createTrackerProxy({ baseUrl, key: SVC_PROXY_KEY })(request)
        const svc = new SvcClient({ apiKey: SVC_API_KEY, baseUrl })
        const user = { customerExternalId: crypto.randomUUID() }
        const lead = await svc.trackLead({ ...user, clickId: getClickId(request) })
        return Response.json([lead, await svc.trackSale({ ...user, amount: 100, invoiceId: user.customerExternalId })])
      },
    }`
  const { outputFiles } = await esbuild({
    stdin: { contents, resolveDir: folder },
    bundle: true,
    write: false,
    format: 'esm',
  })
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: outputFiles[0]?.text ?? '',
      compatibilityDate: '2026-11-01',
      bindings: {
        SVC_API_KEY: sandbox.apiKey,
        SVC_PROXY_KEY: await proxyKey(stack.environment, sandbox.programId),
      },
      cf: { country: 'DE', region: 'North Rhine-Westphalia', city: 'Köln' },
    }),
  )
  onTestFinished(() => miniflare.dispose())
  const worker = (await miniflare.ready).origin
  const script = await fetch(`${worker}/mount`)
  const built = readFileSync(path.join(root, 'tracker/dist/svc-tracker.js'), 'utf8')
  expect(await script.text()).toBe(built.replace('/api/v1/track/', '#'))
  const code = await newLink()
  const click = await fetch(`${worker}/mount`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: shopUrl },
    body: JSON.stringify({ affiliate_url: `${shopUrl}/?aff=${code}` }),
  })
  const [cookie = ''] = click.headers.getSetCookie()
  expect(cookie).toMatch(/^svc_click_id=cust_\d+_\d+; .*Domain=example.com$/)
  const calls = await fetch(worker, { headers: { cookie } })
  expect(await calls.json()).toMatchObject([
    { ok: true, data: { customer_status: 'lead' } },
    { ok: true, data: { attributed: true, commission_cents: 20 } },
  ])
  const { rows } = await stack.sql.query(
    'select geo_country, geo_city from affiliate_click_events e join referral_links l on l.id = e.link_id where l.code = $1',
    [code],
  )
  expect(rows).toEqual([{ geo_country: 'DE', geo_city: 'Köln' }])
})

describe('the instructions that svc init wrote', () => {
  let sessions: URLSearchParams[] = []
  let own: Stripe
  const stripe = createServer((incoming, outgoing) => {
    void asRequest(incoming).then(async (request) => {
      // This payment has no invoice.
      if (request.url.includes('/v1/invoice_payments')) return outgoing.end('{"object":"list","data":[]}')
      sessions.push(new URLSearchParams(await request.text()))
      return outgoing.end('{"id":"cs_1","object":"checkout.session"}')
    })
  })

  beforeAll(async () => {
    await new Promise<void>((resolve) => stripe.listen(0, '127.0.0.1', resolve))
    // The shop's own Stripe client, with a server that records its requests.
    const { port: stripePort } = stripe.address() as AddressInfo
    own = new Stripe('sk_test_1', { host: '127.0.0.1', port: stripePort, protocol: 'http' })
    process.env['SVC_API_KEY'] = sandbox.apiKey
  })
  afterAll(() => {
    delete process.env['SVC_API_KEY']
    stripe.close()
    stripe.closeAllConnections()
  })

  test('have a file for every step', () => {
    expect(Object.keys(blocks).toSorted()).toEqual(
      [
        'app/api/signup/route.ts',
        'app/layout.tsx',
        'app/signup/page.tsx',
        `app/${mount}/route.ts`,
        'lib/checkout.ts',
        'lib/orders.ts',
        'lib/sales.ts',
        'public/signup.html',
        'server.js',
      ].toSorted(),
    )
  })

  const web = { lib: ['es2022', 'dom', 'dom.iterable'], target: 'es2022', jsx: 'react-jsx', types: ['node'] }
  const bundled = { ...web, module: 'esnext', moduleResolution: 'bundler', strict: true, noEmit: true }
  test.each([
    // The strictest compiler options.
    [
      'tsc',
      ['app', 'lib'],
      {
        ...web,
        module: 'nodenext',
        strict: true,
        noEmit: true,
        verbatimModuleSyntax: true,
        noUncheckedIndexedAccess: true,
        exactOptionalPropertyTypes: true,
      },
    ],
    ['Next.js', ['app', 'lib'], { ...bundled, allowJs: true, skipLibCheck: true, isolatedModules: true }],
    [
      'Vite',
      ['src'],
      { ...bundled, allowImportingTsExtensions: true, verbatimModuleSyntax: true, erasableSyntaxOnly: true },
    ],
  ])('compile with the settings of %s', async (name, include, compilerOptions) => {
    const config = `tsconfig.${name}.json`
    write(config, JSON.stringify({ compilerOptions, include }))
    const outcome = run(path.join(root, 'node_modules/.bin/tsc'), ['-p', config], { cwd: folder })
    expect(await outcome.catch((error) => error)).toMatchObject({ stdout: '' })
  })

  test('create an Express shop whose signup page records a click and a lead', async () => {
    await start('server.js')
    const { code, said, complaints } = await signUp('/signup.html')
    expect([said, complaints]).toEqual(['Welcome!', []])
    expect(await customersOf(code)).toMatchObject([{ customer_status: 'lead' }])
  })

  test('create a server-rendered Next.js shop whose signup page records a click and a lead', async () => {
    const { default: Layout } = await load<{ default: ComponentType<{ children: ReactNode }> }>('app/layout.tsx')
    const { default: Page } = await load<{ default: ComponentType }>('app/signup/page.tsx')
    type Route = Record<'GET' | 'POST', (request: Request) => Promise<Response>>
    const proxy = await load<Route>(`app/${mount}/route.ts`)
    const api = await load<Route>('app/api/signup/route.ts')
    const client = await esbuild({
      stdin: {
        loader: 'tsx',
        resolveDir: folder,
        contents: `
          import { hydrateRoot } from 'react-dom/client'
          import Layout from './app/layout.tsx'
          import Page from './app/signup/page.tsx'
          hydrateRoot(document, <Layout><Page /></Layout>)`,
      },
      bundle: true,
      write: false,
      jsx: 'automatic',
      define: { 'process.env.NODE_ENV': '"development"' },
    })
    const html = renderToString(createElement(Layout, null, createElement(Page)))
    const document = `<!doctype html>${html.replace('</body>', '<script async src="/client.js"></script></body>')}`
    await serve((request) => {
      const { pathname } = new URL(request.url)
      const method = request.method === 'POST' ? 'POST' : 'GET'
      if (pathname === `/${mount}`) return proxy[method](request)
      if (pathname === '/api/signup') return api[method](request)
      if (pathname === '/client.js') return new Response(client.outputFiles[0]?.text)
      if (pathname === '/favicon.ico') return new Response(null, { status: 204 })
      return new Response(document, { headers: { 'content-type': 'text/html' } })
    })
    const { code, said, complaints } = await signUp('/signup')
    expect([said, complaints]).toEqual(['Welcome!', []])
    expect(await customersOf(code)).toMatchObject([{ customer_status: 'lead' }])
  })

  test('set the three fields on the checkout session and on its subscription', async () => {
    const { createCheckout } = await load<Actions>('lib/checkout.ts')
    sessions = []
    await createCheckout?.(own, { id: 'user-1', email: 'a@example.com' }, 'cust_1_2', 'price_1')
    const [session] = sessions.map((form) => Object.fromEntries(form))
    const fields = { svc_click_id: 'cust_1_2', svc_customer_key: 'user-1', program_id: String(sandbox.programId) }
    for (const [name, value] of Object.entries(fields)) {
      expect(session).toMatchObject({ [`metadata[${name}]`]: value, [`subscription_data[metadata][${name}]`]: value })
    }
  })

  test('record each payment and refund once if the shop sends them itself', async () => {
    const { trackPayment } = await load<Actions>('lib/sales.ts')
    const code = await newLink()
    const click = await fetch(`${stack.baseUrl}/api/v1/track/click`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ affiliate_url: `https://shop.example.com/?aff=${code}` }),
    })
    const { click_id: clickId } = await click.json()
    const user = crypto.randomUUID()
    const program = String(sandbox.programId)
    const metadata = { svc_customer_key: user, svc_click_id: clickId, program_id: program }
    const paid = { payment_status: 'paid', amount_total: 1000, currency: 'usd', mode: 'payment', metadata }
    const invoice = { id: `in_${user}`, amount_paid: 500, total: 500, currency: 'usd', metadata }
    const refund = { id: 're_1', amount: 500, currency: 'usd', status: 'succeeded', payment_intent: `pi_${user}` }
    const events = [
      ['checkout.session.completed', { ...paid, id: `cs_${user}`, payment_intent: `pi_${user}` }],
      ['checkout.session.completed', { ...paid, id: 'cs_2', payment_status: 'unpaid' }],
      ['invoice.paid', invoice],
      // An event of another program. The service refuses it, and Stripe must not send it again.
      ['invoice.paid', { ...invoice, id: `in_2_${user}`, metadata: { ...metadata, program_id: '999999' } }],
      ['refund.created', refund],
      ['customer.created', {}],
    ]
    // Stripe delivers every event twice.
    for (const [type, object] of [...events, ...events])
      expect(await trackPayment?.(own, { type, data: { object } })).toBe(true)
    expect(await customersOf(code)).toMatchObject([
      {
        transaction_id: `pi_${user}`,
        amount_cents: 1000,
        commission_cents: 200,
        status: 'refunded',
        reversed_cents: 100,
      },
      { transaction_id: `in_${user}`, amount_cents: 500, commission_cents: 100, status: 'pending', reversed_cents: 0 },
    ])
  })
})

test('a new Vite app and a new Node server record a click, a lead, a sale and a refund', async () => {
  write(
    'web/index.html',
    '<!doctype html><link rel="icon" href="data:," /><div id="root"></div><script type="module" src="/main.tsx"></script>',
  )
  write(
    'web/main.tsx',
    `import { StrictMode, useState } from 'react'
    import { createRoot } from 'react-dom/client'
    import { SvcProvider, useSvc } from '@affiliate-tracking/svc-tracker/react'

    function Shop() {
      const svc = useSvc()
      const [said, say] = useState('')
      const buy = async () => {
        const response = await fetch('/api/buy', { method: 'POST', body: JSON.stringify({ clickId: svc?.getClickId() }) })
        say(await response.text())
      }
      return <><input name="email" /><button onClick={buy}>Buy</button><output>{said}</output></>
    }

    createRoot(document.querySelector('#root')!).render(
      <StrictMode><SvcProvider programId={${sandbox.programId}} baseUrl="/mount"><Shop /></SvcProvider></StrictMode>,
    )`,
  )
  write(
    'web/server.js',
    `import { readFile } from 'node:fs/promises'
    import { createServer } from 'node:http'
    import { getClickId, SvcClient } from '@affiliate-tracking/svc-tracker'
import { createTrackerProxy } from '@affiliate-tracking/svc-tracker/proxy'

    const svc = new SvcClient({ apiKey: process.env.SVC_API_KEY, baseUrl: process.env.SVC_BASE_URL })
    const proxy = createTrackerProxy({ baseUrl: process.env.SVC_BASE_URL })

    createServer(async (req, res) => {
      const chunks = []
      for await (const chunk of req) chunks.push(chunk)
      const body = Buffer.concat(chunks)
      if (req.url === '/mount') {
        const url = 'http://' + req.headers.host + req.url
        const response = await proxy(new Request(url, { method: req.method, headers: req.headers, body: body.length ? body : undefined }))
        res.writeHead(response.status, [...response.headers].flat()).end(Buffer.from(await response.arrayBuffer()))
      } else if (req.url === '/api/buy') {
        const customerExternalId = crypto.randomUUID()
        const sameClick = getClickId(req) === JSON.parse(body).clickId
        const lead = await svc.trackLead({ customerExternalId, clickId: getClickId(req) })
        const sale = await svc.trackSale({ customerExternalId, amount: 4990, invoiceId: customerExternalId })
        const again = await svc.trackSale({ customerExternalId, amount: 4990, invoiceId: customerExternalId })
        const refund = await svc.trackRefund({ invoiceId: customerExternalId, amount: 499 })
        res.end([sameClick, lead.ok, sale.ok, again.ok, again.status, refund.data?.status].join(' '))
      } else {
        const file = req.url.startsWith('/assets/') ? req.url : '/index.html'
        res.setHeader('content-type', file.endsWith('.js') ? 'text/javascript' : 'text/html')
        res.end(await readFile(new URL('./dist' + file, import.meta.url)))
      }
    }).listen(process.env.PORT)`,
  )
  await viteBuild({ root: inFolder('web'), logLevel: 'silent', configFile: false })
  await start('web/server.js')
  const { code, said, complaints } = await signUp('/any/page')
  expect([said, complaints]).toEqual(['true true true false 409 refunded', []])
  expect(await customersOf(code)).toEqual([
    {
      customer_status: 'conversion',
      transaction_id: expect.any(String),
      amount_cents: 4990,
      commission_cents: 998,
      status: 'refunded',
      reversed_cents: 99,
    },
  ])
})
