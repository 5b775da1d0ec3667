import { reviewRules } from '../../lib/review-rules.ts'
import { seeded } from '../chaos/random.ts'
import { createLedgerProgram } from '../support/ledger.ts'
import { startDatabase } from './environment.ts'
import { type Result, round } from './result.ts'
import { type Held, playTraffic, qualityOf, traffic } from './review-traffic.ts'

const programs = 20
const seed = 2026

/**
 * Measures the share of generated traffic that the review rules hold, in twenty programs. A seed varies the number of visitors of each
 * kind, from none to twice the number in `traffic`. Reports precision and recall of all programs together and of the worst one.
 */
export async function review(): Promise<Result> {
  const database = await startDatabase(['fsync=off'])
  const { db, sql } = database
  const random = seeded(seed)
  const each: Held[][] = []
  for (let n = 0; n < programs; n++) {
    const program = await createLedgerProgram(sql, db)
    await sql.query('update programs set review_rules = $2 where id = $1', [program.programId, [...reviewRules]])
    const address = `paid-${program.programId}@example.com`
    await sql.query('update partners set payout_email = $2 where id = $1', [program.partnerIds[0], address])
    const kinds = traffic.map((kind) => ({ ...kind, count: random.integer(0, 2 * kind.count) }))
    each.push(await playTraffic(db, program, kinds, address))
  }
  await database.close()
  const all = traffic.map(({ what, isDishonest }) => {
    const ofKind = each.flat().filter((kind) => kind.what === what)
    const sum = (name: 'visitors' | 'held') => ofKind.reduce((total, kind) => total + kind[name], 0)
    return { what, isDishonest, visitors: sum('visitors'), held: sum('held') }
  })
  const [whole, ofEach] = [qualityOf(all), each.map(qualityOf)]
  return {
    figures: all.map(({ what, isDishonest, visitors, held }) => ({
      visitors: what,
      are: isDishonest ? 'dishonest' : 'honest',
      came: visitors,
      held,
      'held of 100': round((100 * held) / visitors),
    })),
    goals: [
      { what: 'precision', measured: whole.precision, least: 0.8 },
      { what: 'recall', measured: whole.recall, least: 0.7 },
      {
        what: 'lowest precision',
        measured: Math.min(...ofEach.map(({ precision }) => precision)),
        least: 0.5,
      },
      { what: 'lowest recall', measured: Math.min(...ofEach.map(({ recall }) => recall)), least: 0.3 },
    ],
  }
}
