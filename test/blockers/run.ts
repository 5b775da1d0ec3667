/**
 * `npm run blockers`: checks that today's block lists allow tracking on a shop's own domain, at the paths that
 * `svc init` generates. test/browser-tracker.test.ts checks that a page doesn't send other requests. Exits with 1 if a list
 * blocks a path.
 *
 * The lists are EasyList, EasyPrivacy, uBlock's own lists and lists against annoyances. Ghostery compiles them, and the package
 * `@browserless/goto` contains them. The package and its dependencies take up a hundred megabytes, so this command downloads only the
 * package itself.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readOptions } from '../../lib/commands/command.ts'
import { proxyPath } from '../../lib/programs/proxy-path.ts'

readOptions(
  "npm run blockers    checks that today's block lists allow the own-domain proxy, and downloads the lists",
  {},
)

const lists = '@browserless/goto@10.12.13'
/** The engine in this release can read the lists in that package. */
const engine = '@ghostery/adblocker@2.15.0'
const folder = fileURLToPath(new URL('../../node_modules/.cache/blockers/', import.meta.url))

interface Engine {
  match(request: unknown): { match: boolean; filter?: { toString(): string } | undefined }
  updateFromDiff(diff: { added: string[] }): boolean
  getFilters(): { networkFilters: unknown[] }
}
interface Adblocker {
  FiltersEngine: { deserialize(bytes: Uint8Array): Engine }
  Request: { fromRawDetails(details: { url: string; type: string; sourceUrl: string }): unknown }
}

function install(): Adblocker {
  const required = createRequire(join(folder, 'package.json'))
  if (!existsSync(join(folder, 'package/src/engine.bin'))) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{"private":true}')
    const npm = (...args: string[]) => execFileSync('npm', args, { cwd: folder, encoding: 'utf8' })
    npm('install', '--ignore-scripts', '--no-audit', '--no-fund', engine)
    const [tarball = ''] = npm('pack', '--silent', lists).trim().split('\n').slice(-1)
    execFileSync('tar', ['xzf', tarball], { cwd: folder })
  }
  return required('@ghostery/adblocker')
}

const { FiltersEngine, Request: Asked } = install()
const blocker = FiltersEngine.deserialize(readFileSync(join(folder, 'package/src/engine.bin')))
// A generic rule from EasyPrivacy that is newer than the compiled lists.
blocker.updateFromDiff({ added: ['/api/v1/track/*'] })
console.log(`${blocker.getFilters().networkFilters.length} network rules`)

const shop = 'https://www.shop.example.com'
const blockedBy = (url: string, type: string) => {
  const { match, filter } = blocker.match(Asked.fromRawDetails({ url, type, sourceUrl: `${shop}/` }))
  return match ? String(filter) : null
}

let failures = 0
function expectBlocked(url: string, type: string, blocked: boolean): void {
  const rule = blockedBy(url, type)
  if ((rule !== null) === blocked) return
  failures++
  console.error(`${url} (${type}): ${rule === null ? 'should be blocked, but passes' : `blocked by ${rule}`}`)
}

// Proves that the lists work, even on the shop's own domain. Without this check, the others would prove nothing.
expectBlocked('https://www.google-analytics.com/analytics.js', 'script', true)
expectBlocked(`${shop}/matomo.js`, 'script', true)
expectBlocked(`${shop}/svc/api/v1/track/click`, 'xhr', true)
expectBlocked('https://api.example.net/api/v1/track/click', 'fetch', true)

/** The request types of the script, a click and a signup. Some blockers see `ping` when a closing page sends a request. */
const types = ['script', 'xhr', 'fetch', 'ping', 'beacon', 'other']
const programs = 5000
for (let id = 1; id <= programs; id++) {
  const path = await proxyPath({ id, domain: 'shop.example.com' })
  for (const type of types) expectBlocked(`${shop}/${path}`, type, false)
  expectBlocked(`${shop}/${path}?links`, 'script', false)
  // If consent is required, the tag also sends its calls to the address that it was loaded from.
  for (const type of types) expectBlocked(`${shop}/${path}?consent`, type, false)
}
console.log(`${programs} invented paths, each as ${types.join(', ')}`)

console.log(failures ? `${failures} failures` : "No list blocks a request on the shop's own domain.")
process.exitCode = failures ? 1 : 0
