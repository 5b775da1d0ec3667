import type { Browser } from 'playwright-core'
import { afterAll } from 'vitest'
import { launchChromium } from './chromium.ts'

/** Launches a Chromium that closes after the test file. See `launchChromium`. */
export async function launchBrowser(...extraArgs: string[]): Promise<Browser> {
  const browser = await launchChromium(...extraArgs)
  afterAll(() => browser.close())
  return browser
}
