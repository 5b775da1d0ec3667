import * as z from 'zod/mini'
import type { Created } from '../idempotency.ts'
import { isCurrency, maxAmountCents } from '../money.ts'
import type { Adjustment } from '../money/adjustments.ts'
import { idIn, listQuery } from './lists.ts'
import { answeredCreated, body, type Operation, refused } from './operation.ts'
import { noteField, positiveInteger } from './request-fields.ts'
import { resource } from './resource.ts'
import { currency, id, text, time } from '../response-fields.ts'

export const adjustmentsQuery = listQuery({
  partner_id: z.optional(idIn()),
  external_id: z.optional(z.string().check(z.minLength(1), z.maxLength(255))),
})

const anAmount = `must be an integer other than 0, from ${-maxAmountCents} to ${maxAmountCents}`

/** Body of POST /api/v1/adjustments. */
export const newAdjustment = z.strictObject({
  partner_id: positiveInteger(),
  amount_cents: z.int(anAmount).check(
    z.gte(-maxAmountCents, anAmount),
    z.lte(maxAmountCents, anAmount),
    z.refine((cents) => cents !== 0, anAmount),
  ),
  currency: z.optional(
    z.string().check(z.toLowerCase(), z.refine(isCurrency, 'must be a three-letter ISO 4217 currency code')),
  ),
  note: noteField(),
  transaction_id: z.optional(z.string().check(z.minLength(1), z.maxLength(255))),
  external_id: z.optional(z.string().check(z.minLength(1), z.maxLength(255))),
})

export const asNewAdjustment = (sent: z.output<typeof newAdjustment>) => ({
  partnerId: sent.partner_id,
  amountCents: sent.amount_cents,
  currency: sent.currency,
  note: sent.note,
  transactionId: sent.transaction_id,
  externalId: sent.external_id,
})

/** Renders an adjustment: a new row, or the stored result of a repeated request. */
export function asAdjustment(adjustment: Adjustment | Created<Adjustment>) {
  const {
    program_id: _,
    program_name: _program,
    partner_name: _partner,
    sale_partner_id: _sale,
    paid_at: paid,
    created_at: created,
    ...shown
  } = adjustment
  return { ...shown, paid_at: paid && new Date(paid).toISOString(), created_at: new Date(created).toISOString() }
}

const adjustment = () =>
  z.object({
    id: id(),
    partner_id: id(),
    currency: currency(),
    amount_cents: z.int(),
    note: text(),
    transaction_id: text(),
    external_id: text(),
    paid_at: z.nullable(time()),
    created_at: time(),
  })

const example = {
  id: 1,
  partner_id: 1,
  currency: 'usd',
  amount_cents: 5000,
  note: 'Bonus for the ten sales in May',
  transaction_id: null,
  external_id: 'bonus-2026-05',
  paid_at: null,
  created_at: '2026-01-01T12:05:00.000Z',
}
const fields = {
  amount_cents: 'The amount that was added to the balance. Negative for a deduction.',
  note: 'The reason. Null if the customer of the related sale has been erased.',
  paid_at: 'When it was paid out, together with all older entries.',
}

/** Describes manual commissions and deductions for the reference. */
export function adjustmentOperations(): Operation[] {
  const { create, list } = resource({
    path: '/api/v1/adjustments',
    name: 'adjustment',
    plural: 'adjustments',
    item: adjustment(),
    fields,
    example,
  })
  return [
    create({
      id: 'createAdjustment',
      summary: 'Add a manual commission or a deduction',
      description:
        'Immediately adds an amount to a partner’s balance, or deducts it, without a sale. The partner is notified and can see the note. You cannot change it later. To correct it, add another one. A deduction can bring the balance below zero. In that case, later commissions pay the debt first, and open payouts are reduced. It counts in balances and payouts, but not in the figures for sales or commissions. `not_found` if the program has no such partner or sale, `conflict` if the `external_id` is taken.',
      body: body(newAdjustment, {
        partner_id: 'The partner whose balance changes.',
        amount_cents: 'The amount in the currency’s minor unit. Negative for a deduction.',
        currency: 'Default: the program’s currency.',
        note: 'The reason. The partner sees it.',
        transaction_id: 'The related sale, if there is one.',
        external_id: 'Your own id. It must be unique in the program, and a second use is refused.',
      }),
      errors: ['not_found', 'conflict'],
      examples: [
        answeredCreated(
          'created',
          'A bonus',
          { adjustment: example },
          { partner_id: 1, amount_cents: 5000, note: example.note, external_id: example.external_id },
        ),
        refused(
          'conflict',
          'An external_id that was already used',
          {
            code: 'conflict',
            message: 'Another manual commission or deduction of this program has this external_id.',
            details: [{ field: 'external_id', message: 'must be unique in the program' }],
          },
          { partner_id: 1, amount_cents: 5000, note: 'Bonus', external_id: example.external_id },
        ),
      ],
    }),
    list({
      id: 'listAdjustments',
      summary: 'List manual commissions and deductions',
      description: 'Amounts that somebody added to or deducted from balances, newest first.',
      query: adjustmentsQuery,
      filters: {
        partner_id: 'Only entries of this partner.',
        external_id: 'Only the entry with your id.',
      },
    }),
  ]
}
