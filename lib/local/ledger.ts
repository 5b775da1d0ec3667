import { parseArgs } from 'node:util'
import { types } from 'pg'
import { runCommand } from '../commands/command.ts'
import { withClient } from '../commands/migrate.ts'
import { decimalAmount } from '../money.ts'
import { OperatorError } from '../commands/operator-error.ts'
import { commandDatabase } from '../commands/running-stack.ts'

/**
 * The parts of a program's ledger, oldest first, with each row as `--json` prints it. Scripts read these names, so the documented
 * names `withdrawals` and `withdrawal_…` (notification kinds) stay.
 */
const parts = {
  commissions: `
    select c.id, p.name as partner, s.transaction_id, c.amount_cents, c.reversed_cents, c.currency, c.status, c.reason
    from commissions c join partners p on p.program_id = c.program_id and p.id = c.partner_id left join sales s on s.program_id = c.program_id and s.id = c.sale_id
    where c.program_id = $1 order by c.id`,
  balances: `
    select p.name as partner, b.currency, b.balance_cents, b.payable_cents
    from payable_balances b join partners p on p.program_id = b.program_id and p.id = b.partner_id where b.program_id = $1 order by p.name, p.id, b.currency`,
  entries: `
    select p.name as partner, e.currency, e.amount_cents, e.cause
    from balance_entries e join partners p on p.program_id = e.program_id and p.id = e.partner_id
    where e.program_id = $1 order by e.created_at, e.partner_id, e.currency, e.entry_number`,
  withdrawals: `
    select w.id, p.name as partner, w.amount_cents, w.currency, w.status, w.payout_run_id, w.reference
    from payouts w join partners p on p.program_id = w.program_id and p.id = w.partner_id where w.program_id = $1 order by w.id`,
  notifications: `
    select audience, regexp_replace(kind, '^payout_(paid|reduced|refused|returned)$', 'withdrawal_\\1') as kind, payload->>'transaction_id' as transaction_id, (payload->>'amount_cents')::bigint as amount_cents,
      payload->>'currency' as currency, payload->>'reason' as reason
    from notifications where program_id = $1 order by id`,
}

/** The number of rows per part without `--json`, which prints all rows. */
const shownRows = 50

/**
 * `npm run -s ledger -- <program id> [--json]` prints a program's commissions, balances, balance entries, payouts and notifications. It
 * reads the running stack's database, or the database in DATABASE_URL.
 */
async function printLedger(programId: number, json: boolean): Promise<void> {
  if (!Number.isSafeInteger(programId)) throw new OperatorError('Pass the id of a program: npm run ledger -- 1')
  const databaseUrl = commandDatabase().DATABASE_URL
  await withClient(databaseUrl, 'svc-ledger', async (client) => {
    client.setTypeParser(types.builtins.INT8, Number)
    const ledger: Record<string, Record<string, unknown>[]> = {}
    for (const [name, query] of Object.entries(parts)) {
      ledger[name] = (await client.query<Record<string, unknown>>(query, [programId])).rows
    }
    if (json) console.log(JSON.stringify(ledger, null, 2))
    else for (const [name, rows] of Object.entries(ledger)) printTable(name, rows)
  })
}

function printTable(name: string, rows: Record<string, unknown>[]): void {
  const title = name[0]?.toUpperCase() + name.slice(1)
  const older = rows.length > shownRows ? `, the last ${shownRows} of ${rows.length}` : ''
  console.log(`${title}${rows.length === 0 ? ': none' : older}`)
  if (rows.length > 0) console.table(rows.slice(-shownRows).map(readable))
}

/** A row with its `…_cents` columns as decimals of the row's currency. */
function readable(row: Record<string, unknown>): Record<string, unknown> {
  const currency = String(row['currency'])
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) =>
      name.endsWith('_cents') && value !== null
        ? [name.slice(0, -'_cents'.length), decimalAmount(Number(value), currency)]
        : [name, value],
    ),
  )
}

const usage = `npm run -s ledger -- PROGRAM    shows commissions, balances, entries, payouts and notifications of a program of the running
                                stack; --json prints all of them as one object`

await runCommand(usage, async () => {
  const { values, positionals } = parseArgs({ options: { json: { type: 'boolean' } }, allowPositionals: true })
  await printLedger(Number(positionals[0]), values.json ?? false)
})
