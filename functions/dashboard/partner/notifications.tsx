import {
  listNotifications,
  markNotificationsRead,
  notificationTotals,
} from '../../../lib/notifications/notification-list.ts'
import { redirectWith } from '../components/flash.tsx'
import { byId, partnerList } from '../components/list.tsx'
import { MarkRead, notificationColumns, notificationsCsv } from '../components/notification.tsx'
import { createPages, requirePartner } from '../components/page.ts'

/** A partner's notifications from all their programs. */
export const pages = createPages()

const address = '/partner/notifications'

partnerList(pages, address, (c) => {
  const { id: userId } = c.get('viewer').user
  const { t } = c.get('texts')
  return {
    title: t('Notifications'),
    current: '/notifications',
    rows: (count) => t('{count} notifications', { count }),
    cursor: byId,
    read: (part) => listNotifications(c.get('db'), { userId }, userId, part),
    totals: () => notificationTotals({ userId }),
    show: () => ({
      lead: t('Changes in your earnings.'),
      actions: <MarkRead address={address} unread={c.get('partner').unread} />,
      caption: t('Notifications, newest first'),
      columns: [
        { ...notificationColumns.at, phone: 'plain' },
        { ...notificationColumns.program, phone: 'plain' },
        { ...notificationColumns.text, phone: 'title' },
        notificationColumns.state,
      ],
      empty: {
        title: t('Nothing yet'),
        text: t(
          'You are notified when you earn a commission, a commission is reversed, or a payout is paid, refused or reduced.',
        ),
      },
    }),
    file: () => 'notifications',
    csv: notificationsCsv,
  }
})

pages.post(`${address}/read`, requirePartner, async (c) => {
  const { id: userId } = c.get('viewer').user
  await markNotificationsRead(c.get('db'), { userId }, userId)
  return redirectWith(c, address, 'All notifications are marked as read.')
})
