import { toCsv } from '../../../lib/csv.ts'
import { listOutbox, type OutboxNotification } from '../../../lib/notifications/outbox-list.ts'
import { Badge } from '../parts/blocks.tsx'
import { Time } from '../parts/format.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { exportCsv, csvRows, ListPage, placeIn, readPage } from '../parts/list.tsx'
import { createPages, requireProgram } from '../parts/page.ts'
import { DeliveryLogViews, deliveryLogOf } from './delivery-log.tsx'

/** What went out to people, and how far it has come. */
export const sentNotificationPages = createPages()

sentNotificationPages.get(
  '/programs/:programId/deliveries/notifications',
  requireProgram('delivery:list'),
  async (c) => {
    const { id: programId } = c.get('program')
    const log = deliveryLogOf(programId)
    const address = `${log}/notifications`
    const page = await readPage(
      { address, place: placeIn(c), cursorOf: ({ id }: OutboxNotification) => id },
      (options) => listOutbox(c.get('db'), programId, options),
    )
    return renderProgram(c, {
      title: 'Delivery log',
      current: '/deliveries',
      children: (
        <ListPage
          title="Delivery log"
          lead="What partners and you were told, and how far each message has come."
          filter={<DeliveryLogViews address={log} current="notifications" />}
          csv={`${address}.csv`}
          page={page}
          caption="Notifications, newest first"
          columns={[
            { label: 'Made (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
            { label: 'What', cell: ({ kind }) => kind.replaceAll('_', ' ') },
            {
              label: 'To',
              cell: ({ audience, partner_name: name }) => (audience === 'partner' ? name : 'your workspace'),
            },
            { label: 'State', cell: (notification) => <State notification={notification} /> },
          ]}
          empty={{
            title: 'Nothing was told yet',
            text: 'A refund or a rejected commission is told to the partner, and stands here.',
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
  return <Badge tone="warn">{notification.sent_at ? 'On its way' : 'Waiting'}</Badge>
}

sentNotificationPages.get(
  '/programs/:programId/deliveries/notifications.csv',
  requireProgram('delivery:list'),
  async (c) => {
    const { id: programId } = c.get('program')
    const notifications = await listOutbox(c.get('db'), programId, { limit: csvRows })
    const columns = ['id', 'kind', 'audience', 'partner_name', 'created_at', 'sent_at', 'delivered_at'] as const
    return await exportCsv(c, `notifications-${programId}`, toCsv(columns, notifications))
  },
)
