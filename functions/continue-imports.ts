import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { continueImports } from '../lib/moving/imports.ts'
import type { ImportEnv } from '../lib/moving/read-service.ts'

/** The number of seconds that a run spends on each import. */
const seconds = 600

/** Scheduled: continues imports that their request did not finish. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & ImportEnv): Promise<void> {
    const imports = await continueImports(openDatabase(env), env, seconds)
    if (imports > 0) console.log(JSON.stringify({ function: 'continue-imports', imports }))
  },
}
