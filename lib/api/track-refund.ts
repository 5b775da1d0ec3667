import * as z from 'zod/mini'
import { amountOrZero } from './amount-fields.ts'
import { answered, body, ignoredText, type Operation, refused } from './operation.ts'
import { key, text } from './request-fields.ts'
import { cents, currency, id, ignored, success } from '../response-fields.ts'

const knownFields = {
  transaction_id: key(),
  refund_amount_cents: z.nullish(amountOrZero()),
  refund_id: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
  refund_reason: text(1000),
  reason: z.nullish(z.enum(['refund', 'chargeback'])),
}

/** Body of POST /api/v1/track/refund. */
export const refundRequest = z.looseObject(knownFields).check(({ value, issues }) => {
  // An amount in an unknown field is refused. Without this check, the call would refund the whole sale.
  const unknown = Object.keys(value).find((name) => /amount|cents/i.test(name) && !Object.hasOwn(knownFields, name))
  if (unknown === undefined) return
  const message = `must be sent instead of ${unknown.slice(0, 100)}`
  issues.push({ code: 'custom', path: ['refund_amount_cents'], message, input: unknown })
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
      ignored_fields: ignored(),
    }),
    z.object({
      success: success(),
      status: z.literal('skipped'),
      reason: z.enum(['already_reversed', 'refund_already_applied']),
      commission_id: id(),
      ignored_fields: ignored(),
    }),
    z.object({
      success: success(),
      status: z.literal('no_commission'),
      message: z.string(),
      ignored_fields: ignored(),
    }),
  ])

export const trackRefund = (): Operation => ({
  id: 'trackRefund',
  method: 'post',
  path: '/api/v1/track/refund',
  summary: 'Record a refund or chargeback',
  description:
    'Reverses the commission of a sale in proportion to the refund. Send one call for each refund. Without `refund_id`, a second call with the same amount counts as a retry and is ignored. If the connected payment processor reports a refund of the same amount, before or after this call, both count as one refund, regardless of the `refund_id`. An unknown field with an amount, such as `amount`, is refused.',
  auth: 'key',
  body: body(refundRequest, {
    transaction_id: 'The `transaction_id` of the sale.',
    refund_amount_cents:
      'The amount of this refund only, not the total so far. If it is omitted or 0, the rest of the sale is refunded.',
    refund_id:
      'Your id for this refund. A repeated id is ignored. The id has no effect if the rest of the sale is refunded.',
    refund_reason: 'Stored with the commission and shown to the partner.',
    reason: 'Stored as the reason if `refund_reason` is omitted or empty. Default `refund`.',
  }),
  success: {
    schemas: [refundResponse()],
    description:
      '`refunded` while a part of the sale remains, `reversed` when all is refunded, `skipped` if there is nothing to do, `no_commission` if the sale has none. `deductionAmount` is the commission that this call reversed, in the major unit of its currency.',
    fields: ignoredText,
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
      'The rest of the sale',
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
      'unknown_amount',
      'An amount in an unknown field',
      {
        code: 'invalid_request',
        message: 'The request was not accepted: refund_amount_cents must be sent instead of amount_cents.',
        details: [{ field: 'refund_amount_cents', message: 'must be sent instead of amount_cents' }],
      },
      { transaction_id: 'order-1001', amount_cents: 100 },
    ),
    refused(
      'not_found',
      'An unknown sale',
      { code: 'not_found', message: 'This program has no sale with the transaction_id "order-9999".' },
      { transaction_id: 'order-9999' },
    ),
  ],
})
