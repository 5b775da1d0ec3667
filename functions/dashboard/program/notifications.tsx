import {
  type ListedNotification,
  listNotifications,
  markNotificationsRead,
} from '../../../lib/notifications/notification-list.ts'
import { redirectWith } from '../parts/flash.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { exportCsv, csvRows, ListPage, placeIn, readPage } from '../parts/list.tsx'
import { MarkRead, notificationColumns, notificationsCsv } from '../parts/notification.tsx'
import { createPages, requireProgram } from '../parts/page.ts'

/** What an advertiser should look at by hand. */
export const notificationPages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/notices`

notificationPages.get('/programs/:programId/notices', requireProgram('notice:list'), async (c) => {
  const { id: programId, unread } = c.get('program')
  const address = addressIn(programId)
  const page = await readPage({ address, place: placeIn(c), cursorOf: ({ id }: ListedNotification) => id }, (options) =>
    listNotifications(c.get('db'), { programId }, c.get('viewer').user.id, options),
  )
  const { at, text, state } = notificationColumns
  return renderProgram(c, {
    title: 'Notices',
    current: '/notices',
    children: (
      <ListPage
        title="Notices"
        lead="What went on by itself but should be looked at by somebody."
        csv={`${address}.csv`}
        actions={<MarkRead address={address} unread={unread} />}
        page={page}
        caption="Notices, newest first"
        columns={[at, text, state]}
        empty={{
          title: 'Nothing to review',
          text: 'A notice comes when a commission is reversed that was paid out already, or a dispute is decided for you.',
        }}
      />
    ),
  })
})

notificationPages.get('/programs/:programId/notices.csv', requireProgram('notice:list'), async (c) => {
  const { id: programId } = c.get('program')
  const notifications = await listNotifications(c.get('db'), { programId }, c.get('viewer').user.id, { limit: csvRows })
  return await exportCsv(c, `notices-${programId}`, notificationsCsv(notifications))
})

notificationPages.post('/programs/:programId/notices/read', requireProgram('notice:list'), async (c) => {
  const { id: programId } = c.get('program')
  await markNotificationsRead(c.get('db'), { programId }, c.get('viewer').user.id)
  return redirectWith(c, addressIn(programId), 'All notices are marked as read.')
})
