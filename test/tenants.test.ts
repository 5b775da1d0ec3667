import { Stripe } from 'stripe'
import { expect, test } from 'vitest'
import { type Action, may, roles } from '../lib/access/roles.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { makeAdjustment } from '../lib/money/adjustments.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { addMember, createPerson, tiePartner } from '../lib/local/people.ts'
import { createSandbox, type Sandbox } from '../lib/local/sandbox.ts'
import { checkoutSession, stripeEvent } from '../lib/local/stripe-events.ts'
import { sessionCookie } from '../lib/access/sessions.ts'
import { makePayoutRun } from '../lib/money/payout-runs.ts'
import { askWithdrawal } from '../lib/money/withdrawals.ts'
import { apply, confirmApplication, findApplication } from '../lib/programs/applications.ts'
import { makeCode } from '../lib/programs/codes.ts'
import { makeGroup } from '../lib/programs/groups.ts'
import { changeJoinPage } from '../lib/programs/join-page.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { makeEndpoint, testEndpoint } from '../lib/notifications/webhook-endpoints.ts'
import { webhookId } from '../lib/notifications/webhook-types.ts'
import { inviteMember } from '../lib/programs/invitations.ts'
import { readRoutes } from './chaos/routes.ts'
import { startStack } from './support/stack.ts'

/**
 * Every route of every function, by who may use it: a program's members with an action, members of a workspace, a partner, anyone
 * signed in, or anyone. A route without a row here fails the first test.
 */
