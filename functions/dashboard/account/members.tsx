import * as z from 'zod/mini'
import { may, type Role, roles } from '../../../lib/access/roles.ts'
import type { Viewer } from '../../../lib/access/viewer.ts'
import { ApiError } from '../../../lib/errors.ts'
import { sendMail } from '../../../lib/notifications/mail.ts'
import { inviteMember, revokeInvitation } from '../../../lib/programs/invitations.ts'
import {
  changeMember,
  listMembers,
  listOpenedPrograms,
  type Member,
  openProgram,
} from '../../../lib/programs/members.ts'
import { renderAccount } from '../parts/layout.tsx'
import {
  createPages,
  emptyForm,
  fieldErrors,
  flash,
  type FormState,
  type PageContext,
  readForm,
  requireViewer,
} from '../parts/page.ts'
import { Badge, Card, Day, Field, Heading, Problem, Table } from '../parts/parts.tsx'

/** A workspace's members: active and removed ones, their roles, invitations, and programs opened to single members. */
export const memberPages = createPages()

type MemberContext = PageContext<{ viewer: Viewer }>

const roleNames: Record<Role, string> = {
  owner: 'Owner: everything',
  admin: 'Admin: everything but owners',
  member: 'Member: sees everything, changes nothing',
  billing: 'Billing: pays partners, does not see visitors',
  guest: 'Guest: sees only programs opened to them',
}

/** The workspace in the path, where the person manages members. */
function workspaceOf(c: MemberContext) {
  const workspace = c.get('viewer').workspaces.find(({ id }) => id === c.req.param('workspaceId'))
  if (!workspace) throw new ApiError('not_found', 'There is no such workspace among yours.')
  if (!may([workspace.role], 'member:manage')) {
    throw new ApiError(
      'forbidden',
      'Your role in this workspace does not open this page. Ask an owner for another role.',
    )
  }
  return { ...workspace, byOwner: may([workspace.role], 'owner:manage') }
}

