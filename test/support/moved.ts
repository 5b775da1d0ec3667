import type { Client } from 'pg'

/** The tables of a program that an import writes. */
const tables = [
  'partners',
  'partner_groups',
  'commission_rules',
  'referral_links',
  'partner_codes',
  'customers',
  'processor_customers',
  'adjustments',
  'balances',
  'balance_entries',
  'imported_commissions',
  'outbox',
  'uncounted_figures',
  'daily_totals',
]

/** Reads all rows of a program that an import can change, except the import's own. */
export async function contents(sql: Client, programId: number): Promise<string> {
  const found: unknown[] = []
  for (const table of tables) {
    const { rows } = await sql.query(`select * from ${table} where program_id = $1 order by 1, 2, 3`, [programId])
    found.push(rows)
  }
  const program = await sql.query('select link_params from programs where id = $1', [programId])
  return JSON.stringify([found, program.rows], null, 1)
}
