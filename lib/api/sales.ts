import * as z from 'zod/mini'
import { commissionStatuses } from '../money/commission-list.ts'
import { fromTo, fromToFields, toNotBeforeFrom, updatedSince, updatedSinceField } from './date-range.ts'
import { filterText, idIn, listQuery, oneOf } from './lists.ts'
import { exampleClickId, type Operation } from './operation.ts'
import { resource } from './resource.ts'
import { cents, clickId, currency, id, text, time } from '../response-fields.ts'

const test = () =>
  z.optional(
    z.pipe(
      oneOf(['true', 'false']),
      z.transform((word: 'true' | 'false') => word === 'true'),
    ),
  )

export const salesQuery = listQuery({
  customer_key: filterText(),
  click_id: filterText(),
  partner_id: z.optional(idIn()),
  test: test(),
  ...fromTo,
  ...updatedSince,
}).check(toNotBeforeFrom)

export const salePath = z.object({ transaction_id: z.string().check(z.maxLength(255)) })
export const saleQuery = z.strictObject({ test: test() })

const sale = () =>
  z.object({
    id: id(),
    transaction_id: z.string(),
    is_test: z.boolean(),
    sale_date: time(),
    updated_at: time(),
    partner_id: z.nullable(id()),
    click_id: z.nullable(clickId()),
    customer_key: text(),
    amount_cents: cents(),
    refunded_cents: cents(),
    currency: currency(),
    sale_type: z.string(),
    payment_status: z.string(),
    is_recurring: z.boolean(),
    subscription_id: text(),
    coupon: text(),
    code_id: z.nullable(id()),
    commission: z.nullable(
      z.object({ id: id(), status: z.enum(commissionStatuses), amount_cents: cents(), reversed_cents: cents() }),
    ),
  })

const example = {
  id: 1,
  transaction_id: 'order-1001',
  is_test: false,
  sale_date: '2026-01-01T12:05:00.000Z',
  updated_at: '2026-01-01T12:05:00.000Z',
  partner_id: 1,
  click_id: exampleClickId,
  customer_key: 'user-1',
  amount_cents: 4900,
  refunded_cents: 0,
  currency: 'usd',
  sale_type: 'payment',
  payment_status: 'paid',
  is_recurring: false,
  subscription_id: null,
  coupon: null,
  code_id: null,
  commission: { id: 1, status: 'pending', amount_cents: 980, reversed_cents: 0 },
}
const fields = {
  partner_id: 'Null for an unattributed sale, which earns nothing.',
  coupon: 'The coupon of the sale call, whether or not a partner has this code.',
  code_id: 'The partner’s code that attributed the sale, or that was given in addition to their link.',
  refunded_cents: 'The amount that was refunded or charged back.',
  commission: 'The partner’s commission and its reversed part.',
  updated_at: 'When the sale last changed. A change to only the commission does not count.',
}
export const testParameter = {
  description: '`true` for test sales instead of live ones.',
  values: { type: 'boolean' },
}

/** Describes sales for the reference. */
export function saleOperations(): Operation[] {
  const description = 'The `transaction_id` of the sale, percent-encoded.'
  const inPath = {
    in: 'path',
    schema: salePath,
    fields: { transaction_id: { description, example: 'order-1001' } },
  } as const
  const { list, get } = resource({
    path: '/api/v1/sales',
    name: 'sale',
    plural: 'sales',
    item: sale(),
    fields,
    example,
    inPath,
  })
  return [
    list({
      id: 'listSales',
      summary: 'List sales',
      description: 'Lists the program’s sales in their current state, newest first, including unattributed sales.',
      query: salesQuery,
      filters: {
        customer_key: 'Only sales to the customer with your id.',
        click_id: 'Only sales to the customer with this click id.',
        partner_id: 'Only sales of this partner.',
        test: testParameter,
        ...fromToFields('sales'),
        ...updatedSinceField('sales'),
      },
    }),
    get({
      id: 'getSale',
      summary: 'Read a sale',
      description: 'One sale by its transaction id.',
      parameters: [inPath, { in: 'query', schema: saleQuery, fields: { test: testParameter } }],
    }),
  ]
}