const routes = {
  program: {
    'GET /programs/:programId': 'performance:read',
    'GET /programs/:programId/performance.csv': 'performance:read',
    'GET /programs/:programId/check': 'program:read',
    'POST /programs/:programId/check/key': 'api-key:manage',
    'GET /programs/:programId/customers/:customerId': 'tracking:list',
    'GET /programs/:programId/events': 'tracking:list',
    'GET /programs/:programId/events.csv': 'tracking:list',
    'GET /programs/:programId/test': 'performance:read',
    'GET /programs/:programId/test/events': 'tracking:list',
    'GET /programs/:programId/test/events.csv': 'tracking:list',
    'GET /programs/:programId/test/deliveries': 'delivery:list',
    'GET /programs/:programId/test/deliveries.csv': 'delivery:list',
    'POST /programs/:programId/test/clear': 'program:update',
    'GET /programs/:programId/applications': 'partner:list',
    'GET /programs/:programId/applications.csv': 'partner:list',
    'GET /programs/:programId/applications/:applicationId': 'partner:list',
    'POST /programs/:programId/applications/approve': 'partner:manage',
    'POST /programs/:programId/applications/:applicationId/approve': 'partner:manage',
    'POST /programs/:programId/applications/:applicationId/reject': 'partner:manage',
    'POST /programs/:programId/applications/:applicationId/delete': 'partner:manage',
    'GET /programs/:programId/join-page': 'program:update',
    'GET /programs/:programId/join-page/preview': 'program:update',
    'POST /programs/:programId/join-page': 'program:update',
    'GET /programs/:programId/partners': 'partner:list',
    'GET /programs/:programId/partners.csv': 'partner:list',
    'POST /programs/:programId/partners': 'partner:manage',
    'GET /programs/:programId/partners/:partnerId': 'partner:list',
    'POST /programs/:programId/partners/:partnerId': 'partner:manage',
    'POST /programs/:programId/partners/:partnerId/note': 'partner:manage',
    'POST /programs/:programId/partners/:partnerId/codes': 'partner:manage',
    'GET /programs/:programId/codes': 'partner:list',
    'GET /programs/:programId/codes.csv': 'partner:list',
    'POST /programs/:programId/codes/:codeId/revoke': 'partner:manage',
    'POST /programs/:programId/partners/:partnerId/invite': 'partner:manage',
    'POST /programs/:programId/partners/:partnerId/activate': 'partner:manage',
    'POST /programs/:programId/partners/:partnerId/end': 'partner:manage',
    'POST /programs/:programId/partners/:partnerId/deactivate': 'partner:manage',
    'GET /programs/:programId/commissions': 'commission:list',
    'GET /programs/:programId/sales/:transactionId': 'commission:list',
    'GET /programs/:programId/commissions.csv': 'commission:list',
    'POST /programs/:programId/commissions/decide': 'commission:decide',
    'GET /programs/:programId/reviews': 'commission:list',
    'POST /programs/:programId/reviews/decide': 'commission:decide',
    'GET /programs/:programId/adjustments': 'commission:list',
    'GET /programs/:programId/adjustments.csv': 'commission:list',
    'POST /programs/:programId/partners/:partnerId/adjust': 'commission:decide',
    'POST /programs/:programId/commissions/:commissionId/approve': 'commission:decide',
    'POST /programs/:programId/commissions/:commissionId/reject': 'commission:decide',
    'GET /programs/:programId/withdrawals': 'withdrawal:list',
    'GET /programs/:programId/withdrawals.csv': 'withdrawal:list',
    'GET /programs/:programId/withdrawals/payouts.csv': 'withdrawal:pay',
    'GET /programs/:programId/payouts': 'withdrawal:list',
    'POST /programs/:programId/payouts': 'withdrawal:pay',
    'POST /programs/:programId/payouts/minimum': 'program:update',
    'POST /programs/:programId/payouts/by-hand': 'withdrawal:pay',
    'GET /programs/:programId/payouts/:runId': 'withdrawal:list',
    'GET /programs/:programId/payouts/:runId/file.csv': 'withdrawal:pay',
    'POST /programs/:programId/payouts/:runId/pay': 'withdrawal:pay',
    'POST /programs/:programId/withdrawals/:withdrawalId/pay': 'withdrawal:pay',
    'POST /programs/:programId/withdrawals/:withdrawalId/refuse': 'withdrawal:pay',
    'GET /programs/:programId/notices': 'notice:list',
    'GET /programs/:programId/notices.csv': 'notice:list',
    'POST /programs/:programId/notices/read': 'notice:list',
    'GET /programs/:programId/deliveries': 'delivery:list',
    'GET /programs/:programId/deliveries.csv': 'delivery:list',
    'GET /programs/:programId/deliveries/notifications': 'delivery:list',
    'GET /programs/:programId/deliveries/notifications.csv': 'delivery:list',
    'POST /programs/:programId/deliveries/:eventId/replay': 'processor:manage',
    'GET /programs/:programId/webhooks': 'webhook:list',
    'GET /programs/:programId/webhooks/deliveries': 'webhook:list',
    'GET /programs/:programId/webhooks/deliveries.csv': 'webhook:list',
    'GET /programs/:programId/webhooks/:endpointId': 'webhook:list',
    'GET /programs/:programId/webhooks/:endpointId/deliveries/:messageId': 'webhook:list',
    'POST /programs/:programId/webhooks': 'webhook:manage',
    'POST /programs/:programId/webhooks/:endpointId': 'webhook:manage',
    'POST /programs/:programId/webhooks/:endpointId/on': 'webhook:manage',
    'POST /programs/:programId/webhooks/:endpointId/off': 'webhook:manage',
    'POST /programs/:programId/webhooks/:endpointId/rotate': 'webhook:manage',
    'POST /programs/:programId/webhooks/:endpointId/delete': 'webhook:manage',
    'POST /programs/:programId/webhooks/:endpointId/test': 'webhook:manage',
    'POST /programs/:programId/webhooks/:endpointId/replay': 'webhook:manage',
    'POST /programs/:programId/webhooks/:endpointId/deliveries/:messageId/replay': 'webhook:manage',
    'GET /programs/:programId/settings': 'program:read',
    'POST /programs/:programId/settings': 'program:update',
    'GET /programs/:programId/groups': 'partner:list',
    'POST /programs/:programId/groups': 'partner:manage',
    'GET /programs/:programId/groups/everybody': 'partner:list',
    'GET /programs/:programId/groups/everybody/preview': 'program:update',
    'POST /programs/:programId/groups/everybody/save': 'program:update',
    'POST /programs/:programId/groups/everybody/end': 'program:update',
    'GET /programs/:programId/groups/:groupId': 'partner:list',
    'POST /programs/:programId/groups/:groupId/rename': 'partner:manage',
    'POST /programs/:programId/groups/:groupId/remove': 'partner:manage',
    'GET /programs/:programId/groups/:groupId/preview': 'partner:manage',
    'POST /programs/:programId/groups/:groupId/save': 'partner:manage',
    'POST /programs/:programId/groups/:groupId/end': 'partner:manage',
    'GET /programs/:programId/partners/:partnerId/rules': 'partner:list',
    'GET /programs/:programId/partners/:partnerId/rules/preview': 'partner:manage',
    'POST /programs/:programId/partners/:partnerId/rules/save': 'partner:manage',
    'POST /programs/:programId/partners/:partnerId/rules/end': 'partner:manage',
    'POST /programs/:programId/partners/:partnerId/group': 'partner:manage',
    'POST /programs/:programId/partners/move': 'partner:manage',
    'POST /programs/:programId/settings/forget': 'customer:forget',
    'POST /programs/:programId/settings/keys': 'api-key:manage',
    'POST /programs/:programId/settings/keys/:keyId/retire': 'api-key:manage',
    'POST /programs/:programId/settings/processor/connect': 'processor:manage',
    'POST /programs/:programId/settings/processor/disconnect': 'processor:manage',
    'GET /programs/:programId/settings/processor/own-account': 'own-account:connect',
    'POST /programs/:programId/settings/processor/own-account': 'own-account:connect',
    'POST /programs/:programId/settings/processor/known-customers': 'processor:manage',
    'POST /programs/:programId/settings/processor/backfill': 'processor:manage',
    'POST /programs/:programId/settings/processor/backfill/continue': 'processor:manage',
    'POST /programs/:programId/settings/processor/backfill/stop': 'processor:manage',
  },
  workspace: [
    'GET /workspaces/:workspaceId/members',
    'POST /workspaces/:workspaceId/members',
    'POST /workspaces/:workspaceId/members/invitations/:invitationId/revoke',
    'POST /workspaces/:workspaceId/members/:userId/role',
    'POST /workspaces/:workspaceId/members/:userId/remove',
    'POST /workspaces/:workspaceId/members/programs',
    'POST /workspaces/:workspaceId/members/two-factor',
    'GET /workspaces/:workspaceId/delete',
    'POST /workspaces/:workspaceId/delete',
    'GET /workspaces/:workspaceId/audit',
    'GET /workspaces/:workspaceId/audit.csv',
  ],
  partner: [
    'GET /partner',
    'GET /partner/links',
    'POST /partner/links',
    'GET /partner/commissions',
    'GET /partner/sales/:programId/:transactionId',
    'GET /partner/commissions.csv',
    'GET /partner/adjustments',
    'GET /partner/adjustments.csv',
    'GET /partner/withdrawals',
    'GET /partner/withdrawals.csv',
    'POST /partner/withdrawals',
    'POST /partner/withdrawals/:programId/:withdrawalId/cancel',
    'POST /partner/payout',
    'POST /partner/name',
    'POST /partner/programs/:programId/leave',
    'GET /partner/notifications',
    'GET /partner/notifications.csv',
    'POST /partner/notifications/read',
  ],
  signedIn: [
    'GET /',
    'GET /programs/new',
    'POST /programs/new',
    'GET /account',
    'POST /account/password',
    'GET /partner/invitations',
    'GET /partner/applications',
    'GET /partner/applications/:programId/:applicationId',
    'POST /partner/invitations/:programId/:partnerInvitationId/accept',
    'POST /partner/invitations/:programId/:partnerInvitationId/decline',
    'POST /account/verification',
    'POST /workspaces/:workspaceId/leave',
    'POST /account/name',
    'POST /account/email',
    'GET /account/erase',
    'POST /account/erase',
    'GET /account/mail',
    'POST /account/mail',
    'POST /account/mail/retry',
    'GET /account/sessions',
    'POST /account/sessions/end',
    'POST /account/sessions/:sessionId/end',
    'GET /account/two-factor',
    'GET /account/two-factor/confirm',
    'POST /account/two-factor',
    'POST /account/two-factor/confirm',
    'POST /account/two-factor/recovery-codes',
    'POST /account/two-factor/off',
    'POST /verify-email',
    'GET /processor/callback',
  ],
  read: {
    'GET /api/tracking/performance/:programId': 'performance:read',
    'GET /api/tracking/events/:programId': 'tracking:list',
  },
  keyed: ['POST /api/v1/track/sale', 'POST /api/v1/track/refund', 'GET /api/v1/cli/status'],
  /** The program API: what the victim's key reads and changes, another's does not reach. */
  scoped: [
    'GET /api/v1/partners',
    'POST /api/v1/partners',
    'GET /api/v1/partners/:partner_id',
    'PATCH /api/v1/partners/:partner_id',
    'GET /api/v1/groups',
    'POST /api/v1/groups',
    'GET /api/v1/groups/:group_id',
    'PATCH /api/v1/groups/:group_id',
    'DELETE /api/v1/groups/:group_id',
    'POST /api/v1/groups/:group_id/partners',
    'GET /api/v1/rules',
    'PATCH /api/v1/rules',
    'POST /api/v1/rules/preview',
    'GET /api/v1/applications',
    'POST /api/v1/applications',
    'GET /api/v1/applications/:application_id',
    'PATCH /api/v1/applications/:application_id',
    'DELETE /api/v1/applications/:application_id',
    'GET /api/v1/join-page',
    'PATCH /api/v1/join-page',
    'GET /api/v1/codes',
    'POST /api/v1/codes',
    'GET /api/v1/codes/:code_id',
    'DELETE /api/v1/codes/:code_id',
    'GET /api/v1/performance',
    'GET /api/v1/links',
    'POST /api/v1/links',
    'PATCH /api/v1/links/:link_id',
    'GET /api/v1/customers',
    'GET /api/v1/customers/:customer',
    'GET /api/v1/sales',
    'GET /api/v1/sales/:transaction_id',
    'GET /api/v1/sales/:transaction_id/explanation',
    'GET /api/v1/events',
    'GET /api/v1/commissions',
    'PATCH /api/v1/commissions',
    'PATCH /api/v1/commissions/:commission_id',
    'GET /api/v1/reviews',
    'PATCH /api/v1/reviews',
    'GET /api/v1/adjustments',
    'POST /api/v1/adjustments',
    'GET /api/v1/payouts',
    'GET /api/v1/payouts/:payout_id',
    'PATCH /api/v1/payouts/:payout_id',
    'GET /api/v1/payout-runs',
    'POST /api/v1/payout-runs',
    'GET /api/v1/payout-runs/:payout_run_id',
    'GET /api/v1/webhook-endpoints',
    'POST /api/v1/webhook-endpoints',
    'GET /api/v1/webhook-endpoints/:webhook_endpoint_id',
    'PATCH /api/v1/webhook-endpoints/:webhook_endpoint_id',
    'DELETE /api/v1/webhook-endpoints/:webhook_endpoint_id',
    'POST /api/v1/webhook-endpoints/:webhook_endpoint_id/rotate-secret',
    'POST /api/v1/webhook-endpoints/:webhook_endpoint_id/test',
    'GET /api/v1/webhook-endpoints/:webhook_endpoint_id/deliveries',
    'GET /api/v1/webhook-endpoints/:webhook_endpoint_id/deliveries/:delivery_id',
    'POST /api/v1/webhook-endpoints/:webhook_endpoint_id/replay',
  ],
  /** The lead call takes a key or, from a browser, none; the webhook a signature. They have tests of their own below. */
  other: ['POST /api/v1/track/lead', 'POST /api/v1/webhooks/stripe', 'POST /api/v1/webhooks/mail'],
  anyone: [
    'POST /api/v1/track/click',
    'GET /js/',
    'GET /api/v1/openapi.json',
    'GET /api/v1/reference',
    'POST /api/auth/sign-up/email',
    'POST /api/auth/sign-in/email',
    'POST /api/auth/sign-out',
    'GET /api/auth/get-session',
    'POST /api/auth/change-password',
    'POST /api/auth/request-password-reset',
    'POST /api/auth/reset-password',
    'POST /api/auth/two-factor/verify-totp',
    'POST /api/auth/two-factor/verify-backup-code',
    'POST /api/auth/sign-in/social',
    'GET /api/auth/callback/:provider',
    'GET /docs/:page?',
    'GET /docs.md',
    'GET /docs/search',
    'GET /llms.txt',
    'GET /svc-tracker.tgz',
    'GET /healthz',
    'GET /assets/:file',
    'GET /sign-in',
    'POST /sign-in',
    'POST /sign-in/github',
    'POST /sign-in/google',
    'GET /two-factor',
    'POST /two-factor',
    'GET /sign-up',
    'POST /sign-up',
    'POST /sign-out',
    'GET /verify-email',
    'GET /mail/unsubscribe',
    'POST /mail/unsubscribe',
    'GET /forgot-password',
    'POST /forgot-password',
    'GET /reset-password',
    'POST /reset-password',
    'GET /invitation',
    'POST /invitation',
    'GET /partner-invitation',
    'POST /partner-invitation',
    'GET /join/:slug',
    'GET /join/:slug/sent',
    'POST /join/:slug',
    'GET /application',
    'POST /application',
    'POST /application/withdraw',
  ],
} as const satisfies Record<string, readonly string[] | Record<string, Action>>

