import { readFileSync } from 'node:fs'
import { addLines, writeEnv, writeGenerated, writeSection, type Written } from './files.ts'
import { type Connection, envFile, fetchStatus, siteAddress, type Status } from './service.ts'

/** The package's own version. See build.ts. */
declare const SVC_VERSION: string

/** The files that `svc init` wrote, with the program's status. */
export interface Initialised {
  status: Status
  files: Record<string, Written>
}

/**
 * Checks the key, fetches the program and writes `.svc/`, the lines of `.gitignore` and a section of `AGENTS.md` files. Safe to
 * repeat: calls `replace` before it overwrites a file that somebody has changed.
 */
export async function init(connection: Connection, replace: (path: string) => Promise<boolean>): Promise<Initialised> {
  const status = await fetchStatus(connection)
  const instructions = fillIn(readTemplate('AGENTS.md'), connection, status)
  const files: Record<string, Written> = {}
  // This comes first, so that git never sees a file with the key.
  files['.gitignore'] = addLines('.gitignore', ['.svc/.env', '.svc/.env.*', '!.svc/.env.example'])
  files[envFile] = writeEnv(envFile, {
    SVC_API_KEY: connection.apiKey,
    SVC_PROGRAM_ID: String(status.program.id),
    PAYMENT_CONNECTED_ACCOUNT_ID: status.processor.account_id,
    SVC_BASE_URL: connection.baseUrl,
    SVC_PROXY_KEY: status.proxy_key,
  })
  files['.svc/.env.example'] = await writeGenerated('.svc/.env.example', readTemplate('env.example'), 'shell', replace)
  for (const path of ['.svc/AGENTS.md', '.svc/skills.md']) {
    files[path] = await writeGenerated(path, instructions, 'markdown', replace)
  }
  files['AGENTS.md'] = writeSection('AGENTS.md', fillIn(readTemplate('section.md'), connection, status))
  return { status, files }
}

const readTemplate = (name: string) => readFileSync(new URL(`../templates/${name}`, import.meta.url), 'utf8')

/** Replaces `{{name}}` in the instructions with the program's value, which stays on one line and inside its table cell. */
function fillIn(template: string, connection: Connection, { program, processor, proxy_path }: Status): string {
  const values: Record<string, string> = {
    program_id: String(program.id),
    program_name: program.name,
    domain: program.domain,
    currency: program.currency,
    commission_percent: String(program.commission_percent),
    cookie_window_days: String(program.cookie_window_days),
    lead_auth_policy: program.lead_auth_policy,
    processor: processor.connected ? 'connected' : 'not connected',
    api_base_url: connection.baseUrl,
    package_url: `${connection.baseUrl}/packages/svc-tracker-${SVC_VERSION}.tgz`,
    proxy_path,
    site: siteAddress(connection, program),
  }
  return template.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`The template contains {{${name}}}, which has no value.`)
    return value.replaceAll(/[\s`<>|]+/g, ' ')
  })
}
