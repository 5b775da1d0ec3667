import { expect, test } from 'vitest'
import { outboxStatement } from '../lib/notifications/outbox-list.ts'
import { commissionSorts, listCommissions } from '../lib/money/commission-list.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { askPayout, listPayouts, payoutSorts } from '../lib/money/payouts.ts'
import { listNotifications, markNotificationsRead } from '../lib/notifications/notification-list.ts'
import { createPerson } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { listWebhookEvents } from '../lib/processors/webhook-events.ts'
import { addPartner, listPartners, partnerSorts } from '../lib/programs/partners.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, env: databaseEnv } = await startEndpoint()
const env = { ...databaseEnv, AUTH_SECRET: 'a test secret that is long enough' }
const sandbox = await createSandbox(db, env)
const other = await createSandbox(db, env)
const { userId } = await createPerson(db, env, { name: 'Ada', email: 'ada@example.com' })
const { programId } = sandbox
/** Creates an account for the partner of a sandbox's program. */
async function personOf({ partnerId }: typeof sandbox): Promise<string> {
  const { rows } = await sql.query<{ user_id: string }>('select user_id from partners where id = $1', [partnerId])
  return rows[0]?.user_id ?? ''
}
const [partner, otherPartner] = [{ userId: await personOf(sandbox) }, { userId: await personOf(other) }]

// Eleven rows of each kind in two programs. All of them were created at the same time, which is between two milliseconds.
const moment = '2026-01-01T00:00:00.000123Z'
for (const owner of [sandbox, other]) {
  for (let n = 0; n < 10; n++) {
    await addPartner(db, { programId: owner.programId, name: `Partner ${n}`, email: null, code: null })
  }
  await sql.query(
    `with created as (
      insert into outbox (program_id, kind, audience, partner_id, cause, payload)
      select $1, 'commission_reversed', audience, $2, 'cause ' || n, '{"amount_cents": 100, "currency": "usd"}'
      from generate_series(1, 11) n, unnest(array['partner', 'advertiser']) audience returning *
    )
    insert into notifications (program_id, id, kind, audience, partner_id, payload, created_at)
    select program_id, id, kind, audience, partner_id, payload, $3 from created`,
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

// Eleven sales and payouts of two partners, with repeated amounts.
const ledger = await createLedgerProgram(sql, db)
for (let n = 0; n < 11; n++) {
  const { commissionId } = await ledger.soldBy(n % 2, 5000 + (n % 3) * 100)
  await approveCommissions(db, ledger.programId, [commissionId])
  await askPayout(db, {
    programId: ledger.programId,
    partnerId: ledger.partnerIds[n % 2] ?? 0,
    currency: 'usd',
    amountCents: 500 + (n % 3),
    requestId: crypto.randomUUID(),
  })
}

const limit = 4
const idOf = (item: Item | undefined) => item?.id as number
type Read = (part: { limit: number; before?: number | undefined; after?: number | undefined }) => Promise<Item[]>
type Row = [what: string, count: number, read: Read]
const lists: Row[] = [
  ...partnerSorts.map((sort): Row => [
    `partners of a program by ${sort}`,
    11,
    (part) => listPartners(db, programId, { ...part, sort }),
  ]),
  ...commissionSorts.map((sort): Row => [
    `commissions of a program by ${sort}`,
    11,
    (part) => listCommissions(db, ledger, { ...part, sort }),
  ]),
  ...payoutSorts.map((sort): Row => [
    `payouts of a program by ${sort}`,
    11,
    (part) => listPayouts(db, ledger, { ...part, sort }),
  ]),
  ["an advertiser's notifications", 11, (part) => listNotifications(db, { programId }, userId, part)],
  ["a partner's notifications", 11, (part) => listNotifications(db, partner, userId, part)],
  ['messages of a program', 22, (part) => db.query(outboxStatement(programId, part))],
  [
    'webhook events',
    11,
    async ({ limit: rows, before, after }) => {
      const part = { limit: rows, before: before?.toString(), after: after?.toString() }
      const events = await listWebhookEvents(db, programId, { ...part, livemode: true })
      return events.map((event) => ({ ...event, id: event.event_id }))
    },
  ],
]

test.each(lists)(
  'paging through %s in both directions shows each once, and none of another program',
  async (_what, count, read) => {
    const down: Item[] = []
    for (
      let items = await read({ limit });
      items.length > 0;
      items = await read({ limit, before: idOf(down.at(-1)) })
    ) {
      expect(items.length).toBeLessThanOrEqual(limit)
      down.push(...items)
    }
    expect(new Set(down.map(({ id }) => id)).size).toBe(count)
    expect(down).toHaveLength(count)
    for (const item of down) {
      if ('program_id' in item) expect([programId, ledger.programId]).toContain(item.program_id)
    }
    const up = down.slice(-1)
    for (let items = await read({ limit, after: idOf(up[0]) }); items.length > 0;) {
      up.unshift(...items.toReversed())
      items = await read({ limit, after: idOf(up[0]) })
    }
    expect(up).toEqual(down)
  },
)

const orders: [what: string, read: () => Promise<unknown[]>, ordered: unknown[]][] = [
  [
    'commissions by amount',
    async () => (await listCommissions(db, ledger, { limit: 11, sort: 'amount' })).map((c) => c.amount_cents),
    [1040, 1040, 1040, 1020, 1020, 1020, 1020, 1000, 1000, 1000, 1000],
  ],
  [
    'partners by sales',
    async () => (await listPartners(db, ledger.programId, { limit: 11, sort: 'sales' })).map(({ sales }) => sales),
    [6, 5],
  ],
  [
    'partners by clicks',
    async () =>
      (await listPartners(db, ledger.programId, { limit: 11, sort: 'clicks' })).map(({ links }) => links[0]?.clicks),
    [6, 5],
  ],
  [
    'partners by name',
    async () => (await listPartners(db, programId, { limit: 4, sort: 'name' })).map(({ name }) => name),
    ['Partner', 'Partner 0', 'Partner 1', 'Partner 2'],
  ],
  [
    'commissions of a searched partner',
    async () => await listCommissions(db, ledger, { limit: 11, search: 'PARTNER 1' }),
    Array.from({ length: 5 }, () => expect.objectContaining({ partner_id: ledger.partnerIds[1] })),
  ],
  ['payouts by an unknown reference', async () => await listPayouts(db, ledger, { limit: 11, search: 'a%' }), []],
]

test.each(orders)('%s are listed in the specified order', async (_what, read, ordered) => {
  expect(await read()).toEqual(ordered)
})

test('a user reads only their own notifications', async () => {
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
