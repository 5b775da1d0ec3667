import type { Client } from 'pg'

/** The tables with a program's rows that an import writes. */
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

/** Reads all rows of a program that an import can change, except the rows about the import. */
export async function contents(sql: Client, programId: number): Promise<string> {
  const found: unknown[] = []
  for (const table of tables) {
    const { rows } = await sql.query(`select * from ${table} where program_id = $1 order by 1, 2, 3`, [programId])
    found.push(rows)
  }
  const program = await sql.query('select link_params from programs where id = $1', [programId])
  return JSON.stringify([found, program.rows], null, 1)
}

/** Returns a digest of the same rows, for programs that are too large to compare as text. */
export async function digest(sql: Client, programId: number): Promise<string> {
  const program = `select 'programs' as name, md5(link_params::text) as digest from programs where id = $1`
  // Postgres can read large tables in parallel, in which case the digests come in any order.
  const all = `${[...tables.map(digestOf), program].join(' union all ')} order by name`
  const { rows } = await sql.query(all, [programId])
  return JSON.stringify(rows)
}

const digestOf = (table: string) =>
  `select '${table}' as name, md5(coalesce(string_agg(t::text, '' order by t::text), '')) as digest from ${table} t where program_id = $1`
