import { parseArgs } from 'node:util'
import { openDatabase } from '../database.ts'
import { OperatorError } from './operator-error.ts'
import { commandDatabase } from './running-stack.ts'
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
  if (!Number.isSafeInteger(programId)) throw new OperatorError(`Name the program whose account it is: ${usage}`)
  const { connectProcessor } = await import('../stripe/connect.ts')
  await connectProcessor(openDatabase(commandDatabase()), programId, ownAccount)
  console.log(`Events that name no account belong to program ${programId} now.`)
}

await runCommand(usage, connectOwnAccount)
