import * as z from 'zod/mini'
import { commissionReason } from '../commission-reasons.ts'
import { commissionSorts, commissionStatuses, type ListedCommission } from '../money/commission-list.ts'
import { fromTo, fromToFields, toNotBeforeFrom, updatedSince, updatedSinceField } from './date-range.ts'
import { filterText, idIn, idParameter, listQuery, oneOf } from './lists.ts'
import { answered, body, type Operation, refused } from './operation.ts'
import { someIds } from './request-fields.ts'
import { resource } from './resource.ts'
import { cents, count, currency, id, success, text, time } from '../response-fields.ts'

export const commissionsQuery = listQuery({
  status: z.optional(oneOf(commissionStatuses)),
  partner_id: z.optional(idIn()),
  transaction_id: filterText(),
  sort: z.optional(oneOf(commissionSorts)),
  ...fromTo,
  ...updatedSince,
}).check(toNotBeforeFrom)

export const commissionPath = z.object({ commission_id: idIn() })

const decision = {
  status: oneOf(['approved', 'rejected']),
  reason: z.optional(z.string().check(z.minLength(1), z.maxLength(1000))),
}
const reasonToReject = () =>
  z.refine<{ status: string; reason?: string | undefined }>(
    ({ status, reason }) => (status === 'rejected') === (reason !== undefined),
    { path: ['reason'], error: 'must be given to reject, and only then' },
  )

/** Body of PATCH /api/v1/commissions/{commission_id}. */
export const commissionDecision = z.strictObject(decision).check(reasonToReject())

/** Body of PATCH /api/v1/commissions. */
export const commissionDecisions = z
  .strictObject({
    ids: someIds(),
    ...decision,
  })
  .check(reasonToReject())

/** Renders a commission. */
export function asCommission(commission: ListedCommission) {
  const { program_id: _, partner_name: _name, customer_id: _customer, refunds: _refunds, ...shown } = commission
  return { ...shown, reason: commissionReason(shown.reason) }
}

const commission = () =>
  z.object({
    id: id(),
    kind: z.enum(['sale', 'lead']),
    partner_id: id(),
    status: z.enum(commissionStatuses),
    currency: currency(),
    amount_cents: cents(),
    reversed_cents: cents(),
    reason: text(),
    review_reason: text(),
    held_at: z.nullable(time()),
    review_decision: z.nullable(z.enum(['released', 'rejected'])),
    flags: z.nullable(z.array(z.string())),
    transaction_id: text(),
    sale_cents: z.nullable(cents()),
    hold_until: time(),
    credited_at: z.nullable(time()),
    rejected_at: z.nullable(time()),
    is_shadow: z.boolean(),
    payout_id: z.nullable(id()),
    created_at: time(),
    updated_at: time(),
  })

const example = {
  id: 1,
  kind: 'sale',
  partner_id: 1,
  status: 'pending',
  currency: 'usd',
  amount_cents: 980,
  reversed_cents: 0,
  reason: null,
  review_reason: null,
  held_at: null,
  review_decision: null,
  flags: null,
  transaction_id: 'order-1001',
  sale_cents: 4900,
  hold_until: '2026-01-31T12:05:00.000Z',
  credited_at: null,
  rejected_at: null,
  is_shadow: false,
  payout_id: null,
  created_at: '2026-01-01T12:05:00.000Z',
  updated_at: '2026-01-01T12:05:00.000Z',
}
const fields = {
  status:
    '`pending` until its hold ends or somebody approves it. Then it is `approved` and credited to the balance, and later `paid`. It is `refunded` if a part was reversed, and `reversed` if all of it was.',
  amount_cents: 'The original amount. `reversed_cents` is the part that was reversed.',
  reason: 'The reason for a reversal or rejection.',
  held_at: 'When it was put on hold for review. It is not credited until somebody decides. Its status stays `pending`.',
  flags: 'The review rules that flagged it, or null. See [the evidence](#listReviews).',
  payout_id: 'The payout that paid it. If several payouts paid parts of it, the last one.',
  is_shadow:
    'Whether it was computed in shadow mode. In that case, it is never credited, and the partner does not see it.',
  review_reason: '`unverified_customer` if only a browser identified the customer.',
}
const path = '/api/v1/commissions'

/** Describes commissions for the reference. */
export function commissionOperations(): Operation[] {
  const { list, change } = resource({
    path,
    name: 'commission',
    plural: 'commissions',
    item: commission(),
    fields,
    example,
    inPath: idParameter('commission_id', 'Id of the commission.', 2),
  })
  return [
    list({
      id: 'listCommissions',
      summary: 'List commissions',
      description: 'The commissions of the program, newest first.',
      query: commissionsQuery,
      filters: {
        status: 'Only commissions in this state.',
        partner_id: 'Only commissions for this partner.',
        transaction_id: 'Only the commission for this sale.',
        sort: '`newest` first (default), largest `amount` first, or next end of `hold` first.',
        ...fromToFields('commissions'),
        ...updatedSinceField('commissions'),
      },
    }),
    change({
      id: 'decideCommissions',
      path,
      parameters: [],
      summary: 'Approve or reject several commissions',
      description:
        'Approves or rejects up to 100 commissions in one transaction. All rejections have the same reason. Commissions that were already approved, rejected or reversed are skipped, and so are unknown ids. `changed` is the number of commissions that changed.',
      body: body(commissionDecisions, {
        ids: 'Ids of commissions, 1 to 100.',
        status: 'The decision: `approved` or `rejected`.',
        reason: 'The reason for rejection. The partners see it.',
      }),
      success: {
        schemas: [
          z.object({ success: success(), changed: count(), data: z.array(commission()), unknown_ids: z.array(id()) }),
        ],
        description: 'The commissions in their current state, newest first.',
        fields: { ...fields, unknown_ids: 'Ids of unknown commissions.' },
      },
      examples: [
        answered(
          'unchanged',
          'An unknown id',
          { changed: 0, data: [], unknown_ids: [1000] },
          { ids: [1000], status: 'rejected', reason: 'Orders that were never shipped' },
        ),
      ],
    }),
    change({
      id: 'decideCommission',
      summary: 'Approve or reject a commission',
      description:
        'Approving credits the commission to the partner’s balance before its hold ends. Rejecting permanently reverses the rest of it, at any time, and sends the partner the reason. Repeating a decision has no effect. Returns `conflict` if the commission was already rejected or fully reversed.',
      body: body(commissionDecision, {
        status: 'The decision: `approved` or `rejected`.',
        reason: 'The reason for rejection. The partner sees it.',
      }),
      errors: ['conflict'],
      examples: [
        answered(
          'approved',
          'Credited before its hold ends',
          {
            commission: {
              ...example,
              id: 2,
              transaction_id: 'in_1002',
              amount_cents: 580,
              sale_cents: 2900,
              status: 'approved',
              credited_at: '2026-01-02T12:00:00.000Z',
            },
          },
          { status: 'approved' },
        ),
        refused(
          'invalid_request',
          'Rejected without a reason',
          {
            code: 'invalid_request',
            message: 'The request was not accepted: reason must be given to reject, and only then.',
            details: [{ field: 'reason', message: 'must be given to reject, and only then' }],
          },
          { status: 'rejected' },
        ),
      ],
    }),
  ]
}
