import { afterAll, expect, test } from 'vitest'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { checkPlan } from './cash/check.ts'
import { openDesk } from './cash/desk.ts'
import { drawPlan, type Way } from './cash/plan.ts'
import { loadService, type Plant } from './chaos/bundle.ts'
import { startEndpoint } from './support/stack.ts'

const [{ env, sql }, stripe] = await Promise.all([startEndpoint(), startLocalStripe()])
afterAll(() => stripe.close())

/** A change in the text of a function of the database. */
interface FunctionPlant {
  name: string
  from: string
  to: string
}

interface Mistake {
  /** The histories that show it. */
  ways: Way[]
  /** The seed of a history that shows it, or one before it; 1 where none is given. */
  firstSeed?: number
  /** What the oracle says of it, where it could say other things too. */
  says?: RegExp
  /** The mistake, as it would stand in the code. */
  plants?: Plant[]
  functions?: FunctionPlant[]
}

/** Mistakes in what a partner is left, planted in a service that does not make them. */
const planted: Record<string, Mistake> = {
  'a refund that failed and stays taken': {
    ways: ['failing_refund'],
    firstSeed: 3,
    says: /refunded/,
    plants: [{ file: 'lib/stripe/read-refund.ts', from: `status === 'failed' || status === 'canceled'`, to: 'false' }],
  },
  'a refund that is taken once for each event that tells of it': {
    ways: ['refund'],
    firstSeed: 11,
    says: /refunded/,
    plants: [
      {
        file: 'lib/stripe/read-refund.ts',
        from: '    reversal_id: refundId,',
        to: '    reversal_id: `${refundId}:${status}`,',
      },
    ],
  },
  'a dispute that was won and stays taken': {
    ways: ['dispute'],
    firstSeed: 2,
    says: /refunded/,
    plants: [{ file: 'lib/stripe/read-dispute.ts', from: `type === 'charge.dispute.funds_reinstated'`, to: 'false' }],
  },
  'a commission on tax': {
    ways: ['session'],
    says: /base/,
    plants: [
      {
        file: 'tracker/src/stripe-amounts.ts',
        from: '(amount_total ?? 0) - (total_details?.amount_tax ?? 0)',
        to: 'amount_total ?? 0',
      },
    ],
  },
  'a subscription’s first payment under two ids': {
    ways: ['subscription'],
    says: /2 sales/,
    plants: [
      {
        file: 'lib/stripe/read-checkout-session.ts',
        from: '[checkout.id, checkout.payment_intent, checkout.invoice]',
        to: '[checkout.id]',
      },
      {
        file: 'lib/stripe/read-checkout-session.ts',
        from: '      processor_invoice_id: checkout.invoice,',
        to: '      processor_invoice_id: null,',
      },
      {
        file: 'lib/stripe/read-checkout-session.ts',
        from: 'checkout.invoice ?? checkout.payment_intent ?? checkout.id',
        to: 'checkout.id',
      },
    ],
  },
  'a commission that is rounded down': {
    ways: ['session'],
    firstSeed: 2,
    says: /commission left/,
    functions: [
      { name: 'commission_of', from: '((base_cents * commission_bp) + 5000)', to: '(base_cents * commission_bp)' },
    ],
  },
  'a reversal that is rounded half up': {
    ways: ['refund'],
    says: /commission left/,
    functions: [
      {
        name: 'reversed_share',
        from: 'div(((commission_cents)::numeric * (refunded_cents)::numeric), (GREATEST(sale_cents, (1)::bigint))::numeric)',
        to: 'round(commission_cents::numeric * refunded_cents / greatest(sale_cents, 1))',
      },
    ],
  },
  'a dispute that is lost after a refund and puts back what the merchant never got back': {
    ways: ['dispute_after_refund'],
    says: /refunded/,
    plants: [{ file: 'lib/stripe/read-dispute.ts', from: 'isReinstated && kept > 0', to: 'false' }],
  },
  'the same with balance transactions in another currency': {
    ways: ['settlement'],
    firstSeed: 5,
    says: /refunded/,
    plants: [{ file: 'lib/stripe/read-dispute.ts', from: 'first.currency === unit', to: 'unit !== undefined' }],
  },
  'a dispute in another currency that is not taken': {
    ways: ['bank_currency'],
    says: /refunded 0/,
    plants: [
      {
        file: 'lib/stripe/read-dispute.ts',
        from: '    { reversal_id: `${disputeId}:${first.currency}`, currency: first.currency, taken, kept, isReinstated },',
        to: '',
      },
    ],
  },
  'tax in the base of an invoice that was overpaid': {
    ways: ['overpaid'],
    firstSeed: 2,
    says: /base/,
    plants: [{ file: 'tracker/src/stripe-amounts.ts', from: 'shareOf(amount, untaxed, total)', to: 'amount' }],
  },
  'tax in the base where what was paid is not the total': {
    ways: ['balance'],
    firstSeed: 2,
    says: /renewal \d: base/,
    plants: [{ file: 'tracker/src/stripe-amounts.ts', from: 'shareOf(amount, untaxed, total)', to: 'amount' }],
  },
  'tax in the base of an invoice that a credit note made smaller': {
    ways: ['credited'],
    says: /base/,
    plants: [{ file: 'tracker/src/stripe-amounts.ts', from: 'shareOf(amount, untaxed, total)', to: 'amount' }],
  },
  'tax in the base of an invoice whose fractions cannot be charged': {
    ways: ['fractions'],
    firstSeed: 2,
    says: /base/,
    plants: [
      {
        file: 'tracker/src/stripe-amounts.ts',
        from: 'shareOf(amount, untaxed, total)',
        to: 'Math.min(amount, untaxed)',
      },
    ],
  },
  'a payment outside of Stripe that is none in the older payloads': {
    ways: ['outside'],
    says: /no sale/,
    plants: [{ file: 'tracker/src/stripe-amounts.ts', from: 'invoice.paid_out_of_band ?', to: 'false ?' }],
  },
  'an amount in rupiah that is not read': {
    ways: ['large'],
    firstSeed: 6,
    says: /no sale/,
    plants: [{ file: 'lib/money.ts', from: '9_999_999_999_999', to: '99_999_999_999' }],
  },
  'a checkout of a payment link that is not read': {
    ways: ['link'],
    says: /no sale/,
    plants: [{ file: 'lib/stripe/read-checkout-session.ts', from: 'referenceId !== null &&', to: 'false &&' }],
  },
  'an invoice with metadata of its own that is not read': {
    ways: ['manual'],
    says: /no sale/,
    plants: [{ file: 'lib/stripe/read-invoice.ts', from: '    paid.metadata,\n', to: '' }],
  },
  'a credit note given outside of Stripe that takes nothing back': {
    ways: ['credited'],
    firstSeed: 2,
    says: /refunded 0/,
    plants: [{ file: 'lib/stripe/read-credit-note.ts', from: 'if (outside === 0)', to: 'if (outside >= 0)' }],
  },
  'a session’s amount that stands though its invoice brought another': {
    ways: ['balance'],
    says: /sale of/,
    functions: [{ name: 'record_sale', from: 'given.amount_source > sale.amount_source', to: 'false' }],
  },
  'an end that depends on whether the session or the invoice came first': {
    ways: ['balance'],
    says: /two orders/,
    functions: [
      {
        name: 'record_sale',
        from: 'given.amount_source > sale.amount_source',
        to: 'given.amount_source <> sale.amount_source',
      },
    ],
  },
  'an invoice that brought nothing and leaves the session’s commission': {
    ways: ['covered'],
    says: /expected 0/,
    plants: [
      {
        file: 'lib/stripe/read-invoice.ts',
        from: '  const details = paid.parent?.subscription_details\n',
        to: `  if (paid.amount_paid === 0) return ignored('Nothing was paid.')
  const details = paid.parent?.subscription_details\n`,
      },
    ],
  },
  'an invoice that brought nothing and is forgotten before its session comes': {
    ways: ['covered'],
    says: /expected 0/,
    functions: [{ name: 'correct_known_purchase', from: 'event.awaits := array', to: 'perform array' }],
  },
  'an invoice without metadata that does not correct its session': {
    ways: ['bare_invoice'],
    says: /sale of/,
    functions: [
      {
        name: 'apply_purchase',
        from: 'is_told and (program.id is null or brought_nothing)',
        to: 'is_told and program.id is not null and brought_nothing',
      },
    ],
  },
  'a correction that a balance does not have': {
    ways: ['balance', 'approved'],
    firstSeed: 6,
    says: /commission left/,
    functions: [{ name: 'correct_commission', from: 'if was.credited_at is null then', to: 'if true then' }],
  },
  'a renewal that arrives before what attributes it and is nobody’s for ever': {
    ways: ['window'],
    says: /partner null/,
    functions: [{ name: 'apply_purchase', from: 'perform attribute_awaiting_purchases', to: 'perform 0; --' }],
  },
  'what a customer’s metadata said before, told later, which counts again': {
    ways: ['customer'],
    firstSeed: 9,
    says: /partner null|no sale/,
    functions: [
      {
        name: 'apply_customer',
        from: '(kept.told_at, kept.event_id) <= (excluded.told_at, excluded.event_id)',
        to: 'true',
      },
    ],
  },
  'a customer’s metadata that does not attribute what was paid before it': {
    ways: ['customer'],
    firstSeed: 15,
    says: /no sale/,
    functions: [{ name: 'apply_customer', from: 'perform park_awaiting_payments', to: 'perform 0; --' }],
  },
  'a purchase before the click, which its buyer’s key makes a partner’s': {
    ways: ['before_click'],
    says: /partner \d|partner A|partner B/,
    functions: [{ name: 'existed_at', from: '(at + ', to: "(at + '1000 days'::interval + " }],
  },
  'a lead that does not attribute what was paid before it': {
    ways: ['late_lead'],
    says: /partner null/,
    functions: [{ name: 'track_lead', from: 'perform attribute_to_customer', to: 'perform 0; --' }],
  },
  'a payment under way of which only the session knows the tax, told before anybody knows its buyer': {
    ways: ['captured', 'api_attribution'],
    says: /base/,
    functions: [{ name: 'apply_purchase', from: 'perform keep_session', to: 'perform 0; --' }],
  },
  'what the sale call says of a payment under way, taken for its session’s word': {
    ways: ['captured', 'api_sale'],
    firstSeed: 12,
    says: /sale of/,
    functions: [
      {
        name: 'apply_payment_of_session',
        from: `given.amount_source in ('charge', 'intent')`,
        to: `given.amount_source < 'session'`,
      },
    ],
  },
  'months that count from the payment that arrived first': {
    ways: ['duration'],
    firstSeed: 3,
    says: /commission left/,
    functions: [{ name: 'record_sale', from: 'perform correct_commissions(sale, false, true);', to: '' }],
  },
  'a payment of the Payment Element that is not read': {
    ways: ['intent'],
    says: /no sale/,
    plants: [{ file: 'lib/stripe/read-event.ts', from: "'payment_intent.succeeded':", to: "'payment_intent.none':" }],
  },
  'a payment captured in part that counts as what was authorised': {
    ways: ['captured'],
    says: /sale of/,
    plants: [
      { file: 'lib/stripe/read-payment.ts', from: 'received: paid.amount_received', to: 'received: paid.amount' },
    ],
  },
  'a payment captured later whose tax the session alone knows': {
    ways: ['captured'],
    firstSeed: 2,
    says: /base/,
    functions: [{ name: 'as_its_session_said', from: 'session.asked_total is null', to: 'true' }],
  },
  'krónur a hundred times too many': {
    ways: ['odd_units'],
    firstSeed: 23,
    says: /sale of/,
    plants: [{ file: 'tracker/src/stripe-amounts.ts', from: '(isk|ugx)', to: '(ugx)' }],
  },
  'a payment told without a customer, to which the sale call gives none': {
    ways: ['api_attribution'],
    says: /partner null/,
    functions: [
      {
        name: 'record_sale',
        from: '(was_attributed or known_id is null or sale.customer_key <> given.customer_key)',
        to: 'true',
      },
    ],
  },
  'another id of a known payment, which makes a second sale': {
    ways: ['api_sale'],
    firstSeed: 2,
    says: /2 sales/,
    functions: [
      { name: 'known_transaction', from: 'known.program_id = given.program_id', to: 'false' },
      { name: 'unite_sales', from: 's.amount_cents > 0', to: 'false' },
    ],
  },
  'two sales that turn out to be of one payment and stay two': {
    ways: ['api_sale'],
    firstSeed: 4,
    says: /2 sales/,
    functions: [{ name: 'unite_sales', from: 's.amount_cents > 0', to: 'false' }],
  },
  'figures of the sale call that stand against the processor’s': {
    ways: ['api_sale'],
    says: /base/,
    functions: [{ name: 'record_sale', from: 'given.amount_source > sale.amount_source', to: 'false' }],
  },
  'a refund of the refund call that the webhook takes again': {
    ways: ['api_refund'],
    firstSeed: 6,
    says: /refunded/,
    functions: [{ name: 'settle_refunds', from: 'perform claim_api_refunds(sale, told);', to: '' }],
  },
  'a refund of the webhook that the refund call takes again': {
    ways: ['api_refund'],
    says: /refunded/,
    functions: [{ name: 'track_refund', from: `'amount:' || r.requested_cents = key`, to: 'false' }],
  },
  'a refund of the refund call that stands for two of the webhook': {
    ways: ['api_refund'],
    firstSeed: 2,
    says: /refunded/,
    functions: [
      {
        name: 'new_reversals',
        from: 'is_reversal(r, t.reversal_id)',
        to: `(is_reversal(r, t.reversal_id) or r.refund_key = 'amount:' || t.amount_cents)`,
      },
    ],
  },
  'a refund of all that is left which its sale outgrows': {
    ways: ['rest_refund'],
    firstSeed: 15,
    says: /refunded/,
    functions: [{ name: 'grow_refund_of_rest', from: 'if more_cents <= 0 then', to: 'if true then' }],
  },
  'a refund that failed and stays taken because the refund call told it': {
    ways: ['api_refund'],
    firstSeed: 6,
    says: /refunded/,
    functions: [
      {
        name: 'give_back_refunds',
        from: 'is_reversal(named, t.reversal_id)',
        to: `named.refund_key = 'id:' || t.reversal_id`,
      },
    ],
  },
  'a new rule that is applied to what waits': {
    ways: ['ruled'],
    firstSeed: 2,
    says: /commission left/,
    functions: [
      {
        name: 'save_rules',
        from: '  return true;\nend',
        to: `  update commissions c set amount_cents = greatest(1, (s.commission_base_cents * r.commission_bp + 5000) / 10000)
  from sales s join commission_rules r on r.program_id = s.program_id and r.since_version = version
    and (r.partner_id is null or r.partner_id = s.partner_id) and (r.group_id is null or r.group_id = (s.terms_among).group_id)
  where s.program_id = of_program_id and c.program_id = s.program_id and c.sale_id = s.id and c.credited_at is null and c.reversal = 'none';
  return true;
end`,
      },
    ],
  },
  'a fixed amount that a correction leaves out': {
    ways: ['ruled', 'balance', 'subscription'],
    firstSeed: 2,
    says: /commission left/,
    functions: [{ name: 'correct_commission', from: 'sale.commission_fixed_cents', to: 'null::bigint' }],
  },
  'a cap that does not count what the buyer brought before': {
    ways: ['ruled', 'subscription'],
    firstSeed: 2,
    says: /commission left/,
    functions: [{ name: 'left_under_cap', from: 'sum(c.amount_cents)', to: '0' }],
  },
  'a code that wins over a click where the program says otherwise': {
    ways: ['coded'],
    firstSeed: 5,
    says: /partner/,
    functions: [
      {
        name: 'decide_by_code',
        from: "customer.link_id is not null and customer.attribution_priority = 'click'",
        to: 'false',
      },
    ],
  },
  'a promotion code of which Stripe is not asked where its session does not say it': {
    ways: ['coded'],
    says: /no sale|partner/,
    plants: [{ file: 'lib/stripe/read-discounts.ts', from: 'isPartial: isUntold ||', to: 'isPartial:' }],
  },
  'a held commission that is paid': {
    ways: ['held', 'approved'],
    firstSeed: 6,
    says: /balance/,
    functions: [
      {
        name: 'flag_commissions',
        from: 'update commissions c set held_at = now() where',
        to: 'update commissions c set held_at = null where',
      },
    ],
  },
  'a release that is none': {
    ways: ['held', 'approved'],
    firstSeed: 9,
    says: /balance/,
    functions: [
      {
        name: 'decide_reviews',
        from: `perform close_review(of_program_id, id, 'released', because) from unnest(held_ids) id;`,
        to: 'perform 0;',
      },
    ],
  },
  'a rejection that releases': {
    ways: ['held'],
    firstSeed: 2,
    says: /expected 0/,
    functions: [{ name: 'decide_reviews', from: `if of_decision = 'rejected' then`, to: 'if false then' }],
  },
  'a deduction that is added': {
    ways: ['adjusted'],
    firstSeed: 2,
    says: /balance/,
    functions: [
      { name: 'make_adjustment', from: 'entry.amount_cents := of_cents;', to: 'entry.amount_cents := abs(of_cents);' },
    ],
  },
  'somebody who joins into a group and is in none': {
    ways: ['joining', 'ruled'],
    firstSeed: 33,
    says: /commission left/,
    functions: [
      {
        name: 'admit_applicant',
        from: 'values (application.program_id, application.user_id, in_group_id,',
        to: 'values (application.program_id, application.user_id, null,',
      },
    ],
  },
}

