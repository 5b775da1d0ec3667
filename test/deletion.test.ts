import { expect, test } from 'vitest'
import { eraseAccount } from '../lib/access/account.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { erasePayee, readPayee } from '../lib/money/payees.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { sessionCookie } from '../lib/access/sessions.ts'
import { findDifferences } from '../lib/commands/audit.ts'
import { addMember, createPerson } from '../lib/local/people.ts'
import { createSandbox, type Sandbox } from '../lib/local/sandbox.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { exportPayments } from '../lib/money/payout-files.ts'
import { askPayout, payPayout } from '../lib/money/payouts.ts'
import { createExport } from '../lib/moving/exports.ts'
import { applyImport, createImport, importFiles } from '../lib/moving/imports.ts'
import { inviteMember } from '../lib/programs/invitations.ts'
import { invitePartner } from '../lib/programs/partner-invitations.ts'
import { addPartner, updatePartner } from '../lib/programs/partners.ts'
import { setPayoutAddress } from '../lib/programs/partnerships.ts'
import { deleteWorkspace } from '../lib/programs/workspaces.ts'
import { eraseCustomer } from '../lib/tracking/erase-customer.ts'
import { refusalIn } from './support/refusal.ts'
import { startStack } from './support/stack.ts'

const stack = await startStack({
  functions: ['dashboard', 'auth', 'track-click', 'track-lead', 'track-sale', 'tracking-performance'],
})
const { db, sql } = stack
const env = { ...stack.env, AUTH_SECRET: stack.environment.AUTH_SECRET, STRIPE_SECRET_KEY: 'sk_test_of_tests' }
const password = 'correct horse battery'
let created = 0

async function signedInPerson(name: string, hasPassword = true) {
  const email = `${name.toLowerCase()}-${crypto.randomUUID()}@example.com`
  return await createPerson(db, env, { name, email, ...(hasPassword && { password }) })
}

/** A program with a partner. The same person, who has a password, is its owner and its partner. */
async function newProgram(settings: Parameters<typeof createSandbox>[2] = {}, havePasswords = true) {
  const sandbox = await createSandbox(db, env, { hold_days: 0, ...settings })
  const [owner, partner] = [await signedInPerson('Olga', havePasswords), await signedInPerson('Petra', havePasswords)]
  await addMember(db, sandbox.workspaceId, owner.userId, 'owner')
  await sql.query('update partners set user_id = $2 where id = $1', [sandbox.partnerId, partner.userId])
  return { ...sandbox, owner, partner }
}

async function call(path: string, key: string | undefined, body: object) {
  const response = await fetch(stack.baseUrl + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) },
    body: JSON.stringify(body),
  })
  const answer: { click_id?: string; commission_cents?: number; error?: { code: string } } = await response.json()
  return { status: response.status, ...answer }
}

async function click({ partnerCode }: Sandbox, more: object = {}) {
  return await call('/api/v1/track/click', undefined, {
    affiliate_url: `https://shop.example.com/?aff=${partnerCode}`,
    ...more,
  })
}

/** A sale to a new customer of the partner. Its commission is 20 dollars and pending. */
async function sell(program: Sandbox, clickId?: string) {
  const id = clickId ?? (await click(program)).click_id
  const name = `sale-${(created += 1)}`
  const sale = { transaction_id: name, customer_key: name, click_id: id, amount_cents: 10_000 }
  return await call('/api/v1/track/sale', program.apiKey, sale)
}

async function credit({ programId }: Sandbox) {
  const { rows } = await sql.query<{ id: string }>(
    'select id from commissions where program_id = $1 and credited_at is null',
    [programId],
  )
  await approveCommissions(
    db,
    programId,
    rows.map(({ id }) => Number(id)),
  )
}

async function ask({ programId, partnerId }: Sandbox, amountCents = 2000) {
  return await askPayout(db, { programId, partnerId, currency: 'usd', amountCents, requestId: crypto.randomUUID() })
}

const transfer = { reference: 'T1', paid_on: new Date() }

async function pay(program: Sandbox, amountCents = 2000) {
  await payPayout(db, program.programId, await ask(program, amountCents), amountCents, transfer)
}

