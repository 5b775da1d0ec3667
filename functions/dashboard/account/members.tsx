import * as z from 'zod/mini'
import { may, type Role, roles } from '../../../lib/access/roles.ts'
import { ApiError } from '../../../lib/errors.ts'
import { countInvitationMail, mailMemberInvitation } from '../../../lib/programs/invitation-mails.ts'
import { changeMember, listMembers, listOpenedPrograms } from '../../../lib/programs/members.ts'
import { inviteMember, revokeInvitation } from '../../../lib/programs/invitations.ts'
import { demandTwoFactor } from '../../../lib/programs/workspaces.ts'
import { Badge, Card, LinkButton } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { counted } from '../components/format.tsx'
import { form, optionalText } from '../components/form.ts'
import { AccountPage } from '../components/layout.tsx'
import { createPages, requireVerified, requireWorkspace, type WorkspaceContext } from '../components/page.ts'
import { ActiveMembers, Invitations, RemovedMembers } from './member-tables.tsx'
import { OpenedPrograms } from './opened-programs.tsx'
import { emailField } from './credentials.tsx'

/** A workspace's members: active and removed ones, their roles, and invitations. */
export const pages = createPages()

const membersPage = (c: WorkspaceContext) => `/workspaces/${c.get('workspace').id}/members`

const roleNames: Record<Role, string> = {
  owner: 'Owner: everything',
  admin: 'Admin: everything except managing owners',
  member: 'Member: sees everything, changes nothing',
  billing: "Billing: can pay partners, but can't see visitors",
  guest: 'Guest: can only see programs that are shared with them',
}

/** Only an owner can add, change and remove owners. */
function isOwner(c: WorkspaceContext): boolean {
  return may([c.get('workspace').role], 'owner:manage')
}

pages.get('/workspaces/:workspaceId/members', requireWorkspace('member:manage'), async (c) => {
  const workspace = c.get('workspace')
  const viewer = c.get('viewer')
  const [{ members, invitations }, opened] = await Promise.all([
    listMembers(c.get('db'), workspace.id),
    listOpenedPrograms(c.get('db'), workspace.id),
  ])
  const address = membersPage(c)
  const grantable = roles.filter((role) => isOwner(c) || role !== 'owner')
  const active = members.filter(({ removed_at: removedAt }) => removedAt === null)
  const removed = members.filter(({ removed_at: removedAt }) => removedAt !== null)
  return c.render(
    <AccountPage
      title="Members"
      heading={`Members of ${workspace.name}`}
      lead="Roles apply to every program of the workspace."
      actions={
        may([workspace.role], 'audit:list') && (
          <LinkButton href={`/workspaces/${workspace.id}/audit`} text="Audit log" />
        )
      }
    >
      {isOwner(c) && <TwoFactorDemand address={address} isDemanded={workspace.requiresTwoFactor} />}
      <Invite address={address} grantable={grantable} />
      <ActiveMembers address={address} members={active} grantable={grantable} viewerId={viewer.user.id} />
      <Invitations address={address} invitations={invitations} grantable={grantable} />
      <OpenedPrograms
        address={`${address}/programs`}
        opened={opened}
        programs={viewer.programs.filter(({ workspaceId }) => workspaceId === workspace.id)}
        members={active}
      />
      <RemovedMembers members={removed} viewerId={viewer.user.id} />
    </AccountPage>,
  )
})

function TwoFactorDemand({ address, isDemanded }: { address: string; isDemanded: boolean }) {
  return (
    <Card title="Two-factor codes" aside={isDemanded ? <Badge tone="good">Required</Badge> : <Badge>Optional</Badge>}>
      <p>If codes are required, members can't open this workspace until they have set them up.</p>
      <div class="row">
        <PostButton
          action={`${address}/two-factor`}
          fields={{ demanded: isDemanded ? '' : 'yes' }}
          text={isDemanded ? 'Stop requiring them' : 'Require them for every member'}
        />
      </div>
    </Card>
  )
}

