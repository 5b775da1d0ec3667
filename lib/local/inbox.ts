import type { FunctionEntry } from '../commands/wrangler-file.ts'
import { OperatorError } from '../commands/operator-error.ts'

/** The Worker that shows sent mails. It only runs on this machine, so wrangler.toml has no entry for it. */
export function inboxPage(deployed: FunctionEntry[]): FunctionEntry {
  const dashboard = deployed.find(({ name }) => name === 'dashboard')
  if (!dashboard) throw new OperatorError('wrangler.toml has no dashboard.')
  return {
    name: 'inbox-page',
    workerName: 'inbox-page',
    main: 'lib/local/inbox-page.tsx',
    routes: [],
    paths: ['/inbox*'],
    crons: [],
    vars: {},
    secrets: ['DATABASE_URL'],
    rateLimits: [],
    services: {},
    compatibilityDate: dashboard.compatibilityDate,
    compatibilityFlags: dashboard.compatibilityFlags,
  }
}
