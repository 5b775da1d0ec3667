import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely'
import type { DB } from './schema.ts'

/**
 * Builds the statements that `Database` sends, on the types of the schema: a misspelt column does not compile. It has no
 * connection, so it executes none itself.
 */
export const kysely = new Kysely<DB>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

/** When the transaction began, by the database's clock. */
export const now = sql<Date>`now()`
