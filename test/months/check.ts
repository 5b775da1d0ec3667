import type pg from 'pg'
import type { Database } from '../../lib/database.ts'
import { booksOf, type Payment, type Previewed } from './books.ts'
import { daysInAll, drawPlan, type Plan } from './plan.ts'
import { playMonth } from './play.ts'

const textOf = (payments: Payment[] = []) =>
  payments.map(({ partner, currency, cents }) => `partner ${partner}: ${cents} ${currency}`).join(', ') || 'nothing'

const previewText = (rows: Previewed[]) =>
  rows
    .map(
      ({ partner, currency, earnedSoFar, now, would }) =>
        `${partner ?? 'all'} ${currency}: ${earnedSoFar}, ${now}, ${would}`,
    )
    .toSorted()
    .join('; ') || 'nothing'

/** The calendar months of a plan's days if it ends today. */
const calendarOf = (today: Date) =>
  [today, new Date(today.getTime() - (daysInAll - 1) * 86_400_000)].map((at) => at.toISOString().slice(0, 7))

/** Plays a month and lists the differences of its runs and rule previews from the books. The list is empty if they agree to the cent. */
export async function checkMonth(
  db: Database,
  sql: pg.Pool,
  seed: number,
): Promise<{ wrong: string[]; plan: Plan; paid: number; previews: number }> {
  const plan = drawPlan(seed)
  const today = new Date()
  const played = await playMonth(db, sql, plan)
  const books = booksOf(plan, today)
  const wrong = books.runs.flatMap((payments, run) => {
    const [is, should] = [textOf(played.runs[run]), textOf(payments)]
    return is === should ? [] : [`run ${run + 1} paid ${is}; the books have ${should}`]
  })
  const asked = plan.previews.flatMap((change) =>
    [...new Set(calendarOf(today))].map((month) => ({ ...change, month })),
  )
  for (const { holder, rules, month } of asked) {
    const is = previewText(await played.preview(holder, rules, month))
    const should = previewText(books.preview(holder, rules, month))
    if (is !== should)
      wrong.push(`the preview of ${JSON.stringify(holder)} in ${month} says ${is}; the books have ${should}`)
  }
  return { wrong, plan, paid: played.runs.flat().length, previews: asked.length }
}
