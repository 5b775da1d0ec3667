import type { Story } from '../../lib/local/processor-events.ts'
import { processorFixtures } from '../../lib/local/processor-fixture.ts'
import { checkoutSession, refund as stripeRefund, stripeEvent } from '../../lib/local/stripe-events.ts'
import type { ProcessorName } from '../../lib/processors/processors.ts'
import { leadCommissionCents, type ModelSale, partnerOfClick, untouched } from './model.ts'
import { type Connection, connectionSecret, deliver } from './calls.ts'
import { currencies, type History, people, type Step } from './history.ts'
import { emailHashKey, patiently } from './world.ts'

const key = (person: number) => `person-${person}`

const emailOf = (programId: number, person: number) => `planted-${programId}-${person}@private.example`

export function sell(history: History): Step {
  const person = history.person()
  const amount = history.amount()
  const currency = history.random.pick(currencies) ?? 'usd'
  const id = history.name('sale')
  return {
    touches: [],
    run: async () => {
      const { answers, certain } = await history.send(() =>
        history.client.trackSale({
          customerExternalId: key(person),
          amount,
          invoiceId: id,
          currency,
          clickId: history.clickIds[person] ?? null,
          // The code of their partner, because Stripe payments contain no click id and can arrive first.
          coupon: person < people && person % 3 === 0 ? `CODE-${person % 2}` : null,
        }),
      )
      for (const { ok, error } of answers) {
        if (!ok && (certain || !(error as { same_payload?: boolean }).same_payload))
          history.wrong.push(`sale ${id} was refused: ${JSON.stringify(error)}`)
      }
      const commission = await history.commissionOf(id, { customer: person, amount, currency })
      if (certain) history.expect(`commission of ${id}`, answers[0]?.data?.commission_cents, commission?.amount ?? 0)
      history.model.sales.push({
        id,
        customer: person,
        amount,
        currency,
        refunded: 0,
        refunds: new Set(),
        commission,
      })
    },
  }
}

/** A processor's reports of a payment, and the ids of its sale and its refund. */
interface Reports {
  id: string
  refundId: string
  /** The payment, and its refund if there is one. */
  events: object[]
  /** The connection that receives the events. Stripe has none. */
  connection?: Connection
}

function byStripe(history: History, person: number, amount: number, refunded: number): Reports {
  const id = `pi_${history.program.programId}_${history.name('payment')}`
  const shop = { ...history.shop, clickId: history.clickIds[person] ?? null, customerKey: key(person) }
  const paid = checkoutSession(shop, { id: `cs_${id}`, total: amount, payment_intent: id })
  const events = [stripeEvent(shop, `evt_paid_${id}`, 'checkout.session.completed', paid)]
  if (refunded > 0) {
    const object = stripeRefund(shop, { id: `re_${id}`, amount: refunded, payment_intent: id })
    events.push(stripeEvent(shop, `evt_refund_${id}`, 'refund.created', object))
  }
  return { id, refundId: `re_${id}`, events }
}

/** The events of a payment and of its refund, by processor. */
const reportedBy: Record<ProcessorName, [paid: string, refunded: string]> = {
  paddle: ['transaction.completed', 'adjustment.updated'],
  lemonsqueezy: ['order_created', 'order_refunded'],
  polar: ['order.paid', 'refund.updated'],
}

function byConnection(
  history: History,
  connection: Connection,
  person: number,
  amount: number,
  refunded: number,
): Reports {
  const { programId } = history.program
  const story: Story = {
    order: `${programId}-${history.name('payment')}`,
    programId,
    clickId: history.clickIds[person] ?? null,
    customerKey: key(person),
    email: null,
    amount,
    tax: 0,
    fee: 0,
    refunded,
    currency: 'usd',
    now: new Date(),
    isTest: false,
  }
  const { processor } = connection
  const events = reportedBy[processor]
    .slice(0, refunded > 0 ? 2 : 1)
    .map((name) => processorFixtures[processor].events[name]?.(story) ?? {})
  const { data } = Object(events[0])
  return { id: String(data.id), refundId: `refund of ${story.order}`, events, connection }
}

/**
 * A sale and its refund as a processor reports them: repeatedly, concurrently, in any order, and sometimes while the
 * connection is disconnected.
 */
export function sellByProcessor(history: History): Step {
  const person = history.person()
  const amount = history.random.integer(2, 100_000)
  const refunded = history.random.chance(0.5)
    ? history.random.chance(0.3)
      ? amount
      : history.random.integer(1, amount - 1)
    : 0
  // The amount also determines the processor, because another random draw would change the histories that find planted mistakes.
  const connection = history.connections[amount % (history.connections.length + 1)]
  const { id, refundId, events } = connection
    ? byConnection(history, connection, person, amount, refunded)
    : byStripe(history, person, amount, refunded)
  const isDisconnected = connection !== undefined && amount % 5 === 0
  return {
    touches: [`sale:${id}`],
    alone: isDisconnected,
    run: async () => {
      if (isDisconnected) await disconnect(history, connection)
      await Promise.all(events.map((event) => history.calls(() => deliver(event, connection))))
      if (isDisconnected) await reconnect(history, connection)
      const commission = await history.commissionOf(id, { customer: person, amount, currency: 'usd' })
      const sale: ModelSale = {
        id,
        customer: person,
        amount,
        currency: 'usd',
        refunded: 0,
        refunds: new Set(),
        isProcessors: true,
        commission,
      }
      history.model.sales.push(sale)
      if (refunded > 0) history.model.refund(sale, refunded, refundId)
    },
  }
}