async function page(method: 'GET' | 'POST', path: string, token: string, fields: Record<string, string> = {}) {
  const response = await fetch(stack.baseUrl + path, {
    method,
    redirect: 'manual',
    headers: { origin: stack.baseUrl, cookie: `${sessionCookie}=${encodeURIComponent(token)}` },
    ...(method === 'POST' && { body: new URLSearchParams(fields) }),
  })
  return {
    status: response.status,
    text: await response.text(),
    location: response.headers.get('location'),
    refusal: refusalIn(response.headers),
  }
}

async function one(query: string, values: unknown[] = []) {
  return (await sql.query(query, values)).rows[0]
}

async function nameOf(workspaceId: string): Promise<string> {
  return (await one('select name from workspaces where id = $1', [workspaceId])).name
}

/** Imports a partner without ids, so that the address identifies the rows. The partner has a balance of ten dollars. */
async function importPartner({ programId }: Sandbox, email: string) {
  const importEnv = { ...env, EMAIL_HASH_KEY: stack.environment.EMAIL_HASH_KEY }
  const tables = {
    'partners.csv': `email,link,coupon,balance,currency\n${email},petra,PETRA,10.00,USD`,
    'commissions.csv': `commission id,partner email,amount,currency,status\nc1,${email},1.00,USD,paid`,
    'customers.csv': `customer key,partner email,link\nu1,${email},petra`,
  }
  const files = Object.entries(tables).map(([name, text]) => ({ name, content: Buffer.from(text) }))
  const importId = await createImport(db, importEnv, programId, 'csv')
  await importFiles(db, importEnv, programId, importId, { source: 'csv', files, mappings: {}, seconds: 60 })
  await applyImport(db, importEnv, programId, importId, 60)
  expect(
    await one('select count(*)::int from import_rows where program_id = $1 and is_applied', [programId]),
  ).toMatchObject({ count: 6 })
}

/** States that prevent both kinds of deletion. */
const unsettled: [what: string, arrange: (program: Sandbox) => Promise<unknown>][] = [
  ['a pending commission', sell],
  [
    'a balance',
    async (program) => {
      await sell(program)
      await credit(program)
    },
  ],
  [
    'an open payout',
    async (program) => {
      await sell(program)
      await credit(program)
      await ask(program)
    },
  ],
]

test.each(unsettled)('neither a workspace nor its partner can be deleted while there is %s', async (what, arrange) => {
  const program = await newProgram()
  const { workspaceId, owner, partner } = program
  await arrange(program)
  const workspaceName = await nameOf(workspaceId)
  const fields = { workspace_name: workspaceName, password }
  const refused = await page('POST', `/workspaces/${workspaceId}/delete`, owner.token, fields)
  expect(refused.refusal).toContain(`(${what})`)
  const refusedErasure = await page('POST', '/account/erase', partner.token, { password })
  expect(refusedErasure.refusal).toContain(`(${what})`)
  expect((await sell(program)).status).toBe(200)
  expect((await page('GET', '/partner', partner.token)).status).toBe(200)
})

test.each([
  ['another name', { workspace_name: 'Another', password }, 'This is not its name.'],
  ['a wrong password', { password: 'a wrong horse battery' }, 'This is not your password.'],
  ['no password', {}, 'This is not your password.'],
])("a deletion with %s doesn't delete the workspace", async (_what, wrong, message) => {
  const { workspaceId, programId, owner } = await newProgram()
  const fields = { workspace_name: await nameOf(workspaceId), ...wrong }
  const { refusal } = await page('POST', `/workspaces/${workspaceId}/delete`, owner.token, fields)
  expect(refusal).toContain(message)
  expect((await page('GET', `/programs/${programId}/check`, owner.token)).status).toBe(200)
})

