import pg from 'pg'
import { currencyExponent, majorUnits } from '../money.ts'
import { LocalStackError } from './postgres.ts'
import { readState } from './state.ts'

/**
 * `npm run -s ledger -- <program id>`: what a program's partners earned, what their balances are made of, and what they were
 * told, newest last. It reads the running stack's database, or that of DATABASE_URL.
 */
async function printLedger(programId: number): Promise<void> {
  if (!Number.isSafeInteger(programId)) throw new LocalStackError('Give the id of a program: npm run ledger -- 1')
  const client = new pg.Client({
    connectionString: process.env['DATABASE_URL'] ?? readState().environment.DATABASE_URL,
  })
  await client.connect()
  try {
    const print = async (title: string, query: string) => {
      const { rows } = await client.query<Record<string, unknown>>(query, [programId])
      console.log(`${title}${rows.length === 0 ? ': none' : ''}`)
      if (rows.length > 0) console.table(rows.map(readable))
    }
    await print(
      'Commissions',
      `select c.id, p.name as partner, s.transaction_id, c.amount_cents, c.reversed_cents, c.currency, c.status, c.reason
       from commissions c join partners p on p.id = c.partner_id left join sales s on s.program_id = c.program_id and s.id = c.sale_id
       where c.program_id = $1 order by c.id desc limit 50`,
    )
    await print(
      'Balances',
      `select p.name as partner, b.balance_cents, b.currency, b.entry_count as entries
       from balances b join partners p on p.id = b.partner_id where b.program_id = $1 order by p.name, b.currency limit 50`,
    )
    await print(
      'Balance entries',
      `select e.entry_number as number, p.name as partner, e.cause, e.amount_cents, e.balance_after_cents, e.currency
       from balance_entries e join partners p on p.id = e.partner_id
       where e.program_id = $1 order by e.created_at desc, e.entry_number desc limit 50`,
    )
    await print(
      'Notifications',
      `select audience, kind, payload->>'transaction_id' as transaction_id, payload->>'amount_cents' as amount_cents,
         payload->>'currency' as currency, payload->>'reason' as reason
       from notifications where program_id = $1 order by id desc limit 50`,
    )
  } finally {
    await client.end()
  }
}

/** A row with its `…_cents` columns as decimals of the row's currency. */
function readable(row: Record<string, unknown>): Record<string, unknown> {
  const currency = String(row['currency'])
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) =>
      name.endsWith('_cents') && value !== null
        ? [name.slice(0, -'_cents'.length), majorUnits(Number(value), currency).toFixed(currencyExponent(currency))]
        : [name, value],
    ),
  )
}

try {
  await printLedger(Number(process.argv[2]))
} catch (error) {
  if (!(error instanceof LocalStackError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