const unplanted = await loadService()

/** Plants in functions of the database; the result takes them out again. */
async function plantInFunctions(functions: FunctionPlant[]): Promise<() => Promise<void>> {
  const definitions = new Map<string, string>()
  for (const { name } of functions) {
    const { rows } = await sql.query<{ text: string }>('select pg_get_functiondef($1::regproc) as text', [name])
    definitions.set(name, rows[0]?.text ?? '')
  }
  const changed = new Map(definitions)
  for (const { name, from, to } of functions) {
    const text = changed.get(name) ?? ''
    expect(text.split(from), `the place in ${name}`).toHaveLength(2)
    changed.set(
      name,
      text.replace(from, () => to),
    )
  }
  for (const text of changed.values()) await sql.query(text)
  return async () => {
    for (const text of definitions.values()) await sql.query(text)
  }
}

test.each(Object.entries(planted))(
  'the oracle finds %s',
  { timeout: 120_000 },
  async (_name, { ways, says = /./, plants = [], functions = [], firstSeed = 1 }) => {
    const takeOut = await plantInFunctions(functions)
    const found: string[] = []
    try {
      const service = plants.length === 0 ? unplanted : await loadService(plants)
      const desk = openDesk(service, sql, stripe, env, 1)
      for (let seed = firstSeed; seed < firstSeed + 64 && !found.some((line) => says.test(line)); seed++)
        found.push(...(await checkPlan(desk, drawPlan(seed, ways))))
    } finally {
      await takeOut()
    }
    expect(found.filter((line) => says.test(line))).not.toEqual([])
  },
)
