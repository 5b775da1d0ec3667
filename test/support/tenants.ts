import { startBulkJob } from '../../lib/programs/bulk-jobs.ts'
import { createConnection } from '../../lib/processors/connections.ts'
import { createPartnerKey } from '../../lib/access/partner-keys.ts'
import { createApiKey } from '../../lib/access/program-keys.ts'
import { createAdjustment } from '../../lib/money/adjustments.ts'
import { approveCommissions } from '../../lib/money/commissions.ts'
import { addMember, createPerson, tiePartner } from '../../lib/local/people.ts'
import { createSandbox, type Sandbox } from '../../lib/local/sandbox.ts'
import { sessionCookie } from '../../lib/access/sessions.ts'
import { connectProvider } from '../../lib/money/payout-connections.ts'
import { createPayoutRun } from '../../lib/money/payout-runs.ts'
import { createExport } from '../../lib/moving/exports.ts'
import { askPayout } from '../../lib/money/payouts.ts'
import { apply, confirmApplication, findApplication } from '../../lib/programs/applications.ts'
import { createCode } from '../../lib/programs/codes.ts'
import { createGroup } from '../../lib/programs/groups.ts'
import { changeJoinPage } from '../../lib/programs/join-page.ts'
import { addPartner } from '../../lib/programs/partners.ts'
import { createEndpoint, testEndpoint, programOwner } from '../../lib/notifications/webhook-endpoints.ts'
import { postbackEvents, webhookId } from '../../lib/notifications/webhook-types.ts'
import { inviteMember } from '../../lib/programs/invitations.ts'
import { startStack } from './stack.ts'

