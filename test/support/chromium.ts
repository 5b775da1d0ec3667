import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Browser } from 'playwright-core'

const cacheFolder = fileURLToPath(new URL('../../node_modules/.cache/', import.meta.url))
const chromiumFolder = path.join(cacheFolder, 'chromium')
const fontsConfig = 'fonts.conf'

/** What Playwright leaves out of Chromium that counts without a window. Chromium heeds the last such list alone. */
const featuresOfPlaywright = [
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'OptimizationHints',
  'NetworkTimeServiceQuerying',
]

const args = [
  '--no-sandbox',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // A next page in the frame of the one before: a third less of the processor time of going to a page.
  `--disable-features=${['RenderDocument', ...featuresOfPlaywright].join(',')}`,
]

/**
 * The Chromium that npm installed, without a window. It needs nothing of the machine: where shared libraries are missing it takes those that
 * are packed with it, and fonts always. `extraArgs` are Chromium's own.
 */
export async function launchChromium(...extraArgs: string[]): Promise<Browser> {
  const { chromium } = await import('playwright-core')
  // The package holds a Linux build only; elsewhere the installed Chrome does.
  const program = process.platform === 'linux' ? await installedChromium() : { channel: 'chrome' }
  return await chromium.launch({ ...program, args: [...args, ...extraArgs] })
}

async function installedChromium(): Promise<{ executablePath: string; env: Record<string, string> }> {
  await unpackChromium()
  const executablePath = path.join(chromiumFolder, 'chromium')
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: chromiumFolder,
    FONTCONFIG_FILE: path.join(chromiumFolder, fontsConfig),
  }
  const complete = spawnSync(executablePath, ['--version'], { env }).status === 0
  return { executablePath, env: complete ? env : { ...env, LD_LIBRARY_PATH: path.join(chromiumFolder, 'al2023/lib') } }
}

/** Unpacks it once, into a folder that is then renamed, because two may come here at once. */
export async function unpackChromium(): Promise<void> {
  if (process.platform !== 'linux' || existsSync(chromiumFolder)) return
  mkdirSync(cacheFolder, { recursive: true })
  const partial = mkdtempSync(`${chromiumFolder}-`)
  const script = "import chromium from '@sparticuz/chromium'; await chromium.executablePath()"
  // The package unpacks into the temporary folder, and the libraries only where it takes itself to be on Lambda.
  const environment = { ...process.env, TMPDIR: partial, AWS_LAMBDA_JS_RUNTIME: 'nodejs24.x' }
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], { env: environment })
  // The package's own configuration looks for fonts in the temporary folder, and without any font Chromium ends.
  const dir = path.join(chromiumFolder, 'fonts')
  const cache = path.join(chromiumFolder, 'fonts-cache')
  writeFileSync(
    path.join(partial, fontsConfig),
    `<fontconfig><dir>${dir}</dir><cachedir>${cache}</cachedir></fontconfig>\n`,
  )
  try {
    renameSync(partial, chromiumFolder)
  } catch {
    rmSync(partial, { recursive: true })
  }
}
