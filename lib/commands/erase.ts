import { parseArgs } from 'node:util'
import { OperatorError } from './operator-error.ts'
import { commandDatabase } from './running-stack.ts'
import { openCommandDatabase, runCommand } from './command.ts'

const usage =
  'npm run -s erase -- --program 1 --customer-key user-1    removes the identity of a customer. You can also use --click-id cust_…'

/**
 * `npm run -s erase -- --program 1 --customer-key user-1`: removes a customer's personal data, in the database of DATABASE_URL or
 * in the running stack.
 */
async function erase(): Promise<void> {
  const { values } = parseArgs({
    options: { program: { type: 'string' }, 'customer-key': { type: 'string' }, 'click-id': { type: 'string' } },
  })
  const { program, 'customer-key': customerKey, 'click-id': clickId } = values
  const who = customerKey ? { customer_key: customerKey } : clickId ? { click_id: clickId } : undefined
  if (!Number.isSafeInteger(Number(program)) || !who) throw new OperatorError(`Name the customer to erase: ${usage}`)
  const { eraseCustomer } = await import('../tracking/erase-customer.ts')
  const erased = await eraseCustomer(openCommandDatabase(commandDatabase()), Number(program), who)
  console.log(`Erased: ${erased} customer${erased === 1 ? '' : 's'}. Amounts and days did not change.`)
}

await runCommand(usage, erase)
