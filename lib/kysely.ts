import {
  DefaultQueryExecutor,
  type Expression,
  PostgresAdapter,
  PostgresQueryCompiler,
  QueryCreator,
  sql,
} from 'kysely'
import type { DB } from './schema.ts'

/**
 * Builds the statements that `Database` sends, typed by the schema: a misspelled column doesn't compile. It doesn't
 * have a connection. It imports only Kysely's query builder, because all of Kysely would add seven kilobytes (gzip) to
 * each function. Pass an object to `set` and `doUpdateSet`, with callbacks for single values. The compiler doesn't
 * check the names in a callback's object.
 */
export const kysely = new QueryCreator<DB>({
  executor: new DefaultQueryExecutor(new PostgresQueryCompiler(), new PostgresAdapter(), {
    provideConnection: () => Promise.reject(new Error('This compiles only; send statements through Database.')),
  }),
})

/** The start of the transaction, according to the database's clock. */
export const now = sql<Date>`now()`

/**
 * Converts text to lower case in the database, like the indexes of names, codes and addresses. JavaScript converts some letters
 * differently.
 */
export const lower = (text: string) => sql<string>`lower(${text}::text)`

/** An `ilike` pattern for texts that contain this one. */
export const containing = (text: string) => `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`

/** Tests whether a text contains every word of a search, in any order. */
export function hasWords(text: Expression<string | null>, search: string) {
  const words = search.split(/\s+/).filter((word) => word !== '')
  const tests = words.map((word) => sql`${text} ilike ${containing(word)}`)
  return sql<boolean>`(${sql.join([sql.lit(true), ...tests], sql` and `)})`
}
