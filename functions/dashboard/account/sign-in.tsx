import * as z from 'zod/mini'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { ApiError } from '../../../lib/errors.ts'
import { Field, Form } from '../components/fields.tsx'
import { form, optionalText, refuseForm } from '../components/form.ts'
import { PlainPage } from '../components/layout.tsx'
import { createPages } from '../components/page.ts'
import { Text } from '../components/text.tsx'
import { answered, nextOf, passOn, Providers, signIn, startOf, withNext } from './credentials.tsx'

/** Signs people in, by password or through another provider, and signs them out. */
export const pages = createPages()

/** The message for a provider's error, which better-auth puts into the address. */
const refusalOfProvider = (error: string) =>
  error === 'account_not_linked'
    ? 'An account with this address exists, and the address is not confirmed on both sides. Sign in with its password, or choose one with “Forgot your password?”, which confirms the address here.'
    : 'Signing in that way did not work. Try again, or use your password.'

pages.get('/sign-in', async (c) => {
  if (c.get('viewer')) return c.redirect(nextOf(c), 303)
  const next = nextOf(c)
  const error = c.req.query('error')
  const { t, fixed } = c.get('texts')
  return c.render(
    <PlainPage
      title={t('Sign in')}
      below={
        <p class="small">
          <Text of="New here? <a>Create an account</a>" a={(text) => <a href={withNext('/sign-up', next)}>{text}</a>} />
        </p>
      }
    >
      {error !== undefined && (
        <p class="message bad" role="alert">
          {fixed(refusalOfProvider(error))}
        </p>
      )}
      <Form action={withNext('/sign-in', next)} submit={t('Sign in')} layout="wide">
        <Field name="email" label={t('E-mail')} type="email" autocomplete="username" required />
        <Field name="password" label={t('Password')} type="password" autocomplete="current-password" required />
      </Form>
      <Providers c={c} next={next} />
      <p class="small">
        <a href={withNext('/forgot-password', next)}>{t('Forgot your password?')}</a>
      </p>
    </PlainPage>,
  )
})

const signInForm = z.object({ email: optionalText.check(z.trim()), password: optionalText })

pages.post('/sign-in', form(signInForm), async (c) => {
  const answer = await signIn(c, c.req.valid('form'))
  if (answer instanceof Response) return answer
  return await refuseForm(c, withNext('/sign-in', nextOf(c)), { problem: answer })
})

for (const provider of ['github', 'google'] as const) {
  pages.post(`/sign-in/${provider}`, async (c) => {
    const response = await openAuth(c).api.signInSocial({
      ...answered(c),
      body: { provider, callbackURL: nextOf(c), errorCallbackURL: '/sign-in' },
    })
    const refusal = await passOn(c, response)
    const location = response.headers.get('location')
    if (refusal || location === null) throw new ApiError('not_found', "This sign-in method isn't set up here.")
    return c.redirect(location, 303)
  })
}

pages.post('/sign-out', async (c) => {
  await passOn(c, await openAuth(c).api.signOut(answered(c)))
  return c.redirect(withNext('/sign-in', startOf(c)), 303)
})
