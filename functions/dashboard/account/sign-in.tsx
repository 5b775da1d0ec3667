import type { Child } from 'hono/jsx'
import * as z from 'zod/mini'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { ApiError } from '../../../lib/errors.ts'
import {
  acceptInvitation,
  acceptPartnerInvitation,
  findInvitation,
  findPartnerInvitation,
} from '../../../lib/programs/invitations.ts'
import { renderPlain } from '../parts/layout.tsx'
import {
  createPages,
  emptyForm,
  fieldErrors,
  flash,
  type FormState,
  type PageContext,
  readForm,
  safePath,
} from '../parts/page.ts'
import { Card, Field, Problem } from '../parts/parts.tsx'

/** Sign-up, sign-in, sign-out, forgotten passwords and invitations. */
export const signInPages = createPages()

const email = z.string().check(z.trim(), z.toLowerCase(), z.email('Enter an e-mail address.'))
const password = z
  .string()
  .check(z.minLength(10, 'Use at least 10 characters.'), z.maxLength(128, 'Use at most 128 characters.'))
const signUpForm = z.object({
  name: z.string().check(z.trim(), z.minLength(1, 'Enter your name.'), z.maxLength(100)),
  email,
  password,
})

/** better-auth's answer as what the page does: its cookies are passed on, its refusals become the form's problem. */
async function passOn(c: PageContext, response: Response): Promise<string | undefined> {
  if (!response.ok) {
    const refusals: Record<number, string> = {
      401: 'The e-mail address or the password is wrong.',
      422: 'There is an account with this e-mail address. Sign in instead.',
      429: 'Too many tries. Wait 15 minutes, then try again.',
    }
    return refusals[response.status] ?? 'That did not work. Check what you entered and try again.'
  }
  for (const cookie of response.headers.getSetCookie()) c.header('Set-Cookie', cookie, { append: true })
  return undefined
}

function nextOf(c: PageContext): string {
  return safePath(c.req.query('next'))
}

function withNext(path: string, next: string): string {
  return next === '/' ? path : `${path}?next=${encodeURIComponent(next)}`
}

/** Buttons for the OAuth providers whose secrets are set. */
function Providers({ c, next }: { c: PageContext; next: string }) {
  const providers = [
    ...(c.env.GITHUB_CLIENT_ID ? [['github', 'GitHub'] as const] : []),
    ...(c.env.GOOGLE_CLIENT_ID ? [['google', 'Google'] as const] : []),
  ]
  return (
    <>
      {providers.map(([id, name]) => (
        <form method="post" action={withNext(`/sign-in/${id}`, next)}>
          <button type="submit" class="wide-button">
            Continue with {name}
          </button>
        </form>
      ))}
    </>
  )
}

function Credentials({
  children,
  action,
  submit,
  form,
}: {
  children: Child
  action: string
  submit: string
  form: FormState
}) {
  return (
    <form method="post" action={action} class="stack">
      <Problem form={form} />
      {children}
      <button type="submit" class="primary wide-button">
        {submit}
      </button>
    </form>
  )
}

