import { parseArgs } from 'node:util'
import { openDatabase } from '../database.ts'
import { ApiError } from '../errors.ts'
import { forgetCustomer } from '../tracking/erase-customer.ts'
import { LocalStackError } from '../local/postgres.ts'
import { readState } from '../local/state.ts'

const usage = 'npm run -s forget -- --program 1 --customer-key user-1   (or --click-id cust_…)'

/** `npm run -s forget -- …`: removes what identifies a customer, on Neon by DATABASE_URL or on the running stack. */
async function forget(): Promise<void> {
  const { values } = parseArgs({
    options: { program: { type: 'string' }, 'customer-key': { type: 'string' }, 'click-id': { type: 'string' } },
  })
  const { program, 'customer-key': customerKey, 'click-id': clickId } = values
  const who = customerKey ? { customer_key: customerKey } : clickId ? { click_id: clickId } : undefined
  if (!Number.isSafeInteger(Number(program)) || !who) throw new LocalStackError(`Say whom to forget: ${usage}`)
  const { DATABASE_URL } = process.env
  const forgotten = await forgetCustomer(
    openDatabase(DATABASE_URL ? { DATABASE_URL } : readState().environment),
    Number(program),
    who,
  )
  console.log(`Forgotten: ${forgotten} customer${forgotten === 1 ? '' : 's'}. Amounts and days stay as they were.`)
}

try {
  await forget()
} catch (error) {
  const expected = error instanceof LocalStackError || error instanceof ApiError || error instanceof TypeError
  console.error(expected ? error.message : error)
  process.exitCode = 1
}
