import { build } from 'esbuild'
import { createElement, StrictMode } from 'react'
import { renderToString } from 'react-dom/server'
import { SvcProvider, useSvc } from '@affiliate-tracking/svc-tracker/react'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { BrowserContext, Page } from 'playwright-core'
import { createEmbedToken } from '../lib/access/embed-tokens.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { embedOrigins } from '../lib/programs/embedding.ts'
import { axeFindings } from './support/axe.ts'
import { launchBrowser } from './support/browser.ts'
import { startShop } from './support/shop.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({ functions: ['tracker-script', 'track-click', 'track-lead', 'track-sale', 'embed'] })
const env = { ...stack.env, ...stack.environment, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }
const sandbox = await createSandbox(stack.db, env)
const other = await createSandbox(stack.db, env)
const shop = await startShop(stack.baseUrl)
const baseUrl = 'http://api.svc.test'
const browser = await launchBrowser(shop.browserArg)

/** Renders the app on the server. The text of #helper is the hook's result. */
function App() {
  return createElement('p', { id: 'helper' }, useSvc() === null ? 'none' : 'there')
}
const serverHtml = (props: object) =>
  renderToString(
    createElement(
      StrictMode,
      null,
      createElement(SvcProvider, { programId: sandbox.programId, baseUrl, ...props }, createElement(App)),
    ),
  )

/**
 * Runs the same app in the browser: hydrates the server's page if there is one, and otherwise renders the app. `hooks` counts the hook's
 * results.
 */
const clientScript = async (props: object) =>
  await bundle(`
        import { StrictMode, useEffect } from 'react'
        import { createRoot, hydrateRoot } from 'react-dom/client'
        import { SvcProvider, useSvc } from '@affiliate-tracking/svc-tracker/react'
        window.seen = []
        function App() {
          const svc = useSvc()
          window.seen.push(svc === null ? 'none' : 'there')
          // An app's first effect runs long before the script has loaded.
          useEffect(() => { if (svc && !window.early) window.early = svc.signup('early') }, [svc])
          return <p id="helper">{svc === null ? 'none' : 'there'}</p>
        }
        const tree = (
          <StrictMode>
            <SvcProvider programId="${sandbox.programId}" baseUrl="${baseUrl}" {...${JSON.stringify(props)}}><App /></SvcProvider>
          </StrictMode>
        )
        const root = document.querySelector('#root')
        if (root.hasChildNodes()) hydrateRoot(root, tree)
        else createRoot(root).render(tree)
  `)

async function bundle(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { loader: 'tsx', resolveDir: import.meta.dirname, contents },
    bundle: true,
    write: false,
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"development"' },
  })
  return outputFiles[0]?.text ?? ''
}

/**
 * Renders a tree of providers only in the browser. `given` contains every helper that the child received, and `helpers`
 * says whether each helper belongs to its name.
 */
async function openTree(tree: string, render: string): Promise<void> {
  const filled = tree
    .replaceAll('PROGRAM', String(sandbox.programId))
    .replaceAll('OTHER', String(other.programId))
    .replaceAll('BASE', baseUrl)
  const script = await bundle(`
    import { StrictMode } from 'react'
    import { createRoot } from 'react-dom/client'
    import { SvcProvider, useSvc } from '@affiliate-tracking/svc-tracker/react'
    window.given = []
    function Child() {
      const svc = useSvc()
      const partners = useSvc('partners')
      window.given.push(svc)
      window.helpers = [svc, partners].map((helper) => (helper === null ? 'none' : 'there'))
      return window.helpers[0]
    }
    const tree = ${filled}
    const root = document.querySelector('#root')
    window.again = () => createRoot(root)
    ${render}
  `)
  await show('', script)
}

let context: BrowserContext
let page: Page
const complaints: string[] = []

beforeEach(async () => {
  Object.assign(shop, { handler: undefined, fault: undefined, delayMs: 0, calls: [] })
  context = await browser.newContext()
  context.on('weberror', (error) => complaints.push(String(error.error())))
  page = await context.newPage()
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
})

