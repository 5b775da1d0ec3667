import { readFile } from 'node:fs/promises'
import { launchChromium } from '../support/chromium.ts'
import { timeLongAddresses } from '../support/long-addresses.ts'
import { type Result, round } from './result.ts'

const limit_ms = 5

/**
 * Measures in Chromium how long the tracker script takes to read hostile addresses of 1, 2, 16 and 64 KB, when it loads and after
 * `history.pushState`. Nothing is sent: every request of the page is answered with an empty page.
 */
export async function script(): Promise<Result> {
  const source = await readFile(new URL('../../tracker/dist/svc-tracker.js', import.meta.url), 'utf8')
  const browser = await launchChromium()
  try {
    const page = await browser.newPage()
    await page.route('**', (route) =>
      route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>Shop</title>' }),
    )
    const result: Result = { figures: [], goals: [] }
    for (const kilobytes of [1, 2, 16, 64]) {
      await page.goto('http://shop.example.test/')
      const times = await timeLongAddresses(page, source, kilobytes, limit_ms)
      const loaded = Math.max(...times.map(({ loaded_ms }) => loaded_ms))
      const pushed = Math.max(...times.map(({ pushed_ms }) => pushed_ms))
      result.figures.push({ KB: kilobytes, 'slowest load, ms': round(loaded), 'slowest pushState, ms': round(pushed) })
      result.goals.push({
        what: `ms to read the slowest address of ${kilobytes} KB`,
        measured: Math.max(loaded, pushed),
        most: limit_ms,
      })
    }
    return result
  } finally {
    await browser.close()
  }
}
