import { sql } from 'kysely'
import { roles } from '../../lib/access/roles.ts'
import { type SessionEnv, sessionCookie } from '../../lib/access/sessions.ts'
import { createApiKey } from '../../lib/access/program-keys.ts'
import type { Database } from '../../lib/database.ts'
import { kysely } from '../../lib/kysely.ts'
import { addMember, createPerson } from '../../lib/local/people.ts'
import { createSandbox, type Sandbox } from '../../lib/local/sandbox.ts'
import { createAdjustment } from '../../lib/money/adjustments.ts'
import { approveCommissions } from '../../lib/money/commissions.ts'
import { createPayoutRun } from '../../lib/money/payout-runs.ts'
import { askPayout } from '../../lib/money/payouts.ts'
import { testEndpoint, programOwner } from '../../lib/notifications/webhook-endpoints.ts'
import { webhookId } from '../../lib/notifications/webhook-types.ts'
import { apply, confirmApplication, findApplication } from '../../lib/programs/applications.ts'
import { inviteMember } from '../../lib/programs/invitations.ts'
import { changeSecret, createConnection, isProcessor, type SecretsEnv } from '../../lib/processors/connections.ts'
import { processors } from '../../lib/processors/processors.ts'
import { createCode } from '../../lib/programs/codes.ts'
import { createGroup } from '../../lib/programs/groups.ts'
import { changeJoinPage } from '../../lib/programs/join-page.ts'
import { addPartner } from '../../lib/programs/partners.ts'
import { invitePartner } from '../../lib/programs/partner-invitations.ts'
import { connectionSecret } from './calls.ts'
import type { Receiver } from './deliveries.ts'

/** The fields of a form by name, with the values that each of them offers. */
export type Fields = Map<string, string[]>

/** A workspace with at least one object of each kind, and one caller of each kind. */
export interface Stage {
  sandbox: Sandbox
  /** The caller's session cookie, or undefined for an anonymous caller. */
  callers: Record<string, string | undefined>
  emails: string[]
  /** Tokens of invitations. */
  tokens: string[]
  /** The ids in addresses, for example `:programId`. */
  ids: Record<string, string>
  receiver: Receiver
}

/** The prefix of the stage's own sales, which don't count as sales of hostile calls. */
export const stagedSale = 'staged-'

type StageEnv = SessionEnv & SecretsEnv & { STRIPE_WEBHOOK_SECRET: string }

const cookie = (token: string) => `${sessionCookie}=${encodeURIComponent(token)}`

/**
 * Creates a stage through the running service. Hostile calls remove people and end sessions, so a long run needs a new stage from time to
 * time.
 */
