import type pg from 'pg'
import { balancesOf } from '../../lib/money/balances.ts'
import type { Database } from '../../lib/database.ts'
import { commissionOf, reversedOf, ruleFor, termsOf } from '../support/commission-oracle.ts'

export const commissionBp = 1375
export const leadCommissionCents = 150

/**
 * Customers with a bot's click. Their commissions are held until a person decides. After one release, the customer's
 * other commissions aren't held.
 */
export const bots: readonly number[] = [4, 7]

/** The partner of a customer's click. 2 is the partner who joins during the history. */
export const partnerOfClick = (customer: number): number => (customer > 5 ? 2 : customer % 2)

export interface ModelCommission {
  id: number
  customer: number
  partner: number
  currency: string
  amount: number
  reversed: number
  reversal: 'none' | 'partial' | 'full'
  rejected: boolean
  /** Whether it is held until a person decides. */
  held: boolean
  released: boolean
  credited: boolean
  paid: boolean
}

/** A change to a balance. `unpaid` is the part that no payment has covered, with the sign of the change. */
interface ModelEntry {
  partner: number
  currency: string
  /** Undefined for a manual deduction. */
  source: { amount: number; reversed: number; paid: boolean } | undefined
  unpaid: number
}

/** Terms for everybody or for one partner, for payments or for all sales. */
export interface ModelRule {
  commission_bp: number
  commission_fixed_cents: number
  sale_type: string | null
}

export interface ModelSale {
  id: string
  customer: number
  amount: number
  currency: string
  refunded: number
  /** The keys of the sale's refunds. */
  refunds: Set<string>
  /** Whether a payment processor reported it and reports its refunds. */
  isProcessors?: true
  commission: ModelCommission | undefined
}

export interface ModelPayout {
  id: number
  partner: number
  currency: string
  amount: number
  status: 'requested' | 'in_run' | 'sent' | 'paid' | 'returned' | 'refused' | 'canceled'
  /** The run that contains the payout. */
  run?: number
}

/**
 * A model of the rules in plain words and numbers, without concurrency. Every method returns the service's expected answer and applies its
 * expected change.
 */
export class Model {
  readonly sales: ModelSale[] = []
  readonly leadCommissions: ModelCommission[] = []
  /** The manual commissions. Deductions appear only in the balance. */
  readonly added: {
    partner: number
    currency: string
    amount: number
    reversed: 0
    paid: boolean
  }[] = []
  /** In order, oldest first. */
  readonly #entries: ModelEntry[] = []
  /** The parts of entries that each payment paid, by payout. */
  readonly #lines = new Map<number, { entry: ModelEntry; cents: number }[]>()
  readonly payouts: ModelPayout[] = []
  readonly paidRuns = new Set<number>()
  readonly balances = new Map<string, number>()
  readonly reported = new Map<string, number>()
  /** Rules by holder: `everybody` or `partner 1`. */
  readonly rules = new Map<string, ModelRule[]>()
  /** The numbers of the partners. A joined partner comes last. */
  readonly partners = [0, 1]

  get commissions(): ModelCommission[] {
    return [...this.sales.flatMap(({ commission }) => commission ?? []), ...this.leadCommissions]
  }

  /** Returns this partner's current commission on a sale, according to the first rule that applies. */
  commissionOf(
    partner: number,
    { amount, currency }: Pick<ModelSale, 'amount' | 'currency'>,
    rules: Map<string, ModelRule[]>,
  ): number {
    const holders = [`partner ${partner}`, 'everybody'].map((holder) => rules.get(holder) ?? [])
    const terms = termsOf(ruleFor(holders, [], 'payment', currency === 'usd'), commissionBp, currency === 'usd')
    return Number(commissionOf(BigInt(amount), terms, 0n))
  }

  balance(partner: number, currency: string): number {
    return this.balances.get(`${partner} ${currency}`) ?? 0
  }

