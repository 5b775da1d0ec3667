import * as z from 'zod/mini'
import { rename } from '../../../lib/access/account.ts'
import { askEmailChange } from '../../../lib/access/email-address.ts'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { may } from '../../../lib/access/roles.ts'
import { ApiError } from '../../../lib/errors.ts'
import { nameField } from '../../../lib/names.ts'
import { Badge, Card, LinkButton } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { AccountPage } from '../components/layout.tsx'
import { createPages, requireViewer } from '../components/page.ts'
import {
  answered,
  checkPassword,
  emailField,
  NewPassword,
  OwnPassword,
  passOn,
  passwordField,
  wrongOr,
} from './credentials.tsx'

/** The person's own account: name, address, password, and links to further settings. */
export const pages = createPages()

pages.get('/account', requireViewer, (c) => {
  const { user, workspaces } = c.get('viewer')
  return c.render(
    <AccountPage title="Your account" lead={`${user.name}, ${user.email}`}>
      <Card title="Name">
        <Form action="/account/name" submit="Save name">
          <Field name="name" label="Your name" autocomplete="name" value={user.name} required />
        </Form>
      </Card>
      <Card title="E-mail address">
        <Form action="/account/email" submit="Change address">
          <Field
            name="email"
            label="New address"
            type="email"
            autocomplete="email"
            hint={`Takes effect when you open the link that we send to the new address. We also notify ${user.email}.`}
            required
          />
          <OwnPassword name="email_password" />
        </Form>
      </Card>
      <Card title="Password">
        <Form action="/account/password" submit="Change password">
          <OwnPassword name="current" label="Current password" />
          <NewPassword name="new" label="New password" signsOut />
        </Form>
        <p class="small muted">
          If you sign in another way and have no password yet, <a href="/forgot-password">request a link</a> to choose
          one.
        </p>
      </Card>
      <Card
        title="Two-factor codes"
        aside={user.twoFactor ? <Badge tone="good">Enabled</Badge> : <Badge tone="warn">Disabled</Badge>}
      >
        <p>You sign in with your password and a code from an app on your phone.</p>
        <div class="row">
          <LinkButton href="/account/two-factor" text={user.twoFactor ? 'Change' : 'Set up'} />
        </div>
      </Card>
      {workspaces.length > 0 && (
        <Card title="Workspaces">
          <p>
            If you leave a workspace, you lose access immediately. The last owner can't leave without making another
            member an owner.
          </p>
          <ul class="stack">
            {workspaces.map(({ id, name, role }) => (
              <li class="row apart">
                <span>
                  {name}, as {role}
                </span>
                <span class="row">
                  {may([role], 'owner:manage') && (
                    <LinkButton
                      class="compact"
                      href={`/workspaces/${id}/delete`}
                      label={`Delete ${name}`}
                      text="Delete"
                    />
                  )}
                  <PostButton
                    action={`/workspaces/${id}/leave`}
                    class="compact danger"
                    label={`Leave ${name}`}
                    confirm={`Leave ${name}? You need a new invitation to return.`}
                    text="Leave"
                  />
                </span>
              </li>
            ))}
          </ul>
        </Card>
      )}
      <Card title="E-mail">
        <p>Choose which e-mails you get: at once, once a day or never.</p>
        <div class="row">
          <LinkButton href="/account/mail" text="Choose" />
        </div>
      </Card>
      <Card title="Sessions">
        <p>The devices on which you are signed in.</p>
        <div class="row">
          <LinkButton href="/account/sessions" text="View your sessions" />
          <PostButton action="/sign-out" text="Sign out" />
        </div>
      </Card>
      <p>
        <a href="/account/erase">Erase your account</a>
      </p>
    </AccountPage>,
  )
})

const nameForm = z.object({ name: nameField('Enter your name.') })

pages.post('/account/name', requireViewer, form(nameForm, '/account'), async (c) => {
  await rename(c.get('db'), c.get('viewer').user.id, c.req.valid('form').name)
  return redirectWith(c, '/account', 'Your name was saved.')
})

const emailForm = z.object({ email: emailField, email_password: optionalText })

pages.post('/account/email', requireViewer, form(emailForm, '/account'), async (c) => {
  const { email, email_password: password } = c.req.valid('form')
  const { user } = c.get('viewer')
  if (email === user.email) throw new FormRefusal({ email: 'This is already your address.' })
  await checkPassword(c, 'email_password', password)
  try {
    await askEmailChange(c.get('db'), c.env, user, email, c.req.header('cf-connecting-ip') ?? null)
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'rate_limited') throw error
    throw new FormRefusal({ email: error.message })
  }
  const text = `Open the link that we sent to ${email}. Until then your address is ${user.email}.`
  return redirectWith(c, '/account', text)
})

const passwordForm = z.object({ current: optionalText, new: passwordField })

pages.post('/account/password', requireViewer, form(passwordForm, '/account'), async (c) => {
  const { current: currentPassword, new: newPassword } = c.req.valid('form')
  const response = await openAuth(c).api.changePassword({
    ...answered(c),
    body: { currentPassword, newPassword, revokeOtherSessions: true },
  })
  if (await passOn(c, response))
    throw new FormRefusal({ current: wrongOr(response.status, 'This is not your password.') })
  return redirectWith(c, '/account', 'Your password was changed.')
})
