import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { migrate, readSqlFiles, type SqlFile } from '../lib/commands/migrate.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({
  functions: ['track-click', 'track-lead', 'track-sale', 'track-refund', 'tracking-performance', 'count-clicks'],
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

/**
 * Starts three callers that repeat a click, a lead, a sale, a partial refund and a read until `stop`. They repeat a
 * call that is answered 503, as the client library does. They store every acknowledged call and every other refusal.
 */
function startLoad() {
  const { apiKey, partnerCode, programId, dashboardToken } = sandbox
  const clicks: string[] = []
  const leads: string[] = []
  const orders: string[] = []
  const failures: string[] = []
  const over = new AbortController()
  async function send(call: string, body?: object): Promise<Record<string, unknown>> {
    for (;;) {
      const response = await fetch(`${stack.baseUrl}/api/${call}`, {
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
        headers: { 'content-type': 'application/json', authorization: `Bearer ${body ? apiKey : dashboardToken}` },
      })
      const text = await response.text()
      if (response.status === 503) continue
      if (!response.ok && !text.includes('duplicate_transaction')) failures.push(`${call}: ${response.status} ${text}`)
      return JSON.parse(text) as Record<string, unknown>
    }
  }
  const affiliate_url = `https://shop.example.com/?aff=${partnerCode}`
  const callers = Array.from({ length: 3 }, async (_, caller) => {
    for (let n = 0; !over.signal.aborted && failures.length === 0; n++) {
      const customer_key = `user-${caller}-${n}`
      const transaction_id = `order-${caller}-${n}`
      const { click_id } = await send('v1/track/click', { affiliate_url })
      clicks.push(String(click_id))
      await send('v1/track/lead', { customer_key, click_id })
      leads.push(customer_key)
      await send('v1/track/sale', { customer_key, transaction_id, amount_cents: 1000 })
      await send('v1/track/refund', { transaction_id, refund_amount_cents: 400, refund_id: 'refund-1' })
      orders.push(transaction_id)
      await send(`tracking/performance/${programId}`)
    }
  })
  return {
    clicks,
    leads,
    orders,
    failures,
    async moreOrders(): Promise<void> {
      for (const before = orders.length; orders.length < before + 12 && failures.length === 0;) await sleep(20)
    },
    async stop(): Promise<void> {
      over.abort()
      await Promise.all(callers)
    },
  }
}

test('a migration under load loses no acknowledged call', { timeout: 120_000 }, async () => {
  const load = startLoad()
  await load.moreOrders()
  await Promise.all([migrate(stack.databaseUrl, nextFiles()), load.moreOrders()])
  const ordersAtMigration = load.orders.length
  await load.moreOrders()
  await load.stop()

  expect(load.failures).toEqual([])
  await stack.scheduled('count-clicks')
  const listOf = async (query: string) => {
    const { rows } = await stack.sql.query<{ value: string }>(query)
    return rows.map(({ value }) => value).toSorted()
  }
  expect(await listOf('select click_id as value from customers')).toEqual(expect.arrayContaining(load.clicks))
  expect(await listOf('select customer_key as value from customers where signup_date is not null')).toEqual(
    load.leads.toSorted(),
  )
  const soldAndRefunded = `select s.transaction_id as value from sales s join refunds r
    on r.program_id = s.program_id and r.sale_id = s.id where s.amount_cents = 1000 and r.applied_cents = 400`
  expect(await listOf(soldAndRefunded)).toEqual(load.orders.toSorted())
  // A caller can sell before the migration and refund after it.
  const surelyAfter = load.orders.slice(ordersAtMigration + 3)
  expect(await listOf('select transaction_id as value from next_sales')).toEqual(expect.arrayContaining(surelyAfter))
  expect(await findDifferences(stack.sql)).toEqual([])
})
