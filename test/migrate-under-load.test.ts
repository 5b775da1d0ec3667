import { createHash } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { migrate, readSqlFiles, type SqlFile } from '../lib/commands/migrate.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { lossesOf, startCallers } from './chaos/serve.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({
  functions: ['track-click', 'track-lead', 'track-sale', 'track-refund', 'count-clicks'],
})
const sandbox = await createSandbox(stack.db, stack.environment)

const fileOf = (name: string, sql: string): SqlFile => ({
  name,
  sql,
  checksum: createHash('sha256').update(sql).digest('hex'),
})

/**
 * This checkout's files and an invented next migration: columns, a table, an index, and a trigger that writes to them.
 */
function nextFiles(): SqlFile[] {
  const files = readSqlFiles()
  const numbered = files.filter(({ name }) => !name.startsWith('functions/'))
  const migration = fileOf(
    `${String(numbered.length + 1).padStart(4, '0')}_next.sql`,
    `alter table sales add column written_by_next boolean not null default false;
    alter table customers add column next_score integer check (next_score > 0);
    create index customers_next_score_idx on customers (program_id, next_score) where next_score is not null;
    create table next_sales (program_id bigint not null, transaction_id text not null, primary key (program_id, transaction_id));`,
  )
  const living = fileOf(
    'functions/next.sql',
    `create or replace function note_next_sale() returns trigger language plpgsql as $$
    begin
      new.written_by_next := true;
      insert into next_sales (program_id, transaction_id) values (new.program_id, new.transaction_id);
      return new;
    end $$;
    create or replace trigger note_next_sale before insert on sales for each row execute function note_next_sale();`,
  )
  return [...numbered, migration, ...files.filter(({ name }) => name.startsWith('functions/')), living]
}

test("a migration under load doesn't lose acknowledged calls", { timeout: 120_000 }, async () => {
  const callers = startCallers(() => stack.baseUrl, [sandbox], 3)
  const moreSales = async () => {
    const before = callers.count()
    await vi.waitFor(() => expect(callers.count()).toBeGreaterThan(before + 12), 60_000)
  }
  await moreSales()
  await Promise.all([migrate(stack.databaseUrl, nextFiles()), moreSales()])
  const salesAtMigration = callers.count()
  await moreSales()
  const heard = await callers.stop()
  await stack.scheduled('count-clicks')
  expect(await lossesOf(stack.sql, heard)).toEqual([])
  // A caller can start a sale before the migration and get its answer after it.
  const surelyAfter = heard.sales.slice(salesAtMigration + 3)
  const { rows } = await stack.sql.query<{ id: string }>('select transaction_id as id from next_sales')
  expect(rows.map(({ id }) => id)).toEqual(expect.arrayContaining(surelyAfter))
})
