import { type OperationNodeSource, type ShallowDehydrateObject, sql } from 'kysely'
import { retryOnce, type Statement, violatedConstraint } from './database.ts'
import { ApiError } from './errors.ts'
import { kysely } from './kysely.ts'

/** A row as JSON, in which times are text. */
export type Created<Row> = ShallowDehydrateObject<Row>

/**
 * The last statement of a transaction of `Database.actingByKey`. It reads the row that the transaction created, and stores it for repeated
 * requests. Returns null if there is no such row. In any other transaction, the statement only reads.
 */
export function storeCreated<Row>(
  select: Statement<Row> & OperationNodeSource,
): Statement<{ created: Created<Row> | null }> {
  return kysely.selectNoFrom(
    sql<Created<Row> | null>`keep_answer((select to_jsonb(m) from (${select}) m))`.as('created'),
  )
}

/**
 * Returns the result of `make`, or the stored result if the same request came before. Repeats `make` once if its outcome is
 * unknown. Throws `idempotency_mismatch` if an earlier request with this key had different content.
 */
export async function createOnce<Result>(make: () => Promise<Result>): Promise<Result> {
  try {
    return await retryOnce(make)
  } catch (error) {
    const violated = violatedConstraint(error)
    if (violated === 'idempotency_mismatch') {
      throw new ApiError(
        'idempotency_mismatch',
        'This Idempotency-Key was already used for another request. Send a new key with a new request.',
      )
    }
    const created = violated === 'idempotency_keys_pkey' && detailOf(error)
    if (!created) throw error
    // oxlint-disable-next-line no-unsafe-type-assertion -- it is the stored result of `make`
    return JSON.parse(created) as Result
  }
}

function detailOf(error: unknown): string | undefined {
  return error instanceof Error && 'detail' in error && typeof error.detail === 'string' ? error.detail : undefined
}
