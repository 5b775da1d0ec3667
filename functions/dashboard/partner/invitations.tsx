import { sendSoon } from '../../../lib/notifications/outbox.ts'
import {
  acceptPartnerInvitation,
  declinePartnerInvitation,
  listPartnerInvitations,
  type PartnerInvitation,
  partnerInvitationTotals,
} from '../../../lib/programs/partner-invitations.ts'
import { keepPartnerLanguage } from '../../../lib/programs/partnerships.ts'
import { idInPath } from '../components/address.ts'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { Day } from '../components/format.tsx'
import { byId, List, readPage } from '../components/list.tsx'
import { createPages, requireViewer, type ViewerContext } from '../components/page.ts'
import { PartnerOrAccountPage } from '../components/layout.tsx'
import { useTexts } from '../components/text.tsx'

/**
 * Program invitations to a person's verified address, which the person can accept or decline. An invitation shows only the program's name.
 */
export const pages = createPages()

const address = '/partner/invitations'

pages.get(address, requireViewer, async (c) => {
  const { email, emailVerified } = c.get('viewer').user
  const { t } = c.get('texts')
  const db = c.get('db')
  const [page, totals] = await Promise.all([
    readPage(c, byId, async (part) => (emailVerified ? await listPartnerInvitations(db, email, part) : [])),
    emailVerified ? db.query(partnerInvitationTotals(email)) : [],
  ])
  return c.render(
    <PartnerOrAccountPage
      title={t('Invitations')}
      current="/invitations"
      lead={t('Programs that have invited {email} to become a partner.', { email })}
    >
      <List
        page={page}
        totals={totals}
        rows={(count) => t('{count} invitations', { count })}
        caption={t('Open invitations, newest first')}
        columns={[
          { label: 'Program', phone: 'title', cell: ({ program_name: name }) => <strong>{name}</strong> },
          { label: 'Until', cell: ({ expires_at: at }) => <Day at={at} /> },
          { cell: (invitation) => <Answers invitation={invitation} /> },
        ]}
        empty={{
          title: t('No open invitations'),
          text: t(
            "Programs can't see anything about you until you accept. The list only shows invitations to your confirmed address.",
          ),
        }}
      />
    </PartnerOrAccountPage>,
  )
})

function Answers({ invitation }: { invitation: PartnerInvitation }) {
  const { program_id: programId, id, program_name: name } = invitation
  const { t } = useTexts()
  return (
    <div class="row right">
      <PostButton
        action={`${address}/${programId}/${id}/accept`}
        class="compact primary"
        label={t('Accept {name}', { name })}
        text={t('Accept')}
      />
      <PostButton
        action={`${address}/${programId}/${id}/decline`}
        class="compact"
        label={t('Decline {name}', { name })}
        text={t('Decline')}
      />
    </div>
  )
}

function named(c: ViewerContext) {
  const missing = 'You have no such invitation.'
  return { programId: idInPath(c, 'programId', missing), id: idInPath(c, 'partnerInvitationId', missing) }
}

pages.post(`${address}/:programId/:partnerInvitationId/accept`, requireViewer, async (c) => {
  await sendSoon(c.env, await acceptPartnerInvitation(c.get('db'), named(c), c.get('viewer').user.id))
  await keepPartnerLanguage(c.get('db'), c.get('viewer').user.id, c.get('texts').language)
  return redirectWith(c, '/partner/links', 'You are now a partner. Here are your links.')
})

pages.post(`${address}/:programId/:partnerInvitationId/decline`, requireViewer, async (c) => {
  await declinePartnerInvitation(c.get('db'), named(c), c.get('viewer').user.id)
  return redirectWith(c, address, 'The invitation was declined.')
})