test('nobody can open a deleted workspace, and its payouts stay in the books', async () => {
  const program = await newProgram({ lead_auth_policy: 'browser_allowed' })
  const { workspaceId, programId, owner, partner, apiKey } = program
  await sql.query(
    `insert into webhook_endpoints (program_id, url, types) values ($1, 'https://hooks.example.com', $2)`,
    [programId, ['sale.created', 'payout.paid']],
  )
  await sell(program)
  await credit(program)
  await pay(program)
  const { click_id: clickId } = await click(program)
  const other = await addPartner(db, { programId, name: 'Grace', email: 'grace@example.com', code: null })
  const asked = await invitePartner(db, { programId, partnerId: other.partnerId, invitedBy: owner.userId })
  const invitation = { workspaceId, email: 'bob@example.com', role: 'member', byOwner: true } as const
  const invited = await inviteMember(db, { ...invitation, invitedBy: owner.userId })
  const money = () =>
    one(
      `select (select jsonb_agg(s) from sales s where program_id = $1) as sales,
        (select jsonb_agg(w) from payouts w where program_id = $1) as payouts,
        (select jsonb_agg(e) from balance_entries e where program_id = $1) as entries`,
      [programId],
    )
  const before = await money()
  const fields = { workspace_name: await nameOf(workspaceId), password }
  const deleted = await page('POST', `/workspaces/${workspaceId}/delete`, owner.token, fields)
  expect(deleted).toMatchObject({ status: 303, location: '/account' })

  for (const path of [
    `/programs/${programId}`,
    `/workspaces/${workspaceId}/members`,
    `/workspaces/${workspaceId}/audit`,
  ])
    expect([path, (await page('GET', path, owner.token)).status]).toEqual([path, 404])
  const performance = await fetch(`${stack.baseUrl}/api/tracking/performance/${programId}`, {
    headers: { authorization: `Bearer ${owner.token}` },
  })
  expect(performance.status).toBe(404)
  for (const token of [apiKey, await createApiKey(db, programId, 'late')])
    expect(
      await call('/api/v1/track/sale', token, { transaction_id: 't', customer_key: 'k', amount_cents: 1 }),
    ).toMatchObject({
      status: 401,
    })
  const unknown = { status: 400, error: { code: 'unknown_partner_code' } }
  const answers = [await click(program), await click({ ...program, partnerCode: other.code })]
  expect(answers).toMatchObject([unknown, unknown])
  const lead = { customer_key: 'new', click_id: clickId, additional_data: { program_id: programId } }
  expect(await call('/api/v1/track/lead', undefined, lead)).toMatchObject({ error: { code: 'no_attribution' } })
  for (const path of [`/invitation?token=${invited}`, `/partner-invitation?token=${asked?.token}`])
    expect((await page('GET', path, partner.token)).text).not.toContain('Accept')
  await expect(updatePartner(db, programId, other.partnerId, { is_active: true })).rejects.toMatchObject({
    code: 'conflict',
  })

  // Pending notifications are deleted, nothing is claimed, and nothing new is written.
  const unreported = await one(`select count(*)::int as n from webhook_deliveries where program_id = $1`, [programId])
  expect(unreported).toEqual({ n: 2 })
  expect(await one('select 1 from claim_due_webhooks(array[$1::bigint], 10, true)', [programId])).toBeUndefined()
  expect(await one('select webhook_types from programs where id = $1', [programId])).toEqual({ webhook_types: null })

  expect(await money()).toEqual(before)
  expect(await findDifferences(sql, programId)).toEqual([])
  expect((await page('GET', '/partner/payouts', partner.token)).text).toContain('T1')
  const entry = await one(`select user_id from audit_log where workspace_id = $1 and action = 'workspace.deleted'`, [
    workspaceId,
  ])
  expect(entry).toEqual({ user_id: owner.userId })
})

