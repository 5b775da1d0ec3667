import * as z from 'zod/mini'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { addressOf, tokenInQuery } from '../components/address.ts'
import { Field, Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, refuseForm } from '../components/form.ts'
import { PlainPage } from '../components/layout.tsx'
import { createPages, type PageContext } from '../components/page.ts'
import { answered, emailField, NewPassword, nextOf, passOn, passwordField, withNext, wrongOr } from './credentials.tsx'

/** Handles forgotten passwords: requests a link and sets a new password. */
export const pages = createPages()

const forgotPage = (c: PageContext) => withNext('/forgot-password', nextOf(c))

pages.get('/forgot-password', (c) => {
  const { t } = c.get('texts')
  return c.render(
    <PlainPage title={t('Forgot password')}>
      <p class="muted">{t('We’ll send you a link to choose a new one.')}</p>
      <Form action={forgotPage(c)} submit={t('Send link')} layout="wide">
        <Field name="email" label={t('E-mail')} type="email" autocomplete="username" required />
      </Form>
      <p class="small">
        <a href={withNext('/sign-in', nextOf(c))}>{t('Back to sign-in')}</a>
      </p>
    </PlainPage>,
  )
})

const forgotForm = z.object({ email: emailField })

pages.post('/forgot-password', form(forgotForm, forgotPage), async (c) => {
  const { email } = c.req.valid('form')
  const { t, language } = c.get('texts')
  const { api } = openAuth(c, { next: nextOf(c), language })
  const response = await api.requestPasswordReset({ ...answered(c), body: { email } })
  const problem = await passOn(c, response)
  if (problem) return await refuseForm(c, forgotPage(c), { problem })
  const text = t(
    'Check your e-mail: if {email} has an account here, a link to choose a new password is on its way. If it does not arrive within a few minutes, request it again.',
    { email },
  )
  return redirectWith(c, forgotPage(c), text)
})

const resetPage = (c: PageContext) =>
  addressOf('/reset-password', { token: tokenInQuery(c), next: c.req.query('next') && nextOf(c) })

pages.get('/reset-password', (c) => {
  const { t } = c.get('texts')
  return c.render(
    <PlainPage title={t('Choose a new password')}>
      <Form action={resetPage(c)} submit={t('Save password')} layout="wide">
        <NewPassword name="password" label={t('New password')} signsOut />
      </Form>
    </PlainPage>,
  )
})

const resetForm = z.object({ password: passwordField })

pages.post('/reset-password', form(resetForm, resetPage), async (c) => {
  const response = await openAuth(c).api.resetPassword({
    ...answered(c),
    body: { token: tokenInQuery(c), newPassword: c.req.valid('form').password },
  })
  if (await passOn(c, response)) {
    const used = 'This link was used or is older than an hour. Request a new one on the sign-in page.'
    return await refuseForm(c, resetPage(c), { problem: wrongOr(response.status, used) })
  }
  return redirectWith(c, withNext('/sign-in', nextOf(c)), 'Your new password was saved. Sign in with it.')
})
