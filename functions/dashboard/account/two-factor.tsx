import { raw } from 'hono/html'
import { encodeQR } from 'qr'
import * as z from 'zod/mini'
import { readRecoveryCode } from '../../../lib/access/recovery-codes.ts'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { ApiError } from '../../../lib/errors.ts'
import { Card, Copy, Heading } from '../components/blocks.tsx'
import { Field, Problem, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { emptyForm, form, type FormState, optionalText, refuseForm, shownForm } from '../components/form.ts'
import { renderAccount, renderPlain } from '../components/layout.tsx'
import {
  createPages,
  type PageContext,
  requireVerified,
  requireViewer,
  type ViewerContext,
} from '../components/page.ts'
import { Credentials, nextOf, OwnPassword, passOn, refusePassword, withNext, wrongOr } from './credentials.tsx'

/** Two-factor codes: setting them up, disabling them, and entering one after the password. */
export const twoFactorPages = createPages()

const address = '/account/two-factor'
const codeForm = z.object({ code: z.prefault(z.string().check(z.overwrite((text) => text.replaceAll(/\s/g, ''))), '') })

const twoFactorPage = () => address
const confirmPage = `${address}/confirm`

twoFactorPages.get(address, requireViewer, (c) => renderTwoFactor(c, shownForm(c)))

function renderTwoFactor(c: ViewerContext, shown: FormState) {
  const viewer = c.get('viewer')
  return renderAccount(c, viewer, {
    title: 'Two-factor codes',
    children: (
      <>
        <Heading
          title="Two-factor codes"
          lead="Signing in takes a code from an app on your phone besides the password, so a stolen password alone is not enough."
        />
        {viewer.locked.map(({ name }) => (
          <p class="message warn">{name} requires two-factor codes. Set them up to open it.</p>
        ))}
        {viewer.user.twoFactor ? <IsOn form={shown} /> : <IsOff form={shown} />}
        <p>
          <a href="/account">Back to your account</a>
        </p>
      </>
    ),
  })
}

function IsOff({ form: shown }: { form: FormState }) {
  return (
    <Card title="Set up two-factor codes">
      <p>You need an authenticator app; most password managers have one.</p>
      <form method="post" action={address} class="stack">
        <div class="fields">
          <OwnPassword name="password" form={shown} />
        </div>
        <Submit>Show the code to scan</Submit>
      </form>
    </Card>
  )
}

function IsOn({ form: shown }: { form: FormState }) {
  return (
    <>
      <Card title="New recovery codes">
        <p>Each signs you in once without the app. New codes replace the current ones.</p>
        <form method="post" action={`${address}/recovery-codes`} class="stack">
          <div class="fields">
            <OwnPassword name="recovery_password" form={shown} />
          </div>
          <Submit>Create new recovery codes</Submit>
        </form>
      </Card>
      <Card title="Disable two-factor codes">
        <p>You can then no longer open workspaces that require two-factor codes.</p>
        <form method="post" action={`${address}/off`} class="stack">
          <div class="fields">
            <OwnPassword name="off_password" form={shown} />
          </div>
          <Submit danger>Disable the codes</Submit>
        </form>
      </Card>
    </>
  )
}

function CodeField({ form: shown, hint }: { form: FormState; hint: string }) {
  return <Field name="code" label="Code" autocomplete="one-time-code" hint={hint} form={shown} required />
}

function RecoveryCodes({ codes }: { codes: string[] }) {
  return (
    <Card title="Recovery codes">
      <p data-address={address}>
        Keep these in a place that you can reach without your phone. Each works once. They are not shown again.
      </p>
      <Copy text={codes.join('\n')} label="recovery codes" />
    </Card>
  )
}

twoFactorPages.post(
  address,
  requireViewer,
  requireVerified,
  form(z.object({ password: optionalText }), twoFactorPage),
  async (c) => {
    if (c.get('viewer').user.twoFactor)
      throw new ApiError('conflict', 'Two-factor codes are already enabled. Disable them before you set them up again.')
    const { password } = c.req.valid('form')
    const refused = await refusePassword(c, address, 'password', password)
    if (refused) return refused
    const made = await openAuth(c).api.enableTwoFactor({ body: { password }, headers: c.req.raw.headers })
    if (made.method !== 'totp') throw new Error('better-auth enabled another method than TOTP')
    return await renderConfirm(c, emptyForm, made)
  },
)

/** The page for the first code, which proves that the app has the secret. The secret is shown once. */
function renderConfirm(c: ViewerContext, shown: FormState, made?: { totpURI: string; backupCodes: string[] }) {
  return renderAccount(c, c.get('viewer'), {
    title: 'Two-factor codes',
    children: (
      <>
        <Heading title="Two-factor codes" />
        {made && (
          <Card title="Scan this with your app">
            <div class="qr" role="img" aria-label="QR code for your app. Its key is below as text.">
              {raw(encodeQR(made.totpURI, 'svg'))}
            </div>
            <p>Or type this key into it:</p>
            <Copy text={new URL(made.totpURI).searchParams.get('secret') ?? ''} label="key for the app" />
          </Card>
        )}
        {made && <RecoveryCodes codes={made.backupCodes} />}
        <Card title="Enter the code that the app shows">
          <form method="post" action={confirmPage} class="stack">
            <div class="fields">
              <CodeField form={shown} hint="Six digits. They are new every 30 seconds." />
            </div>
            <Submit>Enable the codes</Submit>
          </form>
          {!made && (
            <p class="small">
              <a href={address}>Start again</a>
            </p>
          )}
        </Card>
      </>
    ),
  })
}

twoFactorPages.get(confirmPage, requireViewer, (c) => renderConfirm(c, shownForm(c)))

twoFactorPages.post(
  confirmPage,
  requireViewer,
  form(codeForm, () => confirmPage),
  async (c) => {
    const response = await openAuth(c).api.verifyTOTP({
      body: c.req.valid('form'),
      headers: c.req.raw.headers,
      asResponse: true,
    })
    if (await passOn(c, response)) {
      const code = wrongOr(response.status, 'This is not the code that the app shows now. Try the next one.')
      return await refuseForm(c, confirmPage, { errors: { code } })
    }
    return redirectWith(c, address, 'Two-factor codes are enabled.')
  },
)

twoFactorPages.post(
  `${address}/recovery-codes`,
  requireViewer,
  form(z.object({ recovery_password: optionalText }), twoFactorPage),
  async (c) => {
    if (!c.get('viewer').user.twoFactor) throw new ApiError('conflict', 'Set up two-factor codes first.')
    const { recovery_password: password } = c.req.valid('form')
    const refused = await refusePassword(c, address, 'recovery_password', password)
    if (refused) return refused
    const { backupCodes } = await openAuth(c).api.generateBackupCodes({
      body: { password },
      headers: c.req.raw.headers,
    })
    return renderAccount(c, c.get('viewer'), {
      title: 'Recovery codes',
      children: (
        <>
          <Heading title="Two-factor codes" />
          <RecoveryCodes codes={backupCodes} />
          <p>
            <a href={address}>Done</a>
          </p>
        </>
      ),
    })
  },
)

twoFactorPages.post(
  `${address}/off`,
  requireViewer,
  form(z.object({ off_password: optionalText }), twoFactorPage),
  async (c) => {
    const { off_password: password } = c.req.valid('form')
    const refused = await refusePassword(c, address, 'off_password', password)
    if (refused) return refused
    await passOn(
      c,
      await openAuth(c).api.disableTwoFactor({ body: { password }, headers: c.req.raw.headers, asResponse: true }),
    )
    return redirectWith(c, address, 'Two-factor codes are disabled.')
  },
)

twoFactorPages.get('/two-factor', async (c) =>
  c.get('viewer') ? c.redirect(nextOf(c), 303) : renderCode(c, shownForm(c)),
)

/** The page for the code, after a correct password. */
function renderCode(c: PageContext, shown: FormState) {
  return renderPlain(c, {
    title: 'Two-factor code',
    children: (
      <Card>
        <h1>Two-factor code</h1>
        <Problem form={shown} />
        <Credentials action={withNext('/two-factor', nextOf(c))} submit="Sign in" form={emptyForm}>
          <CodeField form={shown} hint="Of your app, or one of your recovery codes." />
        </Credentials>
        <p class="small">
          <a href={withNext('/sign-in', nextOf(c))}>Back to sign-in</a>
        </p>
      </Card>
    ),
  })
}

const codePage = (c: PageContext) => withNext('/two-factor', nextOf(c))

twoFactorPages.post('/two-factor', form(codeForm, codePage), async (c) => {
  const { api } = openAuth(c)
  const { code } = c.req.valid('form')
  const request = { headers: c.req.raw.headers, asResponse: true } as const
  const response = /^\d{6}$/.test(code)
    ? await api.verifyTOTP({ ...request, body: { code } })
    : await api.verifyBackupCode({ ...request, body: { code: readRecoveryCode(code) } })
  const problem = await passOn(c, response)
  if (!problem) return c.redirect(nextOf(c), 303)
  if (response.status === 429) return await refuseForm(c, codePage(c), { problem })
  const wrong = 'This code is wrong or was used. After five wrong ones, or ten minutes, sign in again.'
  return await refuseForm(c, codePage(c), { errors: { code: wrong } })
})
