import { apiKeyHash } from '../../lib/access/api-keys.ts'
import { clicks, sales } from './calls.ts'
import { type Call, Connection, interleave, medianRate, rateRatio, type Side } from './driver.ts'
import { cpuMicroseconds, startDatabase } from './environment.ts'
import { type Result, round } from './result.ts'
import { seedCounters, seedCustomers, seedPartners } from './seed.ts'

const clients = 16
const customers = 20_000

/** Compares clicks on one link with clicks on 1,000 links, and sales for one partner with sales for 1,000 partners. */
export async function hotRow(): Promise<Result> {
  const database = await startDatabase()
  const { sql, sandbox } = database
  const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)
  const first = await seedPartners(sql, sandbox.programId, 1000)
  await seedCustomers(sql, sandbox.programId, first, { from: 1, count: customers, partners: 1, key: 'hot' })
  await seedCustomers(sql, sandbox.programId, first, {
    from: 1 + customers,
    count: customers,
    partners: 1000,
    key: 'spread',
  })
  await seedCounters(sql, sandbox.programId)

  const result: Result = { figures: [], goals: [] }
  const carriers = await Promise.all(Array.from({ length: clients }, () => Connection.open(database.databaseUrl)))
  const cpu = { Postgres: () => cpuMicroseconds(database.postgresPid, true) }
  const pairs: { what: string; hot: Side<Call>['calls']; spread: Side<Call>['calls']; count: number }[] = [
    {
      what: 'clicks on one link',
      hot: clicks(sandbox.programId, 1),
      spread: clicks(sandbox.programId, 1000),
      count: 1500,
    },
    {
      what: 'sales for one partner',
      hot: sales(keyHash, 'hot', customers),
      spread: sales(keyHash, 'spread', customers),
      count: 800,
    },
  ]
  for (const { what, hot, spread, count } of pairs) {
    const sides: Side<Call>[] = [
      { name: 'spread', carriers, calls: spread },
      { name: 'hot', carriers, calls: hot },
    ]
    const measured = await interleave(sides, { rounds: 6, count, cpu })
    const ratio = rateRatio(measured.get('hot'), measured.get('spread'))
    result.figures.push({
      what,
      'one/s': round(medianRate(measured.get('hot'))),
      'over 1,000/s': round(medianRate(measured.get('spread'))),
      ratio: round(ratio),
      'CPU us': round(measured.get('hot')?.cpu_us['Postgres'] ?? NaN),
      'over 1,000 us': round(measured.get('spread')?.cpu_us['Postgres'] ?? NaN),
    })
    result.goals.push({ what, measured: ratio, least: 0.9 })
  }
  await database.close()
  return result
}