test('only anonymous sums remain of an erased partner, and later purchases of their customers earn nothing', async () => {
  const program = await newProgram({ lead_commission_cents: 100 })
  const { programId, partnerId, partner } = program
  await setPayoutAddress(db, partner.userId, 'petra-payout@example.com')
  await sql.query('update partners set email = $2 where id = $1', [partnerId, partner.email])
  await importPartner(program, partner.email)
  await sell(program)
  await credit(program)
  const payoutId = await ask(program, 3000)
  await exportPayments(db, programId, { askedIn: 'usd' }, { layout: 'csv' })
  await payPayout(db, programId, payoutId, 3000, transfer)
  const { rows } = await sql.query(
    'select amount_cents from balance_entries where program_id = $1 order by entry_number',
    [programId],
  )
  await addPartner(db, {
    programId: (await newProgram()).programId,
    name: 'Somebody',
    email: partner.email,
    code: null,
  })
  const asker = await newProgram()
  const asked = await addPartner(db, { programId: asker.programId, name: 'P', email: partner.email, code: null })
  await invitePartner(db, { programId: asker.programId, partnerId: asked.partnerId, invitedBy: asker.owner.userId })
  const invitation = { workspaceId: asker.workspaceId, email: partner.email, role: 'member', byOwner: true } as const
  await inviteMember(db, { ...invitation, invitedBy: asker.owner.userId })
  await sql.query(
    `update partners set external_id = $2, note = 'hard to reach', metadata = '{"nick": "pet"}' where id = $1`,
    [partnerId, partner.email],
  )
  await sql.query(
    `insert into idempotency_keys (program_id, token, request_hash, answer)
    values ($1, 'made', sha256('x'), jsonb_build_object('id', $2::bigint, 'email', $3::text)),
      ($4, 'applied', sha256('x'), jsonb_build_object('id', 0, 'email', $3::text))`,
    [programId, partnerId, partner.email, asker.programId],
  )
  await sql.query(
    `with run as (insert into payout_runs (program_id, request_id) values ($1, gen_random_uuid()) returning id),
    connection as (
      insert into payout_connections (id, program_id, provider, livemode) values ('pay_' || repeat('x', 43), $1, 'wise', true) returning id
    ),
    batch as (
      insert into payout_batches (program_id, payout_run_id, connection_id, currency, problem)
      select $1, run.id, connection.id, 'usd', 'Unknown: petra-payout@example.com' from run, connection returning id
    ),
    recipient as (insert into payout_recipients (program_id, partner_id, recipient_id) values ($1, $2, 'acct_petrapayout'))
    insert into payout_items (program_id, payout_id, batch_id, recipient, outcome, provider_reason)
    select $1, w.id, batch.id, 'petra-payout@example.com', 'paid', 'Paid to petra-payout@example.com'
    from batch, payouts w where w.program_id = $1 and w.partner_id = $2`,
    [programId, partnerId],
  )
  await sql.query(
    `with view as (
      insert into saved_views (program_id, user_id, list, name, query) values ($1, $3, 'partners', 'Petra', 'q=' || replace($4, '@', '%40'))
    ),
    endpoint as (
      insert into webhook_endpoints (program_id, partner_id, method, url, types)
      values ($1, $2, 'GET', 'https://petra-payout.example.com/?x={sub1}', '{lead}')
    ),
    message as (
      insert into outbox (program_id, kind, audience, partner_id, cause, payload, delivered_at)
      values ($1, 'program_message', 'partner', $2, 'message', '{"text": "Dear petra-payout"}', now()) returning *
    )
    insert into notifications (program_id, id, kind, audience, partner_id, payload, created_at)
    select program_id, id, kind, audience, partner_id, payload, created_at from message`,
    [programId, partnerId, program.owner.userId, partner.email],
  )
  const { click_id: clickId } = await click(program)
  // A payment after the identities were read.
  await expect(eraseAccount(db, partner.userId, '[]')).rejects.toMatchObject({ constraint: 'erased_payees_complete' })
  const wrong = await page('POST', '/account/erase', partner.token, { password: 'a wrong horse' })
  expect(wrong.refusal).toContain('This is not your password.')
  expect(await page('POST', '/account/erase', partner.token, { password })).toMatchObject({
    status: 303,
    location: '/sign-in?next=%2Fpartner',
  })

  expect(await page('GET', '/account', partner.token)).toMatchObject({ status: 303 })
  expect(
    await one(
      'select name, email, payout_email, note, user_id, is_active, external_id, metadata from partners where id = $1',
      [partnerId],
    ),
  ).toEqual({
    name: 'Erased partner',
    email: null,
    payout_email: null,
    note: null,
    user_id: null,
    is_active: false,
    external_id: null,
    metadata: {},
  })
  const { rows: tables } = await sql.query<{ name: string }>(
    `select relname as name from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace`,
  )
  for (const { name: table } of tables) {
    // Another program's own record of the address is kept.
    if (table === 'partners') continue
    const { text } = await one(`select coalesce(string_agg(t::text, ' '), '') as text from ${table} t`)
    const secrets = [partner.email, 'petra-payout', 'acct_petrapayout']
    // The audit log identifies an erased actor by their id.
    if (table !== 'audit_log') secrets.push(partner.userId)
    for (const secret of secrets) expect([table, text.includes(secret)]).toEqual([table, false])
  }
  const entries = await sql.query(
    'select amount_cents from balance_entries where program_id = $1 order by entry_number',
    [programId],
  )
  expect(entries.rows).toEqual(rows)
  // The books still contain the name of the paid partner.
  const payee = JSON.parse(await readPayee(db, stack.environment.EMAIL_HASH_KEY, programId, partnerId))
  expect(payee).toMatchObject({ account_email: partner.email, paid_to: ['petra-payout@example.com'] })
  await expect(readPayee(db, 'another key', programId, partnerId)).rejects.toMatchObject({ code: 'not_found' })
  expect(await sell(program, clickId)).toMatchObject({ status: 200 })
  const open = 'select count(*)::int from commissions where program_id = $1 and paid_at is null and amount_cents > 0'
  expect(await one(open, [programId])).toEqual({ count: 0 })
  expect((await click(program)).error?.code).toBe('link_disabled')
  await expect(updatePartner(db, programId, partnerId, { is_active: true })).rejects.toMatchObject({ code: 'conflict' })
  expect(await findDifferences(sql, programId)).toEqual([])
})

