import * as z from 'zod/mini'
import type { CommissionReview } from '../money/reviews.ts'
import { reviewRules } from '../review-rules.ts'
import { idIn, listQuery, oneOf } from './lists.ts'
import { answered, body, type Operation } from './operation.ts'
import { noteField, someIds } from './request-fields.ts'
import { resource } from './resource.ts'
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

/** Renders a held commission. */
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
  status: 'The commission’s status: `pending` while it is held.',
  flags:
    'The matching rules. `self_referral`: the customer has the partner’s e-mail address, ignoring a tag after `+` and Gmail’s dots. `one_address`: five or more of the partner’s signups came from one IP address within a day. `no_page_view`: the click has no page address, but the program’s other clicks have one. `bot`: a bot made the click. `paid_ads`: the click came from a paid ad (only if `affiliate_url` is the full address; the tag sends no ad parameters). `evidence` says what matched, how often and when; it is deleted when the customer is erased.',
  decision: 'Null until somebody decides.',
  note: 'The reason.',
  decided_by: 'The member’s address, or the name of the key.',
}

/** Describes held commissions for the reference. */
export function reviewOperations(): Operation[] {
  const { list, change } = resource({
    path: '/api/v1/reviews',
    name: 'review',
    plural: 'held commissions',
    item: shownReview(),
    fields,
    example: {},
  })
  return [
    list({
      id: 'listReviews',
      summary: 'List held commissions',
      description:
        'Lists suspicious commissions and the rules that they matched, newest first. A held commission is not credited until somebody decides, even if its hold period ends.',
      query: reviewsQuery,
      filters: { state: 'Only waiting or decided reviews.', partner_id: 'Only commissions for this partner.' },
      examples: [answered('none', 'No commission is held', { data: [], next_cursor: null })],
    }),
    change({
      id: 'decideReviews',
      summary: 'Decide on held commissions',
      description:
        'Releases or permanently rejects up to 100 held commissions in one transaction. Released commissions are credited when their hold period ends. The note is stored with the name of the person or key that decided, and partners can see the note of a rejection. `changed` is the number of commissions that were decided. Earlier decisions do not change. After a release, the same rule does not hold the same customer’s commissions again.',
      body: body(reviewDecision, {
        commission_ids: 'Ids of held commissions, 1 to 100.',
        decision: 'The decision: `released` or `rejected`.',
        note: 'The reason.',
      }),
      success: {
        schemas: [z.object({ success: success(), changed: count(), data: z.array(shownReview()) })],
        description: 'Those of the requested commissions that have ever been held, in their current state.',
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
    }),
  ]
}
