import * as z from 'zod/mini'
import type { CommissionReview } from '../money/reviews.ts'
import { reviewRules } from '../review-rules.ts'
import { idIn, listParameters, listQuery, listResponse, oneOf } from './lists.ts'
import { answered, body, type Operation } from './operation.ts'
import { noteField, someIds } from './request-fields.ts'
import { cents, count, currency, id, success, text, time } from '../response-fields.ts'

const decisions = ['released', 'rejected'] as const

export const reviewsQuery = listQuery({
  state: z.optional(oneOf(['waiting', 'decided'])),
  partner_id: z.optional(idIn()),
})

/** Body of PATCH /api/v1/reviews. */
export const reviewDecision = z.strictObject({
  commission_ids: someIds(),
  decision: oneOf(decisions),
  note: noteField(),
})

/** A held commission as the API answers it. */
export function asReview(review: CommissionReview) {
  const { partner_name: _, customer_id: _customer, ...shown } = review
  return shown
}

const shownReview = () =>
  z.object({
    commission_id: id(),
    partner_id: id(),
    transaction_id: text(),
    kind: z.enum(['sale', 'lead']),
    status: z.string(),
    currency: currency(),
    amount_cents: cents(),
    reversed_cents: cents(),
    hold_until: time(),
    flagged_at: time(),
    decision: z.nullable(z.enum(decisions)),
    note: text(),
    decided_at: z.nullable(time()),
    decided_by: text(),
    flags: z.array(
      z.object({
        rule: z.enum(reviewRules),
        evidence: z.optional(z.record(z.string(), z.union([z.string(), z.number(), z.null()]))),
      }),
    ),
  })
const fields = {
  status: 'Of the commission: `pending` while it is held.',
  flags:
    'What was found: `self_referral`, the customer has an e-mail address of the partner, but for a tag after `+` and the dots of Gmail’s; `one_address`, five or more signups of the partner from one address within a day; `no_page_view`, the click names no page while the program’s others do; `bot`, the click was a bot’s; `paid_ads`, a paid ad brought it (only of a click whose `affiliate_url` is the whole address: the tag sends nothing of ads). `evidence` says what matched, how often and when; it goes with a customer who is erased.',
  decision: 'Null until a person decides.',
  note: 'Why.',
  decided_by: 'The person’s address, or the name of the key.',
}
const path = '/api/v1/reviews'

/** Commissions that are held, as the reference shows them. */
export const reviewOperations = (): Operation[] => [
  {
    id: 'listReviews',
    method: 'get',
    path,
    summary: 'List held commissions',
    description:
      'Commissions that look as if they were not earned, the newest first. Each is held with what was found: it is not credited, whatever its hold, until somebody decides.',
    auth: 'key',
    scope: 'read',
    parameters: [
      listParameters(reviewsQuery, {
        state: { description: 'Only those that wait for a decision, or that were decided on.' },
        partner_id: { description: 'Only those of this partner.', values: { type: 'integer', minimum: 1 } },
      }),
    ],
    success: { schemas: [listResponse(shownReview())], description: 'A page of them.', fields },
    examples: [answered('none', 'None is held', { data: [], next_cursor: null })],
  },
  {
    id: 'decideReviews',
    method: 'patch',
    path,
    summary: 'Decide on held commissions',
    description:
      'Releases held commissions, which are then credited when their hold ends, or rejects them permanently, up to 100 in one transaction. The note is kept with who decided, and partners read that of a rejection. `changed` is how many were decided on: those that somebody else decided on before stay as they are. What a person released of a customer is not held for the same again.',
    auth: 'key',
    scope: 'manage',
    body: body(reviewDecision, {
      commission_ids: 'Ids of held commissions, 1 to 100.',
      decision: 'What becomes of them.',
      note: 'Why.',
    }),
    success: {
      schemas: [z.object({ success: success(), changed: count(), data: z.array(shownReview()) })],
      description: 'Those that were named and ever held, as they are now.',
      fields,
    },
    examples: [
      answered(
        'unchanged',
        'One that is not held',
        { changed: 0, data: [] },
        { commission_ids: [1000], decision: 'released', note: 'Known customer' },
      ),
    ],
  },
]
