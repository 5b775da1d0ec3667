import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { type Fact, ignored, type Purchase, type Reversal } from '../lib/processors/facts.ts'
import { checkPlan } from './cash/check.ts'
import { openDesk } from './cash/desk.ts'
import { drawPlan, type Way } from './cash/plan.ts'
import { inModule, loadService, type ModuleMistakes } from './chaos/bundle.ts'
import { type FunctionMistakes, plantInFunctions, unrunnable } from './support/planted-functions.ts'
import { startEndpoint } from './support/stack.ts'

/** `seed` is the seed of a history that finds the mistake, or an earlier seed. `says` matches only the oracle's output for this mistake. */
interface Mistake {
  ways: Way[]
  seed?: number
  says: RegExp
  service?: ModuleMistakes
  functions?: FunctionMistakes
}

const unread = () => ignored('A planted mistake.')
const changed = (object: unknown, fields: object): object => ({ ...Object(object), ...fields })
const changedReversals = (fact: Fact, change: (reversals: Reversal[]) => Reversal[]): Fact =>
  fact.kind === 'reversals' ? { ...fact, reversals: change(fact.reversals) } : fact
const changedPurchase = (fact: Fact, change: (purchase: Purchase) => Fact): Fact =>
  fact.kind === 'purchase' ? change(fact) : fact

const inRefunds = (change: (reversals: Reversal[]) => Reversal[]) =>
  inModule<typeof import('../lib/processors/stripe/read-refund.ts')>('lib/processors/stripe/read-refund.ts', {
    readRefund: (real) => (object) => changedReversals(real(object), change),
  })
const inDisputes = (change: (reversals: Reversal[]) => Reversal[]) =>
  inModule<typeof import('../lib/processors/stripe/read-dispute.ts')>('lib/processors/stripe/read-dispute.ts', {
    readDispute:
      (real) =>
      (...reported) =>
        changedReversals(real(...reported), change),
  })
type Amounts = typeof import('../tracker/src/stripe-amounts.ts')
const inAmounts = (exports: Parameters<typeof inModule<Amounts>>[1]) =>
  inModule<Amounts>('tracker/src/stripe-amounts.ts', exports)
type Checkouts = typeof import('../lib/processors/stripe/read-checkout-session.ts')
const inCheckouts = (readCheckout: (real: Checkouts['readCheckout']) => Checkouts['readCheckout']) =>
  inModule<Checkouts>('lib/processors/stripe/read-checkout-session.ts', { readCheckout })
type Invoices = typeof import('../lib/processors/stripe/read-invoice.ts')
const inInvoices = (readInvoice: (real: Invoices['readInvoice']) => Invoices['readInvoice']) =>
  inModule<Invoices>('lib/processors/stripe/read-invoice.ts', { readInvoice })
type Payments = typeof import('../lib/processors/stripe/read-payment.ts')
const inIntents = (readIntent: (real: Payments['readIntent']) => Payments['readIntent']) =>
  inModule<Payments>('lib/processors/stripe/read-payment.ts', { readIntent })

const roundedDown: FunctionMistakes = {
  commission_of: `intact(); if base_cents * commission_bp % 10000 >= 5000 then result := result - 1; end if;`,
}

const ruleForWaiting: FunctionMistakes = {
  save_rules: `intact();
    update commissions c set amount_cents = greatest(1, (s.commission_base_cents * r.commission_bp + 5000) / 10000)
    from sales s join programs p on p.id = s.program_id
    join commission_rules r on r.program_id = p.id and r.since_version = p.rules_version
      and (r.partner_id is null or r.partner_id = s.partner_id) and (r.group_id is null or r.group_id = (s.terms_among).group_id)
      and (r.sale_type is null or r.sale_type = s.sale_type) and r.product_id is null
    where result and s.program_id = of_program_id and c.program_id = s.program_id and c.sale_id = s.id and c.credited_at is null
      and c.reversal = 'none';`,
}

const codeOverClick: FunctionMistakes = {
  decide_by_code: `intact();
    if given.code_id is not null then
      code_id := given.code_id;
      partner_id := (select k.partner_id from partner_codes k where k.program_id = given.program_id and k.id = given.code_id);
    end if;`,
}

