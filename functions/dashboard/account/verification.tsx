import { confirmEmail, readConfirmation } from '../../../lib/access/email-address.ts'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { tooManyMails } from '../../../lib/mail-bounds.ts'
import { addressOf, cameFrom, tokenInQuery } from '../components/address.ts'
import { LinkButton } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { PlainPage } from '../components/layout.tsx'
import { createPages, requireViewer } from '../components/page.ts'
import { answered, codeOf, nextOf, passOn, startOf, withNext } from './credentials.tsx'

/** Confirms a person's e-mail address through a mailed link. */
export const pages = createPages()

// The button confirms the address. The link alone doesn't, because mail scanners open links. The account's owner must be signed in.
pages.get('/verify-email', async (c) => {
  const viewer = c.get('viewer')
  const claims = await readConfirmation(c.env, tokenInQuery(c))
  const here = addressOf('/verify-email', { token: tokenInQuery(c), next: c.req.query('next') && nextOf(c) })
  const { t } = c.get('texts')
  return c.render(
    <PlainPage title={t('Confirm your e-mail address')}>
      {viewer ? (
        <>
          <p>
            {t('You are signed in as {email}.', { email: viewer.user.email })}{' '}
            {claims?.updateTo
              ? t('Change the address of your account to {email}?', { email: claims.updateTo })
              : t('Is this address yours?')}
          </p>
          <PostButton action={here} class="primary" text={t('Yes, confirm it')} />
        </>
      ) : (
        <>
          <p>{t('To confirm the address, sign in with your password.')}</p>
          <LinkButton class="primary" href={withNext('/sign-in', here)} text={t('Sign in')} />
        </>
      )}
      <p class="small muted">{t('If you did not create an account here, close this page.')}</p>
    </PlainPage>,
  )
})

pages.post('/verify-email', requireViewer, async (c) => {
  await confirmEmail(c.get('db'), c.env, tokenInQuery(c), c.get('viewer').user.id)
  return redirectWith(c, '/', 'Your e-mail address is confirmed.')
})

pages.post('/account/verification', requireViewer, async (c) => {
  const { email } = c.get('viewer').user
  const { t, language } = c.get('texts')
  const { api } = openAuth(c, { next: startOf(c), language })
  const response = await api.sendVerificationEmail({ ...answered(c), body: { email } })
  const back = cameFrom(c) ?? '/account'
  if ((await codeOf(response)) === 'EMAIL_ALREADY_VERIFIED')
    return redirectWith(c, back, 'Your e-mail address is already confirmed.')
  const problem = response.status === 429 ? tooManyMails : await passOn(c, response)
  if (problem) return redirectWith(c, back, problem, 'bad')
  return redirectWith(c, back, t('A new link is on its way to {email}.', { email }))
})
