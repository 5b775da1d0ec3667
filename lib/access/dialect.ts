import {
  type DatabaseConnection,
  type Dialect,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from 'kysely'
import type { Connection } from '../database.ts'

const refuse = () => Promise.reject(new Error('Transactions are not supported.'))

/**
 * A dialect for better-auth's adapter that sends each statement on its own, like the service's own statements, and never in a transaction.
 */
export function dialectOf(connection: Connection): Dialect {
  const single: DatabaseConnection = {
    async executeQuery<Row>({ sql: text, parameters }: { sql: string; parameters: readonly unknown[] }) {
      const { rows, rowCount } = await connection.query({ text, parameters: [...parameters] })
      // oxlint-disable-next-line no-unsafe-type-assertion -- the statement determines the type of its rows
      const result: QueryResult<Row> = { rows: rows as Row[], numAffectedRows: BigInt(rowCount ?? 0) }
      return result
    },
    streamQuery: () => {
      throw new Error('Streaming is not supported.')
    },
  }
  return {
    createAdapter: () => new PostgresAdapter(),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createDriver: () => ({
      init: async () => {},
      acquireConnection: () => Promise.resolve(single),
      releaseConnection: async () => {},
      beginTransaction: refuse,
      commitTransaction: refuse,
      rollbackTransaction: refuse,
      destroy: async () => {},
    }),
  }
}
