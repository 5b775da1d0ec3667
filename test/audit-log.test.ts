import { detailsOf } from '../functions/dashboard/components/audit-entry.ts'
import { expect, test } from 'vitest'
import { auditEntriesStatement, deleteOldAuditEntries, noteExport } from '../lib/access/audit-log.ts'
import { apiKeysStatement, createApiKey, revokeApiKey } from '../lib/access/program-keys.ts'
import { addMember, createPerson } from '../lib/local/people.ts'
import { approveCommissions, approveDueCommissions, rejectCommission } from '../lib/money/commissions.ts'
import { connectProvider } from '../lib/money/payout-connections.ts'
import { createPayoutRun, payPayoutRun, setMinimumPayout } from '../lib/money/payout-runs.ts'
import { askPayout, payPayout, refusePayout } from '../lib/money/payouts.ts'
import { listRunBatches, readSendable, sendRunToProvider, stopBatch } from '../lib/money/provider-batches.ts'
import { acceptInvitation, inviteMember, revokeInvitation } from '../lib/programs/invitations.ts'
import { changeMember, openProgram } from '../lib/programs/members.ts'
import { addPartner, updatePartner } from '../lib/programs/partners.ts'
import { createProgram, programDefaults, readProgram, updateProgram } from '../lib/programs/programs.ts'
import { connectProcessor, disconnectProcessor } from '../lib/processors/stripe/connect.ts'
import {
  changeEndpoint,
  deleteEndpoint,
  createEndpoint,
  replayDeliveries,
  rotateSecret,
  testEndpoint,
  programOwner,
} from '../lib/notifications/webhook-endpoints.ts'
import { createLedgerProgram, transfer } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db: service, sql, env: databaseEnv, neon } = await startEndpoint()
const env = { ...databaseEnv, AUTH_SECRET: 'a test secret that is long enough' }
const program = await createLedgerProgram(sql, service, { holdDays: 0 })
const { programId, partnerIds } = program
const [partnerId = 0] = partnerIds
const workspaceId = (
  await sql.query<{ workspace_id: string }>('select workspace_id from programs where id = $1', [programId])
).rows[0]?.workspace_id
if (workspaceId === undefined) throw new Error('the program has no workspace')
const actor = await createPerson(service, env, { name: 'Ada', email: 'ada@example.com', password: 'a long password' })
const other = await createPerson(service, env, { name: 'Bob', email: 'bob@example.com' })
await addMember(service, workspaceId, actor.userId, 'owner')
const db = service.actingAs(actor.userId)

/** Returns the entries that `act` wrote, oldest first. */
async function entriesOf(act: () => Promise<unknown>) {
  const [last] = await service.query(auditEntriesStatement(workspaceId ?? '', { limit: 1 }))
  await act()
  const entries = await service.query(auditEntriesStatement(workspaceId ?? '', { limit: 100 }))
  return entries.filter(({ id }) => id > (last?.id ?? 0)).toReversed()
}

const requestId = () => crypto.randomUUID()
async function credited(): Promise<number> {
  const { commissionId } = await program.soldBy(0, 10_000)
  await approveCommissions(service, programId, [commissionId])
  return commissionId
}
async function requestPayout(): Promise<number> {
  await credited()
  return await askPayout(service, {
    programId,
    partnerId,
    currency: 'usd',
    amountCents: 100,
    requestId: requestId(),
  })
}
async function newestKey(): Promise<number> {
  await createApiKey(service, programId, 'server')
  return (await service.query(apiKeysStatement(programId)))[0]?.id ?? 0
}
const settings = async (change: object) => {
  const { processor_account_id: _, ...now } = (await readProgram(service, programId)) ?? {}
  return { ...programDefaults, name: 'Ledger', domain: 'shop.example.com', ...now, ...change }
}
async function invited(email: string): Promise<string> {
  return await inviteMember(service, {
    workspaceId: workspaceId ?? '',
    email,
    role: 'member',
    invitedBy: actor.userId,
    byOwner: true,
  })
}
const open = (role: 'admin' | null) => openProgram(db, { programId, userId: other.userId, role })
const memberIs = (role: 'admin' | null) =>
  changeMember(db, { workspaceId: workspaceId ?? '', userId: other.userId, role, byOwner: true })

/** The sign-in library makes these calls without the actor's identity. */
const asActor =
  (...statements: string[]) =>
  async () =>
  async () => {
    for (const statement of statements) await sql.query(statement, [actor.userId])
  }

