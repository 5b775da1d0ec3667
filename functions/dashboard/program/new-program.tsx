import { may } from '../../../lib/access/roles.ts'
import type { Viewer } from '../../../lib/access/viewer.ts'
import { ApiError } from '../../../lib/errors.ts'
import { countNewProgram, createProgram, programDefaults } from '../../../lib/programs/programs.ts'
import { createWorkspace } from '../../../lib/programs/workspaces.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form, optionsOf } from '../components/fields.tsx'
import { emptyForm, form, FormContext, FormRefusal, useForm } from '../components/form.ts'
import { AccountPage } from '../components/layout.tsx'
import { createPages, requireViewer } from '../components/page.ts'
import { newProgramForm, SiteFields } from './program-form.tsx'
import { Progress } from './wizard.tsx'
import { stepAddress } from './wizard-steps.ts'

/** Creates a program. A person's first program also creates a workspace. */
export const pages = createPages()

/** Returns the workspaces in which the person may create a program. */
function ownWorkspaces(viewer: Viewer) {
  return viewer.workspaces.filter(({ role }) => may([role], 'program:create'))
}

pages.get('/programs/new', requireViewer, (c) => {
  const workspaces = ownWorkspaces(c.get('viewer'))
  return c.render(
    <AccountPage
      title="New program"
      heading={workspaces.length === 0 ? 'Welcome. Create your first program' : 'New program'}
      lead="A program tracks the sales that partners bring to one site. You can change everything later, and skip every further step."
    >
      <Progress current="program" />
      <Card>
        <Form action={newProgramPage} submit="Create program">
          {workspaces.length === 0 ? (
            <CompanyField />
          ) : (
            <Field name="workspace_id" label="Workspace" options={optionsOf(workspaces)} />
          )}
          <SiteFields settings={{ ...programDefaults, name: '', domain: '' }} />
          <Field
            name="start"
            label="Start"
            options={[
              ['live', 'Credit commissions from the first sale'],
              ['shadow', 'In shadow mode, while another service still pays'],
            ]}
            hint="In shadow mode, the program computes everything and credits nothing, so that you can compare both services."
          />
        </Form>
      </Card>
    </AccountPage>,
  )
})

const newProgramPage = '/programs/new'
const needsCompany = { workspace: 'Enter the name of your company.' }

/** The name of the first workspace. An error about it appears together with the errors of the other fields. */
function CompanyField() {
  const state = useForm()
  const isMissing = state !== emptyForm && !state.values['workspace']?.trim()
  return (
    <FormContext.Provider value={isMissing ? { ...state, errors: { ...needsCompany, ...state.errors } } : state}>
      <Field
        name="workspace"
        label="Company"
        hint="Your workspace. You can invite others to it."
        autocomplete="organization"
        required
      />
    </FormContext.Provider>
  )
}

pages.post(newProgramPage, requireViewer, form(newProgramForm, newProgramPage), async (c) => {
  const viewer = c.get('viewer')
  const { workspace: company, workspace_id: selected, start, ...settings } = c.req.valid('form')
  const workspaces = ownWorkspaces(viewer)
  const chosen = selected ?? workspaces[0]?.id
  if (chosen === undefined && company === '') throw new FormRefusal(needsCompany)
  if (chosen !== undefined && !workspaces.some(({ id }) => id === chosen)) {
    throw new ApiError('forbidden', 'Choose a workspace in which you can create programs.')
  }
  const db = c.get('db')
  await countNewProgram(db, viewer.user.id)
  const workspaceId = chosen ?? (await createWorkspace(db, { name: company, ownerId: viewer.user.id }))
  const inShadowMode = start === 'shadow'
  const programId = await createProgram(db, workspaceId, { ...programDefaults, ...settings }, { inShadowMode })
  return c.redirect(stepAddress(programId, 'rate'), 303)
})
