import { type Desk, runPlan } from './desk.ts'
import type { Plan } from './plan.ts'

/**
 * Delivers a plan in two orders. Returns the errors in each result and the differences between the two. If the first order already leads
 * to an error that matches `sought`, skips the second one.
 */
export async function checkPlan(desk: Desk, plan: Plan, sought?: RegExp): Promise<string[]> {
  const first = await runPlan(desk, plan, 1)
  if (sought && first.wrong.some((line) => sought.test(line))) return first.wrong
  const second = await runPlan(desk, plan, 2)
  const wrong = [...new Set([...first.wrong, ...second.wrong])]
  const ends = [first, second].map(({ end }) => end.join('; ') || 'nothing')
  if (ends[0] !== ends[1]) wrong.push(`the two orders end differently: ${ends.join(' / ')}`)
  return wrong
}
