import * as z from 'zod/mini'
import { openAuth, signUpUnmailed } from '../../../lib/access/sign-in.ts'
import { findInvitation } from '../../../lib/programs/invitations.ts'
import { findPartnerInvitation } from '../../../lib/programs/partner-invitations.ts'
import { nameField } from '../../../lib/names.ts'
import { Field, Form } from '../components/fields.tsx'
import { leaveFlash, redirectWith } from '../components/flash.tsx'
import { form, refuseForm } from '../components/form.ts'
import { PlainPage } from '../components/layout.tsx'
import { createPages, type PageContext } from '../components/page.ts'
import { Text } from '../components/text.tsx'
import {
  answered,
  codeOf,
  emailField,
  NewPassword,
  nextOf,
  passOn,
  passwordField,
  Providers,
  signIn,
  startOf,
  withNext,
} from './credentials.tsx'

/** Creates an account. */
export const pages = createPages()

pages.get('/sign-up', async (c) => {
  const next = nextOf(c)
  if (c.get('viewer')) return c.redirect(next, 303)
  const { t } = c.get('texts')
  return c.render(
    <PlainPage
      title={t('Create an account')}
      below={
        <p class="small">
          <Text of="Have an account? <a>Sign in</a>" a={(text) => <a href={withNext('/sign-in', next)}>{text}</a>} />
        </p>
      }
    >
      <Form action={withNext('/sign-up', next)} submit={t('Create account')} layout="wide">
        <Field name="name" label={t('Your name')} autocomplete="name" value={c.req.query('name')} required />
        <Field
          name="email"
          label={t('E-mail')}
          type="email"
          autocomplete="username"
          value={c.req.query('email')}
          required
        />
        <NewPassword name="password" label={t('Password')} />
      </Form>
      <Providers c={c} next={next} />
    </PlainPage>,
  )
})

/** The address of the invitation that led here. Accepting the invitation confirms the address, because the link was mailed there. */
async function invitedAddress(c: PageContext): Promise<string | undefined> {
  const { pathname, searchParams } = new URL(nextOf(c), c.env.BASE_URL)
  const token = searchParams.get('token')
  if (token === null) return undefined
  if (pathname === '/invitation') return (await findInvitation(c.get('db'), token))?.email
  if (pathname === '/partner-invitation') return (await findPartnerInvitation(c.get('db'), token))?.email
  return undefined
}

const signUpPage = (c: PageContext) => withNext('/sign-up', nextOf(c))

const signUpForm = z.object({ name: nameField('Enter your name.'), email: emailField, password: passwordField })

/** Creates the account and signs in. Until the address is confirmed, each page explains which actions need that. */
pages.post('/sign-up', form(signUpForm, signUpPage), async (c) => {
  const { name, email, password } = c.req.valid('form')
  const isInvited = (await invitedAddress(c)) === email.toLowerCase()
  const { t, language } = c.get('texts')
  const response = await openAuth(c, { confirmsAddress: !isInvited, next: startOf(c), language }).api.signUpEmail({
    ...answered(c),
    body: { name, email, password },
  })
  const isUnmailed = (await codeOf(response)) === signUpUnmailed.code
  const problem = isUnmailed ? undefined : await passOn(c, response)
  if (problem) return await refuseForm(c, signUpPage(c), { problem })
  if (isUnmailed) leaveFlash(c, signUpUnmailed.message, 'bad')
  // This reveals whether the address had an account, as .github/SECURITY.md explains.
  const answer = await signIn(c, { email, password })
  if (answer instanceof Response) return answer
  const signInPage = withNext('/sign-in', nextOf(c))
  if (isUnmailed) return c.redirect(signInPage, 303)
  const text = isInvited
    ? t('Sign in, then accept the invitation.')
    : t('Check your e-mail: we sent a message to {email}.', { email })
  return redirectWith(c, signInPage, text)
})
