import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as z from 'zod/mini'

const root = new URL('../../', import.meta.url)

/**
 * Returns the id of this version: `VERSION`, or else the version in package.json and, in a git checkout, its commit. Uncommitted changes
 * add `-changed`.
 */
export function currentVersion(environment: Record<string, string | undefined> = process.env): string {
  if (environment['VERSION']) return environment['VERSION']
  const { version } = z
    .object({ version: z.string() })
    .parse(JSON.parse(readFileSync(new URL('package.json', root), 'utf8')))
  try {
    const args = ['describe', '--always', '--exclude=*', '--abbrev=10', '--dirty=-changed']
    const commit = execFileSync('git', args, { cwd: fileURLToPath(root), stdio: ['ignore', 'pipe', 'ignore'] })
    return `${version}+${commit.toString().trim()}`
  } catch {
    return version
  }
}
