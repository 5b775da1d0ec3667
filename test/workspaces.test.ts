import { expect, test } from 'vitest'
import { createApiKey } from '../lib/access/program-keys.ts'
import { findAccess, requireAction } from '../lib/access/program-access.ts'
import { type Action, may, type Role, roleActions, roles } from '../lib/access/roles.ts'
import { findViewer } from '../lib/access/viewer.ts'
import { addMember, createPerson } from '../lib/local/people.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { acceptInvitation, findInvitation, inviteMember, revokeInvitation } from '../lib/programs/invitations.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { connectProcessor } from '../lib/processors/stripe/connect.ts'
import { createProgram, programDefaults } from '../lib/programs/programs.ts'
import { changeMember, listMembers, openProgram } from '../lib/programs/members.ts'
import { createWorkspace, demandTwoFactor } from '../lib/programs/workspaces.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, env: databaseEnv, neon } = await startEndpoint()
const env = { ...databaseEnv, AUTH_SECRET: 'a test secret that is long enough' }

async function person(name = 'Ada') {
  return await createPerson(db, env, { name, email: `${name}-${crypto.randomUUID()}@example.com` })
}

async function workspaceWith(...others: Role[]) {
  const owner = await person()
  const workspaceId = await createWorkspace(db, { name: 'Analytical', ownerId: owner.userId })
  const members = await Promise.all(
    others.map(async (role) => {
      const member = await person()
      await addMember(db, workspaceId, member.userId, role)
      return member
    }),
  )
  const programId = await createProgram(db, workspaceId, { ...programDefaults, name: 'Engine', domain: 'example.com' })
  return { workspaceId, programId, owner, members }
}

async function rolesOn(programId: number, token: string) {
  const headers = new Headers({ authorization: `Bearer ${token}` })
  const [{ access }, viewer] = await Promise.all([
    findAccess(db, env, headers, programId),
    findViewer(db, env, headers),
  ])
  // The read endpoints and the pages use different queries, which must always agree.
  expect(viewer?.programs.find(({ id }) => id === programId)?.roles ?? []).toEqual(
    access.roles.includes('guest') && access.roles.length === 1 ? [] : access.roles,
  )
  return access.roles
}

const policy: Record<Action, Role[]> = {
  'program:read': ['owner', 'admin', 'member', 'billing'],
  'performance:read': ['owner', 'admin', 'member', 'billing'],
  'tracking:list': ['owner', 'admin', 'member'],
  'partner:list': ['owner', 'admin', 'member', 'billing'],
  'commission:list': ['owner', 'admin', 'member', 'billing'],
  'notification:list': ['owner', 'admin', 'member', 'billing'],
  'webhook:list': ['owner', 'admin', 'member'],
  'delivery:list': ['owner', 'admin', 'member'],
  'payout:list': ['owner', 'admin', 'billing'],
  'payout:pay': ['owner', 'admin', 'billing'],
  'payout-address:read': ['owner', 'admin', 'billing'],
  'partner:manage': ['owner', 'admin'],
  'commission:decide': ['owner', 'admin'],
  'customer:forget': ['owner', 'admin'],
  'program:create': ['owner', 'admin'],
  'program:update': ['owner', 'admin'],
  'api-key:manage': ['owner', 'admin'],
  'processor:manage': ['owner', 'admin'],
  'webhook:manage': ['owner', 'admin'],
  'member:manage': ['owner', 'admin'],
  'owner:manage': ['owner'],
  'audit:list': ['owner'],
  'own-account:connect': ['owner'],
}

test.each(Object.entries(policy) as [Action, Role[]][])('only these roles can use %s', (action, holders) => {
  expect(roles.filter((role) => may([role], action))).toEqual(holders)
})

test('the policy and the database have the same roles', async () => {
  const { workspaceId } = await workspaceWith(...roles)
  const { members } = await listMembers(db, workspaceId)
  expect(new Set(members.map(({ role }) => role))).toEqual(new Set(Object.keys(roleActions)))
})

test("reading a person's rights in a program takes one database request", async () => {
  const { programId, owner } = await workspaceWith()
  const before = neon.requests
  await findAccess(db, env, new Headers({ authorization: `Bearer ${owner.token}` }), programId)
  expect(neon.requests - before).toBe(1)
})

test('an invitation makes its address a member once', async () => {
  const { workspaceId, programId, owner } = await workspaceWith()
  const invited = await person('Grace')
  const invitation = {
    workspaceId,
    email: invited.email.toUpperCase(),
    role: 'member',
    invitedBy: owner.userId,
    byOwner: true,
  } as const
  const replaced = await inviteMember(db, invitation)
  const token = await inviteMember(db, invitation)
  expect(await findInvitation(db, replaced)).toBeUndefined()
  expect(await findInvitation(db, token)).toEqual({
    workspace_name: 'Analytical',
    email: invited.email,
    role: 'member',
  })
  await expect(acceptInvitation(db, token, owner.userId)).rejects.toMatchObject({ code: 'forbidden' })
  expect(await acceptInvitation(db, token, invited.userId)).toBe(workspaceId)
  await expect(acceptInvitation(db, token, invited.userId)).rejects.toMatchObject({ code: 'forbidden' })
  expect(await rolesOn(programId, invited.token)).toEqual(['member'])
  await expect(inviteMember(db, invitation)).rejects.toMatchObject({ code: 'conflict' })
})