  available(partner: number, currency: string): number {
    return this.balance(partner, currency) - sum(this.#open(partner, currency).map(({ amount }) => amount))
  }

  status({ rejected, reversal, paid, credited }: ModelCommission): string {
    if (rejected || reversal === 'full') return 'reversed'
    if (reversal === 'partial') return 'refunded'
    return paid ? 'paid' : credited ? 'approved' : 'pending'
  }

  refund(sale: ModelSale, amount: number | null, id: string | null): object {
    const { commission } = sale
    const key = amount === null ? 'rest' : id === null ? `amount:${amount}` : `id:${id}`
    const wasReversed = commission && this.status(commission) === 'reversed'
    if (amount !== null && sale.refunds.has(key)) {
      return commission ? { status: 'skipped', reason: 'refund_already_applied' } : { status: 'no_commission' }
    }
    const applied = Math.min(amount ?? sale.amount, sale.amount - sale.refunded)
    if (applied > 0) {
      sale.refunded += applied
      if (amount !== null) sale.refunds.add(key)
    }
    if (!commission) return { status: 'no_commission' }
    if (wasReversed || applied === 0) return { status: 'skipped', reason: 'already_reversed' }
    const deduction = this.#reverseTo(sale, commission)
    const full = sale.refunded === sale.amount
    this.#report(full ? 'commission_reversed' : 'commission_refunded')
    if (commission.paid) this.#report('paid_commission_reversed')
    return { status: full ? 'reversed' : 'refunded', deduction_cents: deduction }
  }

  join(): void {
    this.partners.push(this.partners.length)
    this.#report('application_received')
  }

  /** Checks unchecked commissions and holds suspicious ones. */
  #look(commissions: ModelCommission[]): void {
    const released = new Set(this.commissions.filter((one) => one.released).map(({ customer }) => customer))
    const wrong = [...new Set(commissions)].filter(
      (c) =>
        !c.credited &&
        this.status(c) !== 'reversed' &&
        !c.held &&
        bots.includes(c.customer) &&
        !released.has(c.customer),
    )
    for (const commission of wrong) {
      commission.held = true
      this.#report('commission_flagged')
    }
  }

  /** Decides on the held commissions as a person would. Returns their number. */
  decide(commissions: ModelCommission[], decision: 'released' | 'rejected'): number {
    const held = [...new Set(commissions)].filter((c) => c.held && c.reversal !== 'full')
    if (decision === 'rejected') return this.rejectAll(held)
    for (const commission of held) Object.assign(commission, { held: false, released: true })
    return held.length
  }

  approve(commissions: ModelCommission[]): number {
    this.#look(commissions)
    const due = [...new Set(commissions)].filter((c) => !c.credited && this.status(c) !== 'reversed' && !c.held)
    for (const commission of due.toSorted((a, b) => a.id - b.id)) {
      commission.credited = true
      this.#move(commission, commission.amount - commission.reversed, commission)
    }
    return due.length
  }

  adjust(partner: number, currency: string, amount: number): void {
    this.#report(amount < 0 ? 'adjustment_deducted' : 'adjustment_added')
    const added = { partner, currency, amount, reversed: 0, paid: false } as const
    if (amount > 0) this.added.push(added)
    this.#move({ partner, currency }, amount, amount > 0 ? added : undefined)
  }

  rejectAll(commissions: ModelCommission[]): number {
    const open = [...new Set(commissions)].filter((commission) => this.status(commission) !== 'reversed')
    for (const commission of open.toSorted((a, b) => a.id - b.id)) this.reject(commission)
    return open.length
  }

  reject(commission: ModelCommission): object {
    if (commission.rejected) return { deduction_cents: 0 }
    if (commission.reversal === 'full') return { error: 'conflict' }
    const left = commission.amount - commission.reversed
    Object.assign(commission, { rejected: true, held: false, reversal: 'full', reversed: commission.amount })
    if (commission.credited) this.#move(commission, -left, commission)
    this.#report('commission_reversed')
    if (commission.paid) this.#report('paid_commission_reversed')
    return { deduction_cents: left }
  }

  pay(payout: ModelPayout): object {
    if (!isOpen(payout)) return payout.status === 'paid' ? { ok: true } : { error: 'conflict' }
    payout.status = 'paid'
    this.#report('payout_paid')
    this.#add(payout, -payout.amount)
    this.#payLines(payout)
    return { ok: true }
  }