/** A program with objects of every kind that an address can name, a neighboring program, and callers. */
export async function startTenants() {
  const stack = await startStack()
  const { AUTH_SECRET, WEBHOOK_SECRET } = stack.environment
  const env = { ...stack.env, AUTH_SECRET, WEBHOOK_SECRET }
  const victim = await createSandbox(stack.db, env, { hold_days: 0 })
  const attacker = await createSandbox(stack.db, env)

  async function callersOf({ workspaceId, programId }: Sandbox) {
    const [removed, expired, unverified] = await Promise.all(
      ['removed', 'expired', 'unverified'].map((name) =>
        createPerson(stack.db, env, { name, email: `${name}-${crypto.randomUUID()}@example.com` }),
      ),
    )
    if (!removed || !expired || !unverified) throw new Error('people are missing')
    await stack.sql.query('update users set email_verified = false where id = $1', [unverified.userId])
    for (const { userId } of [removed, expired, unverified]) await addMember(stack.db, workspaceId, userId, 'owner')
    await stack.sql.query('update workspace_members set removed_at = now() where user_id = $1', [removed.userId])
    await stack.sql.query(`update sessions set expires_at = now() - interval '1 second' where user_id = $1`, [
      expired.userId,
    ])
    const revokedKey = await createApiKey(stack.db, programId, 'old')
    await stack.sql.query(`update api_keys set revoked_at = now() where program_id = $1 and name = 'old'`, [programId])
    return { removed, expired: expired.token, unverified: unverified.token, revokedKey }
  }
  const { removed, expired, unverified, revokedKey } = await callersOf(victim)

  /** Another partner of the victim's program, without any objects in it. */
  const fellow = await createPerson(stack.db, env, {
    name: 'Fellow',
    email: `fellow-${crypto.randomUUID()}@example.com`,
  })
  const added = await addPartner(stack.db, {
    programId: victim.programId,
    name: 'Fellow',
    email: fellow.email,
    code: 'fellow',
  })
  await tiePartner(stack.db, added.partnerId, fellow.userId)

  /** Callers by their session or key. All except the first four have no rights in the victim's program. */
  const callers = {
    owner: victim.dashboardToken,
    'a member without the action': victim.billingToken,
    'its partner': victim.partnerToken,
    'another partner of the program': fellow.token,
    'an unverified account': unverified,
    nobody: undefined,
    'a revoked key': revokedKey,
    "its program's key": victim.apiKey,
    "another program's key": attacker.apiKey,
    "another workspace's owner": attacker.dashboardToken,
    "another program's partner": attacker.partnerToken,
    'a removed member': removed.token,
    'an expired session': expired,
  } as const
  async function send(route: string, token: string | undefined, fields: Record<string, string> = {}, json?: object) {
    const [method = '', path = ''] = route.split(' ')
    const isKey = token?.startsWith('svc_') ?? false
    const headers: Record<string, string> = {
      ...(method === 'POST' && !json && { origin: stack.baseUrl }),
      ...(json && { 'content-type': 'application/json' }),
      ...(token &&
        (isKey || path.startsWith('/api/')
          ? { authorization: `Bearer ${token}` }
          : { cookie: `${sessionCookie}=${encodeURIComponent(token)}` })),
    }
    const body = method === 'GET' ? null : json ? JSON.stringify(json) : new URLSearchParams(fields)
    const response = await fetch(stack.baseUrl + path, { method, headers, body, redirect: 'manual' })
    return { status: response.status, location: response.headers.get('location'), text: await response.text() }
  }

  /** API keys of partners. Each key is used once, because later tests would otherwise see its first use as a change. */
  async function keyOf({ programId, partnerId }: { programId: number; partnerId: number }): Promise<string> {
    const { rows } = await stack.sql.query('select user_id from partners where id = $1', [partnerId])
    const key = await createPartnerKey(stack.db, { programId, userId: rows[0].user_id })
    await send('GET /api/v1/partner/links', key)
    return key
  }
  const partnerKeys = {
    own: await keyOf(victim),
    fellow: await keyOf({ programId: victim.programId, partnerId: added.partnerId }),
    other: await keyOf(attacker),
  }

  /** The victim's objects of every kind that an address can name. */
  async function fill({ programId, workspaceId, partnerId, partnerCode, apiKey }: Sandbox) {
    const click = {
      affiliate_url: `https://shop.example.com/?aff=${partnerCode}`,
      page_url: 'https://shop.example.com/secret-page?secret-search',
    }
    const { click_id }: { click_id: string } = JSON.parse(
      (await send('POST /api/v1/track/click', undefined, {}, click)).text,
    )
    const sale = {
      transaction_id: 'secret-transaction',
      customer_key: 'secret-customer',
      click_id,
      amount_cents: 10_000,
    }
    await send('POST /api/v1/track/lead', apiKey, {}, { customer_key: 'secret-customer', click_id })
    await send('POST /api/v1/track/sale', apiKey, {}, sale)
    await send('POST /api/v1/track/sale', apiKey, {}, { ...sale, transaction_id: 'pending-transaction' })
    const { rows } = await stack.sql.query<{ id: string }>(
      'select id from commissions where program_id = $1 order by id',
      [programId],
    )
    const [credited, pending] = rows.map(({ id }) => Number(id))
    await approveCommissions(stack.db, programId, [credited ?? 0])
    const ask = { programId, partnerId, currency: 'usd', amountCents: 500, requestId: crypto.randomUUID() }
    const payout = await askPayout(stack.db, ask)
    const run = await createPayoutRun(stack.db, programId, crypto.randomUUID())
    await inviteMember(stack.db, {
      workspaceId,
      email: 'invited@example.com',
      role: 'member',
      invitedBy: removed.userId,
      byOwner: true,
    })
    const hooks = { url: 'https://hooks.example.com/secret-hook', description: '', types: ['sale.created' as const] }
    const endpoint = await createEndpoint(stack.db, stack.environment, programOwner(programId), hooks)
    const message = await testEndpoint(stack.db, programOwner(programId), endpoint.id)
    const partner = { programId, partnerId }
    const template = 'https://secret-postback.example.com/?to={sub1}'
    const settings = { url: template, method: 'GET' as const, types: [...postbackEvents], description: '' }
    const postback = await createEndpoint(stack.db, stack.environment, partner, settings)
    const postbackMessage = await testEndpoint(stack.db, partner, postback.id)
    const connection = await createConnection(stack.db, programId, { processor: 'paddle', livemode: true })
    const group = await createGroup(stack.db, programId, { name: 'Secret group', rules: [{ commission_bp: 777 }] })
    await changeJoinPage(stack.db, programId, { is_open: true, slug: 'secret-slug', terms: 'Be true.' })
    const applicant = { programId, userId: null, email: 'secret-applicant@example.com', name: 'Applicant', answers: [] }
    const applied = await apply(stack.db, { ...applicant, seen: { version: 2 } })
    const application = await findApplication(stack.db, applied.token)
    if (!application) throw new Error('the application is missing')
    await confirmApplication(stack.db, application)
    const code = await createCode(stack.db, programId, {
      partner_id: partnerId,
      code: 'SECRET-CODE',
      promotion_code_id: null,
      account_id: null,
    })
    await createAdjustment(
      stack.db,
      programId,
      { partnerId, amountCents: 700, note: 'secret-note' },
      crypto.randomUUID(),
      [],
    )
    // Holds the commission for review, so that a decision by an outsider would be visible.
    await stack.sql.query(
      `with held as (update commissions set held_at = now() where program_id = $1 and id = $2)
      insert into commission_reviews (program_id, commission_id, flags)
      values ($1, $2, '[{"rule": "bot", "evidence": {"user_agent": "secret-agent", "clicked_at": "2026-11-20T00:00:00Z"}}]')`,
      [programId, pending],
    )
    const imported = await stack.sql.query<{ import_id: string }>(
      `with created as (insert into imports (program_id, source, state) values ($1, 'csv', 'planned') returning program_id, id)
      insert into import_rows (program_id, import_id, id, kind, source_id, origin, fields, outcome, reason)
      select program_id, id, 1, 'partner', 'secret-import', 'a file', '{}', 'create', 'new' from created returning import_id`,
      [programId],
    )
    const { id: exportId } = await createExport(stack.db, programId)
    const job = { kind: 'deactivate', settings: { status: 'active' }, rows: 1, newestId: partnerId } as const
    const jobId = await startBulkJob(stack.db, programId, job)
    const keys = { client_id: 'secret-client', client_secret: 'secret' }
    const paypal = { provider: 'paypal', livemode: false, keys } as const
    const batch = await stack.sql.query<{ id: string }>(
      `insert into payout_batches (program_id, payout_run_id, connection_id, currency, next_step_at)
      values ($1, $2, $3, 'usd', 'infinity') returning id`,
      [programId, run, await connectProvider(stack.db, stack.environment, programId, paypal)],
    )
    const document = await stack.sql.query<{ id: string }>(
      `with series as (insert into document_series (program_id, series, last_number) values ($1, 'SB', 1))
      insert into documents (program_id, series, number, kind, payout_id, payment_number, partner_id, currency, amount_cents, paid_on,
        reference, terms_version, issuer, payee, lines, is_reverse_charge)
      select w.program_id, 'SB', 1, 'invoice', w.id, 1, w.partner_id, w.currency, w.amount_cents, '2026-11-20', 'transfer', 1,
        p.party, p.party, '[]', false
      from payouts w, (select '{"legal_name": "Secret payee", "address": "Street 1", "country": "DE", "vat_id": null}'::jsonb as party) p
      where w.program_id = $1 and w.id = $2 returning id`,
      [programId, payout],
    )
    const ids = await stack.sql.query<{
      key: string
      partner_key: string
      invitation: string
      link: string
      customer: string
    }>(
      `select (select max(id) from api_keys where program_id = $1 and revoked_at is null) as key,
        (select id from partner_keys where program_id = $1 and partner_id = $3) as partner_key,
        (select id from workspace_invitations where workspace_id = $2) as invitation,
        (select max(id) from referral_links where program_id = $1) as link,
        (select min(id) from customers where program_id = $1) as customer`,
      [programId, workspaceId, partnerId],
    )
    return {
      click_id,
      ':programId': String(programId),
      ':workspaceId': workspaceId,
      ':partnerId': String(partnerId),
      ':partner_id': String(partnerId),
      ':group_id': String(group.id),
      ':groupId': String(group.id),
      ':application_id': String(application.id),
      ':applicationId': String(application.id),
      ':slug': 'secret-slug',
      ':code_id': String(code.id),
      ':codeId': String(code.id),
      ':link_id': String(ids.rows[0]?.link),
      ':customerId': String(ids.rows[0]?.customer),
      ':customer': 'secret-customer',
      ':transaction_id': 'secret-transaction',
      ':transactionId': 'pending-transaction',
      ':commission_id': String(pending),
      ':import_id': String(imported.rows[0]?.import_id),
      ':importId': String(imported.rows[0]?.import_id),
      ':export_id': String(exportId),
      ':exportId': String(exportId),
      ':payout_id': String(payout),
      ':payout_run_id': String(run),
      ':webhook_endpoint_id': String(endpoint.id),
      ':delivery_id': webhookId(message),
      ':commissionId': String(pending),
      ':payoutId': String(payout),
      ':documentId': String(document.rows[0]?.id),
      ':month': '2026-11',
      ':kind': 'deactivate',
      ':jobId': String(jobId),
      ':runId': String(run),
      ':keyId': String(ids.rows[0]?.key),
      ':partnerKeyId': String(ids.rows[0]?.partner_key),
      ':invitationId': String(ids.rows[0]?.invitation),
      ':userId': removed.userId,
      ':eventId': 'evt_1',
      ':endpointId': String(endpoint.id),
      ':messageId': String(message),
      ':postbackId': String(postback.id),
      ':postbackMessageId': String(postbackMessage),
      ':connectionId': connection,
      ':provider': 'paypal',
      ':batchId': String(batch.rows[0]?.id),
    }
  }
  const own = await fill(victim)

  return { stack, env, victim, attacker, removed, fellow, callers, partnerKeys, send, own }
}
