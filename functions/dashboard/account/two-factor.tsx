import * as z from 'zod/mini'
import { readRecoveryCode } from '../../../lib/access/recovery-codes.ts'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { ApiError } from '../../../lib/errors.ts'
import { Card, Copy, QrCode } from '../components/blocks.tsx'
import { Field, Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText, refuseForm } from '../components/form.ts'
import { AccountPage, PlainPage } from '../components/layout.tsx'
import {
  createPages,
  type PageContext,
  requireVerified,
  requireViewer,
  type ViewerContext,
} from '../components/page.ts'
import { useTexts } from '../components/text.tsx'
import { answered, checkPassword, nextOf, OwnPassword, passOn, withNext, wrongOr } from './credentials.tsx'

/** Two-factor codes: sets them up, disables them, and asks for one after the password. */
export const pages = createPages()

const address = '/account/two-factor'
const codeForm = z.object({ code: z.prefault(z.string().check(z.overwrite((text) => text.replaceAll(/\s/g, ''))), '') })

const confirmPage = `${address}/confirm`

pages.get(address, requireViewer, (c) => {
  const viewer = c.get('viewer')
  const { t } = c.get('texts')
  return c.render(
    <AccountPage
      title={t('Two-factor codes')}
      lead={t(
        'You sign in with your password and a code from an app on your phone, so a stolen password alone is not enough.',
      )}
    >
      {viewer.locked.map(({ name }) => (
        <p class="message warn">{`${name} requires two-factor codes. Set them up to open it.`}</p>
      ))}
      {viewer.user.twoFactor ? <IsOn /> : <IsOff />}
      <p>
        <a href="/account">{t('Back to your account')}</a>
      </p>
    </AccountPage>,
  )
})

function IsOff() {
  const { t } = useTexts()
  return (
    <Card title={t('Set up two-factor codes')}>
      <p>{t('You need an authenticator app. Most password managers include one.')}</p>
      <Form action={address} submit={t('Show the code to scan')}>
        <OwnPassword name="password" />
      </Form>
    </Card>
  )
}

function IsOn() {
  const { t } = useTexts()
  return (
    <>
      <Card title={t('New recovery codes')}>
        <p>{t('Each code lets you sign in once without the app. New codes replace the current ones.')}</p>
        <Form action={`${address}/recovery-codes`} submit={t('Create new recovery codes')}>
          <OwnPassword name="recovery_password" />
        </Form>
      </Card>
      <Card title={t('Disable two-factor codes')}>
        <p>{t("You won't be able to open workspaces that require two-factor codes.")}</p>
        <Form action={`${address}/off`} submit={t('Disable the codes')} danger>
          <OwnPassword name="off_password" />
        </Form>
      </Card>
    </>
  )
}

function CodeField({ hint }: { hint: string }) {
  return <Field name="code" label={useTexts().t('Code')} autocomplete="one-time-code" hint={hint} required />
}

function RecoveryCodes({ codes }: { codes: string[] }) {
  const { t } = useTexts()
  return (
    <Card title={t('Recovery codes')}>
      <p data-address={address}>
        {t(
          "Keep these codes in a place that you can reach without your phone. Each of them works once. They won't be shown again.",
        )}
      </p>
      <Copy text={codes.join('\n')} label={t('recovery codes')} />
    </Card>
  )
}

const setUpForm = z.object({ password: optionalText })

pages.post(address, requireViewer, requireVerified, form(setUpForm, address), async (c) => {
  if (c.get('viewer').user.twoFactor)
    throw new ApiError('conflict', 'Two-factor codes are already enabled. Disable them before you set them up again.')
  const { password } = c.req.valid('form')
  await checkPassword(c, 'password', password)
  const created = await openAuth(c).api.enableTwoFactor({ body: { password }, headers: c.req.raw.headers })
  if (created.method !== 'totp') throw new Error('better-auth enabled a method other than TOTP')
  return await renderConfirm(c, created)
})

