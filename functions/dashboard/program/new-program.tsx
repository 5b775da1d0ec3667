import { may } from '../../../lib/access/roles.ts'
import { findViewer, type Viewer } from '../../../lib/access/viewer.ts'
import { ApiError } from '../../../lib/errors.ts'
import { programDefaults, startProgram } from '../../../lib/programs/programs.ts'
import { createWorkspace } from '../../../lib/programs/workspaces.ts'
import { Card, Heading } from '../components/blocks.tsx'
import { Field, Problem, Submit } from '../components/fields.tsx'
import { emptyForm, form, type FormState, refuseForm, shownForm } from '../components/form.ts'
import { renderAccount } from '../components/layout.tsx'
import { createPages, requireViewer, type ViewerContext } from '../components/page.ts'
import { renderCheck } from './set-up-checks.tsx'
import { newProgramForm, ProgramFields } from './program-form.tsx'

/** Creates a program, and with the first one a workspace. */
export const newProgramPages = createPages()

/** Returns the workspaces in which the person may create a program. */
function ownWorkspaces(viewer: Viewer) {
  return viewer.workspaces.filter(({ role }) => may([role], 'program:create'))
}

newProgramPages.get('/programs/new', requireViewer, (c) => renderNew(c, withCompany(c, shownForm(c))))

function renderNew(c: ViewerContext, shown: FormState) {
  const viewer = c.get('viewer')
  const workspaces = ownWorkspaces(viewer)
  return renderAccount(c, viewer, {
    title: 'New program',
    children: (
      <>
        <Heading
          title={workspaces.length === 0 ? 'Welcome. Create your first program' : 'New program'}
          lead="A program tracks the sales that partners refer to one site. You can change everything here later."
        />
        <form method="post" action="/programs/new" class="stack loose">
          <Problem form={shown} />
          <Card>
            {workspaces.length === 0 ? (
              <Field
                name="workspace"
                label="Company"
                hint="Your workspace. You can invite others to it."
                autocomplete="organization"
                form={shown}
                required
              />
            ) : (
              <Field
                name="workspace_id"
                label="Workspace"
                options={workspaces.map(({ id, name }) => [id, name] as const)}
                form={shown}
              />
            )}
            <ProgramFields form={shown} settings={{ ...programDefaults, name: '', domain: '' }} />
          </Card>
          <Submit>Create program</Submit>
        </form>
      </>
    ),
  })
}

/** Adds the error of a missing company name to the other errors. */
function withCompany(c: ViewerContext, shown: FormState): FormState {
  if (shown === emptyForm || ownWorkspaces(c.get('viewer')).length > 0 || shown.values['workspace']?.trim())
    return shown
  return { ...shown, errors: { workspace: 'Enter the name of your company.', ...shown.errors } }
}

const newProgramPage = '/programs/new'

newProgramPages.post(
  '/programs/new',
  requireViewer,
  form(newProgramForm, () => newProgramPage),
  async (c) => {
    const viewer = c.get('viewer')
    const { workspace: company, workspace_id: asked, ...settings } = c.req.valid('form')
    const workspaces = ownWorkspaces(viewer)
    const chosen = asked ?? workspaces[0]?.id
    if (chosen === undefined && company === '') return await refuseForm(c, newProgramPage, {})
    if (chosen !== undefined && !workspaces.some(({ id }) => id === chosen)) {
      throw new ApiError('forbidden', 'Choose a workspace in which you may create programs.')
    }
    const db = c.get('db')
    const workspaceId = chosen ?? (await createWorkspace(db, { name: company, ownerId: viewer.user.id }))
    const { programId, apiKey } = await startProgram(db, workspaceId, settings, viewer.user.id)
    const seen = await findViewer(db, c.env, c.req.raw.headers)
    const program = seen?.programs.find(({ id }) => id === programId)
    if (!seen || !program) throw new Error('a program is not seen by who made it')
    return await renderCheck(c, { db, baseUrl: c.env.BASE_URL, viewer: seen, program }, apiKey)
  },
)