test("the debt of an erased partner stays in the books with its age and the debtor's name", async () => {
  const program = await newProgram()
  const { programId, partnerId, partner, dashboardToken } = program
  await sell(program)
  await credit(program)
  await createAdjustment(db, programId, { partnerId, amountCents: -4000, note: 'Paid twice' }, crypto.randomUUID(), [])
  const owed = async () =>
    one(
      "select owed_cents::int, owed_since > now() - interval '1 hour' as is_new from owed_balances where program_id = $1",
      [programId],
    )
  expect(await owed()).toEqual({ owed_cents: 2000, is_new: true })
  expect((await page('GET', `/programs/${programId}/payout-runs`, dashboardToken)).text).toContain('Owed by partners')
  expect((await page('POST', '/account/erase', partner.token, { password })).status).toBe(303)
  expect(await owed()).toEqual({ owed_cents: 2000, is_new: true })
  expect(
    await one("select details from audit_log where action = 'partner.erased' and program_id = $1", [programId]),
  ).toEqual({
    details: { 'owes usd': 2000 },
  })
  const payee = JSON.parse(await readPayee(db, stack.environment.EMAIL_HASH_KEY, programId, partnerId))
  expect(payee.account_email).toBe(partner.email)
  expect((await page('GET', `/programs/${programId}/payout-runs`, dashboardToken)).text).toContain('Erased partner')
  expect(await findDifferences(sql, programId)).toEqual([])
})

test('a member is erased from their workspace, unless they are its last owner', async () => {
  const { workspaceId, owner, dashboardToken } = await newProgram()
  const member = await signedInPerson('Mia')
  await addMember(db, workspaceId, member.userId, 'admin')
  const invitation = { workspaceId, email: 'carl@example.com', role: 'member', byOwner: false } as const
  await inviteMember(db, { ...invitation, invitedBy: member.userId })
  for (const { token } of [member, owner])
    expect((await page('POST', '/account/erase', token, { password })).status).toBe(303)
  expect((await page('GET', `/workspaces/${workspaceId}/members`, dashboardToken)).text).not.toContain(member.email)
  expect(await one('select revoked_at from workspace_invitations where workspace_id = $1', [workspaceId])).toEqual({
    revoked_at: expect.any(Date),
  })
  const last = await signedInPerson('Lea')
  await addMember(db, workspaceId, last.userId, 'owner')
  await sql.query(`update workspace_members set role = 'admin' where workspace_id = $1 and user_id <> $2`, [
    workspaceId,
    last.userId,
  ])
  const refused = await page('POST', '/account/erase', last.token, { password })
  expect(refused.refusal).toContain(await nameOf(workspaceId))
})