/** The page that asks for the first code. The code proves that the app has the secret. The secret is shown once. */
function renderConfirm(c: ViewerContext, created?: { totpURI: string; backupCodes: string[] }) {
  const { t } = c.get('texts')
  return c.render(
    <AccountPage title={t('Two-factor codes')}>
      {created && (
        <Card title={t('Scan this with your app')}>
          <QrCode text={created.totpURI} label={t('QR code for your app. The key is shown below as text.')} />
          <p>{t('Or enter this key:')}</p>
          <Copy text={new URL(created.totpURI).searchParams.get('secret') ?? ''} label={t('key for the app')} />
        </Card>
      )}
      {created && <RecoveryCodes codes={created.backupCodes} />}
      <Card title={t('Enter the code that the app shows')}>
        <Form action={confirmPage} submit={t('Enable the codes')}>
          <CodeField hint={t('Six digits that change every 30 seconds.')} />
        </Form>
        {!created && (
          <p class="small">
            <a href={address}>{t('Start again')}</a>
          </p>
        )}
      </Card>
    </AccountPage>,
  )
}

pages.get(confirmPage, requireViewer, (c) => renderConfirm(c))

pages.post(confirmPage, requireViewer, form(codeForm, confirmPage), async (c) => {
  const response = await openAuth(c).api.verifyTOTP({ ...answered(c), body: c.req.valid('form') })
  if (await passOn(c, response)) {
    const wrong = "This isn't the code that the app currently shows. Try the next one."
    throw new FormRefusal({ code: wrongOr(response.status, wrong) })
  }
  return redirectWith(c, address, 'Two-factor codes are enabled.')
})

const recoveryForm = z.object({ recovery_password: optionalText })

pages.post(`${address}/recovery-codes`, requireViewer, form(recoveryForm, address), async (c) => {
  if (!c.get('viewer').user.twoFactor) throw new ApiError('conflict', 'Set up two-factor codes first.')
  const { recovery_password: password } = c.req.valid('form')
  await checkPassword(c, 'recovery_password', password)
  const { backupCodes } = await openAuth(c).api.generateBackupCodes({ body: { password }, headers: c.req.raw.headers })
  const { t } = c.get('texts')
  return c.render(
    <AccountPage title={t('Recovery codes')} heading={t('Two-factor codes')}>
      <RecoveryCodes codes={backupCodes} />
      <p>
        <a href={address}>{t('Done')}</a>
      </p>
    </AccountPage>,
  )
})

const offForm = z.object({ off_password: optionalText })

pages.post(`${address}/off`, requireViewer, form(offForm, address), async (c) => {
  const { off_password: password } = c.req.valid('form')
  await checkPassword(c, 'off_password', password)
  await passOn(c, await openAuth(c).api.disableTwoFactor({ ...answered(c), body: { password } }))
  return redirectWith(c, address, 'Two-factor codes are disabled.')
})

/** The page that asks for the code after a correct password. */
pages.get('/two-factor', async (c) => {
  if (c.get('viewer')) return c.redirect(nextOf(c), 303)
  const { t } = c.get('texts')
  return c.render(
    <PlainPage title={t('Two-factor code')}>
      <Form action={withNext('/two-factor', nextOf(c))} submit={t('Sign in')} layout="wide">
        <CodeField hint={t('From your app, or one of your recovery codes.')} />
      </Form>
      <p class="small">
        <a href={withNext('/sign-in', nextOf(c))}>{t('Back to sign-in')}</a>
      </p>
    </PlainPage>,
  )
})

const codePage = (c: PageContext) => withNext('/two-factor', nextOf(c))

pages.post('/two-factor', form(codeForm, codePage), async (c) => {
  const { api } = openAuth(c)
  const { code } = c.req.valid('form')
  const request = answered(c)
  const response = /^\d{6}$/.test(code)
    ? await api.verifyTOTP({ ...request, body: { code } })
    : await api.verifyBackupCode({ ...request, body: { code: readRecoveryCode(code) } })
  const problem = await passOn(c, response)
  if (!problem) return c.redirect(nextOf(c), 303)
  if (response.status === 429) return await refuseForm(c, codePage(c), { problem })
  const wrong =
    'This code is wrong or was already used. After five wrong codes or ten minutes, you have to sign in again.'
  throw new FormRefusal({ code: wrong })
})
