import { listNotifications, markNotificationsRead } from '../../../lib/notifications/notification-list.ts'
import { redirectWith } from '../components/flash.tsx'
import { renderProgram } from '../components/layout.tsx'
import { exportList, idOf, ListPage, readPageById } from '../components/list.tsx'
import { MarkRead, notificationColumns, notificationsCsv } from '../components/notification.tsx'
import { createPages, requireProgram } from '../components/page.ts'
import { NotificationViews } from './notification-views.tsx'

/** Lists events that an advertiser should review. */
export const notificationPages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/notices`

notificationPages.get('/programs/:programId/notices', requireProgram('notice:list'), async (c) => {
  const { id: programId, unread } = c.get('program')
  const address = addressIn(programId)
  const page = await readPageById(c, address, (part) =>
    listNotifications(c.get('db'), { programId }, c.get('viewer').user.id, part),
  )
  const { at, text, state } = notificationColumns
  return renderProgram(c, {
    title: 'Notifications',
    current: '/notices',
    children: (
      <ListPage
        title="Notifications"
        lead="Events that need your review."
        filter={<NotificationViews program={c.get('program')} current="review" />}
        address={address}
        rows="notifications"
        actions={<MarkRead address={address} unread={unread} />}
        page={page}
        caption="Notifications, newest first"
        columns={[at, text, state]}
        empty={{
          title: 'Nothing to review',
          text: 'You are notified when somebody applies, a paid commission is reversed, you win a dispute or Stripe is disconnected.',
        }}
      />
    ),
  })
})

notificationPages.get('/programs/:programId/notices.csv', requireProgram('notice:list'), async (c) => {
  const { id: programId } = c.get('program')
  return await exportList(c, {
    nameOf: () => `notifications-${programId}`,
    read: (part) => listNotifications(c.get('db'), { programId }, c.get('viewer').user.id, part),
    cursorOf: idOf,
    write: notificationsCsv,
  })
})

notificationPages.post('/programs/:programId/notices/read', requireProgram('notice:list'), async (c) => {
  const { id: programId } = c.get('program')
  await markNotificationsRead(c.get('db'), { programId }, c.get('viewer').user.id)
  return redirectWith(c, addressIn(programId), 'All notifications are marked as read.')
})
