import type pg from 'pg'
import type { Database } from '../../lib/database.ts'
import { type Payment, payoutsOf } from './books.ts'
import { drawPlan, type Plan } from './plan.ts'
import { playMonth } from './play.ts'

const textOf = (payments: Payment[] = []) =>
  payments.map(({ partner, currency, cents }) => `partner ${partner}: ${cents} ${currency}`).join(', ') || 'nothing'

/** Plays a month and says what its runs paid otherwise than the books say; nothing where they are equal to the cent. */
export async function checkMonth(
  db: Database,
  sql: pg.Pool,
  seed: number,
): Promise<{ wrong: string[]; plan: Plan; paid: number }> {
  const plan = drawPlan(seed)
  const { runs } = await playMonth(db, sql, plan)
  const expected = payoutsOf(plan, new Date())
  const wrong = expected.flatMap((payments, run) => {
    const [is, should] = [textOf(runs[run]), textOf(payments)]
    return is === should ? [] : [`run ${run + 1} paid ${is}; by the books ${should}`]
  })
  return { wrong, plan, paid: runs.flat().length }
}