afterEach(async () => {
  await context.close()
  expect(complaints.splice(0)).toEqual([])
})

async function open(rendered: string, props: object = {}, parameter = 'aff'): Promise<void> {
  await show(rendered, await clientScript(props), parameter)
}

async function show(rendered: string, script: string, parameter = 'aff'): Promise<void> {
  shop.html = `<!doctype html><title>App</title><link rel="icon" href="data:," /><div id="root">${rendered}</div><script>${script.replaceAll('</script', '<\\/script')}</script>`
  await page.goto(`http://app.example.test/?${parameter}=${sandbox.partnerCode}`, { waitUntil: 'domcontentloaded' })
}

const portal = () => page.frameLocator('svc-portal iframe')
const sale = () => portal().getByText('Sale of $123.00')
const clicks = () => shop.calls.filter(({ path }) => path.endsWith('/click')).length

describe('on the server', () => {
  test('the provider renders its children, and the hook returns null', () => {
    expect(serverHtml({})).toBe('<p id="helper">none</p>')
  })
})

describe('in the browser', () => {
  test.each([
    ['rendered by the server', serverHtml({}), ['none', 'none', 'there', 'there']],
    ['rendered by the browser', '', ['there', 'there']],
  ])('an app %s under StrictMode loads the script once and records one click', async (_, rendered, seen) => {
    await open(rendered)
    expect(await page.evaluate('early')).toMatchObject({ success: true, provisional: true })
    expect(await page.textContent('#helper')).toBe('there')
    expect(await page.evaluate('seen')).toEqual(seen)
    expect(await page.locator('script[data-svc-program-id]').count()).toBe(1)
    expect(clicks()).toBe(1)
    expect(await page.evaluate(() => window.svc?.getClickId())).toMatch(/^cust_/)
  })

  test('a returning visitor has a click id before the script has loaded', async () => {
    await context.addCookies([{ name: 'svc_click_id', value: 'cust_1_2', domain: '.example.test', path: '/' }])
    await context.route('**/js/svc-tracker.js', () => {})
    await open('')
    expect(await page.evaluate(() => window.svc?.getClickId())).toBe('cust_1_2')
  })

  test('waits for consent if the tag requires it', async () => {
    await context.addCookies([{ name: 'svc_click_id', value: 'cust_1_2', domain: '.example.test', path: '/' }])
    await open('', { consent: 'required' })
    await page.waitForFunction(() => window.svc?.v)
    expect([clicks(), await page.evaluate(() => window.svc?.getClickId())]).toEqual([0, null])
    await page.evaluate(() => window.svc?.consent())
    expect(await page.evaluate('early')).toMatchObject({ success: true })
    expect(clicks()).toBe(1)
  })

  test('fills Stripe links on request', async () => {
    await open('', { paymentLinks: true })
    const id = await page.evaluate(async () => {
      document.body.insertAdjacentHTML('beforeend', '<a id="buy" href="https://buy.stripe.com/test_1">Buy</a>')
      await (Reflect.get(window, 'early') as Promise<unknown>)
      return window.svc?.getClickId()
    })
    expect(id).toMatch(/^cust_/)
    await expect
      .poll(() => page.locator('#buy').getAttribute('href'))
      .toBe(`https://buy.stripe.com/test_1?client_reference_id=${id}`)
  })

  test.each(['via', 'ref', 'fpr', 'fp_ref', 'tolt'])("reads other vendors' parameter %s", async (name) => {
    await open('', { params: 'via,ref,fpr,fp_ref,tolt' }, name)
    expect(await page.evaluate('early')).toMatchObject({ success: true })
    expect(clicks()).toBe(1)
  })

  const nested: [what: string, tree: string, tags: number, answers: unknown[]][] = [
    [
      'of two programs record separate clicks',
      `<SvcProvider programId="PROGRAM" baseUrl="BASE"><SvcProvider name="partners" programId="OTHER" baseUrl="BASE"><Child /></SvcProvider></SvcProvider>`,
      2,
      ['there', 'there', true, 'no_attribution'],
    ],
    [
      'of one program, nested by mistake, load and record once',
      `<SvcProvider programId="PROGRAM" baseUrl="BASE"><SvcProvider programId="PROGRAM" baseUrl="BASE"><Child /></SvcProvider></SvcProvider>`,
      1,
      ['there', 'none', true, undefined],
    ],
    [
      'side by side load and record once',
      `<><SvcProvider programId="PROGRAM" baseUrl="BASE"><Child /></SvcProvider><SvcProvider programId="PROGRAM" baseUrl="BASE"><i /></SvcProvider></>`,
      1,
      ['there', 'none', true, undefined],
    ],
  ]
  test.each(nested)('two providers %s', async (_, tree, tags, answers) => {
    await openTree(tree, 'createRoot(root).render(<StrictMode>{tree}</StrictMode>)')
    await page.waitForFunction(() => window.svc?.v)
    const given = await page.evaluate(async () => {
      const { svc, partners } = window as unknown as Record<string, Window['svc']>
      const signup = await svc?.signup('nested')
      const partnersSignup = await partners?.signup('nested')
      return [signup?.success, partnersSignup?.error?.code]
    })
    expect([...(await page.evaluate<string[]>('helpers')), ...given]).toEqual(answers)
    expect(await page.locator('script[data-svc-program-id]').count()).toBe(tags)
    expect(clicks()).toBe(tags)
    // The service silently refuses a link of the other program.
    expect(complaints.splice(0)).toEqual([])
  })

  test('a provider that unmounts and mounts again with the same helper records nothing twice', async () => {
    const tree = `<SvcProvider programId="PROGRAM" baseUrl="BASE"><Child /></SvcProvider>`
    await openTree(
      tree,
      `window.app = createRoot(root); window.show = (on) => app.render(<StrictMode>{on && tree}</StrictMode>); show(true)`,
    )
    await page.waitForFunction(() => window.svc?.getClickId())
    for (const isOn of [false, true, false, true]) await page.evaluate(`show(${isOn})`)
    await page.evaluate('app.unmount(), window.app = again(), show(true)')
    await expect.poll(() => page.textContent('#root')).toBe('there')
    expect(await page.evaluate(() => window.svc?.signup('again'))).toMatchObject({ success: true })
    expect(await page.evaluate('new Set(given).size')).toBe(1)
    expect(await page.locator('script[data-svc-program-id]').count()).toBe(1)
    expect(clicks()).toBe(1)
  })
})

