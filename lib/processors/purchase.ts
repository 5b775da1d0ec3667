import { emailHashes } from '../tracking/customers.ts'
import type { Purchase, PurchaseSale } from './facts.ts'
import type { HashEmail, Names } from './payload.ts'

/** The fields of a purchase at a processor without separate sessions and invoices. */
interface Paid {
  names: Names
  email?: string | null
  customerId: string | null
  subscriptionId: string | null
  paymentIds: string[]
  /** ISO 8601. */
  startedAt: string
  settlesLead: boolean
  /** Null if nothing was paid. */
  sale:
    | (Pick<
        PurchaseSale,
        'transaction_id' | 'amount_cents' | 'commission_base_cents' | 'processor_fee_cents' | 'currency' | 'lines'
      > & { isRenewal: boolean; paidAt: string })
    | null
}

/** Returns the purchase of a payment that a single event reports. */
export async function purchaseOf(paid: Paid, hashEmail: HashEmail): Promise<Purchase> {
  const { sale, subscriptionId } = paid
  return {
    kind: 'purchase',
    ...paid.names,
    ...(await emailHashes(hashEmail, paid.email)),
    processor_customer_id: paid.customerId,
    subscription_id: subscriptionId,
    session_id: null,
    started_at: paid.startedAt,
    settles_lead: paid.settlesLead,
    awaits_payment: false,
    requested: null,
    payment_ids: paid.paymentIds,
    reported_alone: true,
    asks_invoice_of: null,
    sale: sale && {
      transaction_id: sale.transaction_id,
      amount_cents: sale.amount_cents,
      amount_source: 'invoice',
      commission_base_cents: sale.commission_base_cents,
      processor_fee_cents: sale.processor_fee_cents ?? null,
      currency: sale.currency,
      sale_type: subscriptionId === null ? 'payment' : 'subscription',
      is_recurring: sale.isRenewal,
      subscription_id: subscriptionId,
      lines: sale.lines ?? null,
      processor_invoice_id: null,
      processor_payment_intent_id: null,
      processor_charge_id: null,
      sale_date: sale.paidAt,
    },
  }
}
