import { build } from 'esbuild'
import { createElement, StrictMode } from 'react'
import { renderToString } from 'react-dom/server'
import { SvcProvider, useSvc } from '@affiliate-tracking/svc-tracker/react'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { BrowserContext, Page } from 'playwright-core'
import { createSandbox } from '../lib/local/sandbox.ts'
import { launchBrowser } from './support/browser.ts'
import { startShop } from './support/shop.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({ functions: ['tracker-script', 'track-click', 'track-lead'] })
const env = { ...stack.env, ...stack.environment, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }
const sandbox = await createSandbox(stack.db, env)
const other = await createSandbox(stack.db, env)
const shop = await startShop(stack.baseUrl)
const browser = await launchBrowser(shop.browserArg)
const baseUrl = 'http://api.svc.test'

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

/** Runs the same app in the browser: hydrates the server's page if it exists, and renders otherwise. `hooks` counts the hook's results. */
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
 * Renders a tree of providers only in the browser. `given` has every helper that the child received, and `helpers` says
 * whether each belongs to its name.
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
    // The service silently refuses the link for the other program's tag.
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