describe('the embedded portal', async () => {
  const { programId, partnerId, partnerCode, apiKey } = sandbox
  const allowed = 'http://localhost:8001'
  const hostile = 'http://evil.example'
  const setOrigins = (...origins: string[]) =>
    stack.sql.query('update programs set embed_origins = $2 where id = $1', [programId, origins])
  await setOrigins(allowed)
  const setHidesMoney = (hides: boolean) =>
    stack.sql.query('update programs set embed_hides_money = $2 where id = $1', [programId, hides])

  interface Posted {
    status: number
    token: string
    expires_at: string
    partner_id: number
    click_id: string
  }
  async function post(path: string, body: object, key = apiKey): Promise<Posted> {
    const answer = await fetch(`${stack.baseUrl}/api/v1/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    })
    return { ...((await answer.json()) as Posted), status: answer.status }
  }
  const name = (body: object, key = apiKey) => post('embed-tokens', body, key)
  const read = (token: string, { origin = allowed, of = programId, query = '' } = {}) =>
    fetch(`${stack.baseUrl}/embed/${of}/portal${query}`, {
      headers: { authorization: `Bearer ${token}`, 'svc-page-origin': origin },
    })
  function expiredToken(): string {
    vi.spyOn(Date, 'now').mockReturnValueOnce(Date.now() - 15 * 60_000 - 1000)
    return createEmbedToken(env, { programId, partnerId }).token
  }

  const { token } = await name({ partner_id: partnerId })
  const affiliate_url = `https://shop.example.com/?aff=${partnerCode}`
  const { click_id: clickId } = await post('track/click', { affiliate_url })
  await post('track/sale', {
    transaction_id: 'embedded-1',
    customer_key: 'embedded',
    click_id: clickId,
    amount_cents: 12_300,
  })

  test('a token is for one partner, and creates a described partner only once', async () => {
    expect(await name({})).toMatchObject({ status: 400 })
    const foreign = { authorization: `Bearer ${token}`, 'svc-page-origin': allowed, 'sec-fetch-site': 'cross-site' }
    expect((await fetch(`${stack.baseUrl}/embed/${programId}/portal`, { headers: foreign })).status).toBe(403)
    expect(await name({ partner_id: partnerId, external_id: 'user-1' })).toMatchObject({ status: 400 })
    expect(await name({ partner: { name: 'Nora' } })).toMatchObject({ status: 400 })
    expect(await name({ external_id: 'user-1' })).toMatchObject({ status: 404 })
    expect(await name({ partner_id: other.partnerId })).toMatchObject({ status: 404 })
    const reader = await createApiKey(stack.db, programId, 'reader', { scopes: ['read'] })
    expect(await name({ partner_id: partnerId }, reader)).toMatchObject({ status: 403 })
    expect(await name({ partner_id: other.partnerId }, other.apiKey)).toMatchObject({ status: 409 })

    const nora = { name: 'Nora', email: 'nora@example.com', external_id: 'user-1' }
    const named = await Promise.all([nora, nora, nora].map((partner) => name({ partner })))
    expect(named.map(({ status }) => status)).toEqual([201, 201, 201])
    expect(new Set(named.map(({ partner_id: id }) => id)).size).toBe(1)
    expect(Date.parse(named[0]?.expires_at ?? '') - Date.now()).toBeGreaterThan(14 * 60_000)
    for (const again of [{ external_id: 'user-1' }, { partner: { ...nora, email: 'new@example.com' } }])
      expect(await name(again)).toMatchObject({ status: 201, partner_id: named[0]?.partner_id })
    expect(await name({ partner: { name: 'Eve', email: 'NORA@example.com', external_id: 'user-2' } })).toMatchObject({
      status: 409,
    })
    expect(await (await read(named[0]?.token ?? '')).text()).not.toContain('embedded-1')
  })

  test('the portal refuses forged, expired and misdirected tokens, and pages from other origins', async () => {
    const forged = token.replace(`_${partnerId}_`, `_${partnerId + 1}_`)
    for (const wrong of ['', apiKey, forged, `${token}x`, expiredToken()]) expect((await read(wrong)).status).toBe(401)
    expect((await read(token, { of: other.programId })).status).toBe(404)
    for (const origin of ['', hostile, `${allowed}.evil.example`])
      expect((await read(token, { origin })).status).toBe(403)
    expect((await read(token, { query: '?page=javascript:alert(1)' })).status).toBe(200)

    const frame = await fetch(`${stack.baseUrl}/embed/${programId}`)
    expect(frame.headers.get('content-security-policy')).toMatch(/; frame-ancestors http:\/\/localhost:8001$/)
    expect(frame.headers.get('x-frame-options')).toBeNull()
    const none = await fetch(`${stack.baseUrl}/embed/${other.programId}`)
    expect([none.status, none.headers.get('content-security-policy')]).toEqual([
      404,
      expect.stringContaining("frame-ancestors 'none'"),
    ])
    for (const origin of [`${allowed}; script-src *`, 'https://*.example.com', 'http://app.example.com', "'self'"])
      await expect(setOrigins(origin)).rejects.toThrow('programs_embed_origins')
    const typed = ' https://app.example.com/a\nhttps://APP.example.com:443 http://localhost:3000'
    expect(embedOrigins.parse(typed)).toEqual(['https://app.example.com', 'http://localhost:3000'])
    for (const wrong of ['app.example.com', 'http://app.example.com', 'https://*.example.com', 'data:,'])
      expect(embedOrigins.safeParse(wrong).success).toBe(false)
  })

  /** Shows these pages at their addresses, and opens the first one. `tokens` are the results of `getToken`, and the last one repeats. */
  async function openPages(pages: Record<string, string>, tokens = [token]): Promise<void> {
    const setUp = `window.asked = 0; window.getToken = async () => ${JSON.stringify(tokens)}[Math.min(asked++, ${tokens.length - 1})]`
    const head = `<!doctype html><link rel="icon" href="data:," /><script>${setUp}</script>`
    shop.handler = ({ url }) =>
      Promise.resolve(new Response(head + (pages[url] ?? ''), { headers: { 'content-type': 'text/html' } }))
    await page.goto(Object.keys(pages)[0] ?? '')
  }
  const element = `<svc-portal program-id="${programId}"></svc-portal>
    <script type="module" src="${baseUrl}/js/svc-embed.js"></script>
    <script>document.querySelector('svc-portal').getToken = getToken</script>`

  test('an allowed page styles the portal, renews an expired token, and loses the portal when its origin is removed', async () => {
    const own =
      '<html lang="de-DE"><style>body { color: #111; --svc-accent: rgb(200, 0, 100); font-family: serif }</style>'
    await openPages({ [`${allowed}/partners`]: own + element }, [expiredToken(), token])
    await portal().getByText('Verkauf über 123,00 $').waitFor()
    expect(await page.evaluate('asked')).toBe(2)
    const copy = portal().getByRole('button', { name: partnerCode })
    expect(await copy.getAttribute('data-copy')).toBe(affiliate_url)
    const frame = page.frames().find((one) => one.url().includes('/embed/'))
    if (!frame) throw new Error('there is no frame')
    expect(frame.url()).toBe(`${baseUrl}/embed/${programId}`)
    const look = () =>
      frame.evaluate(() => {
        const { backgroundColor, fontFamily } = getComputedStyle(document.body)
        const button = document.querySelector('button.primary')
        return [backgroundColor, fontFamily, button && getComputedStyle(button).backgroundColor]
      })
    expect(await look()).toEqual(['rgb(255, 255, 255)', 'serif', 'rgb(200, 0, 100)'])
    // The frame is as tall as its contents, even on a phone.
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 })
      await expect
        .poll(() =>
          frame.evaluate(
            '[innerHeight - Math.ceil(main.getBoundingClientRect().height), document.documentElement.scrollWidth - innerWidth]',
          ),
        )
        .toEqual([0, 0])
    }
    await page.evaluate(`document.body.style.color = '#eee'`)
    await expect.poll(look).toEqual(['rgb(19, 20, 23)', 'serif', 'rgb(200, 0, 100)'])
    expect(await axeFindings(frame)).toEqual([])
    await page.evaluate(`document.body.style.setProperty('--svc-accent', 'url(https://evil.example)')`)
    expect(await axeFindings(frame)).toEqual([])

    await portal().getByLabel('Link zu einer beliebigen Seite').fill('https://shop.example.com/sale')
    await portal().getByRole('button', { name: 'Link erstellen' }).click()
    await portal().getByText(`https://shop.example.com/sale?aff=${partnerCode}`).waitFor()
    await setHidesMoney(true)
    await portal().getByRole('button', { name: 'Link erstellen' }).click()
    await portal().getByText('Verkauf über').waitFor({ state: 'detached' })
    expect(await portal().locator('body').innerText()).not.toContain('$')
    await setHidesMoney(false)
    await setOrigins()
    await portal().getByRole('button', { name: 'Link erstellen' }).click()
    await portal().getByText('Diese Seite darf das Portal nicht anzeigen.').waitFor()
    await setOrigins(allowed)
    expect(complaints.splice(0)).toEqual([expect.stringContaining('401'), expect.stringContaining('403')])
  })

  test('a portal whose token expires while it is open gets a new one, and without a callback says that it could not be loaded', async () => {
    await page.clock.install()
    await openPages({ [`${allowed}/partners`]: element })
    await sale().waitFor()
    /** The service refuses the frame's token once, as it does when the token has expired. */
    const expire = () =>
      page.route(
        /\/embed\/\d+\/portal/,
        (route) =>
          route.continue({ headers: { ...route.request().headers(), authorization: `Bearer ${expiredToken()}` } }),
        { times: 1 },
      )
    const buildLink = () => portal().getByRole('button', { name: 'Build link' }).click()
    await expire()
    await portal().getByLabel('Link to any page').fill('https://shop.example.com/sale')
    await buildLink()
    await portal().getByText(`https://shop.example.com/sale?aff=${partnerCode}`).waitFor()
    expect(await page.evaluate('asked')).toBe(2)

    await expire()
    await page.evaluate(`document.querySelector('svc-portal').getToken = undefined`)
    await buildLink()
    await expect.poll(() => complaints.length).toBe(2)
    await page.clock.fastForward(10_000)
    await portal().getByText('The portal could not be loaded. Reload the page.').waitFor()
    await page.evaluate(`document.querySelector('svc-portal').getToken = getToken`)
    await sale().waitFor()
    expect(complaints.splice(0)).toEqual([expect.stringContaining('401'), expect.stringContaining('401')])
  })

  test('React passes its newest callback, reports its failure, and shows the portal after a retry', async () => {
    const script = await bundle(`
      import { createRoot } from 'react-dom/client'
      import { SvcPortal } from '@affiliate-tracking/svc-tracker/embed/react'
      const root = createRoot(document.querySelector('#root'))
      const show = (getToken, theme) => root.render(
        <SvcPortal programId={${programId}} baseUrl="${baseUrl}" theme={theme} getToken={getToken} onError={(error) => { window.failure = error.message }} />)
      show(() => Promise.reject(new Error('signed out')))
      window.retry = () => show(window.getToken, 'dark')
    `)
    const html = `<div id="root"></div><script>${script.replaceAll('</script', '<\\/script')}</script>`
    await openPages({ [`${allowed}/react`]: html })
    await portal().getByText('The portal could not be loaded. Reload the page.').waitFor()
    expect(await page.evaluate('failure')).toBe('signed out')
    await page.evaluate('retry()')
    await page.evaluate(
      `document.querySelector('iframe').contentWindow.location.replace(document.querySelector('iframe').src)`,
    )
    await sale().waitFor()
  })

  test("a hostile page doesn't get a frame, a token or an answer, and its forged messages don't change anything", async () => {
    await openPages({
      [`${hostile}/`]: `${element}<iframe src="${allowed}/partners"></iframe>`,
      [`${allowed}/partners`]: element,
    })
    const stolen = await page.evaluate(
      ([address, bearer]) =>
        fetch(String(address), {
          headers: { authorization: `Bearer ${bearer}`, 'svc-page-origin': 'http://localhost:8001' },
        })
          .then((answer) => answer.text())
          .catch(() => 'blocked'),
      [`${baseUrl}/embed/${programId}/portal`, token],
    )
    expect(stolen).toBe('blocked')
    expect(await page.evaluate('asked')).toBe(0)
    expect(
      page
        .frames()
        .map((frame) => frame.url())
        .filter((url) => url.includes('/embed/')),
    ).toEqual([])
    expect(complaints.splice(0).join()).toContain('frame-ancestors')

    // An advertisement in the program's own page sends messages to the page and to the portal.
    await openPages({ [`${allowed}/partners`]: `${element}<iframe src="${hostile}/ad"></iframe>` })
    await sale().waitFor()
    const ad = page.frames().find((one) => one.url() === `${hostile}/ad`)
    const heard = ad?.evaluate(async () => {
      const received: unknown[] = []
      addEventListener('message', ({ source, data }) => source !== window && received.push(data))
      for (const target of [parent, parent.frames[0], parent.frames[1]]) {
        for (const message of [
          { svc: 'token', token: 'stolen' },
          { svc: 'height', height: 9999 },
          { svc: 'theme', isDark: true },
        ])
          target?.postMessage(message, '*')
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
      return received
    })
    expect(await heard).toEqual([])
    expect(await page.evaluate('asked')).toBe(1)
    expect(await page.locator('svc-portal').evaluate((one) => one.clientHeight)).toBeLessThan(9999)
    expect(await sale().isVisible()).toBe(true)
  })
})