/** Each action in order, with the expected entry: the name, the object, and some of the details. */
const acts: [what: string, prepare: () => Promise<() => Promise<unknown>>, left: [string, unknown, object?][]][] = [
  [
    'a payment processor is disconnected',
    async () => () => disconnectProcessor(db, { STRIPE_SECRET_KEY: 'x' }, programId),
    [['processor.disconnected', expect.stringMatching(/^acct_/)]],
  ],
  [
    'a payment processor is connected',
    async () => () => connectProcessor(db, programId, 'acct_audit'),
    [['processor.connected', 'acct_audit']],
  ],
  [
    'a person is invited',
    async () => () =>
      inviteMember(db, {
        workspaceId,
        email: 'bob@example.com',
        role: 'member',
        invitedBy: actor.userId,
        byOwner: true,
      }),
    [['member.invited', 'bob@example.com', { role: 'member' }]],
  ],
  [
    'a person joins',
    async () => {
      const token = await invited('bob@example.com')
      return () => acceptInvitation(service.actingAs(other.userId), token, other.userId)
    },
    [['member.joined', 'bob@example.com', { role: 'member' }]],
  ],
  [
    'a role is changed',
    async () => () => memberIs('admin'),
    [['member.role_changed', 'bob@example.com', { role: ['member', 'admin'] }]],
  ],
  [
    'a program is opened',
    async () => () => open('admin'),
    [['program.opened_to_member', 'bob@example.com', { role: 'admin' }]],
  ],
  ['a program is closed', async () => () => open(null), [['program.closed_to_member', 'bob@example.com']]],
  ['a member is removed', async () => () => memberIs(null), [['member.removed', 'bob@example.com', { role: 'admin' }]]],
  [
    'an invitation is revoked',
    async () => {
      await invited('eve@example.com')
      const { rows } = await sql.query<{ id: string }>(
        `select id from workspace_invitations where email = 'eve@example.com'`,
      )
      return () => revokeInvitation(db, { workspaceId, invitationId: rows[0]?.id ?? '', byOwner: true })
    },
    [['member.invitation_revoked', 'eve@example.com']],
  ],
  [
    'a key is created',
    async () => () => createApiKey(db, programId, 'server'),
    [['api_key.created', expect.stringMatching(/^server …\w{4}$/)]],
  ],
  [
    'a webhook endpoint is created, changed, tested and deleted',
    async () => async () => {
      const WEBHOOK_SECRET = 'webhooks'
      const hooks = { url: 'https://hooks.example.com/', description: '', types: ['sale.created' as const] }
      const { id } = await createEndpoint(db, { WEBHOOK_SECRET }, programOwner(programId), hooks)
      await changeEndpoint(db, {}, programOwner(programId), id, { types: ['lead.created'] })
      await testEndpoint(db, programOwner(programId), id)
      await replayDeliveries(db, programOwner(programId), id, { failedOnly: false })
      await rotateSecret(db, { WEBHOOK_SECRET }, programOwner(programId), id)
      await changeEndpoint(db, {}, programOwner(programId), id, { enabled: false })
      await changeEndpoint(db, {}, programOwner(programId), id, { enabled: true })
      await deleteEndpoint(db, programOwner(programId), id)
    },
    ['created', 'changed', 'tested', 'sent_again', 'secret_rotated', 'disabled', 'enabled', 'deleted'].map((act) => [
      `webhook.${act}`,
      'https://hooks.example.com/',
    ]),
  ],
  [
    'a key is revoked',
    async () => {
      const key = await newestKey()
      return () => revokeApiKey(db, programId, key)
    },
    [['api_key.revoked', expect.stringMatching(/^server …\w{4}$/)]],
  ],
  [
    'a program is created',
    async () => () => createProgram(db, workspaceId, { ...programDefaults, name: 'Second', domain: 'b.example.com' }),
    [['program.created', 'Second']],
  ],
  [
    'rules are changed',
    async () => {
      const changed = await settings({ hold_days: 14 })
      return () => updateProgram(db, programId, changed)
    },
    [['program.changed', null, { hold_days: [0, 14] }]],
  ],
  [
    'the minimum payout is changed',
    async () => () => setMinimumPayout(db, programId, 'usd', 1),
    [['program.changed', null, { 'minimum_payout_cents usd': [0, 1] }]],
  ],
  [
    'a partner is added',
    async () => () => addPartner(db, { programId, name: 'Eve', email: null, code: null }),
    [['partner.added', expect.stringMatching(/^\d+$/)]],
  ],
  [
    'a partner is disabled',
    async () => () => updatePartner(db, programId, partnerIds[1] ?? 0, { is_active: false }),
    [['partner.deactivated', String(partnerIds[1])]],
  ],
  [
    'a note about a partner is written and removed, and the entries omit its text',
    async () => async () => {
      await updatePartner(db, programId, partnerIds[1] ?? 0, { note: 'slow to answer' })
      await updatePartner(db, programId, partnerIds[1] ?? 0, { note: null })
    },
    [
      ['partner.note_changed', String(partnerIds[1])],
      ['partner.note_changed', String(partnerIds[1])],
    ],
  ],
  [
    "a member changes a partner's payout address",
    async () => async () => {
      const added = await addPartner(db, { programId, name: 'Mal', email: null, code: null })
      await updatePartner(db, programId, added.partnerId, { payout_email: 'mal@example.com' })
    },
    [
      ['partner.added', expect.stringMatching(/^\d+$/)],
      ['partner.changed', expect.stringMatching(/^\d+$/)],
    ],
  ],
  [
    'a commission is approved',
    async () => {
      const { commissionId } = await program.soldBy(0, 10_000)
      return () => approveCommissions(db, programId, [commissionId])
    },
    [['commission.approved', expect.stringMatching(/^\d+$/)]],
  ],
  [
    'a commission is rejected',
    async () => {
      const { commissionId } = await program.soldBy(0, 10_000)
      return () => rejectCommission(db, programId, commissionId, 'no')
    },
    [['commission.rejected', expect.stringMatching(/^\d+$/)]],
  ],
  [
    'a payout is refused',
    async () => {
      const payout = await requestPayout()
      return () => refusePayout(db, programId, payout, 'no')
    },
    [['payout.refused', expect.stringMatching(/^\d+$/), { amount_cents: 100 }]],
  ],
  [
    'a payout is paid',
    async () => {
      const payout = await requestPayout()
      return () => payPayout(db, programId, payout, 100, transfer)
    },
    [['payout.paid', expect.stringMatching(/^\d+$/), { reference: transfer.reference }]],
  ],
  [
    'a payout run is created and paid',
    async () => {
      await credited()
      return async () => payPayoutRun(db, programId, (await createPayoutRun(db, programId, requestId())) ?? 0, transfer)
    },
    [
      ['payout_run.created', expect.stringMatching(/^\d+$/)],
      ['payout_run.paid', expect.stringMatching(/^\d+$/), { reference: transfer.reference }],
    ],
  ],
  [
    'a payout run is sent to a provider and stopped',
    async () => {
      await credited()
      const runId = (await createPayoutRun(service, programId, requestId())) ?? 0
      const keys = { client_id: 'id', client_secret: 'secret' }
      const paypal = { provider: 'paypal', livemode: false, keys } as const
      const id = await connectProvider(service, { EMAIL_HASH_KEY: 'x'.repeat(32) }, programId, paypal)
      const [due] = await readSendable(service, programId, runId, 'paypal')
      return async () => {
        await sendRunToProvider(db, programId, runId, { id, provider: 'paypal' }, due?.payable_cents ?? 0)
        const [batch] = await listRunBatches(service, programId, runId)
        await stopBatch(db, programId, batch?.id ?? 0)
      }
    },
    [
      ['payout_run.sent', expect.stringMatching(/^\d+$/), { provider: 'paypal', payments: 1, currency: 'usd' }],
      ['payout_run.stopped', expect.stringMatching(/^\d+$/), { payments: 1 }],
    ],
  ],
  [
    'data is exported',
    async () => () => noteExport(service, actor.userId, programId, 'partners-1'),
    [['data.exported', 'partners-1']],
  ],
  [
    'a person signs in',
    asActor(`insert into sessions (id, user_id, token, expires_at) values ('s', $1, 't', now())`),
    [['member.signed_in', null]],
  ],
  [
    'two-factor codes are enabled',
    asActor('update users set two_factor_enabled = true where id = $1'),
    [['member.two_factor_enabled', null]],
  ],
  [
    'two-factor codes are disabled',
    asActor('update users set two_factor_enabled = false where id = $1'),
    [['member.two_factor_disabled', null]],
  ],
  [
    'a password is changed',
    asActor(`update accounts set password = 'another' where user_id = $1`),
    [['member.password_changed', null]],
  ],
  [
    'an e-mail address is changed, and then changed back',
    asActor(
      `update users set email = 'new@example.com' where id = $1`,
      `update users set email = 'ada@example.com' where id = $1`,
    ),
    [
      ['member.email_changed', null],
      ['member.email_changed', null],
    ],
  ],
  [
    "a name is changed, but it isn't used to sign in",
    asActor(`update users set name = 'Ada L.', email_verified = true where id = $1`),
    [],
  ],
]

