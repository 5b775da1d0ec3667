import type { Viewer } from '../../../lib/access/viewer.ts'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { renderAccount } from '../parts/layout.tsx'
import {
  createPages,
  emptyForm,
  flash,
  type FormState,
  type PageContext,
  readForm,
  requireViewer,
} from '../parts/page.ts'
import { Card, Field, Heading, Problem } from '../parts/parts.tsx'

/** The person's own account. */
export const accountPages = createPages()

function renderOwn(c: PageContext<{ viewer: Viewer }>, form: FormState, status: 200 | 400 = 200) {
  const { user } = c.get('viewer')
  return renderAccount(c, {
    title: 'Your account',
    status,
    children: (
      <>
        <Heading title="Your account" lead={`${user.name}, ${user.email}`} />
        <Card title="Password">
          <form method="post" action="/account/password" class="stack">
            <Problem form={form} />
            <div class="fields">
              <Field
                name="current"
                label="Current password"
                type="password"
                autocomplete="current-password"
                form={form}
                required
              />
              <Field
                name="new"
                label="New password"
                type="password"
                autocomplete="new-password"
                minlength={10}
                hint="At least 10 characters. You are signed out everywhere else."
                form={form}
                required
              />
            </div>
            <div class="row">
              <button type="submit" class="primary">
                Change the password
              </button>
            </div>
          </form>
          <p class="small muted">
            Signed in another way and have no password yet? <a href="/forgot-password">Have a link sent</a> to choose
            one.
          </p>
        </Card>
        <form method="post" action="/sign-out">
          <button type="submit">Sign out</button>
        </form>
      </>
    ),
  })
}

accountPages.get('/account', requireViewer, (c) => renderOwn(c, emptyForm))

accountPages.post('/account/password', requireViewer, async (c) => {
  const values = await readForm(c)
  const response = await openAuth(c.env).api.changePassword({
    body: { currentPassword: values['current'] ?? '', newPassword: values['new'] ?? '', revokeOtherSessions: true },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  if (!response.ok) {
    const problem =
      response.status === 429
        ? 'Too many tries. Wait 15 minutes, then try again.'
        : 'The current password is wrong, or the new one is not 10 to 128 characters long.'
    return renderOwn(c, { values: {}, errors: {}, problem }, 400)
  }
  for (const cookie of response.headers.getSetCookie()) c.header('Set-Cookie', cookie, { append: true })
  flash(c, 'good', 'Your password is changed.')
  return c.redirect('/account', 303)
})
