import { Kysely } from 'kysely'
import { NeonDialect } from 'kysely-neon'
import { connect, type DatabaseEnv } from './database.ts'
import type { DB } from './schema.ts'

/** Kysely with the schema's types over Neon's HTTP driver: each executed query is one HTTP request. */
export function openKysely(env: DatabaseEnv): Kysely<DB> {
  return new Kysely<DB>({ dialect: new NeonDialect({ neon: connect(env) }) })
}
