import { Client } from 'pg'
import { describe, expect, test } from 'vitest'
import { recordClick } from '../lib/tracking/clicks.ts'
import { eventsStatement } from '../lib/tracking/events.ts'
import { recordBrowserLead, recordServerLead } from '../lib/tracking/leads.ts'
import { readPerformance } from '../lib/tracking/performance.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { recordSale } from '../lib/money/sales.ts'
import { capture, captured } from './bench/capture.ts'
import { clickOn } from './bench/calls.ts'
import { seedCounters, seedCustomers, seededClickId, seedPartners, seedSales } from './bench/seed.ts'
import { noLead, noSale } from './support/ledger.ts'
import { collectPlans, type PlanNode, rowsRead } from './support/plans.ts'
import { createDatabase } from './support/stack.ts'

// The schema can be distributed by program_id (with Citus, for example) if no unique key and no hot statement spans programs. A table
// without program_id would be copied to every node or distributed by its own key. This list contains each such table, with the
// reason.

const referenceTables: Record<string, string> = {
  schema_migrations: 'written when the service is deployed',
  schema_functions: 'written when the service is deployed',
  audits: 'one row, written by the nightly audit',
  click_sink: 'one row, written with each batch for ClickHouse',
  processor_connect_states: 'few and short-lived',
  own_account_codes: 'few and short-lived',
  processor_events: "read by the webhook's account, before the program is known; several programs may share an account",
  processor_payments: 'by the account, for the same reason',
  processor_reversals: 'by the account, for the same reason',
  processor_customer_metadata: 'by the account, for the same reason',
  users: 'people who belong to several programs',
  sessions: 'people',
  accounts: 'people',
  two_factors: 'people',
  verifications: 'people',
  sign_in_attempts: 'people',
  mails: 'people, in local stacks only',
  mail_choices: 'people',
  refused_addresses: 'people',
  workspaces: 'few, and each can own several programs',
  workspace_members: 'few',
  workspace_invitations: 'few',
  partner_keys: 'few',
  partner_profiles: 'people',
  payee_details: 'people',
  tax_forms: 'people',
  programs: 'its id is the distribution key',
  partner_invitations: 'few',
  applications: 'few, and found by mailed links',
  mail_counts: 'few and short-lived',
  join_slugs: 'read before the program is known, rarely written',
  program_hosts: 'read before the program is known, rarely written',
  audit_log: 'belongs to workspaces, for their owners',
  used_forms: 'people, short-lived',
  blocks: 'few, short-lived, and a network has no program',
  clicks_kept: 'a single row',
  rewritten_months: 'one row for each month',
  secret_fingerprints: 'four rows about the service itself',
  api_keys: 'read before the program is known, rarely written',
  referral_links: 'read before the program is known, rarely written',
}

const { databaseUrl, sql } = await createDatabase()
const { rows: programs } = await sql.query<{ id: string }>(`
  with workspace as (insert into workspaces (name) values ('Workspace') returning id)
  insert into programs (workspace_id, name, domain) select id, 'Program', 'example.com' from workspace, generate_series(1, 20)
  returning id`)
for (const { id } of programs) {
  const first = await seedPartners(sql, Number(id), 5, `code-${id}-`)
  await seedCustomers(sql, Number(id), first, { from: 1, count: 300, partners: 5 })
  await seedCustomers(sql, Number(id), first, { from: 301, count: 300, partners: 5, key: 'buyer' })
  await seedSales(sql, Number(id), 'buyer', 'order')
}
const programId = Number(programs[0]?.id)
await seedCounters(sql, programId)
const hash = '0'.repeat(64)
await sql.query("insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), 'hint')", [
  programId,
  hash,
])
// The commission of the refunded sale is credited, and a payout request covers most of it.
await sql.query(
  `with credited as (
    update commissions c set credited_at = now() from sales s
    where c.program_id = $1 and s.program_id = $1 and s.id = c.sale_id and s.transaction_id = 'order1' returning c.*
  ), entry as (
    insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents, balance_after_cents,
      cause, commission_id)
    select program_id, partner_id, currency, 1, amount_cents, 0, amount_cents, 'commission_credited', id from credited
  ), balance as (
    insert into balances (program_id, partner_id, currency, balance_cents, entry_count)
    select program_id, partner_id, currency, amount_cents, 1 from credited
  )
  insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents)
  select program_id, partner_id, currency, amount_cents, amount_cents from credited`,
  [programId],
)

async function tablesOf(query: string): Promise<{ name: string; of: string }[]> {
  return (await sql.query<{ name: string; of: string }>(query)).rows
}