/** Those of the above that mail others, which only an account does whose address is confirmed. */
const mailing = new Set<string>([
  'POST /programs/:programId/partners/:partnerId/invite',
  'POST /workspaces/:workspaceId/members',
])

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
  const retiredKey = await createApiKey(stack.db, programId, 'old')
  await stack.sql.query(`update api_keys set retired_at = now() where program_id = $1 and name = 'old'`, [programId])
  return { removed, expired: expired.token, unverified: unverified.token, retiredKey }
}
const { removed, expired, unverified, retiredKey } = await callersOf(victim)

/** Another partner of the victim's program, who has nothing there. */
const fellow = await createPerson(stack.db, env, { name: 'Fellow', email: `fellow-${crypto.randomUUID()}@example.com` })
const added = await addPartner(stack.db, {
  programId: victim.programId,
  name: 'Fellow',
  email: fellow.email,
  code: 'fellow',
})
await tiePartner(stack.db, added.partnerId, fellow.userId)

/** Who calls, by the session or key they hold. All but the first four hold nothing that is good for the victim's program. */
const callers = {
  owner: victim.dashboardToken,
  'a member without the action': victim.billingToken,
  'its partner': victim.partnerToken,
  'another partner of the program': fellow.token,
  'an unverified account': unverified,
  nobody: undefined,
  'a retired key': retiredKey,
  "its program's key": victim.apiKey,
  "another program's key": attacker.apiKey,
  "another workspace's owner": attacker.dashboardToken,
  "another program's partner": attacker.partnerToken,
  'a removed member': removed.token,
  'an expired session': expired,
} as const
type Caller = keyof typeof callers
const names = Object.keys(callers) as Caller[]

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