test.for(acts)('it records the actor and the program of an action: %s', async ([what, prepare, left]) => {
  const act = await prepare()
  const entries = await entriesOf(act)
  const by = what === 'a person joins' ? 'bob@example.com' : 'ada@example.com'
  expect(entries.map(({ actor: who, action, subject }) => [who, action, subject])).toEqual(
    left.map(([action, subject]) => [by, action, subject]),
  )
  for (const [index, [, , details]] of left.entries()) {
    if (details) expect(entries[index]?.details).toMatchObject(details)
  }
})

test('actions of the service have no actor', async () => {
  await program.soldBy(0, 10_000)
  expect(await entriesOf(() => approveDueCommissions(service, 100))).toEqual([])
})

test("a refused action doesn't leave an entry", async () => {
  const change = { workspaceId, userId: actor.userId, role: 'guest', byOwner: true } as const
  expect(await entriesOf(() => expect(changeMember(db, change)).rejects.toMatchObject({ code: 'conflict' }))).toEqual(
    [],
  )
})

test('an action and its entry take one database request', async () => {
  const before = neon.requests
  await createApiKey(db, programId, 'counted')
  expect(neon.requests - before).toBe(1)
})

test.each(['update audit_log set action = $$a.b$$', 'delete from audit_log', 'truncate audit_log'])(
  'the schema refuses: %s',
  async (statement) => {
    await expect(sql.query(statement)).rejects.toThrow('audit_log is append-only')
  },
)

