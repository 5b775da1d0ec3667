import { parseArgs } from 'node:util'
import { openDatabase } from '../database.ts'
import { LocalStackError } from '../local/postgres.ts'
import { readState } from '../local/state.ts'
import { ownAccount } from '../stripe/facts.ts'
import { runCommand } from './command.ts'

const usage =
  'npm run -s own-account -- PROGRAM    connects a program to the Stripe account whose key the deployment has'

/**
 * `npm run -s own-account -- PROGRAM`: connects a program to the account whose key the deployment has, without Connect. Whoever deploys
 * says so, because it is their account; nobody can in the dashboard. It is disconnected there as any other.
 */
async function connectOwnAccount(): Promise<void> {
  const { positionals } = parseArgs({ allowPositionals: true })
  const programId = Number(positionals[0])
  if (!Number.isSafeInteger(programId)) throw new LocalStackError(`Name the program whose account it is: ${usage}`)
  const { connectProcessor } = await import('../stripe/connect.ts')
  const { DATABASE_URL } = process.env
  await connectProcessor(openDatabase(DATABASE_URL ? { DATABASE_URL } : readState().environment), programId, ownAccount)
  console.log(`Events that name no account belong to program ${programId} now.`)
}

await runCommand(usage, connectOwnAccount)
