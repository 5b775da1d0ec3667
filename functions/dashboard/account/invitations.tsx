import type { Child } from 'hono/jsx'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { acceptPartnerInvitation, findPartnerInvitation } from '../../../lib/programs/partner-invitations.ts'
import { acceptInvitation, findInvitation } from '../../../lib/programs/invitations.ts'
import { keepPartnerLanguage } from '../../../lib/programs/partnerships.ts'
import { tokenInQuery } from '../components/address.ts'
import { LinkButton } from '../components/blocks.tsx'
import { Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { PlainPage } from '../components/layout.tsx'
import { createPages, languageOf, type PageContext, requireViewer } from '../components/page.ts'
import { textsIn, useTexts } from '../components/text.tsx'

/** Mailed invitations: to a workspace as a member, and to a program as its partner. */
export const pages = createPages()

interface Shown {
  title: string
  /** The text of the invitation. */
  what: Child
  accept: string
  /** The address that the invitation was mailed to. */
  email: string
  /** The invited person, if known. */
  name?: string
}

/** Renders an invitation that the reader can accept, possibly after signing in. If it is undefined, the link no longer works. */
function renderInvitation(c: PageContext, invitation: Shown | undefined) {
  const { t } = c.get('texts')
  return c.render(
    invitation ? (
      <PlainPage title={t('Invitation')} heading={invitation.title}>
        <p>{invitation.what}</p>
        <Accept c={c} invitation={invitation} />
      </PlainPage>
    ) : (
      <PlainPage title={t('Invitation')} heading={t('This link no longer works')}>
        <p>{t('It was already used, was revoked, or has expired. Ask for a new one.')}</p>
      </PlainPage>
    ),
  )
}

/** The button to accept, or links to sign in first and come back. */
function Accept({ c, invitation: { accept, email, name } }: { c: PageContext; invitation: Shown }) {
  const viewer = c.get('viewer')
  const { t } = useTexts()
  const { pathname, search } = new URL(c.req.url)
  if (viewer) {
    return (
      <Form action={`${pathname}?token=${encodeURIComponent(tokenInQuery(c))}`} submit={accept}>
        <p class="muted">{t('You are signed in as {email}.', { email: viewer.user.email })}</p>
      </Form>
    )
  }
  const next = encodeURIComponent(pathname + search)
  const known = new URLSearchParams({ email, ...(name !== undefined && { name }) })
  return (
    <div class="row">
      <LinkButton class="primary" href={`/sign-up?next=${next}&${known}`} text={t('Create an account')} />
      <LinkButton href={`/sign-in?next=${next}`} text={t('Sign in')} />
    </div>
  )
}

pages.get('/invitation', async (c) => {
  const invitation = await findInvitation(c.get('db'), tokenInQuery(c))
  return renderInvitation(
    c,
    invitation && {
      title: `Join ${invitation.workspace_name}`,
      what: (
        <>
          You are invited as <strong>{invitation.role}</strong>, with the address {invitation.email}.
        </>
      ),
      accept: 'Accept the invitation',
      email: invitation.email,
    },
  )
})

pages.post('/invitation', requireViewer, async (c) => {
  await acceptInvitation(c.get('db'), tokenInQuery(c), c.get('viewer').user.id)
  return redirectWith(c, '/', 'Welcome! You are now a member.')
})

pages.get('/partner-invitation', async (c) => {
  const invitation = await findPartnerInvitation(c.get('db'), tokenInQuery(c))
  if (invitation) {
    c.set('texts', textsIn(languageOf(c, invitation.language)))
    c.set('brand', invitation.brand)
  }
  const { t } = c.get('texts')
  return renderInvitation(
    c,
    invitation && {
      title: t('Become a partner of {name}', { name: invitation.program_name }),
      what: t(
        'Copy your links, see what you earn and request payouts. From then on {name} sees the name and the payout address that you set.',
        { name: invitation.program_name },
      ),
      accept: t('Accept the invitation'),
      email: invitation.email,
      name: invitation.partner_name,
    },
  )
})

pages.post('/partner-invitation', requireViewer, async (c) => {
  const { user } = c.get('viewer')
  await sendSoon(c.env, await acceptPartnerInvitation(c.get('db'), { token: tokenInQuery(c) }, user.id))
  await keepPartnerLanguage(c.get('db'), user.id, c.get('texts').language)
  return c.redirect('/partner', 303)
})
