import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { browserScripts } from '../../api/browser-scripts.ts'
import { packages } from '../../../tracker/dist/served/packages.js'
import { fileName } from '../../../tracker/pack.ts'
import type { FunctionEntry } from '../wrangler-file.ts'

/**
 * The paths that Cloudflare answers from static files, by the function that answers them elsewhere. Cloudflare doesn't charge for these
 * requests.
 */
export const staticPaths: Record<string, string[]> = {
  'tracker-script': [...browserScripts.keys()],
  'tracker-package': Object.keys(packages).map((version) => `/packages/${fileName(version)}`),
}

/** The edge computes these headers for each answer. */
const computedHeaders = new Set(['content-length', 'etag', 'vary', 'x-request-id'])

/**
 * Writes the answers of the functions to their {@link staticPaths} into a folder for each function, with a file `_headers`. `functions` are
 * entries of the operator's configuration, because packages contain the address of the service.
 *
 * @returns the folder of each function that has static files
 */
export async function writeStaticFiles(folder: string, functions: FunctionEntry[]): Promise<Record<string, string>> {
  const [script, tarball] = await Promise.all([
    import('../../../functions/tracker-script.ts'),
    import('../../../functions/tracker-package.ts'),
  ])
  const answer: Record<string, (request: Request, vars: Record<string, string>) => Response | Promise<Response>> = {
    'tracker-script': (request) => script.default.fetch(request),
    'tracker-package': (request, vars) =>
      tarball.default.fetch(request, { API_BASE_URL: vars['API_BASE_URL'] ?? '', LOGGED_PART: '0' }),
  }
  const folders: Record<string, string> = {}
  for (const { name, vars } of functions) {
    const own = path.join(folder, name)
    const rules = new Set<string>()
    for (const served of staticPaths[name] ?? []) {
      const response = await answer[name]?.(new Request(`https://service${served}`), vars)
      if (!response?.ok) throw new Error(`${name} has no answer for ${served}.`)
      // The refusal of another method gets the same headers.
      const headers = [...response.headers, ['allow', 'GET, HEAD']].filter(
        ([header = '']) => !computedHeaders.has(header),
      )
      rules.add([`${path.dirname(served)}/*`, ...headers.map(([header, value]) => `  ${header}: ${value}`)].join('\n'))
      mkdirSync(path.dirname(path.join(own, served)), { recursive: true })
      writeFileSync(path.join(own, served), await response.bytes())
    }
    if (rules.size === 0) continue
    writeFileSync(path.join(own, '_headers'), `${[...rules].join('\n')}\n`)
    folders[name] = own
  }
  return folders
}
