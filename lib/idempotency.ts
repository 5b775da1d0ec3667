import { type OperationNodeSource, type ShallowDehydrateObject, sql } from 'kysely'
import { retryOnce, type Statement, violatedConstraint } from './database.ts'
import { ApiError } from './errors.ts'
import { kysely } from './kysely.ts'

/** A row as JSON has it: its times are text. */
export type Made<Row> = ShallowDehydrateObject<Row>

/**
 * Reads what a transaction of `Database.actingByKey` made, by `select` as its last statement, and keeps it for whoever sends the request
 * again. Null where there is nothing. In any other transaction it only reads.
 */
export function keepMade<Row>(select: Statement<Row> & OperationNodeSource): Statement<{ made: Made<Row> | null }> {
  return kysely.selectNoFrom(sql<Made<Row> | null>`keep_answer((select to_jsonb(m) from (${select}) m))`.as('made'))
}

/**
 * What `make` makes, or what it made when the same request was sent before: a request whose outcome was not known can be sent again, by
 * this too. Refuses with `idempotency_mismatch` where the request with this key asked for something else.
 */
export async function makeOnce<Result>(make: () => Promise<Result>): Promise<Result> {
  try {
    return await retryOnce(make)
  } catch (error) {
    const violated = violatedConstraint(error)
    if (violated === 'idempotency_mismatch') {
      throw new ApiError(
        'idempotency_mismatch',
        'This Idempotency-Key was sent before with another request. Send a new key with a new request.',
      )
    }
    const made = violated === 'idempotency_keys_pkey' && detailOf(error)
    if (!made) throw error
    // oxlint-disable-next-line no-unsafe-type-assertion -- it is what `make` answered then
    return JSON.parse(made) as Result
  }
}

function detailOf(error: unknown): string | undefined {
  return error instanceof Error && 'detail' in error && typeof error.detail === 'string' ? error.detail : undefined
}
