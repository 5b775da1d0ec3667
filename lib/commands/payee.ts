import { parseArgs } from 'node:util'
import { openCommandDatabase, runCommand } from './command.ts'
import { OperatorError } from './operator-error.ts'
import { commandDatabase, readRunningStack } from './running-stack.ts'

const usage =
  'npm run -s payee -- --program 1 --partner 2    prints the identity of an erased partner with payments, for the tax office or a court'

/**
 * `npm run -s payee -- --program 1 --partner 2`: decrypts the name and the addresses of an erased partner, from the database of
 * DATABASE_URL with EMAIL_HASH_KEY, or from the running stack.
 */
async function payee(): Promise<void> {
  const { values } = parseArgs({ options: { program: { type: 'string' }, partner: { type: 'string' } } })
  const [programId, partnerId] = [Number(values.program), Number(values.partner)]
  if (!Number.isSafeInteger(programId) || !Number.isSafeInteger(partnerId))
    throw new OperatorError(`Name the partner: ${usage}`)
  const database = commandDatabase()
  const { EMAIL_HASH_KEY: secret } = process.env['DATABASE_URL'] ? process.env : readRunningStack().environment
  if (!secret) throw new OperatorError('DATABASE_URL is set, so set EMAIL_HASH_KEY as well.')
  const { readPayee } = await import('../money/payees.ts')
  console.log(await readPayee(openCommandDatabase(database), secret, programId, partnerId))
}

await runCommand(usage, payee)
