import {
  type DatabaseConnection,
  type Dialect,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from 'kysely'
import type { Connection } from '../database.ts'

const refuse = () => Promise.reject(new Error('Statements are sent one by one.'))

/** By which better-auth's adapter sends its statements the way that the service's own go: each by itself, never in a transaction. */
export function dialectOf(connection: Connection): Dialect {
  const single: DatabaseConnection = {
    async executeQuery<Row>({ sql: text, parameters }: { sql: string; parameters: readonly unknown[] }) {
      const { rows, rowCount } = await connection.query({ text, parameters: [...parameters] })
      // oxlint-disable-next-line no-unsafe-type-assertion -- the statement says what its rows are
      const result: QueryResult<Row> = { rows: rows as Row[], numAffectedRows: BigInt(rowCount ?? 0) }
      return result
    },
    streamQuery: () => {
      throw new Error('A statement is answered whole.')
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
