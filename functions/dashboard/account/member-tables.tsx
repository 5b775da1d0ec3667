import type { Role } from '../../../lib/access/roles.ts'
import type { listMembers, Member } from '../../../lib/programs/members.ts'
import { Badge, Card } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { Day } from '../components/format.tsx'
import { Table } from '../components/table.tsx'

interface ActiveMembersProps {
  address: string
  members: Member[]
  /** The roles that the viewer may grant. */
  grantable: Role[]
  viewerId: string
}

export function ActiveMembers({ address, members, grantable, viewerId }: ActiveMembersProps) {
  return (
    <Card title="Active">
      <Table
        caption="Active members"
        rows={members}
        columns={[
          { label: 'Member', cell: (member) => <MemberName member={member} viewerId={viewerId} /> },
          { label: 'Since', cell: ({ created_at: at }) => <Day at={at} /> },
          {
            label: 'Role',
            cell: (member) => <RoleChoice address={address} member={member} grantable={grantable} />,
          },
          {
            cell: ({ user_id: userId, name }) => (
              <PostButton
                action={`${address}/${userId}/remove`}
                class="compact danger"
                label={`Remove ${name}`}
                confirm={`Remove ${name}? They lose access immediately.`}
                text="Remove"
              />
            ),
          },
        ]}
      />
    </Card>
  )
}

function MemberName({ member, viewerId }: { member: Member; viewerId: string }) {
  return (
    <div>
      <strong>{member.name}</strong>
      {member.user_id === viewerId && <span class="muted"> (you)</span>}
      <div class="muted small">
        {member.email}
        {member.two_factor_enabled && ', with two-factor codes'}
      </div>
    </div>
  )
}

function RoleChoice({ address, member, grantable }: { address: string; member: Member; grantable: Role[] }) {
  if (!grantable.includes(member.role)) return <>{member.role}</>
  return (
    <form method="post" action={`${address}/${member.user_id}/role`} class="row inline">
      <select name="role" aria-label={`Role of ${member.name}`}>
        {grantable.map((role) => (
          <option value={role} selected={role === member.role}>
            {role}
          </option>
        ))}
      </select>
      <button type="submit" class="compact">
        Change role
      </button>
    </form>
  )
}

type OpenInvitation = Awaited<ReturnType<typeof listMembers>>['invitations'][number]

interface InvitationsProps {
  address: string
  invitations: OpenInvitation[]
  /** The roles that the viewer may grant and whose invitations they may revoke. */
  grantable: Role[]
}

export function Invitations({ address, invitations, grantable }: InvitationsProps) {
  if (invitations.length === 0) return null
  return (
    <Card title="Invited">
      <Table
        caption="Open invitations"
        rows={invitations}
        columns={[
          { label: 'E-mail', cell: ({ email }) => email },
          { label: 'Role', cell: ({ role }) => role },
          { label: 'Until', cell: ({ expires_at: at }) => <Day at={at} /> },
          {
            cell: ({ id, email, role }) =>
              grantable.includes(role) && (
                <PostButton
                  action={`${address}/invitations/${id}/revoke`}
                  class="compact"
                  label={`Revoke the invitation of ${email}`}
                  text="Revoke"
                />
              ),
          },
        ]}
      />
    </Card>
  )
}

export function RemovedMembers({ members, viewerId }: { members: Member[]; viewerId: string }) {
  if (members.length === 0) return null
  return (
    <Card title="Removed">
      <Table
        caption="Removed members"
        rows={members}
        columns={[
          { label: 'Member', cell: (member) => <MemberName member={member} viewerId={viewerId} /> },
          { label: 'Was', cell: ({ role }) => <Badge>{role}</Badge> },
          { label: 'Removed', cell: ({ removed_at: at }) => at && <Day at={at} /> },
        ]}
      />
    </Card>
  )
}