export async function openStage(baseUrl: string, db: Database, env: StageEnv): Promise<Stage> {
  const sandbox = await createSandbox(db, env, { hold_days: 0 })
  const { programId, workspaceId, partnerId, partnerCode, apiKey } = sandbox
  const tag = crypto.randomUUID().slice(0, 8)
  const password = 'right horse battery'
  const kinds = [...roles, 'unverified', 'removed', 'stranger']
  const people = await Promise.all(
    kinds.map(async (kind) => {
      const email = `${kind}-${tag}@example.com`
      // Hashing a password takes a tenth of a second, so only one person has one.
      const person = await createPerson(db, env, { name: kind, email, ...(kind === 'owner' && { password }) })
      const role = roles.find((one) => one === kind) ?? 'owner'
      if (kind !== 'stranger') await addMember(db, workspaceId, person.userId, role)
      return { kind, ...person }
    }),
  )
  const find = (kind: string) => people.find((person) => person.kind === kind)?.userId ?? ''
  const now = new Date()
  await db.batch([
    kysely.updateTable('users').set({ email_verified: false }).where('id', '=', find('unverified')),
    kysely.updateTable('workspace_members').set({ removed_at: now }).where('user_id', '=', find('removed')),
    kysely
      .insertInto('program_members')
      .values({ program_id: programId, workspace_id: workspaceId, user_id: find('guest'), role: 'member' }),
  ])

  const post = async (path: string, body: object) => {
    const headers = {
      'content-type': 'application/json',
      ...(!path.endsWith('click') && { authorization: `Bearer ${apiKey}` }),
    }
    const response = await fetch(baseUrl + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as Record<string, unknown>
  }
  const { click_id } = await post('/api/v1/track/click', {
    affiliate_url: `https://shop.example.com/?aff=${partnerCode}`,
  })
  const commissions: number[] = []
  for (const number of [1, 2, 3]) {
    const sale = { transaction_id: `${stagedSale}${tag}-${number}`, customer_key: tag, click_id, amount_cents: 10_000 }
    commissions.push(Number((await post('/api/v1/track/sale', sale))['commission_id']))
  }
  await approveCommissions(db, programId, commissions.slice(0, 2), [], 'chaos')
  const flags = JSON.stringify([{ rule: 'bot', evidence: { user_agent: 'Bot' } }])
  const [, , held = 0] = commissions
  await db.batch([
    kysely.updateTable('commissions').set({ held_at: now }).where('program_id', '=', programId).where('id', '=', held),
    kysely.insertInto('commission_reviews').values({ program_id: programId, commission_id: held, flags }),
  ])
  const ask = { programId, partnerId, currency: 'usd', amountCents: 500, requestId: crypto.randomUUID() }
  const payout = await askPayout(db, ask)
  const run = await createPayoutRun(db, programId, crypto.randomUUID())
  const owner = find('owner')
  // The endpoint never receives a request, because deliveries are sent only if the stack runs the consumer.
  const [endpoint] = await db.query(
    kysely
      .insertInto('webhook_endpoints')
      .values({ program_id: programId, url: 'https://hooks.invalid/', types: sql`'{sale.created}'` })
      .returning('id'),
  )
  const message = await testEndpoint(db, programOwner(programId), endpoint?.id ?? 0)
  const invitation = {
    workspaceId,
    email: `new-${tag}@example.com`,
    role: 'member' as const,
    invitedBy: owner,
    byOwner: true,
  }
  const memberToken = await inviteMember(db, invitation)
  const other = await addPartner(db, {
    programId,
    name: 'Other',
    email: `stranger-${tag}@example.com`,
    code: `other-${tag}`,
  })
  const partnerToken = await invitePartner(db, { programId, partnerId: other.partnerId, invitedBy: owner })
  await createApiKey(db, programId, 'other')
  await changeJoinPage(db, programId, {
    slug: `page-${tag}`,
    is_open: true,
    terms: 'Be true.',
    questions: [{ label: 'Where?', type: 'short', required: false }],
  })
  const applicant = { programId, userId: null, name: 'Applicant', answers: [], seen: { version: 2 } }
  const applied = await apply(db, { ...applicant, email: `applicant-${tag}@example.com` })
  const waiting = await apply(db, { ...applicant, email: `waiting-${tag}@example.com` })
  const found = await findApplication(db, waiting.token)
  if (found) await confirmApplication(db, found)
  const group = await createGroup(db, programId, { name: 'Gold', rules: [{ commission_bp: 1000 }] })
  const code = await createCode(db, programId, {
    partner_id: other.partnerId,
    code: `CODE-${tag}`,
    promotion_code_id: null,
    account_id: null,
  })
  const adjustment = { partnerId: other.partnerId, amountCents: 700, note: 'By hand' }
  await createAdjustment(db, programId, adjustment, crypto.randomUUID(), [])
  const [link] = await db.query(
    kysely.selectFrom('referral_links').select('id').where('program_id', '=', programId).orderBy('id', 'desc').limit(1),
  )
  const connections = await Promise.all(
    Object.keys(processors)
      .filter(isProcessor)
      .map(async (processor) => {
        const accountId = await createConnection(db, programId, { processor, livemode: true })
        await changeSecret(db, env, programId, accountId, connectionSecret)
        return { processor, accountId }
      }),
  )
  const [[key], [memberInvitation], [partnerInvitation], [session]] = await db.batch([
    kysely.selectFrom('api_keys').select('id').where('program_id', '=', programId),
    kysely.selectFrom('workspace_invitations').select('id').where('workspace_id', '=', workspaceId),
    kysely.selectFrom('partner_invitations').select('id').where('program_id', '=', programId),
    kysely.selectFrom('sessions').select('id').where('user_id', '=', owner),
  ])
  return {
    sandbox,
    callers: {
      ...Object.fromEntries(people.map(({ kind, token }) => [kind, cookie(token)])),
      partner: cookie(sandbox.partnerToken),
      nobody: undefined,
    },
    emails: people.map(({ email }) => email),
    receiver: {
      programId,
      account: sandbox.connectedAccountId,
      stripeSecret: env.STRIPE_WEBHOOK_SECRET,
      connections,
      clickId: String(click_id),
    },
    tokens: [memberToken, partnerToken?.token ?? '', applied.token],
    ids: {
      ':programId': String(programId),
      ':workspaceId': workspaceId,
      ':partnerId': String(other.partnerId),
      ':commissionId': String(commissions[2]),
      ':payoutId': String(payout),
      ':applicationId': String(waiting.applicationId),
      ':slug': `page-${tag}`,
      ':customerId': '1',
      ':runId': String(run),
      ':keyId': String(key?.id),
      ':invitationId': String(memberInvitation?.id),
      ':partnerInvitationId': String(partnerInvitation?.id),
      ':userId': find('member'),
      ':sessionId': String(session?.id),
      ':eventId': 'evt_1',
      ':endpointId': String(endpoint?.id),
      ':messageId': String(message),
      ':groupId': String(group.id),
      ':codeId': String(code.id),
      ':transactionId': `${stagedSale}${tag}-3`,
      // The names of the program API.
      ':partner_id': String(other.partnerId),
      ':group_id': String(group.id),
      ':code_id': String(code.id),
      ':link_id': String(link?.id),
      ':application_id': String(waiting.applicationId),
      ':customer': tag,
      ':transaction_id': `${stagedSale}${tag}-3`,
      ':commission_id': String(commissions[2]),
      ':payout_id': String(payout),
      ':payout_run_id': String(run),
      ':webhook_endpoint_id': String(endpoint?.id),
      ':delivery_id': webhookId(message),
    },
  }
}

/** The forms on all pages that the stage's people can open, by the route that each form posts to. */
export async function readForms(baseUrl: string, routes: string[], stage: Stage): Promise<Map<string, Fields>> {
  const forms = new Map<string, Fields>()
  const posts = routes.filter((route) => route.startsWith('POST ')).map((route) => route.slice('POST '.length))
  const pages = routes.filter((route) => route.startsWith('GET /') && !/^GET \/(api|docs)/.test(route))
  for (const session of [stage.callers['owner'], stage.callers['partner'], stage.callers['stranger'], undefined]) {
    const texts = await Promise.all(
      pages.map(async (page) => {
        const path = withIds(page.slice('GET '.length), stage.ids)
        const query = path.includes('invitation') ? `?token=${stage.tokens[path.includes('partner') ? 1 : 0]}` : ''
        const response = await fetch(baseUrl + path + query, {
          headers: session ? { cookie: session } : {},
          redirect: 'manual',
        })
        return await response.text()
      }),
    )
    for (const [, opening = '', inside = ''] of texts.join('\n').matchAll(/<form([^>]*)>(.*?)<\/form>/gs)) {
      const action = attribute(opening, 'action')?.split('?')[0]
      const route = posts.find((post) => action && patternOf(post).test(action))
      if (!route) continue
      const fields = forms.get(route) ?? new Map<string, string[]>()
      forms.set(route, fields)
      for (const [, tag = '', rest = ''] of inside.matchAll(
        /<(?:input|select|textarea|button)([^>]*)>([^]*?)(?=<(?:input|\/select|textarea|button)|$)/g,
      )) {
        const name = attribute(tag, 'name')
        if (!name) continue
        const options = [...rest.matchAll(/<option value="([^"]*)"/g)].map(([, value = '']) => value)
        fields.set(name, [...(fields.get(name) ?? []), attribute(tag, 'value') ?? '', ...options])
      }
    }
  }
  return forms
}

const attribute = (tag: string, name: string) => new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1]

const patternOf = (route: string) => new RegExp(`^${route.replaceAll(/:\w+\??/g, '[^/]+')}$`)

/** A route's path with ids instead of parameter names. */
export function withIds(route: string, ids: Record<string, string>): string {
  return route.replaceAll(/:\w+\??/g, (name) => encodeURIComponent(ids[name.replace('?', '')] ?? '1'))
}
