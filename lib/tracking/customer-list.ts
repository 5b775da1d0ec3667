import { type InferResult, sql } from 'kysely'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type Part, partOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'

export type ListedCustomer = InferResult<ReturnType<typeof customersStatement>>[number]
export const customerStates = ['click', 'lead', 'conversion'] as const

interface CustomerList extends Part {
  status?: (typeof customerStates)[number] | undefined
  click_id?: string | undefined
  customer_key?: string | undefined
  /** Only leads and buyers that count for this partner. */
  partner_id?: number | undefined
  /** Created in this range, which excludes `to`. */
  from?: Date | undefined
  to?: Date | undefined
  updated_since?: Date | undefined
}

/** Customers with more than a click, including provisional leads from a browser. There is an index of them by partner. */
export const isLeadOrBuyer = sql<boolean>`(c.customer_status <> 'click' or c.provisional_lead_at is not null)`

/** Lists a program's customers, newest first, filtered and limited by `list`. */
export async function listCustomers(db: Database, programId: number, list: CustomerList): Promise<ListedCustomer[]> {
  return await db.query(customersStatement(programId, list))
}

/** Reads the customer with this click id or customer key. Throws `not_found`. */
export async function readCustomer(db: Database, programId: number, name: string): Promise<ListedCustomer> {
  const by = /^cust_\d+_\d+$/.test(name) ? { click_id: name } : { customer_key: name }
  const [customer] = await listCustomers(db, programId, { limit: 1, ...by })
  if (!customer) throw new ApiError('not_found', 'This program has no customer with this click id or customer key.')
  return customer
}

function customersStatement(programId: number, list: CustomerList) {
  const { status, click_id, customer_key, partner_id, from, to, updated_since, ...part } = list
  let query = kysely
    .selectFrom('customers as c')
    .select((eb) => [
      'c.id',
      'c.click_id',
      'c.customer_key',
      eb.ref('c.customer_status').$castTo<(typeof customerStates)[number]>().as('status'),
      'c.partner_id',
      'c.link_id',
      'c.last_click_at',
      'c.provisional_lead_at',
      'c.signup_date',
      'c.first_purchase_date',
      'c.created_at',
      'c.updated_at',
    ])
    .where('c.program_id', '=', programId)
  if (status !== undefined) query = query.where('c.customer_status', '=', status)
  if (click_id !== undefined) query = query.where('c.click_id', '=', click_id)
  if (customer_key !== undefined) query = query.where('c.customer_key', '=', customer_key)
  if (partner_id !== undefined) query = query.where('c.partner_id', '=', partner_id).where(isLeadOrBuyer)
  if (from !== undefined) query = query.where('c.created_at', '>=', from)
  if (to !== undefined) query = query.where('c.created_at', '<', to)
  if (updated_since !== undefined) query = query.where('c.updated_at', '>=', updated_since).where(isLeadOrBuyer)
  return partOf(query, sql.ref<number>('c.id'), part)
}