  /**
   * Pays the oldest credits and the oldest deductions. A deduction waits if the remaining credits would be too small for
   * this payment and the open payouts.
   */
  #payLines(payout: ModelPayout): void {
    const own = this.#entries.filter(
      ({ partner, currency }) => partner === payout.partner && currency === payout.currency,
    )
    const unpaid = (entries: ModelEntry[]) => sum(entries.map((entry) => entry.unpaid))
    const credits = own.filter((entry) => entry.unpaid > 0)
    const deductions = own.filter((entry) => entry.unpaid < 0)
    const open = sum(this.#open(payout.partner, payout.currency).map(({ amount }) => amount))
    const deducted = Math.min(-unpaid(deductions), Math.max(unpaid(credits) - payout.amount - open, 0))
    const lines = [...take(credits, payout.amount + deducted), ...take(deductions, deducted)]
    this.#lines.set(payout.id, lines)
    for (const { entry, cents } of lines) {
      const { source } = entry
      if (cents < 0 || !source || source.amount <= source.reversed) continue
      if (unpaid(own.filter((other) => other.source === source)) <= 0) source.paid = true
    }
  }

  /** Records that a sent or paid payout didn't arrive. */
  return(payout: ModelPayout): object {
    if (payout.status === 'sent' || payout.status === 'paid') {
      if (payout.status === 'paid') {
        this.#add(payout, payout.amount)
        for (const { entry, cents } of this.#lines.get(payout.id) ?? []) {
          entry.unpaid += cents
          if (cents > 0 && entry.source) entry.source.paid = false
        }
      }
      payout.status = 'returned'
      this.#report('payout_returned')
    }
    return payout.status === 'returned' ? { ok: true } : { error: 'conflict' }
  }

  refuse(payout: ModelPayout): object {
    if (isUnsent(payout)) {
      payout.status = 'refused'
      this.#report('payout_refused')
    }
    return payout.status === 'refused' ? { ok: true } : { error: 'conflict' }
  }

  cancel(payout: ModelPayout): object {
    if (payout.status === 'requested') payout.status = 'canceled'
    return payout.status === 'canceled' ? { ok: true } : { error: 'conflict' }
  }

  /** The payments of a run at this moment, in order. */
  payable(): { partner: number; currency: string; amount: number }[] {
    return this.partners
      .flatMap((partner) => ['jpy', 'kwd', 'usd'].map((currency) => ({ partner, currency })))
      .map((due) => ({ ...due, amount: this.available(due.partner, due.currency) }))
      .filter(({ amount }) => amount > 0)
  }

  /** The payments of a run that are neither paid nor canceled. */
  openOf(run: number): ModelPayout[] {
    return this.payouts.filter((payout) => payout.run === run && isOpen(payout))
  }

  payRun(run: number): void {
    if (this.paidRuns.has(run)) return
    this.paidRuns.add(run)
    for (const payout of this.openOf(run)) this.pay(payout)
  }

  /** The expected state of the service. `storedMoney` reads the actual state. */
  expected() {
    return {
      sales: orNull(this.sales.map(({ id, refunded }) => [id, refunded]).toSorted(byFirst)),
      commissions: orNull(
        this.commissions
          .toSorted((a, b) => a.id - b.id)
          .map((c) => [c.id, this.status(c), c.reversed, c.credited, c.paid, c.held]),
      ),
      added: orNull(this.added.map(({ amount, paid }) => [amount, paid])),
      payouts: orNull(this.payouts.map(({ id, status, amount }) => [id, status, amount])),
      reported: orNull([...this.reported].toSorted(byFirst)),
      balances: this.partners.map((partner) =>
        ['jpy', 'kwd', 'usd'].flatMap((currency) => {
          const total = (list: { partner: number; currency: string }[], amount: (item: never) => number) =>
            sum(
              list
                .filter((item) => item.partner === partner && item.currency === currency)
                .map((item) => amount(item as never)),
            )
          const requested_cents = total(this.payouts, (w: ModelPayout) => (isOpen(w) ? w.amount : 0))
          const balance_cents = this.balance(partner, currency)
          return balance_cents === 0
            ? []
            : {
                currency,
                pending_cents: total(this.commissions, (c: ModelCommission) =>
                  c.credited ? 0 : c.amount - c.reversed,
                ),
                balance_cents,
                requested_cents,
                available_cents: Math.max(balance_cents - requested_cents, 0),
                paid_cents: total(this.payouts, (w: ModelPayout) => (w.status === 'paid' ? w.amount : 0)),
              }
        }),
      ),
    }
  }

  #reverseTo(sale: ModelSale, commission: ModelCommission): number {
    const reversed = Number(reversedOf(BigInt(commission.amount), BigInt(sale.refunded), BigInt(sale.amount)))
    const deduction = reversed - commission.reversed
    commission.reversed = reversed
    commission.reversal = sale.refunded === sale.amount ? 'full' : sale.refunded > 0 ? 'partial' : 'none'
    if (commission.credited) this.#move(commission, -deduction, commission)
    return deduction
  }

  #open(partner: number, currency: string): ModelPayout[] {
    return this.payouts.filter((w) => w.partner === partner && w.currency === currency && isOpen(w))
  }

  /** Changes a balance. If it fell, reduces the newest requested payouts until they fit. */
  #move(
    { partner, currency }: { partner: number; currency: string },
    amount: number,
    source: ModelEntry['source'],
  ): void {
    this.#add({ partner, currency }, amount)
    if (amount !== 0) this.#entries.push({ partner, currency, source, unpaid: amount })
    const requested = this.#open(partner, currency).filter(isUnsent)
    const requestedTotal = sum(requested.map((payout) => payout.amount))
    if (amount < 0 && this.available(partner, currency) + requestedTotal < 0) this.#report('balance_negative')
    let excess = Math.min(-this.available(partner, currency), requestedTotal)
    for (const payout of requested.toSorted((a, b) => b.id - a.id)) {
      if (excess <= 0) return
      const cut = Math.min(excess, payout.amount)
      payout.amount -= cut
      excess -= cut
      if (payout.amount === 0) payout.status = 'canceled'
      this.#report('payout_reduced')
    }
  }

  #add({ partner, currency }: { partner: number; currency: string }, amount: number): void {
    this.balances.set(`${partner} ${currency}`, this.balance(partner, currency) + amount)
  }

  #report(kind: string): void {
    this.reported.set(kind, (this.reported.get(kind) ?? 0) + 1)
  }
}