function renderSignIn(c: PageContext, form: FormState, status: 200 | 400 | 401 = 200) {
  const next = nextOf(c)
  c.status(status)
  return renderPlain(c, {
    title: 'Sign in',
    children: (
      <>
        <Card>
          <h1>Sign in</h1>
          <Credentials action={withNext('/sign-in', next)} submit="Sign in" form={form}>
            <Field name="email" label="E-mail" type="email" autocomplete="username" form={form} required />
            <Field
              name="password"
              label="Password"
              type="password"
              autocomplete="current-password"
              form={form}
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

signInPages.get('/sign-in', (c) => (c.get('viewer') ? c.redirect(nextOf(c), 303) : renderSignIn(c, emptyForm)))

signInPages.post('/sign-in', async (c) => {
  const values = await readForm(c)
  const response = await openAuth(c.env).api.signInEmail({
    body: { email: (values['email'] ?? '').trim(), password: values['password'] ?? '' },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const problem = response.status === 400 ? 'The e-mail address or the password is wrong.' : await passOn(c, response)
  if (problem !== undefined) return renderSignIn(c, { values, errors: {}, problem }, 401)
  return c.redirect(nextOf(c), 303)
})

for (const provider of ['github', 'google'] as const) {
  signInPages.post(`/sign-in/${provider}`, async (c) => {
    const response = await openAuth(c.env).api.signInSocial({
      body: { provider, callbackURL: nextOf(c), errorCallbackURL: '/sign-in' },
      headers: c.req.raw.headers,
      asResponse: true,
    })
    const problem = await passOn(c, response)
    const location = response.headers.get('location')
    if (problem !== undefined || location === null) {
      throw new ApiError('not_found', 'This way to sign in is not set up here.')
    }
    return c.redirect(location, 303)
  })
}

function renderSignUp(c: PageContext, form: FormState, status: 200 | 400 = 200) {
  const next = nextOf(c)
  c.status(status)
  return renderPlain(c, {
    title: 'Create an account',
    children: (
      <>
        <Card>
          <h1>Create an account</h1>
          <Credentials action={withNext('/sign-up', next)} submit="Create account" form={form}>
            <Field name="name" label="Your name" autocomplete="name" form={form} required />
            <Field
              name="email"
              label="E-mail"
              type="email"
              autocomplete="username"
              form={form}
              value={c.req.query('email')}
              required
            />
            <Field
              name="password"
              label="Password"
              type="password"
              autocomplete="new-password"
              minlength={10}
              hint="At least 10 characters."
              form={form}
              required
            />
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

signInPages.get('/sign-up', (c) => (c.get('viewer') ? c.redirect(nextOf(c), 303) : renderSignUp(c, emptyForm)))

signInPages.post('/sign-up', async (c) => {
  const values = await readForm(c)
  const parsed = signUpForm.safeParse(values)
  if (!parsed.success) return renderSignUp(c, { values, errors: fieldErrors(parsed.error.issues) }, 400)
  const response = await openAuth(c.env).api.signUpEmail({
    body: parsed.data,
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const problem = await passOn(c, response)
  if (problem !== undefined) return renderSignUp(c, { values, errors: {}, problem }, 400)
  return c.redirect(nextOf(c), 303)
})

signInPages.post('/sign-out', async (c) => {
  const response = await openAuth(c.env).api.signOut({ headers: c.req.raw.headers, asResponse: true })
  await passOn(c, response)
  return c.redirect('/sign-in', 303)
})

function renderForgot(c: PageContext, form: FormState, status: 200 | 400 = 200) {
  c.status(status)
  return renderPlain(c, {
    title: 'Forgotten password',
    children: (
      <Card>
        <h1>Forgotten password</h1>
        <p class="muted">We send you a link with which you choose a new one.</p>
        <Credentials action="/forgot-password" submit="Send the link" form={form}>
          <Field name="email" label="E-mail" type="email" autocomplete="username" form={form} required />
        </Credentials>
        <p class="small">
          <a href="/sign-in">Back to sign-in</a>
        </p>
      </Card>
    ),
  })
}

signInPages.get('/forgot-password', (c) => renderForgot(c, emptyForm))

signInPages.post('/forgot-password', async (c) => {
  const values = await readForm(c)
  const parsed = z.object({ email }).safeParse(values)
  if (!parsed.success) return renderForgot(c, { values, errors: fieldErrors(parsed.error.issues) }, 400)
  const response = await openAuth(c.env).api.requestPasswordReset({
    body: { email: parsed.data.email },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const problem = await passOn(c, response)
  if (problem !== undefined) return renderForgot(c, { values, errors: {}, problem }, 400)
  return renderPlain(c, {
    title: 'Look into your mail',
    children: (
      <Card>
        <h1>Look into your mail</h1>
        <p>If {parsed.data.email} has an account here, a link to choose a new password is on its way.</p>
        <p class="small">
          <a href="/sign-in">Back to sign-in</a>
        </p>
      </Card>
    ),
  })
})

function renderReset(c: PageContext, token: string, form: FormState, status: 200 | 400 = 200) {
  c.status(status)
  return renderPlain(c, {
    title: 'Choose a new password',
    children: (
      <Card>
        <h1>Choose a new password</h1>
        <Credentials
          action={`/reset-password?token=${encodeURIComponent(token)}`}
          submit="Save the password"
          form={form}
        >
          <Field
            name="password"
            label="New password"
            type="password"
            autocomplete="new-password"
            minlength={10}
            hint="At least 10 characters. You are signed out everywhere else."
            form={form}
            required
          />
        </Credentials>
      </Card>
    ),
  })
}

signInPages.get('/reset-password', (c) => renderReset(c, c.req.query('token') ?? '', emptyForm))

signInPages.post('/reset-password', async (c) => {
  const token = c.req.query('token') ?? ''
  const parsed = z.object({ password }).safeParse(await readForm(c))
  if (!parsed.success) return renderReset(c, token, { values: {}, errors: fieldErrors(parsed.error.issues) }, 400)
  const response = await openAuth(c.env).api.resetPassword({
    body: { token, newPassword: parsed.data.password },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  if (!response.ok) {
    const problem = 'This link was used or is older than an hour. Ask for a new one on the sign-in page.'
    return renderReset(c, token, { values: {}, errors: {}, problem }, 400)
  }
  flash(c, 'good', 'Your new password is saved. Sign in with it.')
  return c.redirect('/sign-in', 303)
})

const staleLink = (
  <Card>
    <h1>This link no longer works</h1>
    <p>It was used, taken back or is too old. Ask for a new one.</p>
  </Card>
)

/** What somebody who is not signed in does first with an invitation, keeping the way back to it. */
function SignInFirst({ c, address }: { c: PageContext; address: string }) {
  const { pathname, search } = new URL(c.req.url)
  const next = encodeURIComponent(pathname + search)
  return (
    <div class="row">
      <a class="button primary" href={`/sign-up?next=${next}&email=${encodeURIComponent(address)}`}>
        Create an account
      </a>
      <a class="button" href={`/sign-in?next=${next}`}>
        Sign in
      </a>
    </div>
  )
}

signInPages.get('/invitation', async (c) => {
  const token = c.req.query('token') ?? ''
  const invitation = await findInvitation(c.get('db'), token)
  if (!invitation) return renderPlain(c, { title: 'Invitation', children: staleLink })
  const viewer = c.get('viewer')
  return renderPlain(c, {
    title: 'Invitation',
    children: (
      <Card>
        <h1>Join {invitation.workspace_name}</h1>
        <p>
          You are invited as <strong>{invitation.role}</strong>, with the address {invitation.email}.
        </p>
        {viewer ? (
          <form method="post" action={`/invitation?token=${encodeURIComponent(token)}`} class="stack">
            <p class="muted">You are signed in as {viewer.user.email}.</p>
            <button type="submit" class="primary">
              Accept the invitation
            </button>
          </form>
        ) : (
          <SignInFirst c={c} address={invitation.email} />
        )}
      </Card>
    ),
  })
})

signInPages.post('/invitation', async (c) => {
  const viewer = c.get('viewer')
  if (!viewer) return c.redirect('/sign-in', 303)
  await acceptInvitation(c.get('db'), c.req.query('token') ?? '', viewer.user.id)
  flash(c, 'good', 'Welcome: you are a member now.')
  return c.redirect('/', 303)
})

signInPages.get('/partner-invitation', async (c) => {
  const token = c.req.query('token') ?? ''
  const partner = await findPartnerInvitation(c.get('db'), token)
  if (!partner) return renderPlain(c, { title: 'Invitation', children: staleLink })
  const viewer = c.get('viewer')
  return renderPlain(c, {
    title: 'Invitation',
    children: (
      <Card>
        <h1>Your partner account</h1>
        <p>See what {partner.name} earns, copy your links and ask for withdrawals.</p>
        {viewer ? (
          <form method="post" action={`/partner-invitation?token=${encodeURIComponent(token)}`} class="stack">
            <p class="muted">You are signed in as {viewer.user.email}.</p>
            <button type="submit" class="primary">
              Open the partner account
            </button>
          </form>
        ) : (
          <SignInFirst c={c} address={partner.email} />
        )}
      </Card>
    ),
  })
})

signInPages.post('/partner-invitation', async (c) => {
  const viewer = c.get('viewer')
  if (!viewer) return c.redirect('/sign-in', 303)
  await acceptPartnerInvitation(c.get('db'), c.req.query('token') ?? '', viewer.user.id)
  return c.redirect('/partner', 303)
})
