import { toCsv } from '../../../lib/csv.ts'
import { listOutbox, type OutboxNotification } from '../../../lib/notifications/outbox-list.ts'
import { wordsOf } from '../components/audit-entry.ts'
import { Badge } from '../components/blocks.tsx'
import { Time } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import { exportList, idOf, ListPage, readPageById } from '../components/list.tsx'
import { createPages, requireProgram } from '../components/page.ts'
import { NotificationViews } from './notification-views.tsx'

/** Lists sent notifications with their delivery. */
export const sentNotificationPages = createPages()

sentNotificationPages.get(
  '/programs/:programId/deliveries/notifications',
  requireProgram('delivery:list'),
  async (c) => {
    const program = c.get('program')
    const address = `/programs/${program.id}/deliveries/notifications`
    const page = await readPageById(c, address, (part) => listOutbox(c.get('db'), program.id, part))
    return renderProgram(c, {
      title: 'Sent notifications',
      current: '/notices',
      children: (
        <ListPage
          title="Sent notifications"
          lead="Notifications to partners and to your workspace, and their delivery."
          filter={<NotificationViews program={program} current="sent" />}
          address={address}
          rows="notifications"
          page={page}
          caption="Notifications, newest first"
          columns={[
            { label: 'Created (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
            { label: 'Notification', cell: ({ kind }) => wordsOf(kind) },
            {
              label: 'To',
              cell: ({ audience, partner_name: name }) => (audience === 'partner' ? name : 'your workspace'),
            },
            { label: 'State', cell: (notification) => <State notification={notification} /> },
          ]}
          empty={{
            title: 'No notifications yet',
            text: 'Partners are notified of refunds, rejected commissions and payouts.',
          }}
        />
      ),
    })
  },
)

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

sentNotificationPages.get(
  '/programs/:programId/deliveries/notifications.csv',
  requireProgram('delivery:list'),
  async (c) => {
    const { id: programId } = c.get('program')
    const columns = ['id', 'kind', 'audience', 'partner_name', 'created_at', 'sent_at', 'delivered_at'] as const
    return await exportList(c, {
      nameOf: () => `sent-notifications-${programId}`,
      read: (part) => listOutbox(c.get('db'), programId, part),
      cursorOf: idOf,
      write: (notifications) => toCsv(columns, notifications),
    })
  },
)