test('removing a member reports the number of API keys that the member created', async () => {
  const { workspaceId, programId, members } = await workspaceWith('admin')
  const userId = members[0]?.userId ?? ''
  const member = { workspaceId, userId, byOwner: true }
  for (const name of ['server', 'old', 'script']) await createApiKey(db, programId, name, { createdBy: userId })
  await sql.query("update api_keys set revoked_at = now() where program_id = $1 and name = 'old'", [programId])
  expect(await changeMember(db, { ...member, role: 'member' })).toBe(2)
  expect(await changeMember(db, { ...member, role: null })).toBe(2)
})

test.each([
  [
    'revoked',
    async (workspaceId: string, invitationId: string) =>
      await revokeInvitation(db, { workspaceId, invitationId, byOwner: true }),
  ],
  [
    'too old',
    async (_workspaceId: string, id: string) => {
      await sql.query("update workspace_invitations set expires_at = now() - interval '1 second' where id = $1", [id])
    },
  ],
])("an invitation that was %s doesn't add a member", async (_what, spoil) => {
  const { workspaceId, programId, owner } = await workspaceWith()
  const invited = await person('Grace')
  const token = await inviteMember(db, {
    workspaceId,
    email: invited.email,
    role: 'admin',
    invitedBy: owner.userId,
    byOwner: true,
  })
  const { invitations } = await listMembers(db, workspaceId)
  await spoil(workspaceId, invitations[0]?.id ?? '')
  expect(await findInvitation(db, token)).toBeUndefined()
  await expect(acceptInvitation(db, token, invited.userId)).rejects.toMatchObject({ code: 'forbidden' })
  expect(await rolesOn(programId, invited.token)).toEqual([])
})

test('a removed member loses all access immediately, stays listed, and can return with a new invitation', async () => {
  const { workspaceId, programId, owner, members } = await workspaceWith('guest')
  const [guest] = members
  if (!guest) throw new Error('no guest')
  expect(await rolesOn(programId, guest.token)).toEqual(['guest'])
  await openProgram(db, { programId, userId: guest.userId, role: 'admin' })
  expect(await rolesOn(programId, guest.token)).toEqual(['guest', 'admin'])
  await changeMember(db, { workspaceId, userId: guest.userId, role: null, byOwner: true })
  expect(await rolesOn(programId, guest.token)).toEqual([])
  const { members: listed } = await listMembers(db, workspaceId)
  expect(listed.at(-1)).toMatchObject({ user_id: guest.userId, role: 'guest', removed_at: expect.any(Date) })
  const token = await inviteMember(db, {
    workspaceId,
    email: guest.email,
    role: 'member',
    invitedBy: owner.userId,
    byOwner: true,
  })
  await acceptInvitation(db, token, guest.userId)
  expect(await rolesOn(programId, guest.token)).toEqual(['member'])
})

test('a program is shared only with members of its own workspace', async () => {
  const { programId } = await workspaceWith()
  const stranger = await person()
  await openProgram(db, { programId, userId: stranger.userId, role: 'admin' })
  expect(await rolesOn(programId, stranger.token)).toEqual([])
})

const changes: [who: string, byOwner: boolean, target: Role, role: Role | null, done: boolean][] = [
  ['an owner removes an admin', true, 'admin', null, true],
  ['an owner promotes a member to owner', true, 'member', 'owner', true],
  ['an owner removes another owner', true, 'owner', null, true],
  ['an admin removes a member', false, 'member', null, true],
  ['an admin promotes a member to admin', false, 'member', 'admin', true],
  ["an admin can't promote a member to owner", false, 'member', 'owner', false],
  ["an admin can't remove an owner", false, 'owner', null, false],
  ["an admin can't demote an owner", false, 'owner', 'member', false],
]

test.each(changes)('%s', async (_who, byOwner, target, role, done) => {
  const { workspaceId, programId, members } = await workspaceWith(target)
  const [member] = members
  if (!member) throw new Error('no member')
  const change = changeMember(db, { workspaceId, userId: member.userId, role, byOwner })
  await (done ? change : expect(change).rejects.toMatchObject({ code: 'conflict' }))
  expect(await rolesOn(programId, member.token)).toEqual(done ? (role === null ? [] : [role]) : [target])
})

test('a workspace never loses its last owner, even if two owners remove each other at once', async () => {
  const { workspaceId, owner, members } = await workspaceWith('owner')
  const outcomes = await Promise.allSettled(
    [owner, ...members].map(({ userId }) => changeMember(db, { workspaceId, userId, role: null, byOwner: true })),
  )
  expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  const { members: listed } = await listMembers(db, workspaceId)
  expect(listed.filter(({ removed_at: removedAt }) => removedAt === null)).toHaveLength(1)
})

