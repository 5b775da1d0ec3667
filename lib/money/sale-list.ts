import type { InferResult } from 'kysely'
import { jsonObjectFrom } from 'kysely/helpers/postgres'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'

type ListedSale = InferResult<ReturnType<typeof salesStatement>>[number]

interface SaleList {
  limit: number
  /** The last id of the previous page. */
  before?: number | undefined
  /** Only test sales. */
  test?: boolean | undefined
  customer_key?: string | undefined
  click_id?: string | undefined
  partner_id?: number | undefined
  transaction_id?: string | undefined
  /** Sold in this range, which excludes `to`. */
  from?: Date | undefined
  to?: Date | undefined
  updated_since?: Date | undefined
}

/** Lists a program's sales with their commissions, newest first, selected by `list`. Includes sales without a customer. */
export async function listSales(db: Database, programId: number, list: SaleList): Promise<ListedSale[]> {
  return await db.query(salesStatement(programId, list))
}

/** Reads a sale by its transaction id. Throws `not_found`. */
export async function readSale(
  db: Database,
  programId: number,
  transaction_id: string,
  test: boolean,
): Promise<ListedSale> {
  const [sale] = await listSales(db, programId, { limit: 1, transaction_id, test })
  if (!sale) throw new ApiError('not_found', `This program has no sale with the transaction_id "${transaction_id}".`)
  return sale
}

function salesStatement(programId: number, list: SaleList) {
  const {
    limit,
    before,
    test = false,
    customer_key,
    click_id,
    partner_id,
    transaction_id,
    from,
    to,
    updated_since,
  } = list
  let query = kysely
    .selectFrom('sales as s')
    .leftJoin('customers as c', (join) =>
      join.onRef('c.program_id', '=', 's.program_id').onRef('c.id', '=', 's.customer_id'),
    )
    .select((eb) => [
      's.id',
      's.transaction_id',
      's.is_test',
      's.sale_date',
      's.updated_at',
      's.partner_id',
      'c.click_id',
      's.customer_key',
      's.amount_cents',
      's.refunded_cents',
      's.currency',
      's.sale_type',
      's.payment_status',
      's.is_recurring',
      's.subscription_id',
      's.coupon',
      's.code_id',
      jsonObjectFrom(
        eb
          .selectFrom('commissions as m')
          .select(['m.id', 'm.status', 'm.amount_cents', 'm.reversed_cents'])
          .whereRef('m.program_id', '=', 's.program_id')
          .whereRef('m.sale_id', '=', 's.id'),
      ).as('commission'),
    ])
    .where('s.program_id', '=', programId)
    .where((eb) => (test ? eb('s.is_test', '=', eb.lit(true)) : eb.not('s.is_test')))
    .orderBy('s.id', 'desc')
    .limit(limit)
  if (before !== undefined) query = query.where('s.id', '<', before)
  if (transaction_id !== undefined) query = query.where('s.transaction_id', '=', transaction_id)
  if (customer_key !== undefined) query = query.where('s.customer_id', '=', customerBy('customer_key', customer_key))
  if (click_id !== undefined) query = query.where('s.customer_id', '=', customerBy('click_id', click_id))
  if (partner_id !== undefined) query = query.where('s.partner_id', '=', partner_id)
  if (from !== undefined) query = query.where('s.sale_date', '>=', from)
  if (to !== undefined) query = query.where('s.sale_date', '<', to)
  if (updated_since !== undefined) query = query.where('s.updated_at', '>=', updated_since)
  return query

  function customerBy(column: 'customer_key' | 'click_id', value: string) {
    return kysely
      .selectFrom('customers')
      .select('id')
      .where('program_id', '=', programId)
      .where(column, '=', value)
      .$asScalar()
  }
}
