import type { Viewer } from '../../../lib/access/viewer.ts'
import { may } from '../../../lib/access/roles.ts'
import { Card, LinkButton } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'

/** The person's workspaces, with buttons to leave and to delete them. This is a part of the account page. */
export function OwnWorkspaces({ workspaces }: Pick<Viewer, 'workspaces'>) {
  if (workspaces.length === 0) return null
  return (
    <Card title="Workspaces">
      <p>
        If you leave a workspace, you lose access immediately. The last owner can't leave without making another member
        an owner.
      </p>
      <ul class="stack">
        {workspaces.map(({ id, name, role }) => (
          <li class="row apart">
            <span>
              {name}, as {role}
            </span>
            <span class="row">
              {may([role], 'owner:manage') && (
                <LinkButton class="compact" href={`/workspaces/${id}/delete`} label={`Delete ${name}`} text="Delete" />
              )}
              <PostButton
                action={`/workspaces/${id}/leave`}
                class="compact danger"
                label={`Leave ${name}`}
                confirm={`Leave ${name}? You need a new invitation to return.`}
                text="Leave"
              />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}
