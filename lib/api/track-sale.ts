import * as z from 'zod/mini'
import { isCurrency } from '../money.ts'
import { amount, amountOrZero } from './amount-fields.ts'
import { additionalDataText, aliasOf, answered, body, ignoredText, type Operation, refused } from './operation.ts'
import { additionalData, key, text } from './request-fields.ts'
import { cents, currency, id, ignored, success } from '../response-fields.ts'

interface Taxes {
  tax_cents?: number | null | undefined
  tax?: number | null | undefined
}

/** Returns the tax of a sale. The field has two names. */
export const taxOf = ({ tax_cents, tax }: Taxes): number => tax_cents ?? tax ?? 0

/** Body of POST /api/v1/track/sale. */
export const saleRequest = z
  .object({
    transaction_id: key(),
    customer_key: key(),
    amount_cents: amount(),
    tax_cents: z.nullish(amountOrZero()),
    tax: z.nullish(amountOrZero()),
    currency: z.nullish(z.string().check(z.toLowerCase(), z.refine(isCurrency, 'must be an ISO 4217 currency code'))),
    click_id: text(255),
    clickId: text(255),
    coupon: text(255),
    is_recurring: z.nullish(z.boolean()),
    isRecurring: z.nullish(z.boolean()),
    sale_type: z.nullish(z.string().check(z.minLength(1), z.maxLength(64))),
    saleType: z.nullish(z.string().check(z.minLength(1), z.maxLength(64))),
    subscription_id: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
    subscriptionId: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
    additional_data: additionalData(),
    correct_currency: z.nullish(z.boolean()),
  })
  .check(
    z.refine(({ amount_cents: whole, ...taxes }) => !taxOf(taxes) || taxOf(taxes) <= whole, {
      error: 'must not be more than amount_cents, because amount_cents includes it',
      path: ['tax_cents'],
    }),
  )

const saleResponse = () =>
  z.object({
    success: success(),
    sale_id: id(),
    transaction_id: z.string(),
    attributed: z.boolean(),
    commission_id: z.nullable(id()),
    commission_cents: cents(),
    currency: currency(),
    warning: z.optional(z.string()),
    ignored_fields: ignored(),
    test_mode: z.optional(z.literal(true)),
  })

const exampleSale = {
  sale_id: 1,
  transaction_id: 'order-1001',
  attributed: true,
  commission_id: 1,
  commission_cents: 980,
  currency: 'usd',
}

export const trackSale = (): Operation => ({
  id: 'trackSale',
  method: 'post',
  path: '/api/v1/track/sale',
  summary: 'Record a sale',
  description:
    'Records a sale and its partner’s commission. The sale is attributed by `customer_key`, or else by a valid `click_id` or a partner’s `coupon`. Only call it from a server. The `transaction_id` identifies a sale. Any id that the connected payment processor has for the payment (invoice, payment intent, charge, checkout session) identifies the sale too. A repeated call gets a 409 and is not counted again. It adds the customer if the stored sale had none.',
  auth: 'key',
  body: body(saleRequest, {
    transaction_id:
      'Your own id for the sale. Never use it for another sale. A second call with it gets a 409 with the `sale_id`, `commission_id` and `attributed` of the stored sale. `same_payload` says whether both calls match.',
    customer_key: 'Your id for the user, the same as in the lead.',
    amount_cents: 'The paid amount in the currency’s minor unit.',
    tax_cents: "The tax that is included in the amount. It doesn't earn a commission. Default 0.",
    tax: aliasOf('tax_cents'),
    currency: 'ISO 4217 code. Default: the program’s currency.',
    click_id: 'The visitor’s click id, if the customer was never a lead.',
    clickId: aliasOf('click_id'),
    coupon:
      'The code that the buyer used. If it is a partner’s code, the partner gets the sale, with or without a click. The program can let a click decide instead. Unknown codes have no effect.',
    is_recurring: 'Whether the sale is a renewal of a subscription.',
    isRecurring: aliasOf('is_recurring'),
    sale_type: 'Default `payment`, or `subscription` for recurring sales.',
    saleType: aliasOf('sale_type'),
    subscription_id: 'Your id for the subscription.',
    subscriptionId: aliasOf('subscription_id'),
    additional_data: additionalDataText,
    correct_currency:
      'Corrects a sale that was sent in the wrong currency. Send it again with the same `transaction_id` and `customer_key`, and the correct `currency` and `amount_cents`. This works until the commission is approved, unless the payment processor reported the sale. After that, the response is 409.',
  }),
  success: {
    schemas: [saleResponse()],
    description:
      'The sale was recorded. `attributed: false` means that it has no partner and no commission. There is a `warning` if the sale is not in the program’s currency.',
    fields: ignoredText,
  },
  errors: ['duplicate_transaction'],
  examples: [
    answered('sale', 'A first payment', exampleSale, {
      transaction_id: 'order-1001',
      customer_key: 'user-1',
      amount_cents: 4900,
      currency: 'usd',
    }),
    answered(
      'renewal',
      'A renewal of a subscription',
      { ...exampleSale, sale_id: 2, transaction_id: 'in_1002', commission_id: 2, commission_cents: 580 },
      {
        transaction_id: 'in_1002',
        customer_key: 'user-1',
        amount_cents: 2900,
        is_recurring: true,
        sale_type: 'subscription',
        subscription_id: 'sub_1',
      },
    ),
    answered(
      'coupon',
      'A sale without a click, by a partner’s code',
      { ...exampleSale, sale_id: 6, transaction_id: 'order-1006', commission_id: 4 },
      { transaction_id: 'order-1006', customer_key: 'user-10', amount_cents: 4900, coupon: 'JANE20' },
    ),
    answered(
      'unattributed',
      'An unattributed sale',
      {
        ...exampleSale,
        sale_id: 3,
        transaction_id: 'order-1003',
        attributed: false,
        commission_id: null,
        commission_cents: 0,
      },
      { transaction_id: 'order-1003', customer_key: 'user-9', amount_cents: 1000 },
    ),
    answered(
      'other_currency',
      'A sale that is not in the program’s currency',
      {
        sale_id: 4,
        transaction_id: 'order-1004',
        attributed: true,
        commission_id: 3,
        commission_cents: 200,
        currency: 'eur',
        warning:
          "This sale is in EUR, and the program's currency is USD. It is recorded: its commission is earned and paid in EUR, and the program's figures in USD exclude it. If EUR is a mistake, refund this sale and send it in USD.",
      },
      { transaction_id: 'order-1004', customer_key: 'user-1', amount_cents: 1000, currency: 'eur' },
    ),
    answered(
      'test',
      'A test sale',
      { ...exampleSale, sale_id: 5, commission_id: null, commission_cents: 0, test_mode: true },
      {
        transaction_id: 'order-1001',
        customer_key: 'user-1',
        amount_cents: 4900,
        additional_data: { test_mode: true },
      },
    ),
    refused(
      'duplicate_transaction',
      'The same sale again, which is already recorded',
      {
        code: 'duplicate_transaction',
        message:
          'A sale with the transaction_id "order-1001" is already recorded. Treat this as done, or send another transaction_id.',
        sale_id: 1,
        same_payload: true,
        attributed: true,
        commission_id: 1,
      },
      { transaction_id: 'order-1001', customer_key: 'user-1', amount_cents: 4900, currency: 'usd' },
    ),
  ],
})