const heldIsCredited: FunctionMistakes = {
  flag_commissions: `intact();
    update commissions c set held_at = null where (c.program_id, c.id) in (select * from unnest(program_ids, commission_ids));`,
}

const rejectionReleases: FunctionMistakes = { decide_reviews: `of_decision := 'released'; intact();` }

const deductionIsAdded: FunctionMistakes = { create_adjustment: `of_cents := abs(of_cents); intact();` }

const mistakes: Record<string, Mistake> = {
  'a failed refund that still counts': {
    ways: ['failing_refund'],
    seed: 6,
    says: /refunded/,
    service: inRefunds((reversals) => reversals.filter(({ returned }) => !returned)),
  },
  'a refund that counts once per event': {
    ways: ['refund'],
    seed: 11,
    says: /refunded/,
    service: inRefunds((reversals) => reversals.map((one) => ({ ...one, reversal_id: `re_${randomUUID()}` }))),
  },
  'a won dispute that still counts': {
    ways: ['dispute'],
    seed: 2,
    says: /refunded/,
    service: inDisputes((reversals) => reversals.map((one) => ({ ...one, returned: false }))),
  },
  'a commission on tax': {
    ways: ['session'],
    says: /base/,
    service: inAmounts({
      untaxedOfSession:
        () =>
        ({ amount_total }) =>
          amount_total ?? 0,
    }),
  },
  'a first payment of a subscription under two ids': {
    ways: ['subscription'],
    says: /2 sales/,
    service: inCheckouts((real) => async (...reported) => {
      return changedPurchase(await real(...reported), (purchase) => {
        const { sale, session_id: id } = purchase
        if (!sale || id === null) return purchase
        return { ...purchase, payment_ids: [id], sale: { ...sale, transaction_id: id, processor_invoice_id: null } }
      })
    }),
  },
  'a commission that is rounded down': {
    ways: ['session'],
    seed: 2,
    says: /commission left/,
    functions: roundedDown,
  },
  'a reversal that is rounded half up': {
    ways: ['refund'],
    says: /commission left/,
    functions: {
      reversed_share: `return round(commission_cents * refunded / greatest(whole, 1));`,
    },
  },
  'a dispute that counts the returned part but not the lost part': {
    ways: ['dispute_after_refund'],
    says: /refunded/,
    service: inDisputes((reversals) => {
      return reversals.some(({ returned }) => returned) ? reversals.filter(({ returned }) => returned) : reversals
    }),
  },
  'a dispute that counts settled amounts in the currency of the charge': {
    ways: ['settlement'],
    seed: 5,
    says: /refunded/,
    service: inDisputes((reversals) => {
      const [own] = reversals
      const settled = reversals.filter(({ currency }) => currency !== own?.currency)
      return own && settled.length > 0 ? settled.map((one) => ({ ...one, currency: own.currency })) : reversals
    }),
  },
  'a dispute that is ignored in the currency of the balance': {
    ways: ['bank_currency'],
    says: /refunded 0/,
    service: inDisputes((reversals) => reversals.filter(({ currency }) => currency === reversals[0]?.currency)),
  },
  'tax in the base of an invoice': {
    ways: ['balance'],
    seed: 2,
    says: /renewal \d: base/,
    service: inAmounts({
      paidOfInvoice: (real) => (invoice) => {
        const { amount } = real(invoice)
        return { amount, untaxed: amount }
      },
    }),
  },
  'a partial payment that starts with the untaxed part': {
    ways: ['fractions'],
    seed: 15,
    says: /base/,
    service: inAmounts({
      paidOfInvoice: (real) => (invoice) => {
        const { amount } = real(invoice)
        return { amount, untaxed: Math.min(amount, real({ ...invoice, amount_paid: invoice.total }).untaxed) }
      },
    }),
  },
  'a payment outside Stripe that is missing in old payloads': {
    ways: ['outside'],
    says: /no sale/,
    service: inAmounts({ paidOfInvoice: (real) => (invoice) => real({ ...invoice, paid_out_of_band: false }) }),
  },
  'an amount in rupiah that is too large to read': {
    ways: ['large'],
    seed: 6,
    says: /no sale/,
    service: inModule<{ maxAmountCents: number }>('lib/money.ts', { maxAmountCents: () => 99_999_999_999 }),
  },
  'an ignored checkout of a payment link': {
    ways: ['link'],
    says: /no sale/,
    service: inCheckouts((real) => (type, object, ...rest) => {
      return real(type, changed(object, { client_reference_id: null }), ...rest)
    }),
  },
  'an ignored invoice with its own metadata': {
    ways: ['manual'],
    says: /no sale/,
    service: inInvoices(
      (real) =>
        (object, ...rest) =>
          real(changed(object, { metadata: {} }), ...rest),
    ),
  },
  'an ignored credit note outside Stripe': {
    ways: ['credited'],
    seed: 2,
    says: /refunded 0/,
    service: inModule<typeof import('../lib/processors/stripe/read-credit-note.ts')>(
      'lib/processors/stripe/read-credit-note.ts',
      {
        readCreditNote: () => unread,
      },
    ),
  },
  'a session amount that its invoice does not correct': {
    ways: ['balance'],
    says: /sale of/,
    functions: { correct_sale: `return sale;` },
  },
  'a result that depends on the order of session and invoice': {
    ways: ['balance'],
    seed: 14,
    says: /two orders/,
    functions: { record_sale: `given.amount_source := 'invoice'; intact();` },
  },
  'an invoice of 0 that leaves the commission of its session': {
    ways: ['covered'],
    says: /expected 0/,
    service: inInvoices((real) => async (...reported) => {
      return changedPurchase(await real(...reported), (paid) => (paid.sale?.amount_cents === 0 ? unread() : paid))
    }),
  },
  'an invoice of 0 that is forgotten before its session arrives': {
    ways: ['covered'],
    says: /expected 0/,
    functions: { correct_known_purchase: `intact(); result.awaits := null;` },
  },
  'an invoice without metadata that does not correct its session': {
    ways: ['bare_invoice'],
    says: /sale of/,
    functions: {
      correct_known_purchase: `if event.fact#>>'{sale,amount_cents}' <> '0' then
        event.outcome := 'ignored';
        return event;
      end if;
      intact();`,
    },
  },
  'a correction that skips the balance': {
    ways: ['balance', 'approved'],
    seed: 6,
    says: /balance/,
    functions: {
      change_balance: `if of_cause <> 'commission_corrected' then intact(); end if;`,
    },
  },
  'a renewal that stays unattributed because it arrived first': {
    ways: ['window'],
    says: /partner null/,
    functions: { attribute_awaiting_purchases: `return;` },
  },
  'old metadata of a customer that replaces newer metadata': {
    ways: ['customer'],
    seed: 9,
    says: /partner null|no sale/,
    functions: {
      apply_customer: `event.fact := event.fact || jsonb_build_object('reported_at', clock_timestamp()); intact();`,
    },
  },
  'metadata of a customer that does not attribute earlier payments': {
    ways: ['customer'],
    seed: 15,
    says: /no sale/,
    functions: { park_awaiting_payments: `return;` },
  },
  'a purchase before the click that becomes attributed': {
    ways: ['before_click'],
    says: /partner \d|partner A|partner B/,
    functions: { existed_at: `return true;` },
  },
  'a lead that does not attribute earlier payments': {
    ways: ['late_lead'],
    says: /partner null/,
    functions: { attribute_to_customer: `return;` },
  },
  'a forgotten session with a pending payment': {
    ways: ['captured', 'api_attribution'],
    says: /base/,
    functions: { keep_session: `return;` },
  },
  'a sale call that counts as a session': {
    ways: ['captured', 'api_sale'],
    seed: 12,
    says: /sale of/,
    functions: {
      apply_awaited_payment: `update sales s set amount_source = 'intent'
        from (select (sale_of_payments(event.account_id, false, payment_ids_of(event.fact))).*) known
        where s.program_id = known.program_id and s.id = known.id and s.amount_source = 'api';
        intact();`,
    },
  },
  'months from the first arrival instead of the first payment': {
    ways: ['duration'],
    seed: 3,
    says: /commission left/,
    functions: { correct_commissions: `if others and not itself then return '{}'; end if; intact();` },
  },
  'an ignored payment of the Payment Element': {
    ways: ['intent'],
    says: /no sale/,
    service: inIntents(() => () => Promise.resolve(unread())),
  },
  'a partly captured payment that counts in full': {
    ways: ['captured'],
    says: /sale of/,
    service: inIntents((real) => (object, ...rest) => {
      return real(changed(object, { amount_received: Object(object).amount }), ...rest)
    }),
  },
  'a captured payment without the tax of its session': {
    ways: ['captured'],
    seed: 2,
    says: /base/,
    functions: { with_session: `intact(); result := jsonb_set(result, '{sale}', fact->'sale');` },
  },
  'an amount in krónur that is a hundred times too large': {
    ways: ['odd_units'],
    seed: 23,
    says: /sale of/,
    service: inAmounts({
      stripeAmount: (real) => (amount, currency) => (currency === 'isk' ? amount : real(amount, currency)),
    }),
  },
  'a payment without the customer of its sale call': {
    ways: ['api_attribution'],
    says: /partner null/,
    functions: {
      record_sale: `if not completes and exists (
        select from sales s where s.program_id = given.program_id and s.transaction_id = given.transaction_id
      ) then
        given.customer_id := null;
      end if;
      intact();`,
    },
  },
  'a second sale under another id of a known payment': {
    ways: ['api_sale'],
    seed: 2,
    says: /2 sales/,
    functions: { known_transaction: `return given.transaction_id;`, merge_sales: `return;` },
  },
  'two sales of one payment that never become one': {
    ways: ['api_sale'],
    seed: 4,
    says: /2 sales/,
    functions: { merge_sales: `return;` },
  },
  'an API refund that the webhook repeats': {
    ways: ['api_refund'],
    seed: 6,
    says: /refunded/,
    functions: { claim_api_refunds: `return;` },
  },
  'a webhook refund that the API repeats': {
    ways: ['api_refund'],
    says: /refunded/,
    functions: { is_processors_own: `return false;` },
  },
  'an API refund that hides two webhook refunds': {
    ways: ['api_refund'],
    seed: 24,
    says: /refunded/,
    functions: {
      new_reversals: `return query select t.* from intact.new_reversals(sale, reported) t where not exists (
        select from refunds r
        where r.program_id = sale.program_id and r.sale_id = sale.id and r.refund_key = 'amount:' || t.amount_cents
      );`,
    },
  },
  'a refund of the rest that ignores a later correction': {
    ways: ['rest_refund'],
    seed: 15,
    says: /refunded/,
    functions: { grow_refund_of_rest: `return sale;` },
  },
  'a failed refund that still counts because the API reported it': {
    ways: ['api_refund'],
    seed: 6,
    says: /refunded/,
    functions: {
      give_back_refunds: `reported := array(select t from unnest(reported) t where exists (
        select from refunds r
        where r.program_id = sale.program_id and r.sale_id = sale.id and r.refund_key = 'id:' || t.reversal_id
      ));
      intact();`,
    },
  },
  'a new rule that applies to pending commissions': {
    ways: ['ruled'],
    seed: 2,
    says: /commission left/,
    functions: ruleForWaiting,
  },
  'a fixed amount that a correction forgets': {
    ways: ['ruled', 'balance', 'subscription'],
    seed: 2,
    says: /commission left/,
    functions: { correct_commission: `sale.commission_fixed_cents := null; intact();` },
  },
  'a cap that forgets earlier sales': {
    ways: ['ruled', 'subscription'],
    seed: 2,
    says: /commission left/,
    functions: { left_under_cap: `return sale.commission_cap_cents;` },
  },
  'a code that wins over a click against the program’s setting': {
    ways: ['coded'],
    seed: 5,
    says: /partner/,
    functions: codeOverClick,
  },
  'an unknown discount that is not looked up in Stripe': {
    ways: ['coded'],
    says: /no sale|partner/,
    service: inModule<typeof import('../lib/processors/stripe/read-discounts.ts')>(
      'lib/processors/stripe/read-discounts.ts',
      {
        discountFacts:
          (real) =>
          (...reported) => {
            const { asks_discounts_of: _, ...facts } = real(...reported)
            return facts
          },
      },
    ),
  },
  'a held commission that is credited': {
    ways: ['held', 'approved'],
    seed: 6,
    says: /balance/,
    functions: heldIsCredited,
  },
  'a release that does nothing': {
    ways: ['held', 'approved'],
    seed: 9,
    says: /balance/,
    functions: { close_review: `if of_decision = 'released' then return; end if; intact();` },
  },
  'a rejection that releases the commission': {
    ways: ['held'],
    seed: 2,
    says: /expected 0/,
    functions: rejectionReleases,
  },
  'a deduction that is added': { ways: ['adjusted'], seed: 2, says: /balance/, functions: deductionIsAdded },
  'a new partner without their group': {
    ways: ['joining', 'ruled'],
    seed: 33,
    says: /commission left/,
    functions: { admit_applicant: `in_group_id := null; intact();` },
  },
  'an invoice that earns according to the rule of its largest line': {
    ways: ['products'],
    says: /commission left/,
    functions: { commissions_of_lines: `parts := parts[1:1]; intact();` },
  },
  'months in the time zone of the database': {
    ways: ['zone'],
    says: /commission left/,
    functions: { months_after: `return at + make_interval(months => months);` },
  },
  'an amount without its last digit in a payment file': {
    ways: ['paid'],
    says: /file of run/,
    service: inModule<typeof import('../lib/money.ts')>('lib/money.ts', {
      decimalAmount: (real) => (cents, currency) => real(cents - (cents % 10), currency),
    }),
  },
  'payout lines that list the wrong commission for a cent': {
    ways: ['paid', 'subscription'],
    says: /in the lines of payouts/,
    functions: {
      write_payout_lines: `intact();
        update payout_lines l set amount_cents = l.amount_cents + case l.id when own.first then 1 else -1 end
        from (select min(n.id) as first, max(n.id) as last from payout_lines n
          where n.program_id = payout.program_id and n.payout_id = payout.id having count(*) > 1) own
        where l.program_id = payout.program_id and l.payout_id = payout.id and l.id in (own.first, own.last);`,
    },
  },
}

