import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Tests that take longest begin first, so that no worker is left alone with one at the end. Each that mostly waits, as webhooks, serve, local-stack,
 * serve-install, svc-listen, auth and server-client do, stands between such as compute, so that two of three compute.
 */
const longest = [
  'dashboard-browser',
  'webhooks',
  'chaos-teeth',
  'commands',
  'serve',
  'money-histories',
  'tenants',
  'browser-tracker',
  'chaos',
  'backfill',
  'local-stack',
  'fuzz',
  'cash-differential',
  'serve-install',
  'overview',
  'cash-teeth',
  'upgrade',
  'deploy',
  'svc-listen',
  'months',
  'processor-order',
  'auth',
  'package',
  'processor-ways',
  'server-client',
  'api-reference',
  'docs',
  'dashboard-lists',
  'two-factor',
  'cash-oracle',
  'program-api',
  'processor-codes',
  'queue-down',
  'react-entry',
  'svc-command',
  'audit',
  'disk-full',
  'read-plans',
  'groupings',
  'money-races',
  'program-api-resources',
  'serve-answers',
]

function placeOf({ moduleId }: TestSpecification): number {
  const place = longest.indexOf(path.basename(moduleId).split('.')[0] ?? '')
  return place === -1 ? longest.length : place
}

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line no-array-sort -- it is the sequencer's, of no array
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => placeOf(a) - placeOf(b))
  }
}

export default defineConfig({
  root: fileURLToPath(new URL('../', import.meta.url)),
  test: {
    include: ['test/**/*.test.{ts,tsx}'],
    globalSetup: ['test/support/global-setup.ts'],
    // On two cores, since a file that waits for a browser, a process or a queue leaves its core to another. A fourth fills what waits are left,
    // but all four then take longer, and it reads all modules once more.
    maxWorkers: 3,
    // What tests change of their process they set back, so that files need no process each: a quarter less CPU time in all.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    testTimeout: 120_000,
    // What is waited for comes in milliseconds, and on a machine with other work in seconds: none of this is a measurement.
    expect: { poll: { timeout: 60_000, interval: 20 } },
    // Starting a stack takes seconds, and minutes where other work has the cores.
    hookTimeout: 180_000,
  },
})
