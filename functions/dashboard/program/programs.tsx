import { may } from '../../../lib/access/roles.ts'
import type { Viewer } from '../../../lib/access/viewer.ts'
import { ApiError } from '../../../lib/errors.ts'
import { createProgram, programDefaults, programSettings } from '../../../lib/programs/programs.ts'
import { createWorkspace } from '../../../lib/programs/workspaces.ts'
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
import { Card, Field, Heading, Problem } from '../parts/parts.tsx'
import { ProgramFields, readProgramSettings } from '../parts/program-form.tsx'

/** The way in, and making a program. */
export const programPages = createPages()

programPages.get('/', requireViewer, (c) => {
  const { programs, partner } = c.get('viewer')
  const first = programs[0]
  if (first) return c.redirect(`/programs/${first.id}`, 303)
  return c.redirect(partner ? '/partner' : '/programs/new', 303)
})

/** The workspaces in which the person may make a program. */
function ownWorkspaces(viewer: Viewer) {
  return viewer.workspaces.filter(({ role }) => may([role], 'program:create'))
}

function renderNew(c: PageContext<{ viewer: Viewer }>, form: FormState, status: 200 | 400 = 200) {
  const workspaces = ownWorkspaces(c.get('viewer'))
  return renderAccount(c, {
    title: 'New program',
    status,
    children: (
      <>
        <Heading
          title={workspaces.length === 0 ? 'Welcome. Make your first program' : 'New program'}
          lead="A program is one site whose sales partners bring you. Everything here can be changed later."
        />
        <form method="post" action="/programs/new" class="stack loose">
          <Problem form={form} />
          <Card>
            {workspaces.length === 0 ? (
              <Field
                name="workspace"
                label="Company"
                hint="Your workspace. You can invite others to it."
                autocomplete="organization"
                form={form}
                required
              />
            ) : (
              <Field
                name="workspace_id"
                label="Workspace"
                options={workspaces.map(({ id, name }) => [id, name] as const)}
                form={form}
              />
            )}
            <ProgramFields form={form} settings={{ ...programDefaults, name: '', domain: '' }} />
          </Card>
          <div class="row">
            <button type="submit" class="primary">
              Make the program
            </button>
          </div>
        </form>
      </>
    ),
  })
}

programPages.get('/programs/new', requireViewer, (c) => renderNew(c, emptyForm))

programPages.post('/programs/new', requireViewer, async (c) => {
  const viewer = c.get('viewer')
  const values = await readForm(c)
  const parsed = programSettings.safeParse(readProgramSettings(values))
  const workspaces = ownWorkspaces(viewer)
  const company = (values['workspace'] ?? '').trim().slice(0, 100).toWellFormed()
  const errors = {
    ...(parsed.success ? {} : fieldErrors(parsed.error.issues)),
    ...(workspaces.length === 0 && company === '' && { workspace: 'Enter the name of your company.' }),
  }
  if (!parsed.success || Object.keys(errors).length > 0) return renderNew(c, { values, errors }, 400)
  const chosen = values['workspace_id'] ?? workspaces[0]?.id
  if (workspaces.length > 0 && !workspaces.some(({ id }) => id === chosen)) {
    throw new ApiError('forbidden', 'Choose a workspace in which you may make programs.')
  }
  const db = c.get('db')
  const workspaceId = chosen ?? (await createWorkspace(db, { name: company, ownerId: viewer.user.id }))
  const programId = await createProgram(db, workspaceId, parsed.data)
  flash(c, 'good', `${parsed.data.name} is ready.`)
  return c.redirect(`/programs/${programId}`, 303)
})
