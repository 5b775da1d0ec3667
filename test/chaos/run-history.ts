import { isProcessor } from '../../lib/processors/connections.ts'
import { type ProcessorName, processors } from '../../lib/processors/processors.ts'
import { findDifferences } from '../../lib/commands/audit.ts'
import { createLedgerProgram, keepWebhooks } from '../support/ledger.ts'
import { type Connection, connectionSecret } from './calls.ts'
import { commissionBp, leadCommissionCents, storedMoney } from './model.ts'
import { burst, lead, refund, sell, sellByProcessor } from './customer-steps.ts'
import { History, people, type Step } from './history.ts'
import { addReaders } from './notifications.ts'
import {
  adjust,
  approve,
  askPayout,
  changeRules,
  countClicks,
  decideReviews,
  decidePayout,
  joinProgram,
  payoutRun,
  payRun,
  reject,
} from './program-steps.ts'
import { emailHashKey, patiently, type World } from './world.ts'

const atOnce = 12

/** The kinds of steps, each with its upper bound among the numbers from 1 to 53. A random number chooses the kind. */
const kinds: [upTo: number, step: (history: History) => Step | undefined][] = [
  [6, lead],
  [14, sell],
  [17, sellByProcessor],
  [23, refund],
  [26, burst],
  [32, approve],
  [33, reject],
  [36, askPayout],
  [38, (history) => decidePayout(history, 'pay')],
  [39, (history) => decidePayout(history, 'refuse')],
  [40, (history) => decidePayout(history, 'cancel')],
  [43, payoutRun],
  [45, payRun],
  [46, countClicks],
  [47, changeRules],
  [49, decideReviews],
  [51, adjust],
  [53, joinProgram],
]

/** Draws the next possible step. */
function next(history: History): Step {
  const kind = history.random.integer(1, 53)
  const person = history.person()
  if (kind <= 2) return { touches: [], run: async () => void (await history.click(person, history.clickIds[person])) }
  return kinds.find(([upTo]) => kind <= upTo)?.[1](history) ?? sell(history)
}

/** Starts a random history in its own program. */
async function begin(world: World, seed: number): Promise<History> {
  const program = await patiently(() =>
    createLedgerProgram(world.pool, world.db, { commissionBp, leadCommissionCents }),
  )
  const history = new History(world, program, seed)
  await patiently(() => keepWebhooks(world.pool, program.programId))
  await patiently(() => addReaders(world, program))
  await patiently(() =>
    world.pool.query('update programs set processor_account_id = $2 where id = $1', [
      program.programId,
      history.shop.account,
    ]),
  )
  for (const processor of Object.keys(processors).filter(isProcessor))
    history.connections.push(await patiently(() => connect(world, program.programId, processor)))
  history.clickIds.push(...(await Promise.all(Array.from({ length: people }, (_, person) => history.click(person)))))
  return history
}

async function connect(world: World, programId: number, processor: ProcessorName): Promise<Connection> {
  const { createConnection, changeSecret } = world.service
  const accountId = await createConnection(world.db, programId, { processor, livemode: true })
  await changeSecret(world.db, { EMAIL_HASH_KEY: emailHashKey }, programId, accountId, connectionSecret)
  return { processor, accountId }
}

/**
 * Runs the steps of a random history, and runs independent steps concurrently. Returns the errors: answers and states that differ from
 * the model's, and findings of the audit.
 */
export async function runHistory(world: World, seed: number, steps: number): Promise<string[]> {
  const history = await begin(world, seed)
  const { programId, partnerIds } = history.program
  try {
    let wave: Step[] = []
    const takeWave = async () => {
      await Promise.all(wave.map((step) => step.run()))
      wave = []
      history.possibleRules = [new Map(history.model.rules)]
    }
    for (let taken = 0; taken < steps; taken++) {
      const step = next(history)
      const busy = new Set(wave.flatMap(({ touches }) => touches))
      if (step.alone || wave.length >= atOnce || step.touches.some((subject) => busy.has(subject))) {
        await takeWave()
        if (step.alone) {
          wave = [step]
          await takeWave()
          continue
        }
      }
      wave.push(step)
    }
    await takeWave()
    const stored = await patiently(() => storedMoney(world.pool, world.db, programId, partnerIds))
    const expected: typeof stored = JSON.parse(JSON.stringify(history.model.expected()))
    for (const part of ['sales', 'commissions', 'added', 'payouts', 'balances'] as const)
      history.expect(part, stored[part], expected[part])
    const [reported, toBeReported] = [stored, expected].map((money) => (money.reported ?? []).filter(isOfAnyOrder))
    history.expect('reported', reported, toBeReported)
    history.wrong.push(...(await patiently(() => differences(world, programId))))
  } catch (error) {
    history.wrong.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
  }
  return history.wrong.map((line) => `seed ${seed}: ${line}`)
}

/**
 * Runs a random history eight steps at a time, including steps that compete. Their order is unknown, so the model can't
 * predict the outcome. Returns the findings of the audit. Throws if a step fails.
 */
export async function runRaces(world: World, seed: number, steps: number): Promise<string[]> {
  const history = await begin(world, seed)
  for (let taken = 0; taken < steps; taken += 8) {
    await Promise.all(Array.from({ length: 8 }, () => next(history)).map((step) => step.run()))
  }
  return (await differences(world, history.program.programId)).map((line) => `seed ${seed}: ${line}`)
}

/** The order of concurrent refunds affects how many of them lead to a negative balance, but not the amounts. */
const isOfAnyOrder = (reported: unknown) => !(Array.isArray(reported) && reported[0] === 'balance_negative')

/** Returns the findings of the audit for one program or for all. */
export async function differences(world: World, programId?: number): Promise<string[]> {
  const client = await world.pool.connect()
  let failure: Error | undefined
  try {
    return await findDifferences(client, programId)
  } catch (error) {
    failure = error as Error
    throw error
  } finally {
    client.release(failure)
  }
}
