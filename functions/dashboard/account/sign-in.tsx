import * as z from 'zod/mini'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { ApiError } from '../../../lib/errors.ts'
import { Card } from '../components/blocks.tsx'
import { Field } from '../components/fields.tsx'
import { form, type FormState, optionalText, refuseForm, shownForm } from '../components/form.ts'
import { renderPlain } from '../components/layout.tsx'
import { createPages, type PageContext } from '../components/page.ts'
import { Credentials, nextOf, passOn, Providers, withNext, wrongCredentials } from './credentials.tsx'

/** Signing in, by password or by another provider, and out. */
export const signInPages = createPages()

/** The message for a provider's error, which better-auth puts into the address. */
const refusalOfProvider = (error: string) =>
  error === 'account_not_linked'
    ? 'An account with this address exists, and the address is not confirmed on both sides. Sign in with its password, or choose one with "Forgot your password?", which confirms the address here.'
    : 'Signing in that way did not work. Try again, or use your password.'

signInPages.get('/sign-in', async (c) => {
  if (c.get('viewer')) return c.redirect(nextOf(c), 303)
  const error = c.req.query('error')
  const shown = shownForm(c)
  return await renderSignIn(c, error === undefined ? shown : { ...shown, problem: refusalOfProvider(error) })
})

function renderSignIn(c: PageContext, shown: FormState) {
  const next = nextOf(c)
  return renderPlain(c, {
    title: 'Sign in',
    children: (
      <>
        <Card>
          <h1>Sign in</h1>
          <Credentials action={withNext('/sign-in', next)} submit="Sign in" form={shown}>
            <Field name="email" label="E-mail" type="email" autocomplete="username" form={shown} required />
            <Field
              name="password"
              label="Password"
              type="password"
              autocomplete="current-password"
              form={shown}
              required
            />
          </Credentials>
          <Providers c={c} next={next} />
          <p class="small">
            <a href="/forgot-password">Forgot your password?</a>
          </p>
        </Card>
        <p class="small">
          New here? <a href={withNext('/sign-up', next)}>Create an account</a>
        </p>
      </>
    ),
  })
}

/** better-auth's answer if the account has two-factor codes. */
const withCode = z.object({ twoFactorRedirect: z.literal(true) })

const signInForm = z.object({
  email: optionalText.check(z.trim()),
  password: optionalText,
})

signInPages.post('/sign-in', form(signInForm), async (c) => {
  const response = await openAuth(c).api.signInEmail({
    body: c.req.valid('form'),
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const problem = response.status === 400 ? wrongCredentials : await passOn(c, response)
  if (problem) return await refuseForm(c, withNext('/sign-in', nextOf(c)), { problem })
  const { success: needsCode } = withCode.safeParse(await response.json())
  return c.redirect(needsCode ? withNext('/two-factor', nextOf(c)) : nextOf(c), 303)
})

for (const provider of ['github', 'google'] as const) {
  signInPages.post(`/sign-in/${provider}`, async (c) => {
    const response = await openAuth(c).api.signInSocial({
      body: { provider, callbackURL: nextOf(c), errorCallbackURL: '/sign-in' },
      headers: c.req.raw.headers,
      asResponse: true,
    })
    const refusal = await passOn(c, response)
    const location = response.headers.get('location')
    if (refusal || location === null) {
      throw new ApiError('not_found', 'This way to sign in is not set up here.')
    }
    return c.redirect(location, 303)
  })
}

signInPages.post('/sign-out', async (c) => {
  await passOn(c, await openAuth(c).api.signOut({ headers: c.req.raw.headers, asResponse: true }))
  return c.redirect('/sign-in', 303)
})
