import { readFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { SendMessageCommand } from '@aws-sdk/client-sqs'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openQueue } from '../lib/notifications/queue.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { openMetrics } from '../lib/serve/metrics.ts'
import { alertRules, grafanaDashboard } from '../lib/monitoring-files.ts'
import { startStack } from './support/stack.ts'
import { selfSigned } from './support/self-signed.ts'

const stack = await startStack({ on: 'workers', functions: ['health'] })
const { programId, partnerIds } = await createLedgerProgram(stack.sql, stack.db)
const authorization = `Bearer ${stack.environment.METRICS_TOKEN}`
const { AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = stack.environment
const queueEnv = { AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY }
const queue = openQueue({ ...queueEnv, AWS_ENDPOINT_URL: stack.queue.endpoint, QUEUE_URL: stack.queueUrl })

const ask = async (query = '', headers: Record<string, string> = { authorization }) =>
  await fetch(`${stack.baseUrl}/healthz${query}`, { headers })

interface Health {
  ok: boolean
  problems: string[]
  figures: Record<string, number | null>
}
const read = async () => (await (await ask()).json()) as Health

test('without a token it reports only whether the database responds, and checks at most once a second', async () => {
  // On a busy machine, three calls can take longer than a second.
  await vi.waitFor(async () => {
    const before = stack.neon.requests
    for (let call = 0; call < 3; call++) {
      const response = await ask('', {})
      expect([response.status, await response.json()]).toEqual([200, { ok: true }])
    }
    expect(stack.neon.requests).toBeLessThanOrEqual(before + 1)
  }, 60_000)
})

const status = async () => (await ask('', {})).status

test('a dead database is reported even without a token', async () => {
  stack.neon.inject({ action: 'unavailable', times: 1000 })
  await vi.waitFor(async () => expect(await status()).toBe(503), 10_000)
  stack.neon.clearFaults()
  await vi.waitFor(async () => expect(await status()).toBe(200), 10_000)
})

test.each([
  ['a wrong token', '', { authorization: 'Bearer wrong' }],
  ['a key', '', { authorization: 'Bearer svc_live_abc' }],
  ['a request for the figures without a token', '?format=prometheus', {}],
])('%s is refused', async (_, query, headers: Record<string, string>) => {
  expect((await ask(query, headers)).status).toBe(401)
})

test('every figure is healthy if nothing waits, and the check takes one database request', async () => {
  // On a busy machine, a request can take longer than the limit for a healthy database.
  await vi.waitFor(async () => {
    const before = stack.neon.requests
    const response = await ask()
    expect([response.status, await response.json()]).toEqual([
      200,
      {
        ok: true,
        problems: [],
        figures: {
          database_seconds: expect.any(Number),
          schema_current: 1,
          webhooks_due_oldest_seconds: 0,
          mails_failing: 0,
          outbox_undelivered: 0,
          outbox_oldest_seconds: 0,
          clicks_uncounted_oldest_seconds: 0,
          clicks_unsent_oldest_seconds: 0,
          commissions_due_oldest_seconds: 0,
          retention_behind_seconds: 0,
          click_months_due: 0,
          queue_messages: 0,
          dead_letters: 0,
        },
      },
    ])
    expect(stack.neon.requests).toBe(before + 1)
  }, 60_000)
})

test('a long wait is reported with status 503 and a link to its section of the runbook', async () => {
  await stack.sql.query(
    `insert into outbox (program_id, kind, audience, partner_id, cause, payload, created_at)
     values ($1, 'commission_reversed', 'partner', $3, $2, '{}', now() - interval '1 hour')`,
    [programId, randomUUID(), partnerIds[0]],
  )
  await queue.send(new SendMessageCommand({ QueueUrl: stack.deadLetterQueueUrl, MessageBody: 'x' }))
  await stack.sql.query('insert into click_sink (is_complete) values (true)')
  await stack.sql.query(
    `insert into unsent_clicks (program_id, clicked_at, event_id, is_erased)
    values ($1, now() - interval '1 year', 1, true), ($1, now() - interval '3 hours', 2, false)`,
    [programId],
  )
  const response = await ask()
  await stack.sql.query('delete from unsent_clicks; delete from click_sink')
  expect(response.status).toBe(503)
  const { ok, problems, figures } = (await response.json()) as Health
  expect(ok).toBe(false)
  expect(figures).toMatchObject({ outbox_undelivered: 1, dead_letters: 1 })
  expect(figures['outbox_oldest_seconds']).toBeGreaterThanOrEqual(3600)
  expect(problems.filter((problem) => !problem.includes('"Database down"'))).toEqual([
    expect.stringMatching(
      /^Age of the oldest undelivered outbox row: 36\d\d, healthy: at most 2700\. See "Queue backlog"\.$/,
    ),
    expect.stringMatching(
      /^Age of the oldest click that ClickHouse lacks: 10[89]\d\d, healthy: at most 7200\. See "ClickHouse down"\.$/,
    ),
    'Dead letters: 1, healthy: at most 0. See "Dead letters".',
  ])
})

test('Prometheus gets the same figures', async () => {
  const response = await ask('?format=prometheus')
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toContain('text/plain; version=0.0.4')
  const text = await response.text()
  expect(text).toMatch(/^# HELP svc_up .*\n# TYPE svc_up gauge\nsvc_up 0\n/)
  expect(text).toMatch(/^svc_dead_letters 1$/m)
  for (const line of text.trimEnd().split('\n')) expect(line).toMatch(/^(# (HELP|TYPE) svc_\w+ .+|svc_\w+ [\d.]+)$/)
})

const noConnections = () => ({ open: 0, idle: 0, waiting: 0 })

test('the alert rules and the Grafana dashboard use the exported figures: `npm run monitoring` writes both', async () => {
  const figures = await (await ask('?format=prometheus')).text()
  const proxy = createServer(selfSigned(['localhost'])).listen(0)
  onTestFinished(() => void proxy.close())
  const metrics = openMetrics({
    readConnections: noConnections,
    readLags: () => ({ 'send-mails': 7 }),
    baseUrl: `https://localhost:${(proxy.address() as AddressInfo).port}`,
    dataFolder: tmpdir(),
    backupFolder: '/nowhere',
  })
  metrics.countRequest('track-click', 200, 0.004)
  metrics.countRun('send-mails', true)
  metrics.countMail(false)
  const text =
    figures +
    (await vi.waitFor(async () => {
      const current = await metrics.text()
      expect(current).toContain('svc_certificate_end_timestamp_seconds{host="localhost"}')
      return current
    }))
  const [, end] = /^svc_certificate_end\S+ (.+)$/m.exec(text) ?? []
  expect(Math.abs(Number(end) - Date.now() / 1000 - 86_400)).toBeLessThan(60)
  for (const line of ['svc_schedule_lag_seconds{schedule="send-mails"} 7', 'svc_mails_total{result="failed"} 1'])
    expect(text).toContain(line)
  const exported = new Set(Array.from(text.matchAll(/^((?:svc|process)_\w+)[ {]/gm), ([, name]) => name))
  for (const [file, content] of [
    ['alerts.yaml', alertRules()],
    ['grafana.json', grafanaDashboard()],
  ] as const) {
    expect(readFileSync(`lib/serve/monitoring/${file}`, 'utf8')).toBe(content)
    const used = Array.from(content.matchAll(/\b(?:svc|process)_\w+/g), ([name]) => name)
    expect(used.filter((name) => !exported.has(name))).toEqual([])
    expect(new Set(used).size).toBeGreaterThan(8)
  }
})

test('an older schema and an unreachable database are reported', async () => {
  await stack.sql.query('alter table schema_migrations rename to kept')
  await stack.sql.query(`create table schema_migrations as select * from kept where name < '0002'`)
  expect((await read()).problems).toContainEqual(expect.stringContaining('See "Rollback"'))
  await stack.sql.query('drop table schema_migrations')
  expect((await read()).figures).toMatchObject({ database_seconds: null, queue_messages: 0 })
  await stack.sql.query('alter table kept rename to schema_migrations')
})