/** What the victim has of everything that an address can name. */
async function fill({ programId, workspaceId, partnerId, partnerCode, apiKey }: Sandbox) {
  const click = {
    affiliate_url: `https://shop.example.com/?aff=${partnerCode}`,
    page_url: 'https://shop.example.com/secret-page?secret-search',
  }
  const { click_id }: { click_id: string } = JSON.parse(
    (await send('POST /api/v1/track/click', undefined, {}, click)).text,
  )
  const sale = { transaction_id: 'secret-transaction', customer_key: 'secret-customer', click_id, amount_cents: 10_000 }
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
  const withdrawal = await askWithdrawal(stack.db, ask)
  const run = await makePayoutRun(stack.db, programId, crypto.randomUUID())
  await inviteMember(stack.db, {
    workspaceId,
    email: 'invited@example.com',
    role: 'member',
    invitedBy: removed.userId,
    byOwner: true,
  })
  const hooks = { url: 'https://hooks.example.com/secret-hook', description: '', types: ['sale.created' as const] }
  const endpoint = await makeEndpoint(stack.db, stack.environment, programId, hooks)
  const message = await testEndpoint(stack.db, programId, endpoint.id)
  const group = await makeGroup(stack.db, programId, { name: 'Secret group', rules: [{ commission_bp: 777 }] })
  await changeJoinPage(stack.db, programId, { is_open: true, slug: 'secret-slug', terms: 'Be true.' })
  const applicant = { programId, userId: null, email: 'secret-applicant@example.com', name: 'Applicant', answers: [] }
  const applied = await apply(stack.db, { ...applicant, seen: { version: 2 } })
  const application = await findApplication(stack.db, applied.token)
  if (!application) throw new Error('the application is missing')
  await confirmApplication(stack.db, application)
  const code = await makeCode(stack.db, programId, {
    partner_id: partnerId,
    code: 'SECRET-CODE',
    promotion_code_id: null,
    account_id: null,
  })
  await makeAdjustment(
    stack.db,
    programId,
    { partnerId, amountCents: 700, note: 'secret-note' },
    crypto.randomUUID(),
    [],
  )
  // What is decided on it by others would be seen.
  await stack.sql.query(
    `with held as (update commissions set held_at = now() where program_id = $1 and id = $2)
    insert into commission_reviews (program_id, commission_id, flags)
    values ($1, $2, '[{"rule": "bot", "evidence": {"user_agent": "secret-agent", "clicked_at": "2026-11-20T00:00:00Z"}}]')`,
    [programId, pending],
  )
  const ids = await stack.sql.query<{ key: string; invitation: string; link: string; customer: string }>(
    `select (select max(id) from api_keys where program_id = $1 and retired_at is null) as key,
      (select id from workspace_invitations where workspace_id = $2) as invitation,
      (select max(id) from referral_links where program_id = $1) as link,
      (select min(id) from customers where program_id = $1) as customer`,
    [programId, workspaceId],
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
    ':payout_id': String(withdrawal),
    ':payout_run_id': String(run),
    ':webhook_endpoint_id': String(endpoint.id),
    ':delivery_id': webhookId(message),
    ':commissionId': String(pending),
    ':withdrawalId': String(withdrawal),
    ':runId': String(run),
    ':keyId': String(ids.rows[0]?.key),
    ':invitationId': String(ids.rows[0]?.invitation),
    ':userId': removed.userId,
    ':eventId': 'evt_1',
    ':endpointId': String(endpoint.id),
    ':messageId': String(message),
  }
}
const own = await fill(victim)

