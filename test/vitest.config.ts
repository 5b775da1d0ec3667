import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Tests that take longest begin first, so that no worker is left alone with one at the end; one that computes beside some that wait. */
const longest = [
  'dashboard-browser',
  'serve',
  'browser-tracker',
  'chaos-teeth',
  'webhooks',
  'cash-teeth',
  'svc-listen',
  'docs',
  'serve-install',
  'local-stack',
  'chaos',
  'audit',
  'commands',
  'svc-command',
  'backfill',
  'money-histories',
  'tenants',
  'fuzz',
  'deploy',
  'upgrade',
  'cash-differential',
  'processor-order',
  'package',
  'program-api',
  'program-api-resources',
  'read-plans',
  'serve-answers',
  'dashboard',
  'auth',
  'months',
  'money-races',
  'two-factor',
  'queue-down',
  'cash-oracle',
  'disk-full',
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
