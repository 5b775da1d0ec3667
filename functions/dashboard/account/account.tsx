import * as z from 'zod/mini'
import { rename } from '../../../lib/access/account.ts'
import { askEmailChange } from '../../../lib/access/email-address.ts'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { ApiError } from '../../../lib/errors.ts'
import { nameField } from '../../../lib/names.ts'
import { Badge, Card, LinkButton } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { AccountPage } from '../components/layout.tsx'
import { createPages, requireViewer } from '../components/page.ts'
import { Text } from '../components/text.tsx'
import {
  answered,
  checkPassword,
  emailField,
  NewPassword,
  OwnPassword,
  passOn,
  passwordField,
  startOf,
  withNext,
  wrongOr,
} from './credentials.tsx'
import { OwnWorkspaces } from './own-workspaces.tsx'

/** The person's own account: name, address, password, and links to further settings. */
export const pages = createPages()

pages.get('/account', requireViewer, (c) => {
  const { user, workspaces } = c.get('viewer')
  const { t } = c.get('texts')
  return c.render(
    <AccountPage title={t('Your account')} lead={`${user.name}, ${user.email}`}>
      <Card title={t('Name')}>
        <Form action="/account/name" submit={t('Save name')}>
          <Field name="name" label={t('Your name')} autocomplete="name" value={user.name} required />
        </Form>
      </Card>
      <Card title={t('E-mail address')}>
        <Form action="/account/email" submit={t('Change address')}>
          <Field
            name="email"
            label={t('New address')}
            type="email"
            autocomplete="email"
            hint={t('Takes effect when you open the link that we send to the new address. We also notify {email}.', {
              email: user.email,
            })}
            required
          />
          <OwnPassword name="email_password" />
        </Form>
      </Card>
      <Card title={t('Password')}>
        <Form action="/account/password" submit={t('Change password')}>
          <OwnPassword name="current" label={t('Current password')} />
          <NewPassword name="new" label={t('New password')} signsOut />
        </Form>
        <p class="small muted">
          <Text
            of="If you sign in another way and have no password yet, <a>request a link</a> to choose one."
            a={(text) => <a href={withNext('/forgot-password', startOf(c))}>{text}</a>}
          />
        </p>
      </Card>
      <Card
        title={t('Two-factor codes')}
        aside={
          user.twoFactor ? (
            <Badge tone="good">{t('Enabled codes')}</Badge>
          ) : (
            <Badge tone="warn">{t('Disabled codes')}</Badge>
          )
        }
      >
        <p>{t('You sign in with your password and a code from an app on your phone.')}</p>
        <div class="row">
          <LinkButton href="/account/two-factor" text={user.twoFactor ? t('Change') : t('Set up')} />
        </div>
      </Card>
      <OwnWorkspaces workspaces={workspaces} />
      <Card title={t('E-mail')}>
        <p>{t('Choose which e-mails you get: at once, once a day or never.')}</p>
        <div class="row">
          <LinkButton href="/account/mail" text={t('Choose')} />
        </div>
      </Card>
      <Card title={t('Sessions')}>
        <p>{t('The devices on which you are signed in.')}</p>
        <div class="row">
          <LinkButton href="/account/sessions" text={t('View your sessions')} />
          <PostButton action="/sign-out" text={t('Sign out')} />
        </div>
      </Card>
      <p>
        <a href="/account/erase">{t('Erase your account')}</a>
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
  const { t, language } = c.get('texts')
  const change = { newEmail: email, language, next: startOf(c) }
  try {
    await askEmailChange(c.get('db'), c.env, user, change, c.req.header('cf-connecting-ip') ?? null)
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'rate_limited') throw error
    throw new FormRefusal({ email: error.message })
  }
  const text = t('Open the link that we sent to {email}. Until then your address is {current}.', {
    email,
    current: user.email,
  })
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
