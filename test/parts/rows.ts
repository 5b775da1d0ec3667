import type { Viewer } from '../../lib/access/viewer.ts'
import type { Explanation } from '../../lib/money/explanation-fields.ts'
import type { Happening } from '../../lib/money/sale-history.ts'
import type { ListedCommission } from '../../lib/money/commission-list.ts'
import type { Payout } from '../../lib/money/payouts.ts'
import type { ListedNotification } from '../../lib/notifications/notification-list.ts'
import type { LinkFigures } from '../../lib/programs/links.ts'
import type { DB } from '../../lib/schema.ts'
import type { PartnerCampaigns } from '../../lib/tracking/partner-campaigns.ts'
import { commissionStates } from '../../functions/dashboard/components/commission.tsx'

// Invented rows for page.tsx: every state of a row, and texts that are hard to lay out.

export const at = new Date('2026-03-14T09:26:00Z')
export const later = new Date('2126-03-15T09:26:00Z')
export const longName = 'A partner of a name as long as a name may be, which is eighty characters, no more'
export const rtlName = 'שותפים בע״מ'

export const viewer: Viewer = {
  user: { id: 'u', name: 'Ada', email: 'ada@example.com', emailVerified: false, twoFactor: false },
  sessionId: 's',
  partner: {
    name: 'Ada',
    payoutEmail: null,
    unread: 3,
    closed: [
      { name: 'Paused shop', hasEnded: false },
      { name: rtlName, hasEnded: true },
    ],
  },
  invitations: 1,
  workspaces: [{ id: 'w', name: 'Acme', role: 'owner', requiresTwoFactor: false }],
  locked: [],
  programs: [
    {
      id: 1,
      name: longName,
      domain: 'shop.example.com',
      currency: 'usd',
      workspaceId: 'w',
      createdAt: '2026-01-01T00:00:00Z',
      roles: ['owner'],
      unread: 2,
    },
  ],
}

const commission: ListedCommission = {
  program_id: 1,
  id: 1,
  kind: 'sale',
  partner_id: 1,
  customer_id: 1,
  partner_name: 'Grace',
  status: 'pending',
  currency: 'usd',
  amount_cents: 2500,
  reversed_cents: 0,
  reason: null,
  review_reason: null,
  held_at: null,
  review_decision: null,
  flags: null,
  transaction_id: 'order-1',
  sale_cents: 10_000,
  hold_until: later,
  credited_at: null,
  rejected_at: null,
  created_at: at,
  refunds: [],
}
const refund: ListedCommission['refunds'][number] = {
  amount_cents: 1000,
  reason: 'refund',
  reason_text: 'Arrived broken',
  at: at.toISOString(),
  returned: false,
}
export const commissions: ListedCommission[] = [
  ...Object.keys(commissionStates).flatMap((status) =>
    isCommissionStatus(status) ? [{ ...commission, status, reversed_cents: status === 'reversed' ? 2500 : 0 }] : [],
  ),
  { ...commission, held_at: at, flags: ['self_referral', 'one_address'] },
  { ...commission, status: 'reversed', reversed_cents: 2500, rejected_at: at, reason: 'Own order' },
  {
    ...commission,
    status: 'refunded',
    reversed_cents: 1250,
    refunds: [refund, { ...refund, reason: 'chargeback', returned: true }],
  },
  {
    ...commission,
    kind: 'lead',
    transaction_id: null,
    sale_cents: null,
    amount_cents: 9_999_999_999_999,
    currency: 'krw',
  },
]

function isCommissionStatus(text: string): text is ListedCommission['status'] {
  return Object.hasOwn(commissionStates, text)
}

export const payout: Payout = {
  program_id: 1,
  program_name: 'Acme',
  id: 1,
  partner_id: 1,
  partner_name: 'Grace',
  payout_email: 'grace@example.com',
  payout_waits_until: null,
  payout_address: null,
  currency: 'usd',
  requested_cents: 5000,
  amount_cents: 5000,
  status: 'requested',
  reason: null,
  payout_run_id: null,
  reference: null,
  paid_on: null,
  created_at: at,
  decided_at: null,
}
export const payouts: Payout[] = [
  payout,
  { ...payout, amount_cents: 3000 },
  { ...payout, status: 'paid', decided_at: at, reference: 'SEPA 2026-11', paid_on: at },
  { ...payout, status: 'refused', decided_at: at, reason: 'The address is not yours.' },
  { ...payout, status: 'cancelled', decided_at: at },
]

