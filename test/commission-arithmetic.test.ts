import { expect, test } from 'vitest'
import { startEndpoint } from './support/stack.ts'

const { sql } = await startEndpoint()

async function evaluate(expression: string, values: unknown[]): Promise<unknown> {
  const { rows } = await sql.query<{ answer: unknown }>(`select ${expression} as answer`, values)
  return rows[0]?.answer
}

const most = 9_999_999_999_999

test.for<[what: string, base: number, bp: number, fixed: number | null, left: number | null, cents: number]>([
  ['20% of 49.00', 4900, 2000, null, null, 980],
  ['half a cent rounds up, although floating point rounds down', 2750, 140, null, null, 39],
  ['less than half a cent rounds down', 1, 4999, null, null, 0],
  ['half a cent of one cent', 1, 5000, null, null, 1],
  ['a fixed amount is added', 4900, 2000, 300, null, 1280],
  ['only a fixed amount', 4900, 0, 300, null, 300],
  ['a base of zero earns no fixed amount', 0, 2000, 300, null, 0],
  ['the cap leaves a part', 4900, 2000, 300, 500, 500],
  ['the cap leaves the full amount', 4900, 2000, 300, 5000, 1280],
  ['the cap is used up', 4900, 2000, 300, 0, 0],
  ['the cap was exceeded before', 4900, 2000, 300, -200, 0],
  ['the largest base', most, 10_000, null, null, most],
  ['the largest amount', most, 10_000, 300, null, most],
])('amount: %s', async ([, base, bp, fixed, left, cents]) => {
  const expression = 'commission_of($1, $2, $3, null, now(), null, $4)'
  expect(await evaluate(expression, [base, bp, fixed, left])).toBe(String(cents))
})

test.for<[what: string, sold: string, first: string | null, months: number | null, earns: boolean]>([
  ['the first purchase itself', '2026-01-31T12:00:00Z', '2026-01-31T12:00:00Z', 1, true],
  ['a customer without purchases', '2026-01-31T12:00:00Z', null, 1, true],
  ['the last moment of the month', '2026-02-28T12:00:00Z', '2026-01-31T12:00:00Z', 1, true],
  ['a moment later', '2026-02-28T12:00:00.001Z', '2026-01-31T12:00:00Z', 1, false],
  ['twelve months in a leap year', '2025-02-28T00:00:00Z', '2024-02-29T00:00:00Z', 12, true],
  ['months without end', '2046-01-01T00:00:00Z', '2026-01-31T12:00:00Z', null, true],
])('duration: %s', async ([, sold, first, months, earns]) => {
  const expression = 'commission_of(4900, 2000, null, $1, $2, $3, null)'
  expect(await evaluate(expression, [months, sold, first])).toBe(earns ? '980' : '0')
})

test.for<[what: string, sold: string, first: string, earns: boolean]>([
  ['before the end in UTC', '2026-04-15T11:30:00Z', '2026-03-15T12:00:00Z', true],
  ['after the end in UTC', '2026-11-15T12:30:00Z', '2026-10-15T12:00:00Z', false],
])('duration in another time zone, across a clock change: %s', async ([, sold, first, earns]) => {
  const expression = 'commission_of(4900, 2000, null, 1, $1, $2, null)'
  const { rows } = await sql.query<{ answer: string }>(
    `select ${expression} as answer from set_config('TimeZone', 'Europe/Berlin', true)`,
    [sold, first],
  )
  expect(rows).toEqual([{ answer: earns ? '980' : '0' }])
})

test.for<[what: string, commission: number, refunded: number, sale: number, reversed: number, reversal: string]>([
  ['nothing is refunded', 980, 0, 4900, 0, 'none'],
  ['a part rounds down', 980, 1, 4900, 0, 'partial'],
  ['half', 980, 2450, 4900, 490, 'partial'],
  ['everything except one cent', 980, 4899, 4900, 979, 'partial'],
  ['all', 980, 4900, 4900, 980, 'full'],
  ['a commission above the sale, for example a fixed amount', 1000, 1, 3, 333, 'partial'],
  ['no commission is left', 0, 0, 4900, 0, 'full'],
  ['a sale without a commission', 980, 0, 0, 0, 'full'],
  ['the largest amounts', most, most - 1, most, most - 1, 'partial'],
])('proportion: %s', async ([, commission, refunded, sale, reversed, reversal]) => {
  expect(await evaluate('reversed_share($1, $2, $3)', [commission, refunded, sale])).toBe(String(reversed))
  expect(await evaluate('reversal_of($1, $2, $3)', [commission, refunded, sale])).toBe(reversal)
})

test('refunds in any number of steps reverse the commission exactly', async () => {
  const expression = `(select array_agg(reversed_share(980, n, 4900) - reversed_share(980, n - 1, 4900)) from generate_series(1, 4900) n)`
  const steps = await evaluate(`(select sum(s) from unnest(${expression}) s)`, [])
  expect(steps).toBe('980')
})

test.for<[what: string, days: number, clicked: string, at: string, counts: boolean]>([
  ['within the window', 30, '2026-03-01T00:00:00.001Z', '2026-03-31T00:00:00Z', true],
  ['at its start', 30, '2026-03-01T00:00:00Z', '2026-03-31T00:00:00Z', false],
  ['before it', 30, '2026-02-28T23:59:59Z', '2026-03-31T00:00:00Z', false],
])('window, in any time zone: a click %s', async ([, days, clicked, at, counts]) => {
  for (const zone of ['UTC', 'Europe/Berlin']) {
    const { rows } = await sql.query<{ counts: boolean }>(
      `select $1::timestamptz > window_start($2, $3) as counts from set_config('TimeZone', $4, true)`,
      [clicked, at, days, zone],
    )
    expect(rows, zone).toEqual([{ counts }])
  }
})
