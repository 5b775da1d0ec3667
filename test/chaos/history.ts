import { isDeepStrictEqual } from 'node:util'
import { Stripe } from 'stripe'
import { findDifferences } from '../../lib/commands/audit.ts'
import { checkoutSession, refund as stripeRefund, type Shop, stripeEvent } from '../../lib/local/stripe-events.ts'
import { createLedgerProgram, keepWebhooks, type LedgerProgram, transfer } from '../support/ledger.ts'
import { addAccount, findJoined, join } from '../support/joined-partner.ts'
import {
  bots,
  commissionBp,
  leadCommissionCents,
  Model,
  type ModelCommission,
  type ModelRule,
  type ModelSale,
  partnerOfClick,
  storedMoney,
  untouched,
} from '../support/money-model.ts'
import { type FaultyMail, mailedTo } from './mail.ts'
import type { FaultyQueue } from './queue-faults.ts'
import { type Random, seeded } from './random.ts'
import { patiently, webhookSecret, type World } from './world.ts'

const currencies = ['usd', 'usd', 'usd', 'jpy', 'kwd'] as const
const people = 6
const atOnce = 12

/** A step: what it touches keeps it out of a wave in which something else touches the same. */
interface Step {
  touches: string[]
  /** A step whose outcome depends on what happens beside it is taken alone. */
  alone?: boolean
  run(): Promise<void>
}

/** A history of one program under way, and what was found wrong with it. */
class History {
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
  /** The rules that a sale of this wave may be paid by: those it began with, and those that one of its steps has hold. */
  possibleRules: Map<string, ModelRule[]>[] = [new Map()]
  #made = 0
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

  /** The same names in every program, so that whoever looks beyond the own one finds something. */
  name(kind: string): string {
    return `${kind}-${this.#made++}`
  }

  /**
   * Makes the same call once, or several times at once, each with faults of its own. `certain` where the one caller had an answer
   * to each try, `sure` where the function had too.
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
      if (!response.ok) throw new Error(`A click was answered ${await response.text()}`)
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

  /** Sends until it is known what became of it, as an application does whose client library gave up. */
  async certainly<Data>(send: () => Promise<{ ok: boolean; status: number; data: Data | null; error: unknown }>) {
    return await untilKnown(send, ({ ok, status }) => ok || (status > 0 && status < 500))
  }

  /** Small ones, large ones, and those whose commission ends in half a cent. */
  amount(): number {
    if (this.random.chance(0.2)) return 40 + 80 * this.random.integer(0, 500)
    return this.random.chance(0.3) ? this.random.integer(1, 20) : this.random.integer(1, 100_000)
  }

  sale(): Step {
    const person = this.#person()
    const amount = this.amount()
    const currency = this.random.pick(currencies) ?? 'usd'
    const id = this.name('sale')
    return {
      touches: [],
      run: async () => {
        const { answers, certain } = await this.calls(() =>
          this.certainly(() =>
            this.client.trackSale({
              customerExternalId: key(person),
              amount,
              invoiceId: id,
              currency,
              clickId: this.clickIds[person] ?? null,
              // Of the partner who brought them, since their payments of Stripe name none and may come first.
              coupon: person < people && person % 3 === 0 ? `CODE-${person % 2}` : null,
            }),
          ),
        )
        for (const { ok, error } of answers) {
          if (!ok && (certain || !(error as { same_payload?: boolean }).same_payload))
            this.wrong.push(`sale ${id} was refused: ${JSON.stringify(error)}`)
        }
        const commission = await this.commissionOf(id, { customer: person, amount, currency, type: 'payment' })
        if (certain) this.expect(`commission of ${id}`, answers[0]?.data?.commission_cents, commission?.amount ?? 0)
        this.model.sales.push({
          id,
          customer: person,
          type: 'payment',
          amount,
          currency,
          refunded: 0,
          refunds: new Map(),
          commission,
        })
      },
    }
  }