/** A route's address with the victim's ids, or with the attacker's program and workspace around them. */
function address(route: string, around: Record<string, string> = {}): string {
  const path = Object.entries({ ...own, ...around }).reduce(
    (text, [name, id]) => text.replace(`/${name}`, `/${id}`),
    route,
  )
  return /\/(payouts|file)\.csv$/.test(path) ? `${path}?layout=wise&currency=usd` : path
}

/** Fields that a form of any of these routes would take. */
const fields = {
  name: 'Taken over',
  domain: 'evil.example',
  email: 'eve@evil.example',
  role: 'owner',
  user: removed.userId,
  program: own[':programId'],
  program_role: 'admin',
  reason: 'no',
  amount_cents: '500',
  reference: 'evil-transfer',
  paid_on: '2026-11-20',
  minimum: '1',
  currency: 'usd',
  partner_id: own[':partnerId'],
  amount: '1',
  balance: `${own[':programId']} usd`,
  request_id: crypto.randomUUID(),
  key_name: 'evil',
  customer_key: 'secret-customer',
  customer: 'secret-customer',
  account_id: 'acct_evil',
  payout_email: 'eve@evil.example',
  url: 'https://evil.example/hooks',
  'sale.created': 'on',
  since: '2026-01-01T00:00',
  until: '2036-01-01T00:00',
  code: 'eve',
  commission_bp: '100',
  sale_type: 'evil',
  which: 'shown',
  ends: '1',
  shown: `${own[':partnerId']} ${own[':commissionId']}`,
  to: own[':groupId'],
  group_id: own[':groupId'],
  page: '',
  new_code: 'EVE-CODE',
  way: 'own',
  duration: 'once',
  current: 'x',
  new: 'a new password',
  kind: 'deduction',
  adjust_note: 'no',
  decision: 'rejected',
  note: 'no',
  [`commission-${own[':commissionId']}`]: 'on',
}

