import * as z from 'zod/mini'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { Card, Heading } from '../parts/blocks.tsx'
import { Field, PostButton, Problem, Submit } from '../parts/fields.tsx'
import { redirectWith } from '../parts/flash.tsx'
import { emptyForm, form, type FormState, optionalText } from '../parts/form.ts'
import { renderAccount } from '../parts/layout.tsx'
import { createPages, requireViewer, type ViewerContext } from '../parts/page.ts'
import { NewPassword, passOn } from './credentials.tsx'

/** The person's own account. */
export const accountPages = createPages()

function renderAccountPage(c: ViewerContext, shown: FormState) {
  const { user } = c.get('viewer')
  return renderAccount(c, c.get('viewer'), {
    title: 'Your account',
    status: shown.status,
    children: (
      <>
        <Heading title="Your account" lead={`${user.name}, ${user.email}`} />
        <Card title="Password">
          <form method="post" action="/account/password" class="stack">
            <Problem form={shown} />
            <div class="fields">
              <Field
                name="current"
                label="Current password"
                type="password"
                autocomplete="current-password"
                form={shown}
                required
              />
              <NewPassword name="new" label="New password" form={shown} signsOut />
            </div>
            <Submit>Change the password</Submit>
          </form>
          <p class="small muted">
            Signed in another way and have no password yet? <a href="/forgot-password">Have a link sent</a> to choose
            one.
          </p>
        </Card>
        <PostButton action="/sign-out">Sign out</PostButton>
      </>
    ),
  })
}

accountPages.get('/account', requireViewer, (c) => renderAccountPage(c, emptyForm))

const passwordForm = z.object({ current: optionalText, new: optionalText })

accountPages.post('/account/password', requireViewer, form(passwordForm), async (c) => {
  const { current: currentPassword, new: newPassword } = c.req.valid('form')
  const response = await openAuth(c).api.changePassword({
    body: { currentPassword, newPassword, revokeOtherSessions: true },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const refusal = passOn(c, response)
  if (refusal) {
    const problem = 'The current password is wrong, or the new one is not 10 to 128 characters long.'
    return renderAccountPage(c, { ...emptyForm, ...(refusal.status === 429 ? refusal : { problem, status: 400 }) })
  }
  return redirectWith(c, '/account', 'Your password is changed.')
})