  /** A sale and its refund as Stripe tells of them: repeatedly, at once, in any order. */
  processorSale(): Step {
    const person = this.#person()
    const amount = this.random.integer(2, 100_000)
    const id = `pi_${this.program.programId}_${this.name('payment')}`
    const refunded = this.random.chance(0.5)
      ? this.random.chance(0.3)
        ? amount
        : this.random.integer(1, amount - 1)
      : 0
    const shop = { ...this.shop, clickId: this.clickIds[person] ?? null, customerKey: key(person) }
    const paid = checkoutSession(shop, { id: `cs_${id}`, total: amount, payment_intent: id })
    const events = [
      stripeEvent(shop, `evt_paid_${id}`, 'checkout.session.completed', paid),
      ...(refunded > 0
        ? [
            stripeEvent(
              shop,
              `evt_refund_${id}`,
              'refund.created',
              stripeRefund(shop, { id: `re_${id}`, amount: refunded, payment_intent: id }),
            ),
          ]
        : []),
    ]
    return {
      touches: [`sale:${id}`],
      run: async () => {
        await Promise.all(events.map((event) => this.calls(() => deliver(event))))
        const commission = await this.commissionOf(id, { customer: person, amount, currency: 'usd', type: 'payment' })
        const sale: ModelSale = {
          id,
          customer: person,
          type: 'payment',
          amount,
          currency: 'usd',
          refunded: 0,
          refunds: new Map(),
          commission,
        }
        this.model.sales.push(sale)
        if (refunded > 0) this.model.refund(sale, refunded, `re_${id}`)
      },
    }
  }

  lead(): Step {
    const person = this.#person()
    return {
      touches: [`lead:${person}`],
      run: async () => {
        const { answers, certain } = await this.calls(() =>
          this.certainly(() =>
            this.client.trackLead({
              customerExternalId: key(person),
              clickId: this.clickIds[person] ?? null,
              email: emailOf(this.program.programId, person),
            }),
          ),
        )
        for (const { ok, error } of answers)
          if (!ok) this.wrong.push(`the lead of ${person} was refused: ${JSON.stringify(error)}`)
        if (certain)
          this.expect(`lead of ${person} is a repeat`, answers[0]?.data?.duplicate ?? false, this.leads.has(person))
        if (this.leads.has(person)) return
        this.leads.add(person)
        const { rows } = await patiently(() =>
          this.world.pool.query<{ id: string }>(
            `select m.id from commissions m join customers c on c.program_id = m.program_id and c.id = m.customer_id
            where m.program_id = $1 and m.kind = 'lead' and c.customer_key = $2`,
            [this.program.programId, key(person)],
          ),
        )
        this.model.leadCommissions.push({
          id: Number(rows[0]?.id),
          customer: person,
          partner: partnerOfClick(person),
          currency: 'usd',
          amount: leadCommissionCents,
          ...untouched,
        })
      },
    }
  }

  refund(): Step | undefined {
    const sale = this.random.pick(this.model.sales.filter(({ id }) => !id.startsWith('pi')))
    if (!sale) return undefined
    const amount = this.random.chance(0.2)
      ? null
      : this.random.chance(0.5)
        ? this.random.integer(1, 30)
        : this.random.integer(1, 60_000)
    const id = amount === null || this.random.chance(0.25) ? null : `refund-${this.random.integer(0, 3)}`
    return this.refundsAtOnce(sale, [{ amount, id }])
  }

  /** Several refunds of one size at the same moment: in which order they are applied makes no difference. */
  burst(): Step | undefined {
    const sale = this.random.pick(this.model.sales.filter(({ id }) => !id.startsWith('pi')))
    if (!sale) return undefined
    const amount = this.random.integer(1, Math.max(1, Math.floor(sale.amount / 2)))
    return this.refundsAtOnce(
      sale,
      Array.from({ length: this.random.integer(2, 4) }, () => ({ amount, id: this.name('burst') })),
    )
  }

  refundsAtOnce(sale: ModelSale, refunds: { amount: number | null; id: string | null }[]): Step {
    return {
      touches: [`sale:${sale.id}`],
      alone: this.#withdrawalsOpen(),
      run: async () => {
        const sent = await Promise.all(
          refunds.map(({ amount, id }) =>
            this.calls(() =>
              this.certainly(() =>
                this.client.trackRefund({
                  invoiceId: sale.id,
                  ...(amount !== null && { amount }),
                  ...(id !== null && { refundId: id }),
                }),
              ),
            ),
          ),
        )
        const answers = sent.flatMap((call) => call.answers)
        for (const { ok, error } of answers)
          if (!ok) this.wrong.push(`a refund of ${sale.id} was refused: ${JSON.stringify(error)}`)
        const statuses = refunds.map(
          ({ amount, id }) => (this.model.refund(sale, amount, id) as { status: string }).status,
        )
        // A second try after a lost one says where the sale stands by then, with what others refunded meanwhile.
        if (sent.every(({ certain, sure }) => (refunds.length === 1 ? certain : sure))) {
          this.expect(
            `refunds of ${sale.id}`,
            answers.map(({ data }) => data?.status ?? '').toSorted(),
            statuses.toSorted(),
          )
        }
      },
    }
  }

