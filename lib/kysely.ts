import { DefaultQueryExecutor, PostgresAdapter, PostgresQueryCompiler, QueryCreator, sql } from 'kysely'
import type { DB } from './schema.ts'

/**
 * Builds the statements that `Database` sends, on the types of the schema: a misspelt column does not compile. It has no
 * connection, so it executes none itself. It is the part of Kysely that builds queries: the whole of it, with schemas, migrations
 * and transactions, is seven kilobytes (gzip) more in each function.
 *
 * `set` and `doUpdateSet` are given an object, with a callback for a value that needs one. Of a callback that gives the whole object
 * the compiler does not check the names.
 */
export const kysely = new QueryCreator<DB>({
  executor: new DefaultQueryExecutor(new PostgresQueryCompiler(), new PostgresAdapter(), {
    provideConnection: () => Promise.reject(new Error('This compiles only; send statements through Database.')),
  }),
})

/** When the transaction began, by the database's clock. */
export const now = sql<Date>`now()`

/** A text in lower case as the indexes have names, codes and addresses: the database's, which is not JavaScript's for all letters. */
export const lower = (text: string) => sql<string>`lower(${text}::text)`

/** A pattern of `ilike` for texts that hold this one. */
export const containing = (text: string) => `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`
