import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { continueBatches } from '../lib/money/provider-batches.ts'
import type { SecretsEnv } from '../lib/processors/connections.ts'

const milliseconds = 45_000

/** Scheduled: sends payout batches to their providers, and reads the states of the payments. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & SecretsEnv): Promise<void> {
    const steps = await continueBatches(openDatabase(env), env, { until: Date.now() + milliseconds })
    if (steps > 0) console.log(JSON.stringify({ function: 'continue-payouts', steps }))
  },
}
