import * as z from 'zod/mini'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { tokenInQuery } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { Field } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, refuseForm, shownForm } from '../components/form.ts'
import { renderPlain } from '../components/layout.tsx'
import { createPages, type PageContext } from '../components/page.ts'
import { Credentials, emailField, NewPassword, passOn, passwordField, wrongOr } from './credentials.tsx'

/** Forgotten passwords: requesting a link and choosing a new password. */
export const passwordPages = createPages()

passwordPages.get('/forgot-password', (c) => renderForgot(c, shownForm(c)))

function renderForgot(c: PageContext, shown: FormState) {
  return renderPlain(c, {
    title: 'Forgotten password',
    children: (
      <Card>
        <h1>Forgotten password</h1>
        <p class="muted">We mail you a link to choose a new one.</p>
        <Credentials action="/forgot-password" submit="Send the link" form={shown}>
          <Field name="email" label="E-mail" type="email" autocomplete="username" form={shown} required />
        </Credentials>
        <BackToSignIn />
      </Card>
    ),
  })
}

function BackToSignIn() {
  return (
    <p class="small">
      <a href="/sign-in">Back to sign-in</a>
    </p>
  )
}

const forgotForm = z.object({ email: emailField })

passwordPages.post(
  '/forgot-password',
  form(forgotForm, () => '/forgot-password'),
  async (c) => {
    const { email } = c.req.valid('form')
    const response = await openAuth(c).api.requestPasswordReset({
      body: { email },
      headers: c.req.raw.headers,
      asResponse: true,
    })
    const problem = await passOn(c, response)
    if (problem) return await refuseForm(c, '/forgot-password', { problem })
    const text = `Check your mail: if ${email} has an account here, a link to choose a new password is on its way. If it does not arrive within a few minutes, request it again.`
    return redirectWith(c, '/forgot-password', text)
  },
)

passwordPages.get('/reset-password', (c) => renderReset(c, shownForm(c)))

const resetPage = (c: PageContext) => `/reset-password?token=${encodeURIComponent(tokenInQuery(c))}`

function renderReset(c: PageContext, shown: FormState) {
  return renderPlain(c, {
    title: 'Choose a new password',
    children: (
      <Card>
        <h1>Choose a new password</h1>
        <Credentials action={resetPage(c)} submit="Save the password" form={shown}>
          <NewPassword name="password" label="New password" form={shown} signsOut />
        </Credentials>
      </Card>
    ),
  })
}

const resetForm = z.object({ password: passwordField })

passwordPages.post('/reset-password', form(resetForm, resetPage), async (c) => {
  const response = await openAuth(c).api.resetPassword({
    body: { token: tokenInQuery(c), newPassword: c.req.valid('form').password },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  if (await passOn(c, response)) {
    const used = 'This link was used or is older than an hour. Request a new one on the sign-in page.'
    return await refuseForm(c, resetPage(c), { problem: wrongOr(response.status, used) })
  }
  return redirectWith(c, '/sign-in', 'Your new password is saved. Sign in with it.')
})
