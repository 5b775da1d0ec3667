import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { createPerson } from '../lib/local/people.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const runbook = readFileSync('lib/commands/README.md', 'utf8')

test('the SQL of the runbook returns nothing on a healthy database, and one row for each problem', async () => {
  const { sql, db } = await startEndpoint()
  const { programId, partnerIds } = await createLedgerProgram(sql, db)
  const queries = Array.from(runbook.matchAll(/```sql\n([^]*?)```/g), ([, query = '']) => query)
  const answers = async () => {
    const counts: (number | null)[] = []
    for (const query of queries) counts.push((await sql.query(query)).rowCount)
    return counts
  }
  expect(await answers()).toEqual(queries.map(() => 0))

  await sql.query(
    `insert into outbox (program_id, kind, audience, partner_id, cause, payload, created_at)
     values ($1, 'commission_reversed', 'partner', $2, 'cause-1', '{}', now() - interval '1 hour')`,
    [programId, partnerIds[0]],
  )
  await sql.query(
    `with endpoint as (insert into webhook_endpoints (program_id, url, types) values ($1, 'https://a.example', '{sale.created}') returning *),
    message as (insert into webhook_messages (program_id, type, data) values ($1, 'sale.created', '{}') returning *)
    insert into webhook_deliveries (program_id, endpoint_id, message_id, next_attempt_at)
    select $1, endpoint.id, message.id, now() - interval '1 hour' from endpoint, message`,
    [programId],
  )
  await sql.query(
    `insert into uncounted_clicks (program_id, link_id, clicked_at, event_id) values ($1, 1, now() - interval '1 day', 1)`,
    [programId],
  )
  const next = new Date()
  next.setUTCDate(1)
  next.setUTCMonth(next.getUTCMonth() + 1)
  await sql.query(`drop table affiliate_click_events_${next.toISOString().slice(0, 7).replace('-', '_')}`)
  expect(await answers()).toEqual([1, 1, 1, 0, 1])
})

test('the step after an AUTH_SECRET change disables two-factor codes for accounts that had them', async () => {
  const { sql, db, env } = await startEndpoint()
  const owner = await createPerson(db, { ...env, AUTH_SECRET: 'old' }, { name: 'Owner', email: 'owner@example.com' })
  await sql.query('update users set two_factor_enabled = true where id = $1', [owner.userId])
  await sql.query(
    "insert into two_factors (id, user_id, secret, backup_codes) values ('one', $1, 'sealed with the old one', 'sealed')",
    [owner.userId],
  )
  const step = /`(with ended as \(delete from two_factors\)[^`]*)`/.exec(runbook)?.[1]?.replaceAll('\n', ' ') ?? ''
  await sql.query(step)
  expect((await sql.query('select from two_factors')).rowCount).toBe(0)
  expect((await sql.query('select two_factor_enabled as is_on from users')).rows).toEqual([{ is_on: false }])
})
