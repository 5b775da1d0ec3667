import { checkoutSession, invoice, type Shop } from '../../lib/local/stripe-events.ts'

/** Stripe's objects for a shop's first payment of 100.00 dollars. Tests add their own fields. */
export const paidBy = { payment_intent: 'pi_1', charge: 'ch_1' }

/** The session of a single payment. */
export const oneTime = (shop: Shop, more: Partial<Parameters<typeof checkoutSession>[1]> = {}) =>
  checkoutSession(shop, { id: 'cs_1', total: 10_000, payment_intent: 'pi_1', ...more })

/** The session of a subscription's first payment. */
export const firstPayment = (shop: Shop, more: Partial<Parameters<typeof checkoutSession>[1]> = {}) =>
  checkoutSession(shop, {
    id: 'cs_1',
    mode: 'subscription',
    total: 10_000,
    invoice: 'in_1',
    subscription: 'sub_1',
    ...more,
  })

/** The subscription's invoice, which is a renewal unless the fields say otherwise. */
export const bill = (shop: Shop, more: Partial<Parameters<typeof invoice>[1]> = {}) =>
  invoice(shop, { id: 'in_1', subscription: 'sub_1', amount_paid: 10_000, ...paidBy, ...more })
