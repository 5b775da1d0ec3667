import * as z from 'zod/mini'
import { openAuth, signUpUnmailed } from '../../../lib/access/sign-in.ts'
import { findInvitation } from '../../../lib/programs/invitations.ts'
import { findPartnerInvitation } from '../../../lib/programs/partner-invitations.ts'
import { nameField } from '../../../lib/names.ts'
import { canMail, mailIsMissing } from '../../../lib/mail.ts'
import { Card } from '../components/blocks.tsx'
import { Field } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, refuseForm, shownForm } from '../components/form.ts'
import { renderPlain } from '../components/layout.tsx'
import { createPages, type PageContext } from '../components/page.ts'
import {
  codeOf,
  Credentials,
  emailField,
  NewPassword,
  nextOf,
  passOn,
  passwordField,
  Providers,
  withNext,
} from './credentials.tsx'

/** Creating an account. */
export const signUpPages = createPages()

signUpPages.get('/sign-up', async (c) => (c.get('viewer') ? c.redirect(nextOf(c), 303) : renderSignUp(c, shownForm(c))))

function renderSignUp(c: PageContext, shown: FormState) {
  const next = nextOf(c)
  return renderPlain(c, {
    title: 'Create an account',
    children: (
      <>
        <Card>
          <h1>Create an account</h1>
          <Credentials action={withNext('/sign-up', next)} submit="Create account" form={shown}>
            <Field name="name" label="Your name" autocomplete="name" form={shown} required />
            <Field
              name="email"
              label="E-mail"
              type="email"
              autocomplete="username"
              form={shown}
              value={c.req.query('email')}
              required
            />
            <NewPassword name="password" label="Password" form={shown} />
          </Credentials>
          <Providers c={c} next={next} />
        </Card>
        <p class="small">
          Have an account? <a href={withNext('/sign-in', next)}>Sign in</a>
        </p>
      </>
    ),
  })
}

/** The address of the invitation that led here. Accepting it confirms the address, because its link was mailed there. */
async function invitedAddress(c: PageContext): Promise<string | undefined> {
  const { pathname, searchParams } = new URL(nextOf(c), c.env.BASE_URL)
  const token = searchParams.get('token')
  if (token === null) return undefined
  if (pathname === '/invitation') return (await findInvitation(c.get('db'), token))?.email
  if (pathname === '/partner-invitation') return (await findPartnerInvitation(c.get('db'), token))?.email
  return undefined
}

const signUpPage = (c: PageContext) => withNext('/sign-up', nextOf(c))

const signUpForm = z.object({
  name: nameField('Enter your name.'),
  email: emailField,
  password: passwordField,
})

signUpPages.post('/sign-up', form(signUpForm, signUpPage), async (c) => {
  const { name, email, password } = c.req.valid('form')
  const isInvited = (await invitedAddress(c)) === email.toLowerCase()
  const response = await openAuth(c, { confirmsAddress: !isInvited }).api.signUpEmail({
    body: { name, email, password },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const isUnmailed = (await codeOf(response)) === signUpUnmailed.code
  const problem = isUnmailed ? undefined : await passOn(c, response)
  if (problem) return await refuseForm(c, signUpPage(c), { problem })
  const signIn = withNext('/sign-in', nextOf(c))
  if (isInvited) return redirectWith(c, signIn, 'Sign in, then accept the invitation.')
  if (isUnmailed) return redirectWith(c, signIn, signUpUnmailed.message, 'bad')
  const sent = canMail(c.env)
    ? `Check your mail: open the link that we sent to ${email} to confirm the address.`
    : mailIsMissing
  const text = `${sent} You can sign in and look around before that. Inviting others needs a confirmed address.`
  return redirectWith(c, signIn, text)
})
