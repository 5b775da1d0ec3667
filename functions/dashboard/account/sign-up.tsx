import * as z from 'zod/mini'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { nameField } from '../../../lib/names.ts'
import { canMail, mailIsMissing } from '../../../lib/notifications/mail.ts'
import { Card } from '../parts/blocks.tsx'
import { Field } from '../parts/fields.tsx'
import { emptyForm, form, formAgain, type FormState } from '../parts/form.ts'
import { renderPlain } from '../parts/layout.tsx'
import { createPages, type PageContext } from '../parts/page.ts'
import {
  Credentials,
  emailField,
  NewPassword,
  nextOf,
  passOn,
  passwordField,
  Providers,
  withNext,
} from './credentials.tsx'

/** Making an account. */
export const signUpPages = createPages()

signUpPages.get('/sign-up', async (c) => (c.get('viewer') ? c.redirect(nextOf(c), 303) : renderSignUp(c, emptyForm)))

function renderSignUp(c: PageContext, shown: FormState) {
  const next = nextOf(c)
  return renderPlain(c, {
    title: 'Create an account',
    status: shown.status,
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

const signUpForm = z.object({
  name: nameField('Enter your name.'),
  email: emailField,
  password: passwordField,
})

signUpPages.post('/sign-up', form(signUpForm, renderSignUp), async (c) => {
  const { name, email, password } = c.req.valid('form')
  const response = await openAuth(c).api.signUpEmail({
    body: { name, email, password },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const refusal = passOn(c, response)
  if (refusal) return renderSignUp(c, await formAgain(c, refusal))
  const title = canMail(c.env) ? 'Look into your mail' : 'No mail was sent'
  return renderPlain(c, {
    title,
    children: (
      <Card>
        <h1>{title}</h1>
        <p>
          {canMail(c.env)
            ? `A mail to ${email} is on its way. Its link confirms that the address is yours.`
            : mailIsMissing}
        </p>
        <p>You can sign in before that and look around; only inviting others waits for it.</p>
        <a class="button primary" href={withNext('/sign-in', nextOf(c))}>
          Sign in
        </a>
      </Card>
    ),
  })
})