/** Returns the rows in the copies for a program's exports. */
async function copied(ofProgramId: number): Promise<string> {
  const copies = `select coalesce(string_agg(fields::text, ''), '') as text from export_rows where program_id = $1`
  return (await one(copies, [ofProgramId])).text
}

const races: [what: string, end: (program: Awaited<ReturnType<typeof newProgram>>) => Promise<void>][] = [
  ['a workspace is deleted', async ({ workspaceId }) => await deleteWorkspace(db, env, workspaceId)],
  ['a partner is erased', async ({ partner }) => await erasePayee(db, 'key', partner.userId)],
]

test.each(races)('if a sale arrives while %s, one of the two is refused', async (_what, end) => {
  for (let round = 0; round < 12; round++) {
    const program = await newProgram({}, false)
    const { click_id: clickId } = await click(program)
    const [ended] = await Promise.allSettled([end(program), sell(program, clickId)])
    const { count } = await one('select count(*)::int from commissions where program_id = $1', [program.programId])
    expect([ended.status, count]).toEqual(count === 0 ? ['fulfilled', 0] : ['rejected', 1])
  }
})

const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`

/** Starts `waiter` while the first transaction is open, and commits that transaction once `waiter` is waiting. */
async function meet(first: string, values: unknown[], waiter: () => Promise<unknown>): Promise<string> {
  await sql.query('begin')
  await sql.query(first, values)
  const done = waiter().then(
    () => 'done',
    (error: Error) => error.message,
  )
  await expect.poll(async () => (await sql.query(waiting)).rowCount, { interval: 5 }).toBe(1)
  await sql.query('commit')
  return await done
}

test('an erasure waits for a running export and deletes its copy, and an export waits for a running erasure', async () => {
  const running = `with begun as (select begin_export($1) as id)
    insert into export_rows select $1, id, 'partners', 1, '{"name": "Petra"}' from begun`
  const [sold, left, closed] = [await newProgram({}, false), await newProgram({}, false), await newProgram({}, false)]
  await sell(sold)
  const erasures = [
    [sold, () => eraseCustomer(db, sold.programId, { customer_key: `sale-${created}` })],
    [left, () => erasePayee(db, 'key', left.partner.userId)],
    [closed, () => deleteWorkspace(db, env, closed.workspaceId)],
  ] as const
  const outcomes = []
  for (const [{ programId }, erase] of erasures)
    outcomes.push([await meet(running, [programId], erase), await copied(programId)])
  expect(outcomes).toEqual(Array.from({ length: 3 }, () => ['done', '']))

  const [later, gone] = [await newProgram({}, false), await newProgram({}, false)]
  const erasing = `select erase_user($1, '[]')`
  expect(await meet(erasing, [later.partner.userId], () => createExport(db, later.programId))).toBe('done')
  expect(await copied(later.programId)).toContain('Erased partner')
  const closing = 'select close_workspace($1)'
  expect(await meet(closing, [gone.workspaceId], () => createExport(db, gone.programId))).toContain('deleted')
})

test('an erasure locks the programs of a person before their partners', async () => {
  const { programId, partnerId, partner } = await newProgram({}, false)
  await sql.query(
    `insert into webhook_endpoints (program_id, partner_id, url, types) values ($1, $2, 'https://hooks.example.com', '{sale}')`,
    [programId, partnerId],
  )
  await sql.query('begin')
  await sql.query('select from programs where id = $1 for no key update', [programId])
  const erased = erasePayee(db, 'key', partner.userId)
  await expect.poll(async () => (await sql.query(waiting)).rowCount, { interval: 5 }).toBe(1)
  await sql.query('select from partners where program_id = $1 and id = $2 for no key update', [programId, partnerId])
  await sql.query('commit')
  await erased
})

test('if the last two owners erase themselves at once, one stays', async () => {
  const { workspaceId, owner } = await newProgram()
  const other = await signedInPerson('Otto')
  await sql.query(`update workspace_members set role = 'admin' where workspace_id = $1 and user_id <> $2`, [
    workspaceId,
    owner.userId,
  ])
  await addMember(db, workspaceId, other.userId, 'owner')
  const outcomes = await Promise.allSettled([owner, other].map(({ userId }) => erasePayee(db, 'key', userId)))
  expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
})