async function renderMembers(c: MemberContext, form: FormState, status: 200 | 400 | 409 = 200) {
  const workspace = workspaceOf(c)
  const viewer = c.get('viewer')
  const db = c.get('db')
  const [{ members, invitations }, opened] = await Promise.all([
    listMembers(db, workspace.id),
    listOpenedPrograms(db, workspace.id),
  ])
  const base = `/workspaces/${workspace.id}/members`
  const programs = viewer.programs.filter(({ workspaceId }) => workspaceId === workspace.id)
  const grantable = roles.filter((role) => workspace.byOwner || role !== 'owner')
  const roleOptions = grantable.map((role) => [role, roleNames[role]] as const)
  const active = members.filter(({ removed_at: removedAt }) => removedAt === null)
  const removed = members.filter(({ removed_at: removedAt }) => removedAt !== null)
  const name = (member: Member) => (
    <div>
      <strong>{member.name}</strong>
      {member.user_id === viewer.user.id && <span class="muted"> (you)</span>}
      <div class="muted small">{member.email}</div>
    </div>
  )
  return renderAccount(c, {
    title: 'Members',
    status,
    children: (
      <>
        <Heading title={`Members of ${workspace.name}`} lead="Roles hold for every program of the workspace." />
        <Card title="Invite somebody">
          <form method="post" action={base} class="stack">
            <Problem form={form} />
            <div class="fields">
              <Field name="email" label="E-mail" type="email" form={form} required />
              <Field name="role" label="Role" options={roleOptions} value="member" form={form} />
            </div>
            <div class="row">
              <button type="submit" class="primary">
                Send the invitation
              </button>
            </div>
          </form>
        </Card>
        <Card title="Active">
          <Table
            caption="Active members"
            rows={active}
            columns={[
              { label: 'Member', cell: name },
              { label: 'Since', cell: ({ created_at: at }) => <Day at={at} /> },
              {
                label: 'Role',
                cell: (member) =>
                  member.role === 'owner' && !workspace.byOwner ? (
                    'owner'
                  ) : (
                    <form method="post" action={`${base}/${member.user_id}/role`} class="row inline">
                      <select name="role" aria-label={`Role of ${member.name}`}>
                        {grantable.map((role) => (
                          <option value={role} selected={role === member.role}>
                            {role}
                          </option>
                        ))}
                      </select>
                      <button type="submit" class="compact">
                        Set
                      </button>
                    </form>
                  ),
              },
              {
                label: '',
                right: true,
                cell: (member) => (
                  <form method="post" action={`${base}/${member.user_id}/remove`}>
                    <button
                      type="submit"
                      class="compact danger"
                      aria-label={`Remove ${member.name}`}
                      data-confirm={`Remove ${member.name}? They lose access at once.`}
                    >
                      Remove
                    </button>
                  </form>
                ),
              },
            ]}
          />
        </Card>
        {invitations.length > 0 && (
          <Card title="Invited">
            <Table
              caption="Open invitations"
              rows={invitations}
              columns={[
                { label: 'E-mail', cell: ({ email }) => email },
                { label: 'Role', cell: ({ role }) => role },
                { label: 'Until', cell: ({ expires_at: at }) => <Day at={at} /> },
                {
                  label: '',
                  right: true,
                  cell: ({ id, email }) => (
                    <form method="post" action={`${base}/invitations/${id}/revoke`}>
                      <button type="submit" class="compact" aria-label={`Take back the invitation of ${email}`}>
                        Take back
                      </button>
                    </form>
                  ),
                },
              ]}
            />
          </Card>
        )}
        {programs.length > 0 && (
          <Card title="Programs opened to single members">
            <p class="muted">
              A role on one program, beside the one above: for guests, or to let somebody do more there.
            </p>
            {opened.length > 0 && (
              <Table
                caption="Programs opened to single members"
                rows={opened}
                columns={[
                  { label: 'Member', cell: ({ user_name: user }) => user },
                  { label: 'Program', cell: ({ program_name: program }) => program },
                  { label: 'Role', cell: ({ role }) => role },
                  {
                    label: '',
                    right: true,
                    cell: (opening) => (
                      <form method="post" action={`${base}/programs`}>
                        <input type="hidden" name="user" value={opening.user_id} />
                        <input type="hidden" name="program" value={String(opening.program_id)} />
                        <input type="hidden" name="program_role" value="" />
                        <button
                          type="submit"
                          class="compact"
                          aria-label={`Close ${opening.program_name} to ${opening.user_name}`}
                        >
                          Close
                        </button>
                      </form>
                    ),
                  },
                ]}
              />
            )}
            <form method="post" action={`${base}/programs`} class="stack">
              <div class="fields">
                <Field
                  name="user"
                  label="Member"
                  options={active.map((member) => [member.user_id, member.name] as const)}
                  form={emptyForm}
                />
                <Field
                  name="program"
                  label="Program"
                  options={programs.map((program) => [String(program.id), program.name] as const)}
                  form={emptyForm}
                />
                <Field
                  name="program_role"
                  label="Role there"
                  options={(['member', 'admin', 'billing'] as const).map((role) => [role, role] as const)}
                  form={emptyForm}
                />
              </div>
              <div class="row">
                <button type="submit">Open the program</button>
              </div>
            </form>
          </Card>
        )}
        {removed.length > 0 && (
          <Card title="Removed">
            <Table
              caption="Removed members"
              rows={removed}
              columns={[
                { label: 'Member', cell: name },
                { label: 'Was', cell: ({ role }) => <Badge>{role}</Badge> },
                { label: 'Removed', cell: ({ removed_at: at }) => at && <Day at={at} /> },
              ]}
            />
          </Card>
        )}
      </>
    ),
  })
}

