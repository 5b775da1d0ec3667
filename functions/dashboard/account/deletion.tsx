import * as z from 'zod/mini'
import { deleteWorkspace } from '../../../lib/programs/workspaces.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { AccountPage } from '../components/layout.tsx'
import { createPages, requireWorkspace, type WorkspaceContext } from '../components/page.ts'
import { checkPassword, OwnPassword } from './credentials.tsx'

/** Deletes a workspace. */
export const pages = createPages()

const workspacePage = (c: WorkspaceContext) => `/workspaces/${c.get('workspace').id}/delete`

pages.get('/workspaces/:workspaceId/delete', requireWorkspace('owner:manage'), (c) => {
  const { name } = c.get('workspace')
  return c.render(
    <AccountPage title="Delete a workspace" heading={`Delete ${name}`} lead="This cannot be undone.">
      <Card title="What happens">
        <p>
          All of its programs are closed: their links and API keys stop working, their partnerships and invitations end,
          Stripe and other processors are disconnected, and members can't see it anymore. You can't delete it while a
          partner has an unsettled balance.
        </p>
        <Form action={workspacePage(c)} submit="Delete the workspace" danger>
          <Field
            name="workspace_name"
            label="The name of the workspace"
            hint={`Type ${name}`}
            autocomplete="off"
            required
          />
          <OwnPassword name="password" />
        </Form>
      </Card>
    </AccountPage>,
  )
})

const deleteForm = z.object({ workspace_name: optionalText, password: optionalText })

pages.post(
  '/workspaces/:workspaceId/delete',
  requireWorkspace('owner:manage'),
  form(deleteForm, workspacePage, 'workspace_name'),
  async (c) => {
    const { id, name } = c.get('workspace')
    const { workspace_name: typed, password } = c.req.valid('form')
    if (typed.trim() !== name.trim()) throw new FormRefusal({ workspace_name: 'This is not its name.' })
    await checkPassword(c, 'password', password)
    await deleteWorkspace(c.get('db'), c.env, id)
    return redirectWith(c, '/account', `${name} is deleted.`)
  },
)
