/**
 * `npm run blockers`: whether today's block lists let the tracking of a shop's own domain pass: what is asked for at the paths that `svc init`
 * makes up. That a page asks for nothing else is held by test/browser-tracker.test.ts. Ends with 1 where a list stops it.
 *
 * The lists are EasyList, EasyPrivacy, uBlock's own and those for annoyances, as Ghostery compiles them and the package `@browserless/goto` carries
 * them. With what it needs it is a hundred megabytes, so it is fetched for this command, and alone.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readOptions } from '../../lib/commands/command.ts'
import { proxyPath } from '../../tracker/src/cli/init.ts'

readOptions("npm run blockers    whether today's block lists leave the own-domain proxy alone; fetches them", {})

const lists = '@browserless/goto@10.12.13'
/** The release whose engine reads what that package's was written by. */
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
// A generic rule of EasyPrivacy that is newer than the compiled lists.
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
  console.error(`${url} (${type}): ${rule === null ? 'passes, and should not' : `blocked by ${rule}`}`)
}

// The lists are read and do block, on one's own domain too: else the rest would say nothing.
expectBlocked('https://www.google-analytics.com/analytics.js', 'script', true)
expectBlocked(`${shop}/matomo.js`, 'script', true)
expectBlocked(`${shop}/svc/api/v1/track/click`, 'xhr', true)
expectBlocked('https://api.example.net/api/v1/track/click', 'fetch', true)

/** Every type under which blockers see script, click and signup; those that are sent while a page closes are `ping` to some. */
const types = ['script', 'xhr', 'fetch', 'ping', 'beacon', 'other']
const programs = 5000
for (let id = 1; id <= programs; id++) {
  const path = proxyPath({ id, domain: 'shop.example.com' })
  for (const type of types) expectBlocked(`${shop}/${path}`, type, false)
  expectBlocked(`${shop}/${path}?links`, 'script', false)
}
console.log(`${programs} made-up paths, each as ${types.join(', ')}`)

console.log(failures ? `${failures} failures` : 'Nothing of the own domain is blocked.')
process.exitCode = failures ? 1 : 0