memberPages.get('/workspaces/:workspaceId/members', requireViewer, (c) => renderMembers(c, emptyForm))

const roleField = z.enum(roles, 'Choose a role.')
const inviteForm = z.object({
  email: z.string().check(z.trim(), z.toLowerCase(), z.email('Enter an e-mail address.')),
  role: roleField,
})

memberPages.post('/workspaces/:workspaceId/members', requireViewer, async (c) => {
  const workspace = workspaceOf(c)
  const values = await readForm(c)
  const parsed = inviteForm.safeParse(values)
  if (!parsed.success) return renderMembers(c, { values, errors: fieldErrors(parsed.error.issues) }, 400)
  const { email, role } = parsed.data
  if (role === 'owner' && !workspace.byOwner) throw new ApiError('forbidden', 'Only an owner makes owners.')
  const token = await inviteMember(c.get('db'), {
    workspaceId: workspace.id,
    email,
    role,
    invitedBy: c.get('viewer').user.id,
  })
  await sendMail(c.get('db'), c.env, {
    to: email,
    subject: `Join ${workspace.name}`,
    text: [
      `${c.get('viewer').user.name} invites you to ${workspace.name}. Accept within 7 days:`,
      `${c.env.BASE_URL}/invitation?token=${token}`,
    ].join('\n\n'),
  })
  flash(c, 'good', `An invitation to ${email} is on its way.`)
  return c.redirect(`/workspaces/${workspace.id}/members`, 303)
})

memberPages.post('/workspaces/:workspaceId/members/invitations/:invitationId/revoke', requireViewer, async (c) => {
  const workspace = workspaceOf(c)
  await revokeInvitation(c.get('db'), workspace.id, c.req.param('invitationId'))
  flash(c, 'good', 'The invitation is taken back.')
  return c.redirect(`/workspaces/${workspace.id}/members`, 303)
})

memberPages.post('/workspaces/:workspaceId/members/:userId/role', requireViewer, async (c) => {
  const workspace = workspaceOf(c)
  const parsed = z.object({ role: roleField }).safeParse(await readForm(c))
  if (!parsed.success) throw new ApiError('invalid_request', 'Choose a role.')
  const change = { workspaceId: workspace.id, userId: c.req.param('userId'), byOwner: workspace.byOwner }
  await changeMember(c.get('db'), { ...change, role: parsed.data.role })
  flash(c, 'good', 'The role is changed.')
  return c.redirect(`/workspaces/${workspace.id}/members`, 303)
})

memberPages.post('/workspaces/:workspaceId/members/:userId/remove', requireViewer, async (c) => {
  const workspace = workspaceOf(c)
  const change = { workspaceId: workspace.id, userId: c.req.param('userId'), byOwner: workspace.byOwner }
  await changeMember(c.get('db'), { ...change, role: null })
  flash(c, 'good', 'The member is removed.')
  return c.redirect(`/workspaces/${workspace.id}/members`, 303)
})

const openingForm = z.object({
  user: z.string(),
  program: z.coerce.number(),
  program_role: z.union([z.literal(''), z.enum(['admin', 'member', 'billing'])]),
})

memberPages.post('/workspaces/:workspaceId/members/programs', requireViewer, async (c) => {
  const workspace = workspaceOf(c)
  const parsed = openingForm.safeParse(await readForm(c))
  const program = c
    .get('viewer')
    .programs.find(({ id, workspaceId }) => id === parsed.data?.program && workspaceId === workspace.id)
  if (!parsed.success || !program) throw new ApiError('invalid_request', 'Choose a member, a program and a role.')
  const { user: userId, program_role: role } = parsed.data
  await openProgram(c.get('db'), { programId: program.id, userId, role: role === '' ? null : role })
  flash(c, 'good', role === '' ? `${program.name} is closed to them.` : `${program.name} is open to them.`)
  return c.redirect(`/workspaces/${workspace.id}/members`, 303)
})
