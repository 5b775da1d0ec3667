import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readOptions } from '../commands/command.ts'

const folder = new URL('../audit/checks/', import.meta.url)
const written = new URL('../audit/checks.ts', import.meta.url)

const literal = (text: string) => `\`${text.replaceAll(/[\\`]|\$\{/g, '\\$&')}\``

/** Returns the checks in `lib/audit/checks/` as a module, because a Worker can't read a folder. */
export function auditChecks(): string {
  const entries = readdirSync(folder)
    .toSorted()
    .map((file) => {
      const query = readFileSync(new URL(file, folder), 'utf8')
      const name = query.slice('-- '.length, query.indexOf('\n'))
      return `  {\n    name: ${literal(name)},\n    query: ${literal(query)},\n  },\n`
    })
  return [
    '// `npm run audit-checks` writes this file from lib/audit/checks/. Do not edit it.\n',
    "import type { Check } from './run-checks.ts'\n\n",
    'export const checks: Check[] = [\n',
    ...entries,
    ']\n',
  ].join('')
}

if (import.meta.main) {
  readOptions('npm run audit-checks    writes lib/audit/checks.ts from lib/audit/checks/', {})
  writeFileSync(written, auditChecks())
}
