// Written by test/client-types.test.ts from what the service sends.

/** What `data` of an event holds, by its type. A field that has no value is left out. */
export interface WebhookData {
  /** A visitor whom a partner referred signed up. */
  'lead.created': { lead_id: number; partner_id: number; customer_id: number }
  /** A sale was attributed to a partner, at once or when its buyer became known. */
  'sale.created': {
    sale_id: number
    transaction_id: string
    partner_id: number
    customer_id: number
    amount_cents: number
    currency: string
    sale_type: string
    is_recurring: boolean
    subscription_id?: string | undefined
    coupon?: string | undefined
    code_id?: number | undefined
  }
  /** A sale with a partner was refunded or charged back, or a refund was reversed. */
  'sale.refunded': {
    sale_id: number
    transaction_id: string
    partner_id: number
    customer_id: number
    amount_cents: number
    currency: string
    sale_type: string
    is_recurring: boolean
    subscription_id?: string | undefined
    coupon?: string | undefined
    code_id?: number | undefined
    refunded_by_cents: number
    refunded_cents: number
    reason: 'refund' | 'chargeback'
  }
  /** A partner earned a commission, which waits until its hold ends. */
  'commission.created': {
    commission_id: number
    kind: 'sale' | 'lead'
    partner_id: number
    customer_id?: number | undefined
    sale_id?: number | undefined
    transaction_id?: string | undefined
    amount_cents: number
    reversed_cents: number
    currency: string
    hold_until: string
  }
  /** A commission was credited to the partner’s balance. */
  'commission.approved': {
    commission_id: number
    kind: 'sale' | 'lead'
    partner_id: number
    customer_id?: number | undefined
    sale_id?: number | undefined
    transaction_id?: string | undefined
    amount_cents: number
    reversed_cents: number
    currency: string
    approved_cents: number
  }
  /** A commission was reversed or restored, in part or in full. */
  'commission.reversed': {
    commission_id: number
    kind: 'sale' | 'lead'
    partner_id: number
    customer_id?: number | undefined
    sale_id?: number | undefined
    transaction_id?: string | undefined
    amount_cents: number
    reversed_cents: number
    currency: string
    reversed_by_cents: number
    is_full: boolean
    reason: 'refund' | 'chargeback' | 'rejected' | 'corrected'
  }
  /** Somebody applied to be a partner and confirmed their address. */
  'partner.applied': { application_id: number }
  /** A commission is held until a person reviews it. */
  'commission.flagged': {
    commission_id: number
    kind: 'sale' | 'lead'
    partner_id: number
    customer_id?: number | undefined
    sale_id?: number | undefined
    transaction_id?: string | undefined
    amount_cents: number
    reversed_cents: number
    currency: string
    flags: string
  }
  /** A person released a held commission, which waits until its hold ends. */
  'commission.released': {
    commission_id: number
    kind: 'sale' | 'lead'
    partner_id: number
    customer_id?: number | undefined
    sale_id?: number | undefined
    transaction_id?: string | undefined
    amount_cents: number
    reversed_cents: number
    currency: string
    hold_until: string
  }
  /** Somebody signed in as a partner for the first time, or again after they had left. */
  'partner.joined': { partner_id: number }
  /** A manual commission was added to a partner’s balance, or a deduction: its amount is below zero. */
  'adjustment.created': {
    adjustment_id: number
    partner_id: number
    sale_id?: number | undefined
    transaction_id?: string | undefined
    amount_cents: number
    currency: string
    external_id?: string | undefined
  }
  /** A payout was requested by the partner or created by a payout run. */
  'payout.requested': {
    payout_id: number
    partner_id: number
    payout_run_id?: number | undefined
    amount_cents: number
    currency: string
    status: 'requested' | 'paid' | 'refused' | 'cancelled'
    reference?: string | undefined
    paid_on?: string | undefined
  }
  /** A reversal reduced an open payout. */
  'payout.reduced': {
    payout_id: number
    partner_id: number
    payout_run_id?: number | undefined
    amount_cents: number
    currency: string
    status: 'requested' | 'paid' | 'refused' | 'cancelled'
    reference?: string | undefined
    paid_on?: string | undefined
    reduced_by_cents: number
  }
  /** A payout was marked as paid. */
  'payout.paid': {
    payout_id: number
    partner_id: number
    payout_run_id?: number | undefined
    amount_cents: number
    currency: string
    status: 'requested' | 'paid' | 'refused' | 'cancelled'
    reference?: string | undefined
    paid_on?: string | undefined
  }
  /** Somebody sent a test event, which every endpoint gets. */
  'webhook.test': { endpoint_id: number }
}

export type WebhookType = keyof WebhookData

/** What an endpoint can be told. A test event it is told anyway. */
export const webhookTypes = [
  'lead.created',
  'sale.created',
  'sale.refunded',
  'commission.created',
  'commission.approved',
  'commission.reversed',
  'commission.flagged',
  'commission.released',
  'partner.applied',
  'partner.joined',
  'adjustment.created',
  'payout.requested',
  'payout.reduced',
  'payout.paid',
] as const

/** An event of one type. */
export interface WebhookEventOf<Type extends WebhookType> {
  /** The same in every try: what came before under it can be passed over. */
  id: string
  type: Type
  /** When it happened, ISO 8601. */
  timestamp: string
  /** Of two about one sale, commission or payout, the one with the larger number came later. */
  sequence: number
  data: WebhookData[Type]
}

/** An event: `type` says what its `data` holds. */
export type WebhookEvent = { [Type in WebhookType]: WebhookEventOf<Type> }[WebhookType]