  approve(): Step {
    const chosen = Array.from(
      { length: this.random.integer(1, 4) },
      () => this.random.pick(this.model.commissions) ?? [],
    )
      .flat()
      .filter((commission, index, all) => all.indexOf(commission) === index)
    return {
      touches: ['approvals', ...chosen.map((commission) => this.#subject(commission.id))],
      alone: this.#withdrawalsOpen(),
      run: async () => {
        const ids = chosen.map(({ id }) => id)
        const { answers, sure } = await this.calls(() =>
          this.world.settle(() => this.world.service.approveCommissions(this.world.db, this.program.programId, ids)),
        )
        const credited = this.model.approve(chosen)
        if (sure) this.expect('approved', answers[0], { value: credited })
      },
    }
  }

  reject(): Step | undefined {
    const commission = this.random.pick(this.model.commissions)
    if (!commission) return undefined
    return {
      touches: [this.#subject(commission.id)],
      alone: this.#withdrawalsOpen(),
      run: async () => {
        const { answers, sure } = await this.calls(() =>
          this.world.settle(() =>
            this.world.service.rejectCommission(
              this.world.db,
              this.program.programId,
              commission.id,
              'Not a real sale',
            ),
          ),
        )
        const expected = this.model.reject(commission)
        if (sure) this.expect(`rejection of ${commission.id}`, pickLike(answers[0], expected), expected)
      },
    }
  }

  /** A person decides on what is held. */
  review(): Step | undefined {
    const held = this.model.commissions.filter((one) => one.held)
    const chosen = held.filter(() => this.random.chance(0.5))
    const [first] = chosen
    if (!first) return undefined
    const decision = this.random.chance(0.6) ? 'released' : 'rejected'
    return {
      touches: [],
      // Who was released once is not held again, so what waits of them beside it hangs on which comes first.
      alone: true,
      run: async () => {
        const { db, service } = this.world
        const ids = chosen.map(({ id }) => id)
        const { answers, sure } = await this.calls(() =>
          this.world.settle(async () => ({
            changed: (await service.decideReviews(db, this.program.programId, ids, decision, 'Asked the buyer'))
              .changed,
          })),
        )
        const changed = this.model.decide(chosen, decision)
        if (sure) this.expect(`${decision} of ${ids.join(', ')}`, answers[0], { changed })
      },
    }
  }

  /** A commission or a deduction by hand: one, however often it is sent. */
  adjust(): Step {
    const partner = this.random.integer(0, this.program.partnerIds.length - 1)
    const currency = this.random.pick(currencies) ?? 'usd'
    const amount = this.random.integer(1, 8000) * (this.random.chance(0.5) ? 1 : -1)
    return {
      // What was credited first is paid first, so no two are credited at once.
      touches: ['approvals'],
      alone: true,
      run: async () => {
        const { db, service } = this.world
        const { programId, partnerIds } = this.program
        const requestId = crypto.randomUUID()
        const given = { partnerId: partnerIds[partner] ?? 0, currency, amountCents: amount, note: 'By hand' }
        const { answers } = await this.calls(() =>
          this.world.settle(async () => ({
            id: (await service.makeAdjustment(db, programId, given, requestId, [])).id,
          })),
        )
        this.model.adjust(partner, currency, amount)
        const made = new Set(answers.map((answer) => JSON.stringify(answer)))
        if (made.size > 1) this.wrong.push(`one adjustment was answered ${[...made].join(' and ')}`)
      },
    }
  }

  /** Somebody joins by the program's page, brings a buyer, and is the partner who comes last. */
  join(): Step | undefined {
    if (this.program.partnerIds.length > 2) return undefined
    return {
      touches: [],
      alone: true,
      run: async () => {
        const { db, pool, service } = this.world
        const { programId } = this.program
        const account = await patiently(() => addAccount(pool, 'Partner 2'))
        const given = { account, name: 'Partner 2', groupId: null }
        await this.calls(() => this.world.settle(() => join(service, db, programId, given)))
        this.program.add(await findJoined(pool, programId, account, patiently))
        this.model.join(null)
        for (const person of [people, people + 1]) this.clickIds[person] = await this.click(person)
      },
    }
  }

  ask(): Step {
    const partner = this.random.integer(0, this.program.partnerIds.length - 1)
    const currency = this.random.pick(currencies) ?? 'usd'
    const percent = this.random.integer(0, 120)
    return {
      touches: [],
      alone: true,
      run: async () => {
        const available = this.model.available(partner, currency)
        const amountCents = Math.max(Math.floor((Math.max(available, 0) * percent) / 100), 1)
        const requestId = crypto.randomUUID()
        const ask = {
          programId: this.program.programId,
          partnerId: this.program.partnerIds[partner] ?? 0,
          currency,
          amountCents,
          requestId,
        }
        const { answers } = await this.calls(() =>
          this.world.settle(() => this.world.service.askWithdrawal(this.world.db, ask)),
        )
        const distinct = new Set(answers.map((answer) => JSON.stringify(answer)))
        if (distinct.size > 1)
          this.wrong.push(`one request for a withdrawal was answered ${[...distinct].join(' and ')}`)
        const [answer = {}] = answers
        if (amountCents > available)
          return this.expect('a withdrawal beyond the balance', answer, { error: 'conflict' })
        if (!('value' in answer))
          return void this.wrong.push(`a withdrawal within the balance was answered ${JSON.stringify(answer)}`)
        this.model.withdrawals.push({
          id: Number(answer.value),
          partner,
          currency,
          amount: amountCents,
          status: 'requested',
        })
      },
    }
  }

  decide(verb: 'pay' | 'refuse' | 'cancel'): Step | undefined {
    const withdrawal = this.random.pick(this.model.withdrawals)
    if (!withdrawal) return undefined
    return {
      touches: [],
      alone: true,
      run: async () => {
        const { db, service } = this.world
        const { programId } = this.program
        const { answers } = await this.calls(() =>
          this.world.settle(async () => {
            if (verb === 'pay') await service.payWithdrawal(db, programId, withdrawal.id, withdrawal.amount, transfer)
            else if (verb === 'refuse')
              await service.refuseWithdrawal(db, programId, withdrawal.id, 'Details are missing')
            else {
              const partnerId = this.program.partnerIds[withdrawal.partner] ?? 0
              await service.cancelWithdrawal(db, programId, partnerId, withdrawal.id)
            }
          }),
        )
        const expected = this.model[verb](withdrawal)
        for (const answer of answers) this.expect(`${verb} ${withdrawal.id}`, answer, expected)
      },
    }
  }

  /** What a run's file holds, the oldest payment first; nothing where it has nothing left to pay. */
  async file(run: number): Promise<{ id: number; amount: number }[]> {
    const { service, db } = this.world
    const { answers } = await this.calls(() =>
      this.world.settle(async () => ({
        text: await service.exportPayments(db, this.program.programId, { payoutRunId: run }, { layout: 'csv' }),
      })),
    )
    const [answer = {}] = answers
    return ('text' in answer ? String(answer.text) : '')
      .trim()
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(','))
      .map(([reference = '', , , amount = '']) => ({
        id: Number(reference.replace('withdrawal-', '')),
        amount: Number(amount.replace('.', '')),
      }))
  }

  /** Makes a payout run, which pays everything payable, and then another, which finds nothing. */
  payoutRun(): Step {
    return {
      touches: [],
      alone: true,
      run: async () => {
        const { db, service } = this.world
        const { programId } = this.program
        const due = this.model.payable()
        const requestId = crypto.randomUUID()
        const { answers } = await this.calls(() =>
          this.world.settle(async () => ({ run: await service.makePayoutRun(db, programId, requestId) })),
        )
        const made = [...new Set(answers.map((answer) => ('run' in answer ? answer.run : answer)))]
        const [run] = made
        const isMade = typeof run === 'number'
        if (made.length > 1 || isMade !== due.length > 0) {
          this.wrong.push(`one payout run was answered ${JSON.stringify(answers)}, ${due.length} were due`)
        } else if (isMade) {
          await this.takeRun(run, due)
        }
      },
    }
  }

  /** A run has just been made: its file holds what was due, and a run after it is empty. */
  async takeRun(run: number, due: ReturnType<Model['payable']>): Promise<void> {
    const { db, service } = this.world
    const file = await this.file(run)
    this.expect(
      `the file of payout run ${run}`,
      file.map(({ amount }) => amount),
      due.map(({ amount }) => amount),
    )
    for (const [index, payment] of due.entries())
      this.model.withdrawals.push({ ...payment, id: file[index]?.id ?? 0, status: 'requested', run })
    this.runs.push(run)
    const again = await this.world.settle(async () => ({
      run: await service.makePayoutRun(db, this.program.programId, crypto.randomUUID()),
    }))
    this.expect(`a payout run after run ${run}`, again, { run: null })
  }

  /** Pays what a run's file holds. */
  payRun(): Step | undefined {
    const run = this.random.pick(this.runs)
    if (run === undefined) return undefined
    return {
      touches: [],
      alone: true,
      run: async () => {
        const { db, service } = this.world
        const open = this.model.openOf(run).map(({ id, amount }) => ({ id, amount }))
        if (!this.model.paidRuns.has(run)) this.expect(`the file of payout run ${run}`, await this.file(run), open)
        const cents = open.reduce((sum, { amount }) => sum + amount, 0)
        const { answers } = await this.calls(() =>
          this.world.settle(async () => {
            await service.payPayoutRun(db, this.program.programId, run, transfer, cents)
          }),
        )
        this.model.payRun(run)
        for (const answer of answers) this.expect(`payment of run ${run}`, answer, { ok: true })
      },
    }
  }

  /** What the scheduled function does, for all programs' clicks; nothing that anybody reads may change. */
  countClicks(): Step {
    const limit = this.random.integer(1, 40)
    return {
      touches: [],
      run: async () => {
        await this.calls(() => this.world.settle(() => this.world.service.countClicks(this.world.db, limit)))
        await this.calls(() => this.world.settle(() => this.world.service.countFigures(this.world.db, limit)))
      },
    }
  }

  /** The next step, drawn from what there is now. */
  next(): Step {
    const kind = this.random.integer(1, 53)
    const person = this.#person()
    const step =
      kind <= 2
        ? { touches: [], run: async () => void (await this.click(person, this.clickIds[person])) }
        : kind <= 6
          ? this.lead()
          : kind <= 14
            ? this.sale()
            : kind <= 17
              ? this.processorSale()
              : kind <= 23
                ? this.refund()
                : kind <= 26
                  ? this.burst()
                  : kind <= 32
                    ? this.approve()
                    : kind <= 33
                      ? this.reject()
                      : kind <= 36
                        ? this.ask()
                        : kind <= 40
                          ? this.decide(kind <= 38 ? 'pay' : kind <= 39 ? 'refuse' : 'cancel')
                          : kind <= 43
                            ? this.payoutRun()
                            : kind <= 45
                              ? this.payRun()
                              : kind <= 46
                                ? this.countClicks()
                                : kind <= 47
                                  ? this.rules()
                                  : kind <= 49
                                    ? this.review()
                                    : kind <= 51
                                      ? this.adjust()
                                      : this.join()
    return step ?? this.sale()
  }

  /**
   * The commission that a sale was given, undefined for none. Which rules it met where they change at this moment is its own to say: one of those that
   * held meanwhile, all of it. That they are those of the version it keeps is what the audit holds.
   */
  async commissionOf(
    transactionId: string,
    sale: Pick<ModelSale, 'customer' | 'amount' | 'currency' | 'type'>,
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

  /** Rules of everybody or of a partner change while sales come. Without caps, which leave to sales at once what is in no order. */
  rules(): Step {
    const holder = this.random.pick(['everybody', 'partner 0', 'partner 1'] as const) ?? 'everybody'
    const types = holder === 'everybody' ? (['payment'] as const) : ([null, 'payment'] as const)
    const rules = types
      .filter(() => this.random.chance(0.6))
      .map((sale_type) => ({
        sale_type,
        commission_bp: this.random.pick([0, 335, 5000, 10_000]) ?? 0,
        commission_fixed_cents: this.random.pick([0, 0, 250]) ?? 0,
        lifetime_cap_cents: null,
        lead_commission_cents: null,
      }))
    return {
      touches: ['rules'],
      run: async () => {
        const { db, service } = this.world
        const { programId, partnerIds } = this.program
        this.possibleRules.push(new Map(this.model.rules).set(holder, rules))
        this.model.rules.set(holder, rules)
        const of = holder === 'everybody' ? holder : { partnerId: partnerIds[holder === 'partner 0' ? 0 : 1] ?? 0 }
        const { answers } = await this.calls(() =>
          this.world.settle(async () => void (await service.saveRules(db, programId, of, rules))),
        )
        for (const answer of answers) this.expect(`rules of ${holder}`, answer, { ok: true })
      },
    }
  }

  /** Somebody who clicked so far. */
  #person(): number {
    return this.random.integer(0, this.clickIds.length - 1)
  }

  #subject(commissionId: number): string {
    const sale = this.model.sales.find(({ commission }) => commission?.id === commissionId)
    return sale ? `sale:${sale.id}` : `commission:${commissionId}`
  }

  #withdrawalsOpen(): boolean {
    return this.model.withdrawals.some(({ status }) => status === 'requested')
  }
}

