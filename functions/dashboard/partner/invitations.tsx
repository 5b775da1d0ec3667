import { sendSoon } from '../../../lib/notifications/outbox.ts'
import {
  acceptPartnerInvitation,
  declinePartnerInvitation,
  listPartnerInvitations,
  type PartnerInvitation,
} from '../../../lib/programs/partner-invitations.ts'
import { idInPath } from '../components/address.ts'
import { Heading } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { Day } from '../components/format.tsx'
import { renderAccount, renderPartner } from '../components/layout.tsx'
import { List, type Page, placeIn, readPage } from '../components/list.tsx'
import { createPages, requireViewer, type ViewerContext } from '../components/page.ts'

/** Program invitations to a person's verified address, to accept or decline. They show only the programs' names. */
export const partnerInvitationPages = createPages()

const address = '/partner/invitations'

partnerInvitationPages.get(address, requireViewer, async (c) => {
  const viewer = c.get('viewer')
  const page = await readPage(
    { address, place: placeIn(c), cursorOf: ({ id }: PartnerInvitation) => id },
    async (options) =>
      viewer.user.emailVerified ? await listPartnerInvitations(c.get('db'), viewer.user.email, options) : [],
  )
  const shown = { title: 'Invitations', children: <Invitations email={viewer.user.email} page={page} /> }
  return viewer.partner
    ? renderPartner(c, viewer, { ...shown, current: '/invitations' })
    : renderAccount(c, viewer, shown)
})

function Invitations({ email, page }: { email: string; page: Page<PartnerInvitation> }) {
  return (
    <>
      <Heading title="Invitations" lead={`Programs that invite ${email} to be their partner.`} />
      <List
        page={page}
        caption="Open invitations, newest first"
        columns={[
          { label: 'Program', cell: ({ program_name: name }) => <strong>{name}</strong> },
          { label: 'Until', cell: ({ expires_at: at }) => <Day at={at} /> },
          { label: '', right: true, cell: (invitation) => <Answers invitation={invitation} /> },
        ]}
        empty={{
          title: 'No open invitations',
          text: 'A program sees nothing about you before you accept. The list only shows invitations to your confirmed address.',
        }}
      />
    </>
  )
}

function Answers({ invitation }: { invitation: PartnerInvitation }) {
  const { program_id: programId, id, program_name: name } = invitation
  return (
    <div class="row right">
      <PostButton action={`${address}/${programId}/${id}/accept`} class="compact primary" label={`Accept ${name}`}>
        Accept
      </PostButton>
      <PostButton action={`${address}/${programId}/${id}/decline`} class="compact" label={`Decline ${name}`}>
        Decline
      </PostButton>
    </div>
  )
}

function named(c: ViewerContext) {
  const missing = 'You have no such invitation.'
  return { programId: idInPath(c, 'programId', missing), id: idInPath(c, 'partnerInvitationId', missing) }
}

partnerInvitationPages.post(`${address}/:programId/:partnerInvitationId/accept`, requireViewer, async (c) => {
  await sendSoon(c.env, await acceptPartnerInvitation(c.get('db'), named(c), c.get('viewer').user.id))
  return redirectWith(c, '/partner/links', 'You are a partner now. Here are your links.')
})

partnerInvitationPages.post(`${address}/:programId/:partnerInvitationId/decline`, requireViewer, async (c) => {
  await declinePartnerInvitation(c.get('db'), named(c), c.get('viewer').user.id)
  return redirectWith(c, address, 'The invitation is declined.')
})
