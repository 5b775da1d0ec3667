import { expect, test } from 'vitest'
import { listOutbox } from '../lib/notifications/outbox-list.ts'
import { listNotifications, markNotificationsRead } from '../lib/notifications/notification-list.ts'
import { createPerson } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { listWebhookEvents } from '../lib/stripe/webhook-events.ts'
import { addPartner, listPartners } from '../lib/programs/partners.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, env: databaseEnv } = await startEndpoint()
const env = { ...databaseEnv, AUTH_SECRET: 'a secret of tests that is long enough' }
const sandbox = await createSandbox(db, env)
const other = await createSandbox(db, env)
const { userId } = await createPerson(db, env, { name: 'Ada', email: 'ada@example.com' })
const { programId } = sandbox
/** Who is the partner of a sandbox's program. */
async function personOf({ partnerId }: typeof sandbox): Promise<string> {
  const { rows } = await sql.query<{ user_id: string }>('select user_id from partners where id = $1', [partnerId])
  return rows[0]?.user_id ?? ''
}
const [partner, otherPartner] = [{ userId: await personOf(sandbox) }, { userId: await personOf(other) }]

// Eleven of each in two programs, all made at one moment between two milliseconds.
const moment = '2026-01-01T00:00:00.000123Z'
for (const owner of [sandbox, other]) {
  for (let n = 0; n < 10; n++) {
    await addPartner(db, { programId: owner.programId, name: `Partner ${n}`, email: null, code: null })
  }
  await sql.query(
    `with made as (
      insert into outbox (program_id, kind, audience, partner_id, cause, payload)
      select $1, 'commission_reversed', audience, $2, 'cause ' || n, '{"amount_cents": 100, "currency": "usd"}'
      from generate_series(1, 11) n, unnest(array['partner', 'advertiser']) audience returning *
    )
    insert into notifications (program_id, id, kind, audience, partner_id, payload, created_at)
    select program_id, id, kind, audience, partner_id, payload, $3 from made`,
    [owner.programId, owner.partnerId, moment],
  )
  await sql.query(
    `insert into processor_events (account_id, event_id, event_type, program_id, livemode, outcome, fact, event_created_at, received_at)
    select 'acct_1', 'evt_' || $1::bigint || '_' || n, 'charge.refunded', $1, true, 'recorded', '{}', $2, $2
    from generate_series(1, 11) n`,
    [owner.programId, moment],
  )
}

interface Item {
  id: number | string
}

const limit = 4
const idOf = (item: Item | undefined) => item && Number(item.id)
const lists: [what: string, count: number, next: (last: Item | undefined) => Promise<Item[]>][] = [
  ['partners of a program', 11, (last) => listPartners(db, programId, { limit, before: idOf(last) })],
  [
    "an advertiser's notifications",
    11,
    (last) => listNotifications(db, { programId }, userId, { limit, before: idOf(last) }),
  ],
  ["a partner's notifications", 11, (last) => listNotifications(db, partner, userId, { limit, before: idOf(last) })],
  ['messages of a program', 22, (last) => listOutbox(db, programId, { limit, before: idOf(last) })],
  [
    'webhook events',
    11,
    async (last) => {
      const events = await listWebhookEvents(db, programId, { limit, before: last && String(last.id), livemode: true })
      return events.map((event) => ({ ...event, id: event.event_id }))
    },
  ],
]

test.each(lists)('turning the pages of %s shows each once, and none of another program', async (_what, count, next) => {
  const seen: Item[] = []
  for (let items = await next(undefined); items.length > 0; items = await next(seen.at(-1))) {
    expect(items.length).toBeLessThanOrEqual(limit)
    seen.push(...items)
  }
  expect(new Set(seen.map(({ id }) => id)).size).toBe(count)
  expect(seen).toHaveLength(count)
  for (const item of seen) {
    if ('program_id' in item) expect(item.program_id).toBe(programId)
  }
})

test('notifications are read by one user, and not for others or elsewhere', async () => {
  const unread = async (recipient: Parameters<typeof listNotifications>[1], reader: string) =>
    (await listNotifications(db, recipient, reader, { limit: 100 })).filter(({ read }) => !read).length
  await markNotificationsRead(db, partner, userId)
  await markNotificationsRead(db, partner, userId)
  expect(await unread(partner, userId)).toBe(0)
  expect(await unread({ programId }, userId)).toBe(11)
  expect(await unread(otherPartner, userId)).toBe(11)
  const { userId: colleague } = await createPerson(db, env, { name: 'Grace', email: 'grace@example.com' })
  expect(await unread(partner, colleague)).toBe(11)
})
