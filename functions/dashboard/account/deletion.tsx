import * as z from 'zod/mini'
import { eraseAccount } from '../../../lib/access/account.ts'
import { ApiError } from '../../../lib/errors.ts'
import { deleteWorkspace } from '../../../lib/programs/workspaces.ts'
import { Card, Heading } from '../components/blocks.tsx'
import { Field, Problem, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, optionalText, refuseForm, shownForm } from '../components/form.ts'
import { renderAccount } from '../components/layout.tsx'
import {
  createPages,
  requireViewer,
  requireWorkspace,
  type ViewerContext,
  type WorkspaceContext,
} from '../components/page.ts'
import { OwnPassword, refusePassword } from './credentials.tsx'

/** Irreversible actions: deleting a workspace and erasing one's own account. */
export const deletionPages = createPages()

/** Shows the form again with the conflict that prevents the deletion. */
async function refuseDeletion(c: ViewerContext | WorkspaceContext, page: string, error: unknown): Promise<Response> {
  if (!(error instanceof ApiError) || error.code !== 'conflict') throw error
  return await refuseForm(c, page, { problem: error.message })
}

const workspacePage = (c: WorkspaceContext) => `/workspaces/${c.get('workspace').id}/delete`
const erasePage = '/account/erase'

deletionPages.get('/workspaces/:workspaceId/delete', requireWorkspace('owner:manage'), (c) =>
  renderDeleteWorkspace(c, shownForm(c)),
)

function renderDeleteWorkspace(c: WorkspaceContext, shown: FormState) {
  const { name } = c.get('workspace')
  return renderAccount(c, c.get('viewer'), {
    title: 'Delete a workspace',
    children: (
      <>
        <Heading title={`Delete ${name}`} lead="This cannot be undone." />
        <Card title="What happens">
          <p>
            All of its programs are closed: their links and API keys stop working, their partnerships and invitations
            end, Stripe is disconnected, and no member sees anything of it any more. First, no partner may have an
            unsettled balance.
          </p>
          <form method="post" action={workspacePage(c)} class="stack">
            <Problem form={shown} />
            <div class="fields">
              <Field
                name="workspace_name"
                label="The name of the workspace"
                hint={`Type ${name}`}
                autocomplete="off"
                form={shown}
                required
              />
              <OwnPassword name="password" form={shown} />
            </div>
            <Submit danger>Delete the workspace</Submit>
          </form>
        </Card>
      </>
    ),
  })
}

deletionPages.post(
  '/workspaces/:workspaceId/delete',
  requireWorkspace('owner:manage'),
  form(z.object({ workspace_name: optionalText, password: optionalText }), workspacePage),
  async (c) => {
    const { id, name } = c.get('workspace')
    const { workspace_name: typed, password } = c.req.valid('form')
    const refused =
      typed.trim() === name.trim()
        ? await refusePassword(c, workspacePage(c), 'password', password)
        : await refuseForm(c, workspacePage(c), { errors: { workspace_name: 'This is not its name.' } })
    if (refused) return refused
    try {
      await deleteWorkspace(c.get('db'), c.env, id)
    } catch (error) {
      return await refuseDeletion(c, workspacePage(c), error)
    }
    return redirectWith(c, '/account', `${name} is deleted.`)
  },
)

deletionPages.get(erasePage, requireViewer, (c) => renderErase(c, shownForm(c)))

function renderErase(c: ViewerContext, shown: FormState) {
  return renderAccount(c, c.get('viewer'), {
    title: 'Erase your account',
    children: (
      <>
        <Heading title="Erase your account" lead="This cannot be undone." />
        <Card title="What happens">
          <p>
            You are signed out everywhere and leave every workspace. As a partner you leave every program, and your name
            and addresses are removed there. Paid money stays in the books without you. First, no program may owe you
            money, and you must not be the last owner of a workspace.
          </p>
          <form method="post" action={erasePage} class="stack">
            <Problem form={shown} />
            <div class="fields">
              <OwnPassword name="password" form={shown} />
            </div>
            <Submit danger>Erase the account</Submit>
          </form>
        </Card>
      </>
    ),
  })
}

deletionPages.post(
  erasePage,
  requireViewer,
  form(z.object({ password: optionalText }), () => erasePage),
  async (c) => {
    const refused = await refusePassword(c, erasePage, 'password', c.req.valid('form').password)
    if (refused) return refused
    try {
      await eraseAccount(c.get('db'), c.get('viewer').user.id)
    } catch (error) {
      return await refuseDeletion(c, erasePage, error)
    }
    return redirectWith(c, '/sign-in', 'Your account is erased.')
  },
)
