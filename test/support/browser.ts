import type { Browser } from 'playwright-core'
import { afterAll } from 'vitest'
import { launchChromium } from './chromium.ts'

/** A Chromium that is closed when the test file is done; see `launchChromium`. */
export async function launchBrowser(...extraArgs: string[]): Promise<Browser> {
  const browser = await launchChromium(...extraArgs)
  afterAll(() => browser.close())
  return browser
}
