import { afterAll, expect, test } from 'vitest'
import { audit } from '../lib/commands/audit.ts'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { checkPlan } from './cash/check.ts'
import { openDesk } from './cash/desk.ts'
import { buyersOf, type History, playPlan, transactionOf } from './cash/history.ts'
import { expectedOf } from './cash/oracle.ts'
import { allWays, drawPlan, type Plan, waysThatHold } from './cash/plan.ts'
import { toldBy } from './cash/told.ts'
import { loadService } from './chaos/bundle.ts'
import { wrongExplanations } from './support/explanations.ts'
import { startEndpoint } from './support/stack.ts'

const seed = Number(process.env['SEED'] ?? 1)
const seeds = Number(process.env['SEEDS'] ?? 12)

const [{ env, sql, db }, stripe, service] = await Promise.all([startEndpoint(), startLocalStripe(), loadService()])
afterAll(() => stripe.close())
const desk = openDesk(service, sql, stripe, env)

// A short `npm run cash`: each passing way by itself in turn, with others beside it.
test(
  `${seeds} histories of a Stripe account, in two orders with repeats, leave the partners what the cash says (SEED=${seed})`,
  { timeout: 1000 * (60 + 5 * seeds) },
  async () => {
    for (let at = 0; at < seeds; at++) {
      const plan = drawPlan(seed + at, waysThatHold)
      expect(await checkPlan(desk, plan), `seed ${plan.seed}, ${plan.way}`).toEqual([])
    }
    expect((await audit(sql)).filter(({ total }) => total > 0)).toEqual([])
    expect(await wrongExplanations(db, sql)).toEqual([])
  },
)

/** Plays a plan in no program: what the simulator does by itself. */
function play(plan: Plan): History {
  const clickIds = buyersOf(plan).map(() => 'cust_1_1')
  return playPlan(plan, { account: 'acct_1', tag: 'x', programId: 1, clickIds, start: 1_790_000_000 })
}

test(`what the events tell of 1,000 histories of every kind is what the ledger holds (SEED=${seed})`, () => {
  // The first pays a debt with an invoice for nothing.
  for (const drawn of [72_139_915, ...Array.from({ length: 1000 }, (_, at) => seed + at)]) {
    const plan = drawPlan(drawn, allWays)
    const { account, calls, partnerOf } = play(plan)
    const terms = {
      commissionBp: plan.commission_bp,
      durationMonths: plan.duration_months,
      partnerOf,
      ruleOf: () => null,
      isRejected: () => false,
    }
    const told = toldBy({ account, calls })
    for (const { payment, amount, base, reversed } of expectedOf(account, terms)) {
      const nothing = { amount: 0n, base: 0n, reversed: 0n }
      const where = `seed ${plan.seed}, ${plan.way}, ${payment.label}`
      expect(told.get(transactionOf(payment)) ?? nothing, where).toEqual({ amount, base, reversed })
    }
  }
})

test('the same seed and ways draw the same history', () => {
  for (let at = 0; at < 100; at++) expect(drawPlan(seed + at, allWays)).toEqual(drawPlan(seed + at, allWays))
})
