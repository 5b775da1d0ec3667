import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Browser } from 'playwright-core'

const cacheFolder = fileURLToPath(new URL('../../node_modules/.cache/', import.meta.url))
const chromiumFolder = path.join(cacheFolder, 'chromium')
const fontsConfig = 'fonts.conf'

/**
 * The features in Playwright's list of disabled features that matter without a window, because Chromium reads only the last flag of this
 * kind.
 */
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
  // Keeps the previous page's render frame, which saves a third of the CPU time per page.
  `--disable-features=${['RenderDocument', ...featuresOfPlaywright].join(',')}`,
]

/**
 * Launches the Chromium from npm without a window. It always uses the packaged fonts, and the packaged shared
 * libraries if the machine has none. `extraArgs` are Chromium flags.
 */
export async function launchChromium(...extraArgs: string[]): Promise<Browser> {
  const { chromium } = await import('playwright-core')
  // The package has only a Linux build. Other systems use their installed Chrome.
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

/** Unpacks into a temporary folder and then renames it, because two processes can do this at the same time. */
export async function unpackChromium(): Promise<void> {
  if (process.platform !== 'linux' || existsSync(chromiumFolder)) return
  mkdirSync(cacheFolder, { recursive: true })
  const partial = mkdtempSync(`${chromiumFolder}-`)
  const script = "import chromium from '@sparticuz/chromium'; await chromium.executablePath()"
  // The package unpacks into the temporary folder, and unpacks the libraries only if it seems to run on Lambda.
  const environment = { ...process.env, TMPDIR: partial, AWS_LAMBDA_JS_RUNTIME: 'nodejs24.x' }
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], { env: environment })
  // The package's own configuration looks for fonts in the temporary folder. Without fonts, Chromium exits.
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
