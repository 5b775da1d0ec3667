import { confirmEmail, readConfirmation } from '../../../lib/access/email-address.ts'
import { openAuth } from '../../../lib/access/sign-in.ts'
import { tooManyMails } from '../../../lib/mail-bounds.ts'
import { cameFrom, tokenInQuery } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { renderPlain } from '../components/layout.tsx'
import { createPages, requireViewer } from '../components/page.ts'
import { codeOf, passOn, withNext } from './credentials.tsx'

/** Confirms a person's e-mail address through a mailed link. */
export const verificationPages = createPages()

// The button confirms, not the link itself, because mail scanners open links. The account's owner must be signed in.
verificationPages.get('/verify-email', async (c) => {
  const viewer = c.get('viewer')
  const claims = await readConfirmation(c.env, tokenInQuery(c))
  const here = `/verify-email?token=${encodeURIComponent(tokenInQuery(c))}`
  return renderPlain(c, {
    title: 'Confirm your e-mail address',
    children: (
      <Card>
        <h1>Confirm your e-mail address</h1>
        {viewer ? (
          <>
            <p>
              You are signed in as {viewer.user.email}.{' '}
              {claims?.updateTo
                ? `Change the address of your account to ${claims.updateTo}?`
                : 'Is this address yours?'}
            </p>
            <PostButton action={here} class="primary">
              Yes, confirm it
            </PostButton>
          </>
        ) : (
          <>
            <p>Sign in with the password that you chose to confirm the address.</p>
            <a class="button primary" href={withNext('/sign-in', here)}>
              Sign in
            </a>
          </>
        )}
        <p class="small muted">If you did not create an account here, close this page.</p>
      </Card>
    ),
  })
})

verificationPages.post('/verify-email', requireViewer, async (c) => {
  await confirmEmail(c.get('db'), c.env, tokenInQuery(c), c.get('viewer').user.id)
  return redirectWith(c, '/', 'Your e-mail address is confirmed.')
})

verificationPages.post('/account/verification', requireViewer, async (c) => {
  const { email } = c.get('viewer').user
  const response = await openAuth(c).api.sendVerificationEmail({
    body: { email },
    headers: c.req.raw.headers,
    asResponse: true,
  })
  const back = cameFrom(c) ?? '/account'
  if ((await codeOf(response)) === 'EMAIL_ALREADY_VERIFIED')
    return redirectWith(c, back, 'Your e-mail address is already confirmed.')
  const problem = response.status === 429 ? tooManyMails : await passOn(c, response)
  if (problem) return redirectWith(c, back, problem, 'bad')
  return redirectWith(c, back, `A new link is on its way to ${email}.`)
})
