import { isDeepStrictEqual } from 'node:util'
import type { Shop } from '../../lib/local/stripe-events.ts'
import type { LedgerProgram } from '../support/ledger.ts'
import {
  bots,
  Model,
  type ModelCommission,
  type ModelRule,
  type ModelSale,
  partnerOfClick,
  untouched,
  isOpen,
} from './model.ts'
import { type Connection, isKnown, post, untilKnown } from './calls.ts'
import { type Random, seeded } from './random.ts'
import { patiently, type World } from './world.ts'

export const currencies = ['usd', 'usd', 'usd', 'jpy', 'kwd'] as const
/** The customers who click at the start. */
export const people = 6

/** A step, with the objects that it affects. Two steps that affect the same object are never in the same wave. */
export interface Step {
  touches: string[]
  /** Whether the outcome depends on concurrent steps. In that case, the step runs alone. */
  alone?: boolean
  run(): Promise<void>
}

/** A running history of one program, and its findings. */
export class History {
  readonly world: World
  readonly program: LedgerProgram
  readonly random: Random
  readonly seed: number
  readonly model = new Model()
  readonly wrong: string[] = []
  readonly clickIds: string[] = []
  readonly leads = new Set<number>()
  readonly runs: number[] = []
  readonly shop: Shop
  /** Connections of the program to the other processors. */
  readonly connections: Connection[] = []
  /** The rules that can apply to a sale in this wave: those at the start of the wave, and those that one of the wave's steps creates. */
  possibleRules: Map<string, ModelRule[]>[] = [new Map()]
  #names = 0
  #calls = 0

  constructor(world: World, program: LedgerProgram, seed: number) {
    this.world = world
    this.program = program
    this.seed = seed
    this.random = seeded(seed)
    this.shop = {
      generation: 'new',
      account: `acct_chaos_${program.programId}`,
      programId: program.programId,
      clickId: null,
      customerKey: null,
      email: null,
      customer: null,
      livemode: true,
      now: Math.floor(Date.now() / 1000),
    }
  }

  get client() {
    return new this.world.service.SvcClient({ apiKey: this.program.apiKey, baseUrl: 'http://svc.test' })
  }

  /** All programs use the same names, so that a query without a program id would find another program's rows. */
  name(kind: string): string {
    return `${kind}-${this.#names++}`
  }

  /**
   * Sends the same call once or several times concurrently, each with its own faults. Returns `certain` if there was only one caller and it
   * got an answer to each attempt, and `sure` if the function got all of its answers too.
   */
  async calls<Answer>(call: () => Promise<Answer>): Promise<{ answers: Answer[]; certain: boolean; sure: boolean }> {
    const copies = this.random.chance(0.25) ? this.random.integer(2, 3) : 1
    const randoms = Array.from({ length: copies }, () => seeded(this.seed, ++this.#calls))
    const done = await Promise.all(randoms.map((random) => this.world.during(random, call)))
    return {
      answers: done.map(({ result }) => result),
      certain: copies === 1 && done.every(({ lost }) => lost === 0),
      sure: copies === 1 && done.every(({ lost, unsure }) => lost + unsure === 0),
    }
  }

  /** Calls a function of `lib/` in the same way, until its outcome is known. */
  async act(work: () => Promise<object | number | void>) {
    return await this.calls(() => this.world.settle(work))
  }

  /** Repeats this until the outcome is known, as an application does when its client library has given up. */
  async send<Data>(call: () => Promise<{ ok: boolean; status: number; data: Data | null; error: unknown }>) {
    return await this.calls(() => untilKnown(call, ({ ok, status }) => ok || (status > 0 && status < 500)))
  }

  expect(what: string, found: unknown, expected: unknown): void {
    if (!isDeepStrictEqual(found, expected))
      this.wrong.push(`${what}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`)
  }

  async click(person: number, existing?: string): Promise<string> {
    const affiliate_url = `https://shop.example.com/?aff=${this.program.codeOf(partnerOfClick(person))}`
    const headers = { 'user-agent': bots.includes(person) ? 'Googlebot/2.1' : 'Mozilla/5.0' }
    const body = { affiliate_url, ...(existing && { existing_click_id: existing }) }
    const { answers } = await this.calls(async () => {
      const response = await untilKnown(() => post('/api/v1/track/click', body, headers), isKnown)
      if (!response.ok) throw new Error(`A click got the answer ${await response.text()}`)
      return ((await response.json()) as { click_id: string }).click_id
    })
    if (existing)
      this.expect(
        'the click id of a known visitor',
        answers,
        answers.map(() => existing),
      )
    return answers[0] ?? ''
  }

  /** Small amounts, large amounts, and amounts whose commission ends in half a cent. */
  amount(): number {
    if (this.random.chance(0.2)) return 40 + 80 * this.random.integer(0, 500)
    return this.random.chance(0.3) ? this.random.integer(1, 20) : this.random.integer(1, 100_000)
  }

  /**
   * Returns the commission of a sale, or undefined if there is none. If the rules change concurrently, the sale may use any version that
   * was valid in the meantime, but only one version. The audit checks that the terms match the sale's version.
   */
  async commissionOf(
    transactionId: string,
    sale: Pick<ModelSale, 'customer' | 'amount' | 'currency'>,
  ): Promise<ModelCommission | undefined> {
    const { rows } = await patiently(() =>
      this.world.pool.query<{ id: string; amount_cents: string }>(
        `select c.id, c.amount_cents from commissions c join sales s on s.program_id = c.program_id and s.id = c.sale_id
        where s.program_id = $1 and s.transaction_id = $2`,
        [this.program.programId, transactionId],
      ),
    )
    const [row] = rows
    const found = Number(row?.amount_cents ?? 0)
    const partner = partnerOfClick(sale.customer)
    const possible = this.possibleRules.map((rules) => this.model.commissionOf(partner, sale, rules))
    if (rows.length > 1 || !possible.includes(found))
      this.wrong.push(
        `sale ${transactionId} has ${rows.length} commissions of ${found}, where ${possible.join(' or ')} was possible`,
      )
    if (!row) return undefined
    return {
      id: Number(row.id),
      customer: sale.customer,
      partner,
      currency: sale.currency,
      amount: found,
      ...untouched,
    }
  }

  /** A customer who has clicked. */
  person(): number {
    return this.random.integer(0, this.clickIds.length - 1)
  }

  subject(commissionId: number): string {
    const sale = this.model.sales.find(({ commission }) => commission?.id === commissionId)
    return sale ? `sale:${sale.id}` : `commission:${commissionId}`
  }

  payoutsOpen(): boolean {
    return this.model.payouts.some(isOpen)
  }
}
