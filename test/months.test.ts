import { expect, test } from 'vitest'
import { checkMonth } from './months/check.ts'
import { type FunctionMistakes, plantInFunctions } from './support/planted-functions.ts'
import { openConnections, startEndpoint } from './support/stack.ts'

/** `month` is the seed of the first month that can reveal the mistake. Default: 1. */
const mistakes: Record<string, { month?: number; functions: FunctionMistakes }> = {
  'a cap that is one cent too high': { month: 2, functions: { left_under_cap: `intact(); result := result + 1;` } },
  'rules that stay after all are removed': {
    functions: { save_rules: `if rules = '[]' then return false; end if; intact();` },
  },
  'a fixed amount that survives a refund': {
    month: 2,
    functions: {
      refunded_part: `intact();
      if refunded < whole then
        refunded := refunded * coalesce((
          select 1 - sale.commission_fixed_cents / c.amount_cents::numeric from commissions c
          where c.program_id = sale.program_id and c.sale_id = sale.id and c.amount_cents > 0
        ), 1);
      end if;`,
    },
  },
  'an ignored rule of a partner': { month: 2, functions: { terms_of: `of_partner_id := 0; intact();` } },
  'a payout of a pending commission': {
    month: 2,
    functions: {
      approve_due_commissions: `update commissions c set hold_until = now() where c.credited_at is null and c.hold_until > now(); intact();`,
    },
  },
  'a duration that never ends': { month: 3, functions: { commission_of: `months := null; intact();` } },
  'a release that later reviews ignore': {
    month: 7,
    functions: {
      close_review: `intact();
        update commission_reviews v set flags = '[{"rule": "none"}]'
        where v.program_id = of_program_id and v.commission_id = of_commission_id and of_decision = 'released';`,
    },
  },
  'a preview without caps': {
    functions: { with_terms: `intact(); if sale.id is null then result.commission_cap_cents := null; end if;` },
  },
  "a lead that always pays the program's own amount": { month: 2, functions: { lead_terms_of: `return;` } },
  "a partner's own e-mail address that matches every buyer": {
    functions: {
      hashes_of_buyer: `return query select r.email_hashes from customers c
        join partners r on r.program_id = c.program_id and r.id = c.partner_id
        where c.program_id = of_program_id and c.id = of_customer_id and r.email_hashes is not null
          and exists (select from intact.hashes_of_buyer(of_program_id, of_customer_id, of_sale_id) b where b.hashes <> '{}');`,
    },
  },
}

const { db, sql, databaseUrl } = await startEndpoint()
const pool = openConnections(databaseUrl, 4)

const seed = Number(process.env['SEED'] ?? 1)

test(`payouts over two months and rule previews match a second implementation (SEED=${seed})`, async () => {
  const months: Awaited<ReturnType<typeof checkMonth>>[] = []
  for (const more of [0, 1]) months.push(await checkMonth(db, pool, seed + more))
  expect(months.flatMap(({ wrong, plan }) => wrong.map((line) => `seed ${plan.seed}: ${line}`))).toEqual([])
  expect(months.reduce((sum, { paid }) => sum + paid, 0)).toBeGreaterThan(2)
})

/** If the database refuses a mistake, it counts as found. */
function refused(error: unknown): string[] {
  if (error instanceof Error && error.message.startsWith('A commission is reversed by as much')) return [error.message]
  throw error
}

test.each(Object.entries(mistakes))('the simulated months detect %s', async (_, { month = 1, functions }) => {
  const takeOut = await plantInFunctions(sql, functions)
  try {
    let found: string[] = []
    for (let next = month; next < month + 12 && found.length === 0; next++)
      found = await checkMonth(db, pool, next).then(({ wrong }) => wrong, refused)
    expect(found).not.toEqual([])
  } finally {
    await takeOut()
  }
})

test('the simulated months find nothing if the planted functions equal the real ones', async () => {
  const names = Object.values(mistakes).flatMap(({ functions }) => Object.keys(functions))
  const takeOut = await plantInFunctions(sql, Object.fromEntries(names.map((name) => [name, 'intact();'])))
  try {
    expect((await checkMonth(db, pool, 2)).wrong).toEqual([])
  } finally {
    await takeOut()
  }
})
