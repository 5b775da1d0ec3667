import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Tests that take longest begin first, so that no worker is left alone with one at the end. Those that mostly wait stand apart, so that two of
 * three compute: serve, webhooks, local-stack, serve-install, auth, svc-listen, server-client, cash-oracle, docs, two-factor, api-reference,
 * processor-codes, queue-down, disk-full and react-entry, in this order.
 */
const longest = `
  serve dashboard-browser browser-tracker tenants webhooks planted-mistakes-chaos chaos commands months
  local-stack planted-mistakes-cash deploy cash-differential serve-install processor-ways
  backfill overview fuzz auth dashboard-lists package svc-command svc-listen audit
  reported-twice money-races server-client dashboard-access track-refusals cash-oracle retention
  processor-webhook docs deletion stripe-event-types two-factor test-data api-reference program-api
  processor-codes processor-attribution queue-down rate-limits program-api-resources disk-full groupings
  read-plans react-entry serve-answers
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
    // Three files fit on two cores, because a file that waits for a browser, a process or a queue leaves its core free. A fourth file gains
    // nothing: all four take longer.
    maxWorkers: 3,
    // Tests restore their process, so files share one. That saves a quarter of the CPU time.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    testTimeout: 120_000,
    // An awaited event takes milliseconds, or seconds on a busy machine. None of these limits is a measurement.
    expect: { poll: { timeout: 60_000, interval: 20 } },
    // Starting a stack takes seconds, or minutes if other work has the cores.
    hookTimeout: 180_000,
  },
})
