import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import color from 'picocolors'
import { runCommand } from '../commands/command.ts'
import { OperatorError } from '../commands/operator-error.ts'
import { readRunningStack } from '../commands/running-stack.ts'
import { type Database, openDatabase } from '../database.ts'
import { kysely } from '../kysely.ts'
import { isProcessor } from '../processors/connections.ts'
import { type ProcessorName, processors } from '../processors/processors.ts'
import { unseal } from '../processors/seal.ts'
import { lemonsqueezyFixtures } from './lemonsqueezy-events.ts'
import { paddleFixtures } from './paddle-events.ts'
import { polarFixtures } from './polar-events.ts'
import type { ProcessorFixtures, Story } from './processor-events.ts'

export const processorFixtures: Record<ProcessorName, ProcessorFixtures> = {
  paddle: paddleFixtures,
  lemonsqueezy: lemonsqueezyFixtures,
  polar: polarFixtures,
}

const usage = `Usage: npm run -s processor:fixture -- <processor> <event> [options]

Signs an event as the processor would and sends it to the running stack. Events with the same --order are of the same payment.

  --order 2                distinguishes payments; 1 by default
  --amount 4900            the buyer's payment with tax, in the smallest unit
  --tax 800 --fee 300      contained in it; 0 by default
  --refunded 1000          in a refund event, the refunded part of --amount
  --currency usd           ISO 4217
  --click-id <id>          the latest visitor of the program by default
  --customer-key <key>     buyer-<order> by default
  --email <address>        of the buyer
  --program <id>           the newest program with a connection to the processor by default
  --test-mode              marks the event as one of test mode, if the processor has such a mark

Events:
${Object.entries(processorFixtures)
  .map(([processor, { events }]) =>
    Object.keys(events)
      .map((name) => `  ${processor} ${name}`)
      .join('\n'),
  )
  .join('\n')}`

/** Returns a processor's newest connection and the click id of the latest visitor. If a program is named, the connection belongs to it. */
async function findConnection(db: Database, processor: ProcessorName, programId: string | undefined) {
  const [found] = await db.query(
    kysely
      .selectFrom('processor_connections as c')
      .select((eb) => [
        'c.program_id',
        'c.account_id',
        sql<string>`c.secret::text`.as('secret'),
        eb
          .selectFrom('customers as v')
          .select('v.click_id')
          .whereRef('v.program_id', '=', 'c.program_id')
          .orderBy('v.last_click_at', 'desc')
          .limit(1)
          .as('click_id'),
      ])
      .where('c.processor', '=', processor)
      .where('c.secret', 'is not', null)
      .where('c.disconnected_at', 'is', null)
      .$if(programId !== undefined, (query) => query.where('c.program_id', '=', Number(programId)))
      .orderBy('c.created_at', 'desc')
      .limit(1),
  )
  return found
}

function amountOf(option: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise
  if (!/^\d{1,12}$/.test(text))
    throw new OperatorError(`--${option}: Enter an amount in minor units, for example 4900.`)
  return Number(text)
}

const paidByDefault = 4900
const refundedByDefault = 1000

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      order: { type: 'string', default: '1' },
      amount: { type: 'string' },
      tax: { type: 'string' },
      fee: { type: 'string' },
      refunded: { type: 'string' },
      currency: { type: 'string', default: 'usd' },
      'click-id': { type: 'string' },
      'customer-key': { type: 'string' },
      email: { type: 'string', default: 'buyer@example.com' },
      program: { type: 'string' },
      'test-mode': { type: 'boolean', default: false },
    },
  })
  const [processor = '', name = ''] = positionals
  if (!isProcessor(processor)) throw new OperatorError(usage)
  const fixtures = processorFixtures[processor]
  const bodyOf = Object.hasOwn(fixtures.events, name) ? fixtures.events[name] : undefined
  if (!bodyOf) throw new OperatorError(usage)
  const { baseUrl, environment } = readRunningStack()
  const connection = await findConnection(openDatabase(environment), processor, values.program)
  if (!connection) {
    throw new OperatorError(
      `No program is connected to ${processors[processor].title}. Create one with \`npm run -s sandbox -- --processor ${processor}\`.`,
    )
  }
  const { account_id: accountId, program_id: programId } = connection
  const secret = await unseal(environment.EMAIL_HASH_KEY, 'processor secret', accountId, connection.secret)
  if (secret === undefined)
    throw new OperatorError('EMAIL_HASH_KEY has changed. Paste the secret of the connection again.')
  const story: Story = {
    order: values.order,
    programId,
    clickId: values['click-id'] ?? connection.click_id,
    customerKey: values['customer-key'] ?? `buyer-${values.order}`,
    email: values.email,
    amount: amountOf('amount', values.amount, paidByDefault),
    tax: amountOf('tax', values.tax, 0),
    fee: amountOf('fee', values.fee, 0),
    refunded: amountOf('refunded', values.refunded, refundedByDefault),
    currency: values.currency.toLowerCase(),
    now: new Date(),
    isTest: values['test-mode'],
  }
  const body = JSON.stringify(bodyOf(story), null, 2)
  const response = await fetch(`${baseUrl}/api/v1/webhooks/${processor}/${accountId}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...fixtures.headersOf(body, secret, new Date()) },
    body,
  })
  console.log(color.dim(body))
  console.log(`${response.status} ${await response.text()}`)
  if (!response.ok) process.exitCode = 1
}

if (import.meta.main) await runCommand(usage, main)
