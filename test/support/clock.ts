import { Client } from 'pg'
import type { TestDatabase } from './stack.ts'

/**
 * Gives a database a clock that the test sets, so that the service's own statements can write a history in the past.
 * Unqualified names and column defaults find its function `now` before Postgres' own. Call this before the database
 * is used for anything else.
 */
export async function setClock(database: TestDatabase): Promise<(time: Date) => Promise<void>> {
  const { databaseUrl, sql } = database
  const name = new URL(databaseUrl).pathname.slice(1)
  await sql.query(`
    create schema clock;
    create table clock.time (now timestamptz not null);
    insert into clock.time values (now());
    create function clock.now() returns timestamptz language sql stable as 'select now from clock.time';
    alter database ${name} set search_path = clock, pg_catalog, public`)
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  for (const [table, column] of [
    ['affiliate_lead_events', 'lead_timestamp'],
    ['sales', 'sale_date'],
    ['sales', 'created_at'],
    ['commissions', 'created_at'],
    ['refunds', 'created_at'],
    ['outbox', 'created_at'],
    ['webhook_endpoints', 'created_at'],
    ['webhook_messages', 'created_at'],
    ['partners', 'created_at'],
    ['programs', 'created_at'],
  ] as const) {
    await client.query(`alter table ${table} alter column ${column} set default now()`)
  }
  await client.end()
  return async (time) => void (await sql.query('update clock.time set now = $1', [time]))
}
