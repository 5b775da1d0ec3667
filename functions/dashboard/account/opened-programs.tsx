import * as z from 'zod/mini'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { ApiError } from '../../../lib/errors.ts'
import { type listOpenedPrograms, type Member, openProgram } from '../../../lib/programs/members.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form } from '../components/form.ts'
import { createPages, requireWorkspace } from '../components/page.ts'
import { Table } from '../components/table.tsx'

/** Programs of a workspace that are open to individual members. */
export const pages = createPages()

const programRoles = ['member', 'admin', 'billing'] as const

interface OpenedProgramsProps {
  address: string
  opened: Awaited<ReturnType<typeof listOpenedPrograms>>
  programs: ViewerProgram[]
  members: Member[]
}

/** Lists the programs that are open to individual members, and opens further programs. This is a part of the members page. */
export function OpenedPrograms({ address, opened, programs, members }: OpenedProgramsProps) {
  if (programs.length === 0) return null
  return (
    <Card title="Programs shared with individual members">
      <p class="muted">An additional role in one program, for guests or for members who need more access there.</p>
      {opened.length > 0 && (
        <Table
          caption="Programs shared with individual members"
          rows={opened}
          columns={[
            { label: 'Member', cell: ({ user_name: user }) => user },
            { label: 'Program', cell: ({ program_name: program }) => program },
            { label: 'Role', cell: ({ role }) => role },
            {
              cell: (opening) => (
                <PostButton
                  action={address}
                  fields={{ user: opening.user_id, program: String(opening.program_id), program_role: '' }}
                  class="compact"
                  label={`Stop sharing ${opening.program_name} with ${opening.user_name}`}
                  text="Stop sharing"
                />
              ),
            },
          ]}
        />
      )}
      <Form action={address} submit="Share the program">
        <Field name="user" label="Member" options={members.map((member) => [member.user_id, member.name] as const)} />
        <Field
          name="program"
          label="Program"
          options={programs.map((program) => [String(program.id), program.name] as const)}
        />
        <Field
          name="program_role"
          label="Role in the program"
          options={programRoles.map((role) => [role, role] as const)}
        />
      </Form>
    </Card>
  )
}

const incomplete = 'Choose a member, a program and a role.'
const openingForm = z.object({
  user: z.string(incomplete),
  program: z.coerce.number(incomplete),
  /** An empty role ends the member's access to the program. */
  program_role: z.union([z.literal(''), z.enum(programRoles)], incomplete),
})

pages.post(
  '/workspaces/:workspaceId/members/programs',
  requireWorkspace('member:manage'),
  form(openingForm),
  async (c) => {
    const { id: workspaceId } = c.get('workspace')
    const { user: userId, program: programId, program_role: role } = c.req.valid('form')
    const program = c.get('viewer').programs.find((own) => own.id === programId && own.workspaceId === workspaceId)
    if (!program) throw new ApiError('invalid_request', incomplete)
    await openProgram(c.get('db'), { programId, userId, role: role || null })
    const text = role === '' ? `${program.name} is no longer shared with them.` : `${program.name} is shared with them.`
    return redirectWith(c, `/workspaces/${workspaceId}/members`, text)
  },
)