/** The invitations that admins and owners may create and revoke. */
test.each([
  ["an admin can't", 'owner', false],
  ['an owner can', 'owner', true],
  ['an admin can for a member', 'member', false],
] as const)('only owners revoke the invitation of an owner: %s', async (_what, role, byOwner) => {
  const { workspaceId, owner } = await workspaceWith()
  const email = `grace-${crypto.randomUUID()}@example.com`
  const invitation = { workspaceId, email, role, invitedBy: owner.userId, byOwner: true }
  const token = await inviteMember(db, invitation)
  const { invitations } = await listMembers(db, workspaceId)
  const isAllowed = byOwner || role !== 'owner'
  const overwrite = inviteMember(db, { ...invitation, role: 'guest', byOwner })
  await (isAllowed ? overwrite : expect(overwrite).rejects.toMatchObject({ code: 'conflict' }))
  expect((await findInvitation(db, token))?.role).toBe(isAllowed ? undefined : 'owner')
  const revoke = revokeInvitation(db, { workspaceId, invitationId: invitations[0]?.id ?? '', byOwner })
  await (isAllowed ? revoke : expect(revoke).rejects.toMatchObject({ code: 'not_found' }))
  expect((await findInvitation(db, token))?.role).toBe(isAllowed ? undefined : 'owner')
})

test.each([
  ['removed', 'admin', null, 'member', false],
  ['demoted to a role without invitations', 'admin', 'member', 'member', false],
  ["demoted to a role that can't invite owners", 'owner', 'admin', 'owner', false],
  ['demoted to a role that can still invite the same role', 'owner', 'admin', 'member', true],
] as const)('an invitation whose sender was %s', async (_what, was, becomes, role, holds) => {
  const { workspaceId, members, programId } = await workspaceWith(was)
  const [sender] = members
  const invited = await person('Grace')
  const invitedBy = sender?.userId ?? ''
  const token = await inviteMember(db, { workspaceId, email: invited.email, role, invitedBy, byOwner: was === 'owner' })
  await changeMember(db, { workspaceId, userId: invitedBy, role: becomes, byOwner: true })
  expect((await findInvitation(db, token)) !== undefined).toBe(holds)
  // The invitation stays invalid, even after the sender gets the role back.
  if (becomes !== null) await changeMember(db, { workspaceId, userId: invitedBy, role: was, byOwner: true })
  const accepting = acceptInvitation(db, token, invited.userId)
  await (holds ? accepting : expect(accepting).rejects.toMatchObject({ code: 'forbidden' }))
  expect(await rolesOn(programId, invited.token)).toEqual(holds ? [role] : [])
})

test('a link code is unique in its program, regardless of case', async () => {
  const sandbox = await createSandbox(db, env)
  const { programId } = await workspaceWith()
  const partner = { programId, name: 'Grace', email: null, code: sandbox.partnerCode.toUpperCase() }
  await addPartner(db, partner)
  const again = { ...partner, name: 'Ada', code: sandbox.partnerCode.toLowerCase() }
  await expect(addPartner(db, again)).rejects.toMatchObject({ code: 'conflict' })
})

test('if two workspaces connect the same processor account at once, only one succeeds', async () => {
  const workspaces = [await workspaceWith(), await workspaceWith()]
  for (let round = 0; round < 20; round++) {
    const account = `acct_${crypto.randomUUID().slice(0, 8)}`
    const outcomes = await Promise.allSettled(
      workspaces.map(({ programId }) => connectProcessor(db, programId, account)),
    )
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  }
})

test('a workspace that requires two-factor codes is closed to members without them, in the API and on the pages', async () => {
  const { workspaceId, programId, owner, members } = await workspaceWith('admin', 'guest')
  const [admin, guest] = members
  await openProgram(db, { programId, userId: guest?.userId ?? '', role: 'member' })
  const demand = (isDemanded: boolean) => demandTwoFactor(db, { workspaceId, userId: owner.userId, isDemanded })
  await expect(demand(true)).rejects.toMatchObject({ code: 'conflict' })
  await sql.query('update users set two_factor_enabled = true where id = any ($1)', [[owner.userId, admin?.userId]])
  await demand(true)
  expect(await rolesOn(programId, owner.token)).toEqual(['owner'])
  expect(await rolesOn(programId, admin?.token ?? '')).toEqual(['admin'])
  expect(await rolesOn(programId, guest?.token ?? '')).toEqual([])
  const headers = new Headers({ authorization: `Bearer ${guest?.token}` })
  const viewer = await findViewer(db, env, headers)
  expect(viewer).toMatchObject({ workspaces: [], programs: [], locked: [{ id: workspaceId, programIds: [programId] }] })
  const { access } = await findAccess(db, env, headers, programId)
  expect(() => requireAction(access, 'program:read')).toThrow('requires two-factor codes')
  const stranger = await person()
  const { access: none } = await findAccess(
    db,
    env,
    new Headers({ authorization: `Bearer ${stranger.token}` }),
    programId,
  )
  expect(() => requireAction(none, 'program:read')).toThrow('not an active member')
  await demand(false)
  expect(await rolesOn(programId, guest?.token ?? '')).toEqual(['guest', 'member'])
})
