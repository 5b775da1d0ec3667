import { listNotifications, markNotificationsRead } from '../../../lib/notifications/notification-list.ts'
import { redirectWith } from '../components/flash.tsx'
import { renderPartner } from '../components/layout.tsx'
import { idOf, ListPage, listResponse, readPageById } from '../components/list.tsx'
import { MarkRead, notificationColumns, notificationsCsv } from '../components/notification.tsx'
import { createPages, requirePartner } from '../components/page.ts'

/** A partner's notifications from all their programs. */
export const partnerNotificationPages = createPages()

const address = '/partner/notifications'

partnerNotificationPages.get(address, requirePartner, async (c) => {
  const { unread } = c.get('partner')
  const { id: userId } = c.get('viewer').user
  const page = await readPageById(c, address, (options) => listNotifications(c.get('db'), { userId }, userId, options))
  const { at, program, text, state } = notificationColumns
  return renderPartner(c, c.get('viewer'), {
    title: 'Notifications',
    current: '/notifications',
    children: (
      <ListPage
        title="Notifications"
        lead="Changes in your earnings."
        address={address}
        rows="notifications"
        actions={<MarkRead address={address} unread={unread} />}
        page={page}
        caption="Notifications, newest first"
        columns={[at, program, text, state]}
        empty={{
          title: 'Nothing yet',
          text: 'You are notified when you earn, a commission is reversed, or a payout is paid, refused or reduced.',
        }}
      />
    ),
  })
})

partnerNotificationPages.get(`${address}.csv`, requirePartner, async (c) => {
  const { id: userId } = c.get('viewer').user
  return await listResponse(c, {
    nameOf: () => 'notifications',
    read: (part) => listNotifications(c.get('db'), { userId }, userId, part),
    cursorOf: idOf,
    write: notificationsCsv,
  })
})

partnerNotificationPages.post(`${address}/read`, requirePartner, async (c) => {
  const { id: userId } = c.get('viewer').user
  await markNotificationsRead(c.get('db'), { userId }, userId)
  return redirectWith(c, address, 'All notifications are marked as read.')
})
