import { formatMoney } from '../../lib/money.ts'
import type pg from 'pg'
import type { Database } from '../../lib/database.ts'
import { explainSale } from '../../lib/money/explanation.ts'
import { commissionOf } from './commission-oracle.ts'

interface Kept {
  program_id: number
  transaction_id: string
  is_test: boolean
  partner_id: number | null
  left: number
  ledger: number
}

/** Returns the errors in the explanations of all sales, compared with the commission and the balance entries. */
export async function wrongExplanations(db: Database, sql: pg.Client): Promise<string[]> {
  const { rows } = await sql.query<Kept>(
    `select s.program_id::int, s.transaction_id, s.is_test, s.partner_id::int, coalesce(c.amount_cents - c.reversed_cents, 0)::float8 as left,
      coalesce((select sum(e.amount_cents) from balance_entries e
        where e.program_id = c.program_id and e.commission_id = c.id), 0)::float8 as ledger
    from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id order by s.program_id, s.id`,
  )
  const wrong: string[] = []
  for (const { program_id: programId, transaction_id, is_test: test, partner_id, left, ledger } of rows) {
    const explanation = await explainSale(db, { programId, transaction_id, test, withCustomer: true })
    const { commission, sale, rule, steps, history } = explanation
    const differs = (what: string, is: unknown, expected: unknown) => {
      if (is !== expected)
        wrong.push(`${programId} ${transaction_id}: ${what} is ${String(is)}, not ${String(expected)}`)
    }
    differs('partner', explanation.partner?.id ?? null, partner_id)
    differs('remaining amount', commission?.left_cents ?? 0, left)
    differs('sum of the history', sum(history.map(({ change_cents: change }) => change)), left)
    differs('sum of its entries', sum(history.map(({ entry }) => entry?.amount_cents ?? 0)), ledger)
    if (steps.length === 0) wrong.push(`${programId} ${transaction_id}: no step is stored`)
    if (!commission || !sale || !rule || commission.text.includes('earns nothing')) continue
    if (commission.lines) {
      differs(
        'sum of the lines',
        sum(commission.lines.map(({ commission_cents: cents }) => cents)),
        commission.amount_cents,
      )
      differs(
        'base of the lines',
        sum(commission.lines.map(({ base_cents: cents }) => cents)),
        sale.commission_base_cents,
      )
      continue
    }
    const terms = { bp: rule.commission_bp, fixed: rule.fixed_cents, cap: null }
    const uncapped = Number(commissionOf(BigInt(sale.commission_base_cents), terms, 0n))
    if (rule.cap_cents === null) differs('arithmetic', commission.amount_cents, uncapped)
    else differs('stated earnings', commission.text.includes(formatMoney(commission.amount_cents, sale.currency)), true)
  }
  return wrong
}

const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)
