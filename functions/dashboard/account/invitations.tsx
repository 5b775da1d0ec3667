import type { Child } from 'hono/jsx'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { acceptPartnerInvitation, findPartnerInvitation } from '../../../lib/programs/partner-invitations.ts'
import { acceptInvitation, findInvitation } from '../../../lib/programs/invitations.ts'
import { tokenInQuery } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { redirectWith } from '../components/flash.tsx'
import { renderPlain } from '../components/layout.tsx'
import { createPages, type PageContext, requireViewer } from '../components/page.ts'

/** Mailed invitations: to a workspace as a member, and to a program as its partner. */
export const invitationPages = createPages()

interface Shown {
  title: string
  /** The text of the invitation. */
  what: Child
  accept: string
  /** The address that the invitation was mailed to. */
  email: string
}

/** Renders an invitation to accept, possibly after signing in. Undefined means that the link no longer works. */
function renderInvitation(c: PageContext, invitation: Shown | undefined) {
  return renderPlain(c, {
    title: 'Invitation',
    children: (
      <Card>
        {invitation ? (
          <>
            <h1>{invitation.title}</h1>
            <p>{invitation.what}</p>
            <Accept c={c} invitation={invitation} />
          </>
        ) : (
          <>
            <h1>This link no longer works</h1>
            <p>It was used, was revoked or has expired. Ask for a new one.</p>
          </>
        )}
      </Card>
    ),
  })
}

/** The button to accept, or links to sign in first and come back. */
function Accept({ c, invitation: { accept, email } }: { c: PageContext; invitation: Shown }) {
  const viewer = c.get('viewer')
  const { pathname, search } = new URL(c.req.url)
  if (viewer) {
    return (
      <form method="post" action={`${pathname}?token=${encodeURIComponent(tokenInQuery(c))}`} class="stack">
        <p class="muted">You are signed in as {viewer.user.email}.</p>
        <button type="submit" class="primary">
          {accept}
        </button>
      </form>
    )
  }
  const next = encodeURIComponent(pathname + search)
  return (
    <div class="row">
      <a class="button primary" href={`/sign-up?next=${next}&email=${encodeURIComponent(email)}`}>
        Create an account
      </a>
      <a class="button" href={`/sign-in?next=${next}`}>
        Sign in
      </a>
    </div>
  )
}

invitationPages.get('/invitation', async (c) => {
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

invitationPages.post('/invitation', requireViewer, async (c) => {
  await acceptInvitation(c.get('db'), tokenInQuery(c), c.get('viewer').user.id)
  return redirectWith(c, '/', 'Welcome: you are a member now.')
})

invitationPages.get('/partner-invitation', async (c) => {
  const invitation = await findPartnerInvitation(c.get('db'), tokenInQuery(c))
  return renderInvitation(
    c,
    invitation && {
      title: `Become a partner of ${invitation.program_name}`,
      what: `Copy your links, see what you earn and request payouts. From then on ${invitation.program_name} sees the name and the payout address that you set.`,
      accept: 'Accept the invitation',
      email: invitation.email,
    },
  )
})

invitationPages.post('/partner-invitation', requireViewer, async (c) => {
  const { user } = c.get('viewer')
  await sendSoon(c.env, await acceptPartnerInvitation(c.get('db'), { token: tokenInQuery(c) }, user.id))
  return c.redirect('/partner', 303)
})