const key = (person: number) => `person-${person}`

/** An address that must be found nowhere afterwards. */
export const emailOf = (programId: number, person: number) => `planted-${programId}-${person}@private.example`

/** Only the fields of `found` that `expected` names. */
function pickLike(found: object | undefined, expected: object): object {
  return Object.fromEntries(Object.entries(found ?? {}).filter(([name]) => name in expected))
}

/** Posts once; status 0 where there was no answer. */
async function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  try {
    return await fetch(`http://svc.test${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  } catch {
    return Response.error()
  }
}

const isKnown = ({ status }: Response) => status > 0 && status < 500

/** Calls until it is known what became of it. A service that never says is one that hangs, and one that fails again is broken. */
async function untilKnown<Answer extends { status: number }>(
  call: () => Promise<Answer>,
  known: (answer: Answer) => boolean,
): Promise<Answer> {
  for (let tries = 0, failures = 0; tries < 60; tries++) {
    const answer = await call()
    if (known(answer)) return answer
    if (answer.status === 500) failures += 1
    if (failures === 3) throw new Error('A call was answered 500 three times.')
    await new Promise((resolve) => setTimeout(resolve, Math.min(10 * tries, 300)))
  }
  throw new Error('A call was tried sixty times, and it is not known what became of it.')
}

/** Delivers an event until it is taken, as Stripe does. */
async function deliver(event: object): Promise<void> {
  const payload = JSON.stringify(event)
  const response = await untilKnown(() => {
    const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret: webhookSecret })
    return post('/api/v1/webhooks/stripe', payload, { 'stripe-signature': signature })
  }, isKnown)
  if (!response.ok) throw new Error(`A webhook was answered ${response.status}: ${await response.text()}`)
}

/**
 * Runs a random history of a program of its own, steps that do not depend on each other at once, and returns what is wrong
 * afterwards: an answer that is not the model's, a state that is not the model's, or what the audit finds.
 */
export async function runHistory(world: World, seed: number, steps: number): Promise<string[]> {
  const program = await patiently(() =>
    createLedgerProgram(world.pool, world.db, { commissionBp, leadCommissionCents }),
  )
  const history = new History(world, program, seed)
  const { programId, partnerIds } = program
  await patiently(() => keepWebhooks(world.pool, programId))
  await patiently(() => addReaders(world, program))
  try {
    await patiently(() =>
      world.pool.query('update programs set processor_account_id = $2 where id = $1', [
        programId,
        history.shop.account,
      ]),
    )
    history.clickIds.push(...(await Promise.all(Array.from({ length: people }, (_, person) => history.click(person)))))
    let wave: Step[] = []
    const takeWave = async () => {
      await Promise.all(wave.map((step) => step.run()))
      wave = []
      history.possibleRules = [new Map(history.model.rules)]
    }
    for (let taken = 0; taken < steps; taken++) {
      const step = history.next()
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
    const expected = history.model.expected()
    for (const part of ['sales', 'commissions', 'withdrawals', 'told', 'balances'] as const)
      history.expect(part, stored[part], JSON.parse(JSON.stringify(expected[part])))
    history.wrong.push(...(await patiently(() => differences(world, programId))))
  } catch (error) {
    history.wrong.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
  }
  return history.wrong.map((line) => `seed ${seed}: ${line}`)
}

/** What the audit finds, in one program or in all. */
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

/** The first partner and somebody of the workspace have accounts and are mailed: the partner at once, the other of reviews once a day. */
async function addReaders(world: World, { programId, partnerIds }: LedgerProgram): Promise<void> {
  const { pool, service, db } = world
  const [partner, member] = await Promise.all([addAccount(pool, 'Partner 0'), addAccount(pool, 'Owner')])
  await pool.query(
    `with tied as (update partners set user_id = $3 where program_id = $1 and id = $2)
    insert into workspace_members (workspace_id, user_id, role) select workspace_id, $4, 'owner' from programs where id = $1`,
    [programId, partnerIds[0], partner.id, member.id],
  )
  await service.saveMailChoices(db, member.id, { application: 'at_once', review: 'daily' })
}

/**
 * Sends and delivers what is left in the outbox, as the scheduled functions do in the minutes after, and mails it: first with the queue and the mail API
 * at their worst, then without faults. Returns what was not told or mailed, or not once.
 */
export async function deliverEverything(
  world: World,
  faults: FaultyQueue,
  queueUrl: string,
  mail: FaultyMail,
): Promise<string[]> {
  const { service, db, pool, env } = world
  const mailEnv = {
    ...env,
    BASE_URL: 'http://svc.test',
    AUTH_SECRET: 'x'.repeat(32),
    MAIL_API_URL: mail.url,
    MAIL_API_KEY: 'key',
    MAIL_FROM: 'Chaos <chaos@example.com>',
  }
  const sendMails = (round: number, sender: number) =>
    world.during(seeded(round, sender), () =>
      world.settle(async () => void (await service.sendNotificationMails(db, mailEnv, Date.now() + 60_000))),
    )
  const queue = service.openQueue(env as never)
  const wrong: string[] = []
  for (let round = 0; round < 8; round++) {
    faults.faulty = mail.faulty = round < 3
    // What waits for ten seconds or fifteen minutes to pass goes on at once.
    await pool.query(
      `update outbox set created_at = created_at - interval '1 hour', sent_at = null where delivered_at is null`,
    )
    try {
      await service.relayOutbox(db, service.queuesOf(queue, { QUEUE_URL: queueUrl }), Date.now() + 60_000)
      await service.drainQueue(db, queue, queueUrl, Date.now() + 60_000)
    } catch (error) {
      if (!faults.faulty) wrong.push(`delivering failed without a fault: ${String(error)}`)
    }
    await pool.query("update notification_mails set due_at = due_at - interval '2 days'")
    await Promise.all([sendMails(round, 1), sendMails(round, 2)])
  }
  queue.destroy()
  const { rows } = await pool.query<{ rows: string; told: string }>(
    'select count(*) as rows, count(n.id) as told from outbox o full join notifications n on n.program_id = o.program_id and n.id = o.id',
  )
  const [row] = rows
  if (row?.rows !== row?.told) wrong.push(`of ${row?.rows} notifications ${row?.told} were told`)
  const mailed = mailedTo(mail)
  // What was decided before its mail was due is not mailed.
  const { rows: readers } = await pool.query<{ email: string; told: string; decided: string }>(
    `select u.email, count(*) as told, count(*) filter (where is_decided(n)) as decided
    from outbox o join notifications n using (program_id, id) join programs p on p.id = o.program_id
    left join partners r on r.program_id = o.program_id and r.id = o.partner_id and o.audience = 'partner'
    left join workspace_members m on m.workspace_id = p.workspace_id and o.audience = 'advertiser'
    join users u on u.id = coalesce(r.user_id, m.user_id)
    group by u.email`,
  )
  for (const { email, told, decided } of readers) {
    const count = mailed.get(email) ?? 0
    if (count > Number(told) || count < Number(told) - Number(decided))
      wrong.push(`${email} was mailed ${count} of ${told} notifications, of which ${decided} were decided on`)
  }
  if (mailed.size > readers.length) wrong.push(`${mailed.size} were mailed, ${readers.length} are to be`)
  return [...wrong, ...mail.wrong]
}