const isUnsent = ({ status }: ModelPayout) => status === 'requested' || status === 'in_run'
export const isOpen = (payout: ModelPayout) => isUnsent(payout) || payout.status === 'sent'

/** Takes an amount from the unpaid parts of the oldest entries. Returns the amount that it took from each entry. */
function take(entries: ModelEntry[], total: number): { entry: ModelEntry; cents: number }[] {
  let rest = total
  return entries.flatMap((entry) => {
    const cents = Math.sign(entry.unpaid) * Math.min(rest, Math.abs(entry.unpaid))
    rest -= Math.abs(cents)
    entry.unpaid -= cents
    return cents === 0 ? [] : { entry, cents }
  })
}

/** `json_agg` without rows is null. */
const orNull = <Item>(list: Item[]) => (list.length === 0 ? null : list)

const byFirst = ([a]: unknown[], [b]: unknown[]) => (String(a) < String(b) ? -1 : 1)

const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)

export const untouched = {
  reversed: 0,
  reversal: 'none',
  rejected: false,
  held: false,
  released: false,
  paid: false,
  credited: false,
} as const satisfies Partial<ModelCommission>

/** Reads a program's money from the service, in the model's format. */
export async function storedMoney(pool: pg.Pool, db: Database, programId: number, partnerIds: number[]) {
  const { rows } = await pool.query<
    Record<'sales' | 'commissions' | 'added' | 'payouts' | 'reported', unknown[] | null>
  >(
    `select
      (select json_agg(json_build_array(transaction_id, refunded_cents) order by transaction_id) from sales where program_id = $1) as sales,
      (select json_agg(json_build_array(id, status, reversed_cents, credited_at is not null, paid_at is not null, held_at is not null) order by id)
        from commissions where program_id = $1) as commissions,
      (select json_agg(json_build_array(amount_cents, paid_at is not null) order by id)
        from adjustments where program_id = $1 and amount_cents > 0) as added,
      (select json_agg(json_build_array(id, status, amount_cents) order by id) from payouts where program_id = $1) as payouts,
      (select json_agg(json_build_array(kind, count) order by kind)
        from (select kind, count(*) from outbox where program_id = $1 group by kind) reported) as reported`,
    [programId],
  )
  const balances = await Promise.all(partnerIds.map((id) => db.query(balancesOf(programId, id))))
  return { ...rows[0], balances: balances.map((list) => list.filter(({ balance_cents: cents }) => cents !== 0)) }
}