const payload = {
  amount_cents: 2500,
  reduced_by_cents: 500,
  currency: 'usd',
  transaction_id: 'order-1',
  url: 'https://example.com/hook',
  partners: 2,
}
/** Each kind once. The compiler checks that none is missing. */
const kinds: Record<DB['outbox']['kind'], true> = {
  commission_earned: true,
  commission_reversed: true,
  commission_refunded: true,
  commission_corrected: true,
  payout_reduced: true,
  payout_paid: true,
  payout_refused: true,
  payout_returned: true,
  commission_flagged: true,
  adjustment_added: true,
  adjustment_deducted: true,
  refund_not_converted: true,
  payment_ignored: true,
  balance_negative: true,
  paid_commission_reversed: true,
  dispute_reinstated: true,
  payout_due: true,
  application_received: true,
  processor_disconnected: true,
  webhook_disabled: true,
}
export const notifications: ListedNotification[] = Object.keys(kinds).map((kind, index) => ({
  program_id: 1,
  id: index + 1,
  kind,
  payload,
  created_at: at,
  program_name: 'Acme',
  partner_name: index % 2 === 0 ? 'Grace' : rtlName,
  read: index > 3,
}))

export const campaigns: PartnerCampaigns = {
  total: { clicks: 18, leads: 3, sales: 2, commission_cents: 2500 },
  totalFrom: undefined,
  linkLabel: undefined,
  breakdowns: [
    {
      name: 'sub1',
      from: at,
      count: 40,
      rows: [
        { value: 'footer', label: null, clicks: 12, leads: 3, sales: 2, commission_cents: 2500 },
        { value: null, label: null, clicks: 6, leads: 0, sales: 0, commission_cents: 0 },
      ],
    },
  ],
}

const link: LinkFigures = {
  id: 1,
  code: 'grace',
  page_url: null,
  is_active: true,
  clicks: 12_345,
  bot_clicks: 0,
  leads: 12,
  sales: 3,
  commission_cents: 7500,
}
export const links: LinkFigures[] = [
  link,
  { ...link, code: 'x'.repeat(64), page_url: 'https://shop.example.com/a/page/of/the/site', bot_clicks: 3 },
  { ...link, code: 'old', is_active: false, clicks: 0, leads: 0, sales: 0, commission_cents: 0 },
]

const happenings: Happening['kind'][] = [
  'recorded',
  'commission',
  'correction',
  'refund',
  'chargeback',
  'returned',
  'approved',
  'rejected',
  'paid',
  'adjusted',
  'held',
  'released',
]
export const explanation: Explanation = {
  transaction_id: 'order-1',
  is_test: true,
  attributed: true,
  summary: 'Grace referred the buyer.',
  sale: {
    sale_date: at.toISOString(),
    amount_cents: 10_000,
    tax_cents: 1900,
    commission_base_cents: 8100,
    refunded_cents: 1000,
    currency: 'usd',
    source: 'api',
  },
  partner: { id: 1, name: 'Grace' },
  link: { id: 1, code: 'grace' },
  code: null,
  customer: { click_id: 'cust_1', customer_key: 'user-1' },
  steps: [
    { step: 'customer_key', found: 'none', text: 'No customer of the program has it.' },
    { step: 'click_id', found: 'found', text: 'Found the customer.' },
  ],
  click: {
    first_at: at.toISOString(),
    latest_at: at.toISOString(),
    decided_at: at.toISOString(),
    age_seconds: 60,
    window_days: 30,
    within_window: true,
    attribution_model: 'last_click',
    text: 'The latest click was a minute before and the window was 30 days.',
    campaign: { utm_source: 'newsletter', sub1: 'footer' },
    event: {
      page_url: 'https://shop.example.com/',
      referrer_url: 'https://blog.example.org/',
      country: 'US',
      device: null,
    },
  },
  rule: {
    id: null,
    text: "The program's own terms.",
    fixed_cents: 0,
    cap_cents: null,
    commission_bp: 2500,
    commission_percent: 25,
    duration_months: 12,
    first_purchase_date: at.toISOString(),
    hold_days: 30,
  },
  commission: {
    id: 1,
    status: 'approved',
    exact: '2025',
    amount_cents: 2025,
    reversed_cents: 250,
    left_cents: 1775,
    currency: 'usd',
    text: '25 % of $81.00 is $20.25.',
  },
  lead_commission: {
    id: 2,
    amount_cents: 100,
    reversed_cents: 0,
    currency: 'usd',
    text: 'The signup on Jan 1, 2026 earned $1.00 by itself.',
  },
  payout: { id: 3, payout_run_id: 2 },
  history: happenings.map((kind, index) => ({
    at: at.toISOString(),
    kind,
    text: `The sale is ${kind}.`,
    change_cents: index % 2 === 0 ? 0 : -100,
    entry: index % 3 === 0 ? null : { number: index, amount_cents: -100, balance_cents: 1775 },
  })),
  deliveries: [],
}
/** A payment that is not a sale. */
export const unexplained: Explanation = {
  ...explanation,
  is_test: false,
  attributed: false,
  summary: 'This payment is no sale of the program.',
  sale: null,
  partner: null,
  link: null,
  customer: null,
  steps: [],
  click: null,
  rule: null,
  commission: null,
  lead_commission: null,
  history: [],
}