describe('every key contains program_id', () => {
  test('unique keys', async () => {
    const without = await tablesOf(`
      select i.indexrelid::regclass::text as name, i.indrelid::regclass::text as of
      from pg_index i join pg_class c on c.oid = i.indrelid
      where i.indisunique and c.relnamespace = 'public'::regnamespace and not c.relispartition
        and not exists (
          select from pg_attribute a
          where a.attrelid = i.indrelid and a.attnum = any (i.indkey::smallint[]) and a.attname = 'program_id')
      order by 1`)
    // A promotion code belongs to an account, and an account belongs to one program. A connection's id identifies its program.
    const own = without.filter(
      ({ name }) =>
        !['partner_codes_promotion_key', 'processor_connections_pkey', 'payout_connections_pkey'].includes(name),
    )
    expect(own.filter(({ of }) => !(of in referenceTables))).toEqual([])
  })

  test('foreign keys between tables with a program_id', async () => {
    const without = await tablesOf(`
      select k.conname as name, k.confrelid::regclass::text as of
      from pg_constraint k join pg_class c on c.oid = k.conrelid
      where k.contype = 'f' and not c.relispartition
        and not exists (
          select from pg_attribute a
          where a.attrelid = k.confrelid and a.attnum = any (k.confkey) and a.attname = 'program_id')
      order by 1`)
    expect(without.filter(({ of }) => !(of in referenceTables))).toEqual([])
  })
})

const request = crypto.randomUUID()
const order = { transaction_id: 'order-1', customer_key: 'user-1', click_id: null, amount_cents: 4900, currency: 'usd' }
const sale = { ...noSale, ...order }
const lead = { ...noLead, customer_key: 'user-1', click_id: seededClickId(programId, 2) }
const refund = { amount_cents: 1000, refund_id: 'refund-1', reason: 'refund', reason_text: null } as const
const now = Date.parse('2026-11-20T12:00:00Z')
const week = { dateFrom: new Date(now - 7 * 86_400_000), dateTo: new Date(now) }
const queryOf = ({ sql: query }: { sql: string }) => [{ query }]

const hotStatements: [name: string, statements: () => Promise<{ query: string }[]> | { query: string }[]][] = [
  ['events-click', () => queryOf(eventsStatement('click', 1, {}, 30).compile())],
  ['events-lead', () => queryOf(eventsStatement('lead', 1, {}, 30).compile())],
  ['events-conversion', () => queryOf(eventsStatement('conversion', 1, {}, 30).compile())],
]

/** Calls that cover every branch of their functions, one after another. */
const hotFunctions: [name: string, calls: (() => Promise<unknown>)[]][] = [
  [
    'click',
    [null, seededClickId(programId, 1)].map(
      (existing) => () => recordClick(captured, clickOn(`code-${programId}-1`), existing),
    ),
  ],
  [
    'lead',
    [
      ...[lead, lead, { ...lead, customer_key: 'user-2' }].map(
        (each) => () => recordServerLead(captured, hash, each, null),
      ),
      () => recordBrowserLead(captured, { ...lead, click_id: seededClickId(programId, 3) }, null),
    ],
  ],
  [
    'sale',
    [sale, sale, { ...sale, transaction_id: 'order-2', customer_key: 'user-3', click_id: lead.click_id }].map(
      (each) => () => recordSale(captured, hash, each, null, request),
    ),
  ],
  ['refund', [refund, refund].map((each) => () => refundSale(captured, hash, 'order1', each, request))],
  [
    'performance',
    [week, { period: 'all' as const }].map(
      (query) => () =>
        readPerformance(captured, { id: programId, currency: 'usd', createdAt: new Date(now) }, query, now),
    ),
  ],
]

const conditions = ['Index Cond', 'Recheck Cond', 'Filter', 'Join Filter', 'Hash Cond', 'Merge Cond'] as const

/** Returns the scans of a plan that must query every node, because they read a table with program_id without a condition or join on it. */
function scansOfAllPrograms(node: PlanNode, above = ''): string[] {
  const { 'Relation Name': relation, Alias: alias = '' } = node
  const own = conditions.map((name) => node[name] ?? '').join(' ')
  const isScan = node['Node Type'].includes('Scan') && relation !== undefined
  const isBound = /(^|[ (])program_id\b/.test(own) || `${own} ${above}`.includes(`${alias}.program_id`)
  return [
    ...(isScan && !(relation in referenceTables) && !isBound ? [`${node['Node Type']} on ${relation} by ${own}`] : []),
    ...(node.Plans ?? []).flatMap((child) => scansOfAllPrograms(child, `${above} ${own}`)),
  ]
}

describe('every hot statement looks up its rows by program_id', () => {
  test.each(hotStatements)('%s', async (_name, statements) => {
    // Postgres would prefer to scan small tables. Plans must not depend on the parameters.
    await sql.query('set enable_seqscan = off')
    for (const { query } of await statements()) {
      const { rows } = await sql.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `explain (generic_plan, format json) ${query}`,
      )
      expect(scansOfAllPrograms(rows[0]?.['QUERY PLAN'][0].Plan ?? { 'Node Type': 'none' })).toEqual([])
    }
  })

  test.each(hotFunctions)('%s, statement by statement of its functions', async (name, calls) => {
    const client = new Client({ connectionString: databaseUrl })
    await client.connect()
    const plans = await collectPlans(client)
    await client.query(
      'set auto_explain.log_min_duration = 0; set enable_seqscan = off; set plan_cache_mode = force_generic_plan',
    )
    for (const call of calls) for (const { query, params } of await capture(call)) await client.query(query, params)
    await client.end()
    expect(plans.length).toBeGreaterThan(calls.length)
    expect(plans.flatMap((plan) => scansOfAllPrograms(plan))).toEqual([])
    // The program has 600 customers and 300 sales, and the performance read adds up 90 days.
    if (name !== 'performance') expect(Math.max(...plans.map((plan) => rowsRead(plan)))).toBeLessThan(10)
  })
})