/** Everything that is the victim's, as one text. */
async function victims(): Promise<string> {
  const { rows: tables } = await stack.sql.query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'program_id'
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1`,
  )
  // That its own members take files along is noted, and that its own retired key was refused.
  const noted: Record<string, string> = {
    audit_log: "and action <> 'data.exported'",
    refused_calls: "and call <> 'key'",
  }
  const parts = tables.map(
    ({ name }) => `select '${name}' as name, t::text from ${name} t where program_id = $1 ${noted[name] ?? ''}`,
  )
  const { rows } = await stack.sql.query(
    `${parts.join(' union all ')} union all select 'programs', p::text from programs p where id = $1
    union all select 'partners', p::text from partners p where id = $3
    union all select 'members', m::text from workspace_members m where workspace_id::text = $2
    union all select 'invitations', i::text from workspace_invitations i where workspace_id::text = $2 order by 1, 2`,
    [victim.programId, victim.workspaceId, victim.partnerId],
  )
  return JSON.stringify(rows)
}

async function statuses(route: string, who: readonly Caller[] = names): Promise<Partial<Record<Caller, number>>> {
  const answers = await Promise.all(who.map((name) => send(address(route), callers[name], fields)))
  return Object.fromEntries(who.map((name, index) => [name, answers[index]?.status]))
}

const except = (...left: Caller[]) => names.filter((name) => !left.includes(name))
const strangers = {
  nobody: 303,
  'a retired key': 303,
  "its program's key": 303,
  "another program's key": 303,
  "another workspace's owner": 404,
  "another program's partner": 404,
  'another partner of the program': 404,
  'a removed member': 404,
  'an expired session': 303,
}

test('every route of every function has its row', async () => {
  const rows = Object.values(routes).flatMap((group) =>
    Array.isArray(group) ? (group as string[]) : Object.keys(group),
  )
  expect(await readRoutes()).toEqual(rows.toSorted())
})

test.each(Object.entries(routes.program))('%s is for members with %s alone', async (route, action) => {
  const before = await victims()
  const reads = route.startsWith('GET')
  const billing = may(['billing'], action) ? 200 : 403
  const doing: Caller[] = ['owner']
  if (billing === 200) doing.push('a member without the action')
  if (!mailing.has(route)) doing.push('an unverified account')
  const tried = reads ? names : except(...doing)
  const owners = { owner: 200, 'an unverified account': mailing.has(route) ? 403 : 200 }
  const expected = { ...owners, 'a member without the action': billing, 'its partner': 404, ...strangers }
  const wanted = Object.fromEntries(tried.map((name) => [name, expected[name]]))
  expect(await statuses(route, tried)).toEqual(wanted)
  expect(await victims()).toBe(before)
})

test.each(routes.workspace)('%s is for those who manage it', async (route) => {
  const before = await victims()
  const owners = { owner: 200, 'an unverified account': mailing.has(route) ? 403 : 200 }
  const expected = { ...owners, 'a member without the action': 403, 'its partner': 404, ...strangers }
  const doing: Caller[] = mailing.has(route) ? ['owner'] : ['owner', 'an unverified account']
  const tried = route.startsWith('GET') ? names : except(...doing)
  expect(await statuses(route, tried)).toEqual(Object.fromEntries(tried.map((name) => [name, expected[name]])))
  expect(await victims()).toBe(before)
})

test.each(routes.partner)('%s is for partners, and shows nothing of another one', async (route) => {
  const before = await victims()
  const tried = route.startsWith('GET') ? names : except('its partner', 'another partner of the program')
  const found = await statuses(route, tried)
  const { "another program's partner": other, ...rest } = found
  const members = { owner: 404, 'an unverified account': 404, 'a member without the action': 404 }
  const isOfSale = route.includes('/sales/')
  const partners = { 'its partner': 200, 'another partner of the program': isOfSale ? 404 : 200 }
  const expected = { ...strangers, ...members, ...partners }
  expect(rest).toEqual(
    Object.fromEntries(
      tried.filter((name) => name !== "another program's partner").map((name) => [name, expected[name]]),
    ),
  )
  expect(other).toBeLessThan(500)
  const { text } = await send(route, attacker.partnerToken, fields)
  for (const secret of [victim.partnerCode, 'secret-transaction']) expect(text).not.toContain(secret)
  if (route.startsWith('GET')) {
    const beside = await send(address(route), fellow.token)
    const ofPartner = [victim.partnerCode, 'secret-transaction', 'secret-note', 'secret-payout', 'SECRET-CODE']
    expect(ofPartner.filter((secret) => beside.text.includes(secret))).toEqual([])
  }
  expect(await victims()).toBe(before)
})

test.each([
  'POST /partner/withdrawals/:programId/:withdrawalId/cancel',
  'POST /partner/invitations/:programId/:invitationId/accept',
  'POST /partner/invitations/:programId/:invitationId/decline',
  'GET /partner/applications/:programId/:applicationId',
])('%s does nothing with what is of another partner of the program, or of an applicant', async (route) => {
  const before = await victims()
  for (const token of [fellow.token, attacker.partnerToken, victim.dashboardToken]) {
    const { status, text } = await send(address(route), token, fields)
    expect([404, 409]).toContain(status)
    expect(text).not.toContain('Applicant')
  }
  expect(await victims()).toBe(before)
})

test.each(routes.signedIn)('%s leads whoever is not signed in to the sign-in page', async (route) => {
  const tried = ['nobody', 'a retired key', "its program's key", "another program's key", 'an expired session'] as const
  for (const name of tried) {
    const { status, location } = await send(route, callers[name], fields)
    expect([name, status]).toEqual([name, 303])
    expect(location).toMatch(/^\/sign-in/)
  }
})

test.each(Object.entries(routes.read))('%s is for members with %s alone', async (route, action) => {
  const found = await statuses(route)
  const keyOrNone = {
    nobody: 401,
    'a retired key': 401,
    "its program's key": 401,
    "another program's key": 401,
    'an expired session': 401,
  }
  const others = {
    "another workspace's owner": 403,
    "another program's partner": 403,
    'another partner of the program': 403,
    'a removed member': 403,
    'its partner': 403,
  }
  expect(found).toEqual({
    owner: 200,
    'an unverified account': 200,
    'a member without the action': may(['billing'], action) ? 200 : 403,
    ...keyOrNone,
    ...others,
  })
  const { status } = await send(route.replace(':programId', '999999999'), callers.owner)
  expect(status).toBe(404)
})

/** What the victim's pages and files hold that not every role may see, and the action it takes. */
const secrets: [what: string, text: string, action: Action][] = [
  ['the page that a visitor was on', 'secret-page', 'tracking:list'],
  ['the query of the page that a visitor was on', 'secret-search', 'tracking:list'],
  ['the id of a customer', 'secret-customer', 'tracking:list'],
  ['a click id', own.click_id, 'tracking:list'],
  ['where webhooks go', 'secret-hook', 'webhook:list'],
  ['where a partner is paid', 'secret-payout@example.com', 'payout-address:read'],
  ["an applicant's e-mail address", 'secret-applicant@example.com', 'payout-address:read'],
  ["a partner's e-mail address", 'secret-partner@example.com', 'payout-address:read'],
  ['the account at the payment processor', victim.connectedAccountId, 'processor:manage'],
  ['why money was given by hand', 'secret-note', 'commission:list'],
  ['by what a commission was flagged', 'secret-agent', 'tracking:list'],
  ['the name of a group', 'Secret group', 'partner:list'],
  ["a key's last characters", `…${victim.apiKey.slice(-4)}`, 'api-key:manage'],
  ["a member's address", removed.email, 'member:manage'],
]
await stack.sql.query(
  `update partners set payout_email = 'secret-payout@example.com', email = 'secret-partner@example.com' where id = $1`,
  [victim.partnerId],
)
const people = Object.fromEntries(
  await Promise.all(
    roles.map(async (role) => {
      const person = await createPerson(stack.db, env, {
        name: role,
        email: `${role}-${crypto.randomUUID()}@example.com`,
      })
      await addMember(stack.db, victim.workspaceId, person.userId, role)
      return [role, person.token] as const
    }),
  ),
)
const pages = [...Object.keys(routes.program), ...routes.workspace, ...routes.signedIn].filter((route) =>
  route.startsWith('GET'),
)

test.each(roles)('%s is shown on no page and in no file what the role does not carry', async (role) => {
  const shown = await Promise.all(pages.map((route) => send(address(route), people[role])))
  const leaks = shown.flatMap(({ text }, index) =>
    secrets
      .filter(([, secret, action]) => !may([role], action) && text.includes(secret))
      .map(([what]) => [pages[index], what]),
  )
  expect(leaks).toEqual([])
  const missing = secrets.filter(
    ([, secret, action]) => may([role], action) && !shown.some(({ text }) => text.includes(secret)),
  )
  expect(missing.map(([what]) => what)).toEqual([])
})

test.each(roles.filter((role) => role !== 'owner'))('%s does nothing that the role does not carry', async (role) => {
  const before = await victims()
  const denied = Object.entries(routes.program).filter(([, action]) => !may([role], action))
  const found = await Promise.all(
    denied.map(async ([route]) => [route, (await send(address(route), people[role], fields)).status]),
  )
  // Of a program that was not opened to a guest, nothing is there.
  expect(found).toEqual(denied.map(([route]) => [route, role === 'guest' ? 404 : 403]))
  expect(await victims()).toBe(before)
})

const sessions = except('nobody', 'a retired key', "its program's key", "another program's key")

test.each(routes.keyed)('%s takes an active key and nothing else', async (route) => {
  const before = await victims()
  const body = route.startsWith('GET') ? undefined : { transaction_id: 'x', customer_key: 'x', amount_cents: 1 }
  for (const name of ['nobody', 'a retired key', ...sessions] as const) {
    const { status } = await send(route, callers[name], {}, body)
    expect([name, status]).toEqual([name, 401])
  }
  expect(await victims()).toBe(before)
})

/** What a call of the program API may carry to do something to the victim. */
const changes: Record<string, object> = {
  'POST /api/v1/partners': { name: 'Eve', external_id: 'eve' },
  'PATCH /api/v1/partners/:partner_id': { status: 'inactive' },
  'POST /api/v1/groups': { name: 'Eve', rules: [{ commission_bp: 10_000 }] },
  'POST /api/v1/groups/:group_id/partners': { partner_ids: [victim.partnerId] },
  'PATCH /api/v1/rules': { rules: [{ sale_type: 'evil', commission_bp: 10_000 }] },
  'POST /api/v1/rules/preview': { partner_id: victim.partnerId, rules: [{ commission_bp: 10_000 }] },
  'PATCH /api/v1/groups/:group_id': { name: 'Eve', rules: [{ commission_bp: 10_000 }] },
  'POST /api/v1/applications': { name: 'Eve', email: 'eve@evil.example' },
  'PATCH /api/v1/applications/:application_id': { status: 'rejected' },
  'PATCH /api/v1/join-page': { intro: 'Buy at evil.example' },
  'POST /api/v1/codes': { partner_id: victim.partnerId, code: 'EVE' },
  'POST /api/v1/links': { partner_id: victim.partnerId, code: 'eve-link' },
  'PATCH /api/v1/links/:link_id': { status: 'inactive' },
  'PATCH /api/v1/commissions': { ids: [Number(own[':commission_id'])], status: 'rejected', reason: 'no' },
  'PATCH /api/v1/reviews': { commission_ids: [Number(own[':commission_id'])], decision: 'rejected', note: 'no' },
  'POST /api/v1/adjustments': { partner_id: victim.partnerId, amount_cents: -100, note: 'no' },
  'PATCH /api/v1/commissions/:commission_id': { status: 'rejected', reason: 'no' },
  'PATCH /api/v1/payouts/:payout_id': { status: 'refused', reason: 'no' },
  'POST /api/v1/payout-runs': {},
  'POST /api/v1/webhook-endpoints': { url: 'https://evil.example/hooks', types: ['sale.created'] },
  'PATCH /api/v1/webhook-endpoints/:webhook_endpoint_id': { url: 'https://evil.example/hooks' },
  'POST /api/v1/webhook-endpoints/:webhook_endpoint_id/replay': { delivery_id: own[':delivery_id'] },
}

test.each(routes.scoped)("%s takes an active key, and reaches nothing of another's program", async (route) => {
  const before = await victims()
  const body = changes[route]
  for (const name of ['nobody', 'a retired key', ...sessions] as const) {
    const { status } = await send(address(route), callers[name], {}, body)
    expect([name, status]).toEqual([name, 401])
  }
  const { status, text } = await send(address(route), attacker.apiKey, {}, body)
  // A link or a code for another's partner is refused as one for nobody, nobody of the other program is due, and it has no join page.
  const conflicts = [
    'POST /api/v1/codes',
    'POST /api/v1/links',
    'POST /api/v1/payout-runs',
    'POST /api/v1/applications',
  ]
  const isNamed = /\/:|^POST .*(preview|adjustments)$/.test(route)
  expect(status).toBe(conflicts.includes(route) ? 409 : isNamed ? 404 : 200)
  for (const secret of [victim.partnerCode, 'secret-hook', ...secrets.map(([, hidden]) => hidden)])
    expect(text).not.toContain(secret)
  expect(await victims()).toBe(before)
})

const foreign: [what: string, route: string, body: (id: typeof own) => object, status: number][] = [
  [
    'a sale by the click id',
    'POST /api/v1/track/sale',
    ({ click_id }) => ({ transaction_id: 'a', customer_key: 'secret-customer', click_id, amount_cents: 1 }),
    200,
  ],
  [
    'a sale of the program',
    'POST /api/v1/track/sale',
    () => ({
      transaction_id: 'b',
      customer_key: 'x',
      amount_cents: 1,
      additional_data: { program_id: victim.programId },
    }),
    400,
  ],
  [
    'a sale with its transaction id',
    'POST /api/v1/track/sale',
    () => ({ transaction_id: 'secret-transaction', customer_key: 'x', amount_cents: 1 }),
    200,
  ],
  ['a refund of its sale', 'POST /api/v1/track/refund', () => ({ transaction_id: 'pending-transaction' }), 404],
  ['a lead by the click id', 'POST /api/v1/track/lead', ({ click_id }) => ({ customer_key: 'x', click_id }), 400],
  ['a lead by the customer key', 'POST /api/v1/track/lead', () => ({ customer_key: 'secret-customer' }), 400],
  [
    'a lead of the program',
    'POST /api/v1/track/lead',
    ({ click_id }) => ({ customer_key: 'x', click_id, additional_data: { program_id: victim.programId } }),
    400,
  ],
]

test.each(foreign)("%s changes nothing of it under another program's key", async (_what, route, body, status) => {
  const before = await victims()
  const answer = await send(route, attacker.apiKey, {}, body(own))
  expect(answer.status).toBe(status)
  if (status === 200) expect(JSON.parse(answer.text)).toMatchObject({ attributed: false, commission_id: null })
  expect(await victims()).toBe(before)
})

test("a key's status is of its own program", async () => {
  const { text } = await send('GET /api/v1/cli/status', attacker.apiKey)
  expect(JSON.parse(text)).toMatchObject({ program: { id: attacker.programId } })
})

const withIds = Object.keys(routes.program)
  .concat(routes.workspace)
  .filter((route) => /\/:(?!programId|workspaceId)/.test(route))

test.each(withIds)("%s does nothing with another's ids through an own program", async (route) => {
  const before = await victims()
  const around = { ':programId': String(attacker.programId), ':workspaceId': attacker.workspaceId }
  const { status } = await send(address(route, around), attacker.dashboardToken, fields)
  // Some say that there is no such thing, and some have nothing left to do.
  expect([303, 404, 409]).toContain(status)
  expect(await victims()).toBe(before)
})

test('an event of another account changes nothing, whatever program and visitor it names', async () => {
  const before = await victims()
  const shop = {
    generation: 'new' as const,
    account: attacker.connectedAccountId,
    programId: victim.programId,
    clickId: own.click_id,
    customerKey: 'secret-customer',
    email: null,
    customer: null,
    livemode: true,
    now: Math.floor(Date.now() / 1000),
  }
  const payload = JSON.stringify(
    stripeEvent(
      shop,
      'evt_evil',
      'checkout.session.completed',
      checkoutSession(shop, { id: 'cs_evil', total: 500, payment_intent: 'pi_evil' }),
    ),
  )
  const deliver = (secret: string) =>
    fetch(`${stack.baseUrl}/api/v1/webhooks/stripe`, {
      method: 'POST',
      headers: { 'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload, secret }) },
      body: payload,
    })
  expect((await deliver('whsec_other')).status).toBe(400)
  expect((await deliver(stack.environment.STRIPE_WEBHOOK_SECRET)).status).toBe(200)
  expect(await victims()).toBe(before)
})
