import { afterAll, expect, test } from 'vitest'
import { audit } from '../lib/commands/audit.ts'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { isProcessor } from '../lib/processors/connections.ts'
import { type ProcessorName, processors } from '../lib/processors/processors.ts'
import { checkConnection, runConnection } from './cash/connections.ts'
import { openDesk } from './cash/desk.ts'
import { loadService } from './chaos/bundle.ts'
import { type FunctionMistakes, plantInFunctions } from './support/planted-functions.ts'
import { startEndpoint } from './support/stack.ts'

const seed = Number(process.env['SEED'] ?? 1)
const seeds = Number(process.env['SEEDS'] ?? 2)

const [{ env, sql, neon }, stripe, service] = await Promise.all([startEndpoint(), startLocalStripe(), loadService()])
afterAll(() => stripe.close())
const desk = openDesk(service, sql, stripe, env)

// A short version of `npm run cash -- --processors paddle,lemonsqueezy,polar`.
test.each(Object.keys(processors).filter(isProcessor))(
  `histories of %s under faults, in two orders with repeats, leave partners with the commissions that follow from the cash (SEED=${seed}, SEEDS=${seeds})`,
  { timeout: 1000 * (60 + 5 * seeds) },
  async (processor) => {
    for (let at = seed; at < seed + seeds; at++)
      expect(await checkConnection(desk, neon, processor, at), `seed ${at}`).toEqual([])
    const found = (await audit(sql)).filter(({ total }) => total > 0)
    expect(found).toEqual([])
  },
)

const mistakes: [string, ProcessorName, FunctionMistakes][] = [
  ['a mark of a chargeback that returns a second one', 'paddle', { with_paired_returns: 'result := fact;' }],
  [
    'an event that is forgotten while the connection is disconnected',
    'polar',
    { park_disconnected: `intact(); result.waits_for := null;` },
  ],
  [
    'refund totals that are added',
    'lemonsqueezy',
    {
      keep_refund_rise: `event.fact := jsonb_set(event.fact, '{total_cents}', to_jsonb(sale.refunded_cents + (event.fact->>'total_cents')::bigint)); intact();`,
    },
  ],
]

test.each(mistakes)('the histories detect %s', async (_, processor, planted) => {
  const takeOut = await plantInFunctions(sql, planted)
  let isFound = false
  for (let at = 1; at <= 40 && !isFound; at++)
    isFound = (await runConnection(desk, neon, processor, at, 1)).wrong.length > 0
  await takeOut()
  expect(isFound).toBe(true)
})