test('entries are deleted after two years, and entries about money after ten', async () => {
  const ofMoney = ['payout.paid', 'payout_run.reopened', 'commission.approved', 'partner.adjusted', 'partner.erased']
  await sql.query(
    `insert into audit_log (workspace_id, action, subject, created_at)
    select 'old', action, age, now() - age::interval from unnest($1::text[]) action, unnest('{119 months,121 months}'::text[]) age
    union all
    select 'old', 'member.removed', age, now() - age::interval from unnest('{23 months,25 months}'::text[]) age`,
    [ofMoney],
  )
  const kept = [...ofMoney.map((action) => `${action} 119 months`), 'member.removed 23 months']
  for (const gone of [ofMoney.length + 1, 0]) {
    expect(await deleteOldAuditEntries(service, 10)).toBe(gone)
    const left = await service.query(auditEntriesStatement('old', { limit: 20 }))
    expect(left.map(({ action, subject }) => `${action} ${subject}`).toSorted()).toEqual(kept.toSorted())
  }
  await expect(sql.query("delete from audit_log where subject = '119 months'")).rejects.toThrow('append-only')
})

test('entries can be filtered by type and person, and paged', async () => {
  const keys = await service.query(auditEntriesStatement(workspaceId, { limit: 100, thing: 'api_key' }))
  expect(new Set(keys.map(({ action }) => action))).toEqual(new Set(['api_key.created', 'api_key.revoked']))
  const bobs = await service.query(auditEntriesStatement(workspaceId, { limit: 100, userId: other.userId }))
  expect(bobs.map(({ action }) => action)).toEqual(['member.joined'])
  const [first, second] = await service.query(auditEntriesStatement(workspaceId, { limit: 2 }))
  expect(await service.query(auditEntriesStatement(workspaceId, { limit: 1, before: first?.id }))).toEqual([second])
})

test('details show the old and the new value of a rule, and times in UTC', () => {
  const details = { hold_days: [30, 14], closed_at: [null, '2026-11-22T11:05:55.123456+02:00'], reference: '2026-11' }
  expect(detailsOf({ details })).toBe(
    'hold days: 30 → 14, closed at: none → Nov 22, 2026, 9:05 AM UTC, reference: 2026-11',
  )
  const amounts = { 'minimum_payout_cents eur': [0, 5000], fixed_cents: 1234, commission_bp: [1000, 1250], clicks: 3 }
  expect(detailsOf({ details: amounts }, 'jpy')).toBe(
    'minimum payout: €0.00 → €50.00, fixed: ¥1,234, commission: 10% → 12.5%, clicks: 3',
  )
  expect(detailsOf({ details: { currency: 'usd', amount_cents: 150 } }, 'eur')).toBe('currency: usd, amount: $1.50')
})
