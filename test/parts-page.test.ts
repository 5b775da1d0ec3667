import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { assets } from '../functions/dashboard/components/assets.ts'
import app from './parts/page.tsx'
import { axeFindings } from './support/axe.ts'
import { launchBrowser } from './support/browser.ts'

const browser = await launchBrowser()

/** Returns the components that files of a folder export. */
function partsOf(folder: string): string[] {
  return globSync(`${folder}/*.tsx`).flatMap((file) =>
    Array.from(
      readFileSync(file, 'utf8').matchAll(/^export (?:async )?function ([A-Z]\w*)/gm),
      ([, name = '']) => name,
    ),
  )
}

test('every part of the dashboard has its place on the page of parts', () => {
  // The page has the same frame as every page.
  const files = ['test/parts/page.tsx', 'functions/dashboard/components/layout.tsx']
  const page = files.map((file) => readFileSync(file, 'utf8')).join('')
  const parts = partsOf('functions/dashboard/components')
  expect(parts.length).toBeGreaterThan(30)
  expect(parts.filter((name) => !new RegExp(`<${name}\\b`).test(page))).toEqual([])
})

const page = await browser.newPage()
await page.route('http://parts.example/**', async (route) => {
  const { pathname } = new URL(route.request().url())
  const asset = Object.values(assets).find(({ path }) => path === pathname)
  if (asset) return await route.fulfill({ contentType: asset.type, body: asset.text })
  const answer = await app.request(pathname, undefined, {})
  return await route.fulfill({
    status: answer.status,
    contentType: 'text/html; charset=utf-8',
    body: await answer.text(),
  })
})
const opened = await page.goto('http://parts.example/parts')
await page.evaluate(() => {
  for (const details of document.querySelectorAll('main details:not(.switcher)')) details.setAttribute('open', '')
})

test.each([
  ['light', 1280],
  ['dark', 1280],
  ['light', 390],
  ['dark', 390],
] as const)(
  'the parts in %s at %i pixels: axe finds nothing, and none is wider than the screen',
  async (colorScheme, width) => {
    expect(opened?.status()).toBe(200)
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize({ width, height: 844 })
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
    expect(wide).toBe(0)
    expect(await axeFindings(page)).toEqual([])
  },
)
