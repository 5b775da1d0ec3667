import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { apiKeyHash, checkApiKey } from '../lib/access/api-keys.ts'
import { blockNetwork, blockProgram, endBlock } from '../lib/access/blocks.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import { blockedProgram, findAccess, requireAction } from '../lib/access/program-access.ts'
import { findViewer } from '../lib/access/viewer.ts'
import { createPerson } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { readEmbedFrame, saveEmbedding } from '../lib/programs/embedding.ts'
import { changeJoinPage, findJoinPage } from '../lib/programs/join-page.ts'
import { watchBlockedNetworks } from '../lib/serve/blocked-networks.ts'
import { recordClick } from '../lib/tracking/clicks.ts'
import { createLedgerProgram, noClick } from './support/ledger.ts'
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
  await sql.query('insert into click_sink (is_complete) values (true)')
  await sql.query(
    `insert into unsent_clicks (program_id, clicked_at, event_id) values ($1, now() - interval '1 day', 1)`,
    [programId],
  )
  const next = new Date()
  next.setUTCDate(1)
  next.setUTCMonth(next.getUTCMonth() + 1)
  await sql.query(`drop table affiliate_click_events_${next.toISOString().slice(0, 7).replace('-', '_')}`)
  expect(await answers()).toEqual([1, 1, 1, 0, 1, 1])
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

test('a block stops a program and a network until it ends, and the audit log of the program shows it', async () => {
  const { sql, db, env } = await startEndpoint()
  const people = { ...env, AUTH_SECRET: 'secret' }
  const sandbox = await createSandbox(db, people)
  const { programId } = sandbox
  await changeJoinPage(db, programId, { slug: 'acme' })
  await sql.query('update join_pages set is_open = true')
  await saveEmbedding(db, programId, { embed_origins: ['https://app.example.com'], embed_hides_money: false })
  const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)
  const headers = new Headers({ authorization: `Bearer ${sandbox.dashboardToken}` })
  const click = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: sandbox.partnerCode }
  const attempts = async () => {
    const results = await Promise.allSettled([
      recordClick(db, click, null),
      checkApiKey(db, keyHash),
      findAccess(db, people, headers, programId).then(({ access }) => requireAction(access, 'program:read')),
      findJoinPage(db, 'acme').then((page) => page?.slug ?? Promise.reject(new Error('not found'))),
      readEmbedFrame(db, programId).then(({ origins }) => origins[0] ?? Promise.reject(new Error('no origins'))),
      findViewer(db, people, headers).then((of) => of?.programs[0]?.isBlocked && Promise.reject(blockedProgram())),
    ])
    return results.map((result) => (result.status === 'rejected' ? String(result.reason.code ?? result.reason) : 'ok'))
  }
  const refused = ['link_disabled', 'forbidden', 'forbidden', 'Error: not found', 'Error: no origins', 'forbidden']
  const allowed = refused.map(() => 'ok')
  expect(await attempts()).toEqual(allowed)
  const id = await blockProgram(db, programId, { hours: 1, reason: 'spam' })
  expect(await attempts()).toEqual(refused)
  expect(await endBlock(db, id ?? 0)).toBe(true)
  expect(await attempts()).toEqual(allowed)
  await blockProgram(db, programId, { hours: 1, reason: 'again' })
  expect(await attempts()).toEqual(refused)
  await sql.query(`update blocks set created_at = now() - interval '1 hour', ends_at = now() where reason = 'again'`)
  expect(await attempts()).toEqual(allowed)
  const log = await sql.query(`select action, subject from audit_log where action like '%blocked' order by id`)
  expect(log.rows).toEqual([
    { action: 'program.blocked', subject: 'spam' },
    { action: 'program.unblocked', subject: 'spam' },
    { action: 'program.blocked', subject: 'again' },
  ])

  await blockNetwork(db, '198.51.100.7/24', { hours: 1, reason: 'flood' })
  await blockNetwork(db, '2001:db8::1', { hours: 1, reason: 'flood' })
  const blocked = watchBlockedNetworks(db)
  onTestFinished(() => blocked.stop())
  await expect.poll(() => blocked.has('198.51.100.200')).toBe(true)
  expect(['2001:db8::1', '2001:db8::2', '198.51.101.1', ''].map((address) => blocked.has(address))).toEqual([
    true,
    false,
    false,
    false,
  ])
  await sql.query(
    `update blocks set created_at = now() - interval '3 years', ends_at = now() - interval '3 years' where reason = 'flood'`,
  )
  await deleteExpired(db)
  expect((await sql.query('select distinct reason from blocks order by 1')).rows).toEqual([
    { reason: 'again' },
    { reason: 'spam' },
  ])
  expect(await blockProgram(db, 999, { hours: 1, reason: 'nobody' })).toBeUndefined()
})
