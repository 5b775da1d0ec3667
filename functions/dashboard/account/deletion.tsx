import * as z from 'zod/mini'
import { erasePayee } from '../../../lib/money/payees.ts'
import { deleteWorkspace } from '../../../lib/programs/workspaces.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { AccountPage } from '../components/layout.tsx'
import { createPages, requireViewer, requireWorkspace, type WorkspaceContext } from '../components/page.ts'
import { checkPassword, OwnPassword } from './credentials.tsx'

/** Irreversible actions: deletes a workspace, or erases the person's own account. */
export const pages = createPages()

const workspacePage = (c: WorkspaceContext) => `/workspaces/${c.get('workspace').id}/delete`
const erasePage = '/account/erase'

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

pages.get(erasePage, requireViewer, (c) =>
  c.render(
    <AccountPage title="Erase your account" lead="This cannot be undone.">
      <Card title="What happens">
        <p>
          You are signed out everywhere and leave every workspace. As a partner, you leave every program, and your name
          and addresses are removed. Payments and debts stay in the books. For accounting, programs that paid you keep
          your name and addresses encrypted for ten years. You can't delete your account while a program owes you money
          or you are the last owner of a workspace.
        </p>
        <Form action={erasePage} submit="Erase the account" danger>
          <OwnPassword name="password" />
        </Form>
      </Card>
    </AccountPage>,
  ),
)

const eraseForm = z.object({ password: optionalText })

pages.post(erasePage, requireViewer, form(eraseForm, erasePage, 'password'), async (c) => {
  await checkPassword(c, 'password', c.req.valid('form').password)
  await erasePayee(c.get('db'), c.env.EMAIL_HASH_KEY, c.get('viewer').user.id)
  return redirectWith(c, '/sign-in', 'Your account was erased.')
})
