import { parseArgs } from 'node:util'
import { OperatorError } from './operator-error.ts'
import { commandDatabase } from './running-stack.ts'
import { openCommandDatabase, runCommand } from './command.ts'

const usage =
  'npm run -s own-account -- PROGRAM    connects a program to the Stripe account whose key the deployment has'

/**
 * `npm run -s own-account -- PROGRAM`: connects a program to the account of the deployment's own key, without Connect. Only the operator
 * may do this directly, because they own the account. The dashboard can disconnect it like any other account.
 */
async function connectOwnAccount(): Promise<void> {
  const { positionals } = parseArgs({ allowPositionals: true })
  const programId = Number(positionals[0])
  if (!Number.isSafeInteger(programId)) throw new OperatorError(`Name the program: ${usage}`)
  const { ownAccount } = await import('../processors/stripe/client.ts')
  const { connectProcessor } = await import('../processors/stripe/connect.ts')
  await connectProcessor(openCommandDatabase(commandDatabase()), programId, ownAccount)
  console.log(`Events without an account now belong to program ${programId}.`)
}

await runCommand(usage, connectOwnAccount)
