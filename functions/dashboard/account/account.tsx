import * as z from 'zod/mini'
import { rename } from '../../../lib/access/account.ts'
import { askEmailChange } from '../../../lib/access/email-address.ts'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { may } from '../../../lib/access/roles.ts'
import { ApiError } from '../../../lib/errors.ts'
import { nameField } from '../../../lib/names.ts'
import { Badge, Card, Heading } from '../components/blocks.tsx'
import { Field, PostButton, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, optionalText, refuseForm, shownForm } from '../components/form.ts'
import { renderAccount } from '../components/layout.tsx'
import { createPages, requireViewer, type ViewerContext } from '../components/page.ts'
import { emailField, NewPassword, OwnPassword, passOn, passwordField, refusePassword, wrongOr } from './credentials.tsx'

/** The person's own account: name, address, password, and links to further settings. */
export const accountPages = createPages()

function renderAccountPage(c: ViewerContext, shown: FormState) {
  const { user, workspaces } = c.get('viewer')
  return renderAccount(c, c.get('viewer'), {
    title: 'Your account',
    children: (
      <>
        <Heading title="Your account" lead={`${user.name}, ${user.email}`} />
        <Card title="Name">
          <form method="post" action="/account/name" class="stack">
            <div class="fields">
              <Field name="name" label="Your name" autocomplete="name" value={user.name} form={shown} required />
            </div>
            <Submit>Save the name</Submit>
          </form>
        </Card>
        <Card title="E-mail address">
          <form method="post" action="/account/email" class="stack">
            <div class="fields">
              <Field
                name="email"
                label="New address"
                type="email"
                autocomplete="email"
                hint={`Takes effect when you open the link that we mail there. We also notify ${user.email}.`}
                form={shown}
                required
              />
              <OwnPassword name="email_password" form={shown} />
            </div>
            <Submit>Change the address</Submit>
          </form>
        </Card>
        <Card title="Password">
          <form method="post" action="/account/password" class="stack">
            <div class="fields">
              <OwnPassword name="current" label="Current password" form={shown} />
              <NewPassword name="new" label="New password" form={shown} signsOut />
            </div>
            <Submit>Change the password</Submit>
          </form>
          <p class="small muted">
            If you sign in another way and have no password yet, <a href="/forgot-password">request a link</a> to choose
            one.
          </p>
        </Card>
        <Card
          title="Two-factor codes"
          aside={user.twoFactor ? <Badge tone="good">Enabled</Badge> : <Badge tone="warn">Disabled</Badge>}
        >
          <p>Signing in takes a code from an app on your phone besides the password.</p>
          <div class="row">
            <a class="button" href="/account/two-factor">
              {user.twoFactor ? 'Change' : 'Set up'}
            </a>
          </div>
        </Card>
        {workspaces.length > 0 && (
          <Card title="Workspaces">
            <p>
              If you leave one, you lose access at once. The last owner cannot leave: make another member an owner
              first.
            </p>
            <ul class="stack">
              {workspaces.map(({ id, name, role }) => (
                <li class="row apart">
                  <span>
                    {name}, as {role}
                  </span>
                  <span class="row">
                    {may([role], 'owner:manage') && (
                      <a class="button compact" href={`/workspaces/${id}/delete`} aria-label={`Delete ${name}`}>
                        Delete
                      </a>
                    )}
                    <PostButton
                      action={`/workspaces/${id}/leave`}
                      class="compact danger"
                      label={`Leave ${name}`}
                      confirm={`Leave ${name}? Only an invitation lets you in again.`}
                    >
                      Leave
                    </PostButton>
                  </span>
                </li>
              ))}
            </ul>
          </Card>
        )}
        <Card title="Mail">
          <p>Choose your mails: at once, once a day or never.</p>
          <div class="row">
            <a class="button" href="/account/mail">
              Choose
            </a>
          </div>
        </Card>
        <Card title="Sessions">
          <p>The devices that you are signed in with.</p>
          <div class="row">
            <a class="button" href="/account/sessions">
              See your sessions
            </a>
            <PostButton action="/sign-out">Sign out</PostButton>
          </div>
        </Card>
        <p>
          <a href="/account/erase">Erase your account</a>
        </p>
      </>
    ),
  })
}

accountPages.get('/account', requireViewer, (c) => renderAccountPage(c, shownForm(c)))

const accountPage = () => '/account'

const nameForm = z.object({ name: nameField('Enter your name.') })

accountPages.post('/account/name', requireViewer, form(nameForm, accountPage), async (c) => {
  await rename(c.get('db'), c.get('viewer').user.id, c.req.valid('form').name)
  return redirectWith(c, '/account', 'Your name is saved.')
})

const emailForm = z.object({ email: emailField, email_password: optionalText })

accountPages.post('/account/email', requireViewer, form(emailForm, accountPage), async (c) => {
  const { email, email_password: password } = c.req.valid('form')
  const { user } = c.get('viewer')
  const refused =
    email === user.email
      ? await refuseForm(c, '/account', { errors: { email: 'This is already your address.' } })
      : await refusePassword(c, '/account', 'email_password', password)
  if (refused) return refused
  try {
    await askEmailChange(c.get('db'), c.env, user, email)
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'rate_limited') throw error
    return await refuseForm(c, '/account', { errors: { email: error.message } })
  }
  return redirectWith(
    c,
    '/account',
    `Open the link that we mailed to ${email}. Until then your address is ${user.email}.`,
  )
})

const passwordForm = z.object({ current: optionalText, new: passwordField })

accountPages.post('/account/password', requireViewer, form(passwordForm, accountPage), async (c) => {
  const { current: currentPassword, new: newPassword } = c.req.valid('form')
  const response = await openAuth(c).api.changePassword({
    body: { currentPassword, newPassword, revokeOtherSessions: true },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  if (await passOn(c, response)) {
    const current = wrongOr(response.status, 'This is not your password.')
    return await refuseForm(c, '/account', { errors: { current } })
  }
  return redirectWith(c, '/account', 'Your password is changed.')
})