const [{ env, sql }, stripe, unplanted] = await Promise.all([startEndpoint(), startLocalStripe(), loadService()])
afterAll(() => stripe.close())

/** Returns the oracle's findings in histories from `seed` on, until one matches `says`. Throws if the mistake does not run. */
async function findIn(
  { ways, seed = 1, says, service, functions = {} }: Mistake,
  histories: number,
): Promise<string[]> {
  const takeOut = await plantInFunctions(sql, functions)
  const found: string[] = []
  try {
    const desk = openDesk(service ? await loadService([service]) : unplanted, sql, stripe, env, 1)
    const logs: string[] = []
    Object.assign(globalThis, { svcLog: (...line: unknown[]) => logs.push(line.join(' ')) })
    for (let next = seed; next < seed + histories && !found.some((line) => says.test(line)); next++)
      found.push(...(await checkPlan(desk, drawPlan(next, ways), says)))
    expect([...found, ...logs].filter((line) => unrunnable.test(line))).toEqual([])
  } finally {
    await takeOut()
  }
  return found.filter((line) => says.test(line))
}

test.each(Object.entries(mistakes))('the oracle finds %s', { timeout: 120_000 }, async (_name, mistake) => {
  expect(await findIn(mistake, 64)).not.toEqual([])
})

test('the oracle finds nothing if the planted functions equal the real ones', { timeout: 120_000 }, async () => {
  const names = Object.values(mistakes).flatMap(({ functions = {} }) => Object.keys(functions))
  const functions = Object.fromEntries(names.map((name) => [name, 'intact();']))
  const played = [...new Set(Object.values(mistakes).flatMap((mistake) => (mistake.functions ? mistake.ways : [])))]
  expect(await findIn({ ways: played, says: /./, functions }, 2)).toEqual([])
})
