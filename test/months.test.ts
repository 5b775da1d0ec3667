import { expect, test } from 'vitest'
import { readSqlFiles } from '../lib/commands/migrate.ts'
import { checkMonth } from './months/check.ts'
import { openConnections, startEndpoint } from './support/stack.ts'

const { db, sql, databaseUrl } = await startEndpoint()
const pool = openConnections(databaseUrl, 4)

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)

test(`what the runs of three months pay, and what previews of rules say, is what a second implementation says (SEED=${seed})`, async () => {
  const months: Awaited<ReturnType<typeof checkMonth>>[] = []
  for (const more of [0, 1, 2]) months.push(await checkMonth(db, pool, seed + more))
  expect(months.flatMap(({ wrong, plan }) => wrong.map((line) => `seed ${plan.seed}: ${line}`))).toEqual([])
  expect(months.reduce((sum, { paid }) => sum + paid, 0)).toBeGreaterThan(3)
})

/** Mistakes as they would stand in migrations/functions. Where the first months have nothing of the kind, they begin with one that has. */
const planted: [what: string, file: string, from: string, to: string, firstMonth?: number][] = [
  [
    'a percentage that is cut',
    'sales',
    '(base_cents * commission_bp + 5000) / 10000',
    '(base_cents * commission_bp) / 10000',
  ],
  [
    'a cap one cent too high',
    'commission-rules',
    'return sale.commission_cap_cents - ',
    'return 1 + sale.commission_cap_cents - ',
    2,
  ],
  [
    'a new rule that is applied to what waits',
    'commission-rules',
    '  return true;\nend $$;',
    `  update commissions c set amount_cents = greatest(1, (s.commission_base_cents * r.commission_bp + 5000) / 10000)
  from sales s join commission_rules r on r.program_id = s.program_id and r.since_version = version
    and (r.partner_id is null or r.partner_id = s.partner_id) and (r.group_id is null or r.group_id = (s.terms_among).group_id)
    and (r.sale_type is null or r.sale_type = s.sale_type) and r.product_id is null
  where s.program_id = of_program_id and c.program_id = s.program_id and c.sale_id = s.id and c.credited_at is null and c.reversal = 'none';
  return true;
end $$;`,
    2,
  ],
  [
    'a rule that goes on when it ended',
    'commission-rules',
    '(r.until_version is null or r.until_version > version)\n    -- As the index by holder has it.',
    'true',
  ],
  [
    'a fixed amount that a refund leaves',
    'refunds',
    'reversed_share((commission).amount_cents, (sale).refunded_cents + by_cents, (sale).amount_cents)',
    `reversed_share((commission).amount_cents - case when (sale).refunded_cents + by_cents < (sale).amount_cents
    then coalesce((sale).commission_fixed_cents, 0) else 0 end, (sale).refunded_cents + by_cents, (sale).amount_cents)`,
    2,
  ],
  [
    "a partner's own rule that is ignored",
    'commission-rules',
    '(array[of_partner_id * 2 + 1, of_group_id * 2, 0])',
    '(array[of_group_id * 2, 0])',
    2,
  ],
  [
    'what waits and is paid',
    'commissions',
    'where c.hold_until <= now() and c.credited_at is null',
    'where c.credited_at is null',
    2,
  ],
  [
    'a code that wins over a click where the program says otherwise',
    'codes',
    "customer.link_id is not null and customer.attribution_priority = 'click'",
    'false',
    13,
  ],
  [
    'a duration that never ends',
    'sales',
    'sale_date > first_purchase_date + make_interval(months => months)',
    'false',
    3,
  ],
  [
    'a deduction that is none',
    'adjustments',
    'entry.program_id := of_program_id;',
    'entry.program_id := of_program_id; of_cents := abs(of_cents);',
  ],
  [
    'a held commission that is paid',
    'reviews',
    'update commissions c set held_at = now() where',
    'update commissions c set held_at = null where',
  ],
  ['a rejection that releases', 'reviews', "if of_decision = 'rejected' then", 'if false then', 2],
  [
    'a release that is forgotten',
    'reviews',
    "and v.decision = 'released'",
    "and v.decision = 'released' and o.id = f.commission_id",
    7,
  ],
  [
    'a preview that forgets what was brought before its month',
    'commission-rules',
    'sold.commission_cap_cents - earlier_cents - counted_cents',
    'sold.commission_cap_cents - counted_cents',
  ],
  [
    "a preview of leads by the program's amount alone",
    'commission-rules',
    'l.leads * coalesce(t.lead_commission_cents, p.lead_commission_cents)',
    'l.leads * p.lead_commission_cents',
    2,
  ],
  [
    "a partner's own address that anybody may have",
    'reviews',
    'where b.hashes && r.email_hashes',
    "where b.hashes <> '{}' and r.email_hashes is not null",
  ],
]

/** A mistake that the database itself refuses is found too. */
function refused(error: unknown): string[] {
  if (error instanceof Error && error.message.startsWith('A commission is reversed by as much')) return [error.message]
  throw error
}

test.each(planted)('months find %s', async (_, file, from, to, firstMonth = 1) => {
  // Only the function that the place is in, because each connection reads and plans anew what is written.
  const living = readSqlFiles().find(({ name }) => name.endsWith(`/${file}.sql`))
  const functions = living?.sql.split(/^(?=create or replace )/m) ?? []
  const places = functions.filter((text) => text.includes(from))
  expect(places, `the place in ${file}.sql`).toHaveLength(1)
  const [text = ''] = places
  expect(text.split(from), `the place in ${file}.sql`).toHaveLength(2)
  await sql.query(text.replace(from, () => to))
  try {
    let found: string[] = []
    for (let month = firstMonth; month < firstMonth + 12 && found.length === 0; month++)
      found = await checkMonth(db, pool, month).then(({ wrong }) => wrong, refused)
    expect(found).not.toEqual([])
  } finally {
    await sql.query(text)
  }
})
