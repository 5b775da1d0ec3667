import * as z from 'zod/mini'
import { amountOrZero } from './amount-fields.ts'
import { answered, body, type Operation, refused } from './operation.ts'
import { key, text } from './request-fields.ts'
import { cents, currency, id, success } from '../response-fields.ts'

/** Body of POST /api/v1/track/refund. */
export const refundRequest = z.object({
  transaction_id: key(),
  refund_amount_cents: z.nullish(amountOrZero()),
  refund_id: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
  refund_reason: text(1000),
  reason: z.nullish(z.enum(['refund', 'chargeback'])),
})

const refundResponse = () =>
  z.union([
    z.object({
      success: success(),
      status: z.enum(['reversed', 'refunded']),
      deductionAmount: z.number(),
      deduction_cents: cents(),
      currency: currency(),
      commission_id: id(),
    }),
    z.object({
      success: success(),
      status: z.literal('skipped'),
      reason: z.enum(['already_reversed', 'refund_already_applied']),
      commission_id: id(),
    }),
    z.object({ success: success(), status: z.literal('no_commission'), message: z.string() }),
  ])

/** How the reference describes it. It is a function so that a bundle that does not call it leaves it out. */
export const trackRefund = (): Operation => ({
  id: 'trackRefund',
  method: 'post',
  path: '/api/v1/track/refund',
  summary: 'Record a refund or chargeback',
  description:
    'Reverses the commission of a sale in proportion to what was refunded of it. One call for each refund. Without `refund_id` a second call with the same amount is taken for a retry and ignored, and a refund of this amount that the connected payment processor tells is the same one.',
  auth: 'key',
  body: body(refundRequest, {
    transaction_id: 'The `transaction_id` of the sale.',
    refund_amount_cents: 'Amount of this refund, not a running total. Absent or 0: all that is left.',
    refund_id: 'Your id of this refund. A repeated one is ignored. Not used where all that is left is refunded.',
    refund_reason: 'Kept with the commission and told to the partner.',
    reason: 'Kept as the reason where `refund_reason` is absent or empty. Default `refund`.',
  }),
  success: {
    schemas: [refundResponse()],
    description:
      '`refunded` while part of the sale remains, `reversed` once all is refunded; `skipped` where there is nothing to do; `no_commission` where the sale has none. `deductionAmount` is the commission that this call reversed, in the major unit of its currency.',
  },
  errors: ['not_found'],
  examples: [
    answered(
      'partial',
      'Part of a sale',
      {
        status: 'refunded',
        deductionAmount: 4.9,
        deduction_cents: 490,
        currency: 'usd',
        commission_id: 1,
      },
      { transaction_id: 'order-1001', refund_amount_cents: 2450, refund_id: 're_1', refund_reason: 'Damaged' },
    ),
    answered(
      'repeated',
      'The same refund again',
      { status: 'skipped', reason: 'refund_already_applied', commission_id: 1 },
      { transaction_id: 'order-1001', refund_amount_cents: 2450, refund_id: 're_1' },
    ),
    answered(
      'rest',
      'All that is left',
      {
        status: 'reversed',
        deductionAmount: 4.9,
        deduction_cents: 490,
        currency: 'usd',
        commission_id: 1,
      },
      { transaction_id: 'order-1001', reason: 'chargeback' },
    ),
    answered(
      'no_commission',
      'A sale without commission',
      {
        status: 'no_commission',
        message: 'The sale earned no commission, so none was reversed.',
      },
      { transaction_id: 'order-1003' },
    ),
    refused(
      'not_found',
      'A sale that is not the program’s',
      { code: 'not_found', message: 'This program has no sale with the transaction_id "order-9999".' },
      { transaction_id: 'order-9999' },
    ),
  ],
})
