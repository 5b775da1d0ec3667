import { type Desk, type Outcome, runPlan } from './desk.ts'
import { type Plan, smallerPlans } from './plan.ts'

/** Delivers a plan in two orders and says what is wrong with either, or differs between them. */
export async function checkPlan(desk: Desk, plan: Plan): Promise<string[]> {
  const first = await runPlan(desk, plan, 1)
  const second = await runPlan(desk, plan, 2)
  const wrong = [...new Set([...first.wrong, ...second.wrong])]
  const ends = [first, second].map(({ end }) => end.join('; ') || 'nothing')
  if (ends[0] !== ends[1]) wrong.push(`two orders end differently: ${ends.join(' / ')}`)
  return wrong
}

/** A plan that goes wrong, and what happened; `order` null is its own. */
interface WrongPlan {
  plan: Plan
  outcome: Outcome
  order: number | null
}

async function findWrong(desk: Desk, plan: Plan, says: RegExp): Promise<WrongPlan | undefined> {
  for (const order of [null, 1, 2, 3, 4, 5]) {
    const outcome = await runPlan(desk, plan, order)
    if (outcome.wrong.some((line) => says.test(line))) return { plan, outcome, order }
  }
  return undefined
}

/**
 * The smallest version of a plan that still goes wrong with a message that matches `says`: in its own order if that is enough, else in a
 * random one. Undefined if a few orders all pass.
 */
export async function smallestWrong(desk: Desk, plan: Plan, says: RegExp): Promise<WrongPlan | undefined> {
  let found: WrongPlan | undefined
  for (let smaller = await findWrong(desk, plan, says); smaller;) {
    found = smaller
    smaller = undefined
    for (const candidate of smallerPlans(found.plan)) {
      smaller = await findWrong(desk, candidate, says)
      if (smaller) break
    }
  }
  return found
}