function Invite({ address, grantable }: { address: string; grantable: Role[] }) {
  return (
    <Card title="Invite somebody">
      <Form action={address} submit="Send the invitation">
        <Field name="email" label="E-mail" type="email" required />
        <Field
          name="role"
          label="Role"
          options={grantable.map((role) => [role, roleNames[role]] as const)}
          value="member"
        />
      </Form>
    </Card>
  )
}

const roleField = z.enum(roles, 'Choose a role.')
const inviteForm = z.object({
  email: emailField,
  role: roleField,
})

pages.post(
  '/workspaces/:workspaceId/members',
  requireWorkspace('member:manage'),
  requireVerified,
  form(inviteForm, membersPage),
  async (c) => {
    const { id: workspaceId, name } = c.get('workspace')
    const { user } = c.get('viewer')
    const { email, role } = c.req.valid('form')
    if (role === 'owner' && !isOwner(c)) throw new ApiError('forbidden', 'Only an owner can add owners.')
    const [db, sender] = [c.get('db'), { workspaceId, user }]
    await countInvitationMail(db, sender, email)
    const token = await inviteMember(db, { workspaceId, email, role, invitedBy: user.id, byOwner: isOwner(c) })
    const link = `${c.env.BASE_URL}/invitation?token=${token}`
    await mailMemberInvitation(db, c.env, sender, { to: email, name, link, days: 7 })
    return redirectWith(c, membersPage(c), `An invitation to ${email} is on its way.`)
  },
)

pages.post(
  '/workspaces/:workspaceId/members/two-factor',
  requireWorkspace('owner:manage'),
  form(z.object({ demanded: optionalText })),
  async (c) => {
    const { id: workspaceId } = c.get('workspace')
    const isDemanded = c.req.valid('form').demanded !== ''
    await demandTwoFactor(c.get('db'), { workspaceId, userId: c.get('viewer').user.id, isDemanded })
    const text = isDemanded
      ? 'Two-factor codes are now required for every member.'
      : 'Two-factor codes are now optional.'
    return redirectWith(c, membersPage(c), text)
  },
)

pages.post(
  '/workspaces/:workspaceId/members/invitations/:invitationId/revoke',
  requireWorkspace('member:manage'),
  async (c) => {
    const { id: workspaceId } = c.get('workspace')
    const invitationId = c.req.param('invitationId')
    await revokeInvitation(c.get('db'), { workspaceId, invitationId, byOwner: isOwner(c) })
    return redirectWith(c, membersPage(c), 'The invitation was revoked.')
  },
)

pages.post(
  '/workspaces/:workspaceId/members/:userId/role',
  requireWorkspace('member:manage'),
  form(z.object({ role: roleField })),
  async (c) => {
    const { id: workspaceId } = c.get('workspace')
    const { role } = c.req.valid('form')
    await changeMember(c.get('db'), { workspaceId, userId: c.req.param('userId'), role, byOwner: isOwner(c) })
    return redirectWith(c, membersPage(c), 'The role was changed.')
  },
)

pages.post('/workspaces/:workspaceId/leave', requireWorkspace(), async (c) => {
  const { id: workspaceId, name } = c.get('workspace')
  const { id: userId } = c.get('viewer').user
  await changeMember(c.get('db'), { workspaceId, userId, role: null, byOwner: isOwner(c) })
  return redirectWith(c, '/account', `You left ${name}.`)
})

pages.post('/workspaces/:workspaceId/members/:userId/remove', requireWorkspace('member:manage'), async (c) => {
  const { id: workspaceId } = c.get('workspace')
  const removed = { workspaceId, userId: c.req.param('userId'), role: null, byOwner: isOwner(c) }
  const keys = await changeMember(c.get('db'), removed)
  const known = counted(keys, 'API key that still works', 'API keys that still work')
  const advice = `They created ${known}. In the settings of your programs, replace every key that they may know, and revoke the old one.`
  return redirectWith(c, membersPage(c), `The member was removed.${keys > 0 ? ` ${advice}` : ''}`)
})
