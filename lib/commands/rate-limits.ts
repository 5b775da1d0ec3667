import { readFileSync, writeFileSync } from 'node:fs'
import { rateLimits } from '../api/rate-limits.ts'
import { readOptions } from './command.ts'
import { OperatorError } from './operator-error.ts'

/** Returns a wrangler.toml with the rate limits of `lib/api/rate-limits.ts`, after the line `main` of each function. */
export function withRateLimits(wranglerToml: string): string {
  let toml = wranglerToml.replaceAll(/^ratelimits = \[\n(?: .*\n)*\]\n/gm, '')
  for (const [name, limiters] of Object.entries(rateLimits)) {
    const main = new RegExp(`^\\[env\\.${name}\\].*\\nname = .*\\nmain = .*\\n`, 'm')
    if (!main.test(toml)) throw new OperatorError(`wrangler.toml has no [env.${name}] with a name and a main below it.`)
    const lines = Object.entries(limiters).map(
      ([limiter, { id, perMinute }]) =>
        `  { name = "${limiter}", namespace_id = "${id}", simple = { limit = ${perMinute}, period = 60 } },`,
    )
    toml = toml.replace(main, (found) => [`${found}ratelimits = [`, ...lines, ']', ''].join('\n'))
  }
  return toml
}

if (import.meta.main) {
  readOptions('npm run rate-limits    writes the rate limits of lib/api/rate-limits.ts into wrangler.toml', {})
  const file = new URL('../../wrangler.toml', import.meta.url)
  writeFileSync(file, withRateLimits(readFileSync(file, 'utf8')))
}
