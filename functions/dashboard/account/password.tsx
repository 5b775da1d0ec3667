import * as z from 'zod/mini'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { tokenInQuery } from '../parts/address.ts'
import { Card } from '../parts/blocks.tsx'
import { Field } from '../parts/fields.tsx'
import { redirectWith } from '../parts/flash.tsx'
import { emptyForm, form, formAgain, type FormState } from '../parts/form.ts'
import { renderPlain } from '../parts/layout.tsx'
import { createPages, type PageContext } from '../parts/page.ts'
import { Credentials, emailField, NewPassword, passOn, passwordField } from './credentials.tsx'

/** Forgotten passwords: asking for a link, and choosing a new one. */
export const passwordPages = createPages()

passwordPages.get('/forgot-password', (c) => renderForgot(c, emptyForm))

function renderForgot(c: PageContext, shown: FormState) {
  return renderPlain(c, {
    title: 'Forgotten password',
    status: shown.status,
    children: (
      <Card>
        <h1>Forgotten password</h1>
        <p class="muted">We send you a link with which you choose a new one.</p>
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

passwordPages.post('/forgot-password', form(forgotForm, renderForgot), async (c) => {
  const { email } = c.req.valid('form')
  const response = await openAuth(c).api.requestPasswordReset({
    body: { email },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const refusal = passOn(c, response)
  if (refusal) return renderForgot(c, await formAgain(c, refusal))
  return renderPlain(c, {
    title: 'Look into your mail',
    children: (
      <Card>
        <h1>Look into your mail</h1>
        <p>If {email} has an account here, a link to choose a new password is on its way.</p>
        <BackToSignIn />
      </Card>
    ),
  })
})

passwordPages.get('/reset-password', (c) => renderReset(c, emptyForm))

function renderReset(c: PageContext, shown: FormState) {
  return renderPlain(c, {
    title: 'Choose a new password',
    status: shown.status,
    children: (
      <Card>
        <h1>Choose a new password</h1>
        <Credentials
          action={`/reset-password?token=${encodeURIComponent(tokenInQuery(c))}`}
          submit="Save the password"
          form={shown}
        >
          <NewPassword name="password" label="New password" form={shown} signsOut />
        </Credentials>
      </Card>
    ),
  })
}

const resetForm = z.object({ password: passwordField })

passwordPages.post('/reset-password', form(resetForm, renderReset), async (c) => {
  const response = await openAuth(c).api.resetPassword({
    body: { token: tokenInQuery(c), newPassword: c.req.valid('form').password },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const refusal = passOn(c, response)
  if (refusal) {
    const problem = 'This link was used or is older than an hour. Ask for a new one on the sign-in page.'
    return renderReset(c, await formAgain(c, refusal.status === 429 ? refusal : { problem }))
  }
  return redirectWith(c, '/sign-in', 'Your new password is saved. Sign in with it.')
})