async function disconnect(history: History, { accountId }: Connection): Promise<void> {
  const { world, program } = history
  await history.act(() => world.service.disconnectConnection(world.db, program.programId, accountId))
}

/** Connects the account again, and applies the events that were waiting for it. */
async function reconnect(history: History, { accountId }: Connection): Promise<void> {
  const { world, program } = history
  const { changeSecret, applyParkedEventsFunction } = world.service
  const keys = { EMAIL_HASH_KEY: emailHashKey }
  await history.act(() => changeSecret(world.db, keys, program.programId, accountId, connectionSecret))
  const waiting = async () => {
    const { rowCount } = await world.pool.query(
      'select from processor_events where account_id = $1 and waits_for is not null',
      [accountId],
    )
    return rowCount
  }
  for (let round = 0; round < 60 && (await patiently(waiting)) !== 0; round++)
    await history.act(() => applyParkedEventsFunction.scheduled(null, world.env as never))
}

export function lead(history: History): Step {
  const person = history.person()
  return {
    touches: [`lead:${person}`],
    run: async () => {
      const { answers, certain } = await history.send(() =>
        history.client.trackLead({
          customerExternalId: key(person),
          clickId: history.clickIds[person] ?? null,
          email: emailOf(history.program.programId, person),
        }),
      )
      for (const { ok, error } of answers)
        if (!ok) history.wrong.push(`the lead of ${person} was refused: ${JSON.stringify(error)}`)
      if (certain)
        history.expect(`lead of ${person} is a repeat`, answers[0]?.data?.duplicate ?? false, history.leads.has(person))
      if (history.leads.has(person)) return
      history.leads.add(person)
      const { rows } = await patiently(() =>
        history.world.pool.query<{ id: string }>(
          `select m.id from commissions m join customers c on c.program_id = m.program_id and c.id = m.customer_id
          where m.program_id = $1 and m.kind = 'lead' and c.customer_key = $2`,
          [history.program.programId, key(person)],
        ),
      )
      history.model.leadCommissions.push({
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

export function refund(history: History): Step | undefined {
  const sale = history.random.pick(history.model.sales.filter(({ isProcessors }) => !isProcessors))
  if (!sale) return undefined
  const amount = history.random.chance(0.2)
    ? null
    : history.random.chance(0.5)
      ? history.random.integer(1, 30)
      : history.random.integer(1, 60_000)
  const id = amount === null || history.random.chance(0.25) ? null : `refund-${history.random.integer(0, 3)}`
  return refundsAtOnce(history, sale, [{ amount, id }])
}

/** Several refunds of the same size at the same moment, so that their order makes no difference. */
export function burst(history: History): Step | undefined {
  const sale = history.random.pick(history.model.sales.filter(({ isProcessors }) => !isProcessors))
  if (!sale) return undefined
  const amount = history.random.integer(1, Math.max(1, Math.floor(sale.amount / 2)))
  return refundsAtOnce(
    history,
    sale,
    Array.from({ length: history.random.integer(2, 4) }, () => ({ amount, id: history.name('burst') })),
  )
}

function refundsAtOnce(
  history: History,
  sale: ModelSale,
  refunds: { amount: number | null; id: string | null }[],
): Step {
  return {
    touches: [`sale:${sale.id}`],
    alone: history.payoutsOpen(),
    run: async () => {
      const sent = await Promise.all(
        refunds.map(({ amount, id }) =>
          history.send(() =>
            history.client.trackRefund({
              invoiceId: sale.id,
              ...(amount !== null && { amount }),
              ...(id !== null && { refundId: id }),
            }),
          ),
        ),
      )
      const answers = sent.flatMap((call) => call.answers)
      for (const { ok, error } of answers)
        if (!ok) history.wrong.push(`a refund of ${sale.id} was refused: ${JSON.stringify(error)}`)
      const statuses = refunds.map(
        ({ amount, id }) => (history.model.refund(sale, amount, id) as { status: string }).status,
      )
      // After a lost answer, the second attempt returns the sale's current state, including other refunds.
      if (sent.every(({ certain, sure }) => (refunds.length === 1 ? certain : sure))) {
        history.expect(
          `refunds of ${sale.id}`,
          answers.map(({ data }) => data?.status ?? '').toSorted(),
          statuses.toSorted(),
        )
      }
    },
  }
}
