import * as z from 'zod/mini'
import { customerStates, type ListedCustomer } from '../tracking/customer-list.ts'
import { fromTo, fromToFields, toNotBeforeFrom, updatedSince, updatedSinceField } from './date-range.ts'
import { filterText, idIn, listQuery, oneOf } from './lists.ts'
import { exampleClickId, type Operation } from './operation.ts'
import { resource } from './resource.ts'
import { clickId, id, text, time } from '../response-fields.ts'

export const customersQuery = listQuery({
  status: z.optional(oneOf(customerStates)),
  customer_key: filterText(),
  partner_id: z.optional(idIn()),
  ...fromTo,
  ...updatedSince,
}).check(toNotBeforeFrom)

/** A click id, or the integrator's own id. */
export const customerPath = z.object({ customer: z.string().check(z.maxLength(255)) })

/** Renders a customer. */
export function asCustomer({ provisional_lead_at: provisional, ...customer }: ListedCustomer) {
  return { ...customer, is_provisional_lead: provisional !== null && customer.signup_date === null }
}

const customer = () =>
  z.object({
    id: id(),
    click_id: clickId(),
    customer_key: text(),
    status: z.enum(customerStates),
    partner_id: id(),
    link_id: z.nullable(id()),
    last_click_at: z.nullable(time()),
    is_provisional_lead: z.boolean(),
    signup_date: z.nullable(time()),
    first_purchase_date: z.nullable(time()),
    created_at: time(),
    updated_at: time(),
  })

const example = {
  id: 1,
  click_id: exampleClickId,
  customer_key: 'user-1',
  status: 'conversion',
  partner_id: 1,
  link_id: 2,
  last_click_at: '2026-01-01T12:00:00.000Z',
  is_provisional_lead: false,
  signup_date: '2026-01-01T12:02:00.000Z',
  first_purchase_date: '2026-01-01T12:05:00.000Z',
  created_at: '2026-01-01T12:00:00.000Z',
  updated_at: '2026-01-01T12:05:00.000Z',
}
const fields = {
  status: 'The furthest step that the customer reached: `click`, `lead` or `conversion`.',
  customer_key: 'Your id for the customer. Null until you send it with a lead or a sale.',
  updated_at: 'When the customer last changed. A further click does not count as a change.',
  link_id: 'Null if a partner’s code referred them.',
  last_click_at: 'Null if they never clicked.',
  is_provisional_lead: 'Whether a browser reported a signup that no server has confirmed yet.',
}

/** Describes customers for the reference. */
export function customerOperations(): Operation[] {
  const description = 'A click id, `cust_…`, or a customer key, percent-encoded.'
  const { list, get } = resource({
    path: '/api/v1/customers',
    name: 'customer',
    plural: 'customers',
    item: customer(),
    fields,
    example,
    inPath: { in: 'path', schema: customerPath, fields: { customer: { description, example: exampleClickId } } },
  })
  return [
    list({
      id: 'listCustomers',
      summary: 'List customers',
      description:
        'People who came through a referral link or a code, newest first. Customers who only clicked are deleted when the attribution window ends. E-mail addresses are not stored.',
      query: customersQuery,
      filters: {
        status: 'Only customers in this state.',
        customer_key: 'Only the customer with your id.',
        partner_id: 'Only leads and buyers of this partner. The performance figures include their other visitors.',
        ...fromToFields('customers'),
        ...updatedSinceField('leads and buyers'),
      },
    }),
    get({ id: 'getCustomer', summary: 'Read a customer', description: 'One customer, by click id or by your own id.' }),
  ]
}
