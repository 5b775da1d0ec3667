import { afterAll, expect, test } from 'vitest'
import { audit } from '../lib/commands/audit.ts'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { checkPlan } from './cash/check.ts'
import { openDesk } from './cash/desk.ts'
import { allWays, drawPlan } from './cash/plan.ts'
import { loadService } from './chaos/bundle.ts'
import { wrongExplanations } from './support/explanations.ts'
import { startEndpoint } from './support/stack.ts'

const seed = Number(process.env['SEED'] ?? 1)
const seeds = Number(process.env['SEEDS'] ?? 5)

const [{ env, sql, db }, stripe, service] = await Promise.all([startEndpoint(), startLocalStripe(), loadService()])
afterAll(() => stripe.close())
const desk = openDesk(service, sql, stripe, env)

// A short version of `npm run cash`.
test(
  `${seeds} histories of a Stripe account, in two orders with repeats, leave partners with the commissions that follow from the cash (SEED=${seed})`,
  { timeout: 1000 * (60 + 5 * seeds) },
  async () => {
    for (let at = 0; at < seeds; at++) {
      const plan = drawPlan(seed + at, allWays)
      expect(await checkPlan(desk, plan), `seed ${plan.seed}, ${plan.way}`).toEqual([])
    }
    expect((await audit(sql)).filter(({ total }) => total > 0)).toEqual([])
    expect(await wrongExplanations(db, sql)).toEqual([])
  },
)

test('the same seed and variants generate the same history', () => {
  for (let at = 0; at < 100; at++) expect(drawPlan(seed + at, allWays)).toEqual(drawPlan(seed + at, allWays))
})
