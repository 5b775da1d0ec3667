import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * The longest tests start first, so that no worker has to run one alone at the end. Files that mostly wait, such as serve, webhooks,
 * local-stack, svc-listen, backup, health and queue-down, are spread out, so that at least two workers are computing at any time.
 */
const longest = `
  serve dashboard-browser browser-tracker tenants webhooks planted-mistakes-chaos chaos commands months
  local-stack planted-mistakes-cash deploy cash-differential serve-install processor-ways connections
  backfill moving overview fuzz auth dashboard-lists docs svc-command svc-listen audit backup
  react-entry api-reference package processor-codes server-client disk-full serve-parts groupings
  health two-factor deletion queue-down archives migrate program-api connection-histories dashboard
  payout-providers payouts regular-expressions database retention migrate-under-load money-races
  reported-twice rate-limits stripe-event-types processor-refunds program-api-resources test-data lock-order parked-events
`
  .trim()
  .split(/\s+/)

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
    // Four files fit on two cores, because a file that waits for a browser, a process or a queue leaves its core free. On 23 November the suite
    // took 338 s with three files at once and 322 s with four.
    maxWorkers: 4,
    // Tests restore the state of their process, so files can share one. That saves a quarter of the CPU
    // time. With a small heap, garbage collections would take a tenth of a worker's CPU time.
    execArgv: ['--initial-heap-size=500', '--no-memory-reducer'],
    isolate: false,
    sequence: { sequencer: LongestFirst },
    testTimeout: 120_000,
    // An expected event takes milliseconds, or seconds on a busy machine. These limits don't measure anything.
    expect: { poll: { timeout: 60_000, interval: 20 } },
    // A stack starts in seconds, or in minutes if the cores are busy with other work.
    hookTimeout: 180_000,
  },
})
