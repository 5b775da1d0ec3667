import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { toCsv } from '../../../lib/csv.ts'
import {
  listNotifications,
  markNotificationsRead,
  notificationTotals,
} from '../../../lib/notifications/notification-list.ts'
import { type OutboxNotification, outboxTotals, outboxStatement } from '../../../lib/notifications/outbox-list.ts'
import { wordsOf } from '../components/audit-entry.ts'
import { Badge, Segments } from '../components/blocks.tsx'
import { redirectWith } from '../components/flash.tsx'
import { Time } from '../components/format.tsx'
import { byId, programList } from '../components/list.tsx'
import { MarkRead, notificationColumns, notificationsCsv } from '../components/notification.tsx'
import { createProgramPages, requireProgram } from '../components/page.ts'
import { partnerAddress } from './partner-columns.tsx'

/** Lists events that an advertiser should review, and sent notifications with their delivery. */
export const pages = createProgramPages()

/** Switches between notifications to review and all sent notifications, if the reader may see both. */
function NotificationViews({ program, current }: { program: ViewerProgram; current: 'review' | 'sent' }) {
  if (!may(program.roles, 'notification:list') || !may(program.roles, 'delivery:list')) return null
  const base = `/programs/${program.id}`
  return (
    <Segments
      label="Notifications"
      items={[
        { href: `${base}/notifications`, text: 'To review', current: current === 'review' },
        { href: `${base}/deliveries/notifications`, text: 'Sent', current: current === 'sent' },
      ]}
    />
  )
}

const addressIn = (programId: number) => `/programs/${programId}/notifications`

programList(pages, '/notifications', 'notification:list', (c) => {
  const program = c.get('program')
  const { id: programId, unread } = program
  return {
    title: 'Notifications',
    current: '/notifications',
    rows: 'notifications',
    cursor: byId,
    read: (part) => listNotifications(c.get('db'), { programId }, c.get('viewer').user.id, part),
    totals: () => notificationTotals({ programId }),
    show: () => ({
      lead: 'Events that need your review.',
      views: <NotificationViews program={program} current="review" />,
      actions: <MarkRead address={addressIn(programId)} unread={unread} />,
      caption: 'Notifications, newest first',
      columns: [
        { ...notificationColumns.at, phone: 'plain' },
        { ...notificationColumns.text, phone: 'title' },
        notificationColumns.state,
      ],
      empty: {
        title: 'Nothing to review',
        text: 'You are notified when somebody applies, a paid commission is reversed, you win a dispute or Stripe is disconnected.',
      },
    }),
    file: () => `notifications-${programId}`,
    csv: notificationsCsv,
  }
})

pages.post('/notifications/read', requireProgram('notification:list'), async (c) => {
  const { id: programId } = c.get('program')
  await markNotificationsRead(c.get('db'), { programId }, c.get('viewer').user.id)
  return redirectWith(c, addressIn(programId), 'All notifications are marked as read.')
})

const csvColumns = ['id', 'kind', 'audience', 'partner_name', 'created_at', 'sent_at', 'delivered_at'] as const

programList(pages, '/deliveries/notifications', 'delivery:list', (c) => {
  const program = c.get('program')
  return {
    title: 'Sent notifications',
    current: '/notifications',
    rows: 'notifications',
    cursor: byId,
    read: (part) => outboxStatement(program.id, part),
    totals: () => outboxTotals(program.id),
    show: () => ({
      lead: 'Notifications to partners and to your workspace, and their delivery.',
      views: <NotificationViews program={program} current="sent" />,
      caption: 'Notifications, newest first',
      columns: [
        { label: 'Created (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
        { label: 'Notification', cell: ({ kind }) => wordsOf(kind) },
        {
          label: 'To',
          cell: ({ audience, partner_id: id, partner_name: name }) =>
            audience === 'partner' && id !== null ? (
              <a href={partnerAddress(program.id, id)}>{name}</a>
            ) : (
              'your workspace'
            ),
        },
        { label: 'State', cell: (notification) => <State notification={notification} /> },
      ],
      empty: {
        title: 'No notifications yet',
        text: 'Partners are notified of refunds, rejected commissions and payouts.',
      },
    }),
    file: () => `sent-notifications-${program.id}`,
    csv: (notifications) => toCsv(csvColumns, notifications),
  }
})

function State({ notification }: { notification: OutboxNotification }) {
  if (notification.delivered_at) {
    return (
      <span>
        <Badge tone="good">Delivered</Badge> <Time at={notification.delivered_at} />
      </span>
    )
  }
  return <Badge tone="warn">{notification.sent_at ? 'Sent' : 'Pending'}</Badge>
}
