import { toCsv } from '../../../lib/csv.ts'
import { majorUnits } from '../../../lib/money.ts'
import type { ListedNotification } from '../../../lib/notifications/notification-list.ts'
import { amountOf, textOf } from '../../../lib/notifications/notification-text.ts'
import { Badge } from './blocks.tsx'
import { PostButton } from './fields.tsx'
import { isolated, Time } from './format.tsx'
import type { Column } from './table.tsx'
import { useTexts } from './text.tsx'

export const notificationColumns = {
  at: { label: 'When (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
  program: { label: 'Program', cell: ({ program_name: name }) => name },
  text: { label: 'Notification', cell: (notification) => <span>{textOf(notification, isolated, useTexts())}</span> },
  state: {
    label: 'State',
    cell: ({ read }) => <State isRead={read} />,
  },
} satisfies Record<string, Column<ListedNotification>>

function State({ isRead }: { isRead: boolean }) {
  const { t } = useTexts()
  return isRead ? <span class="muted">{t('Read')}</span> : <Badge tone="warn">{t('New')}</Badge>
}

/** A button that marks all notifications as read, if any are unread. */
export function MarkRead({ address, unread }: { address: string; unread: number }) {
  return unread > 0 && <PostButton action={`${address}/read`} text={useTexts().t('Mark all as read')} />
}

export function notificationsCsv(notifications: ListedNotification[]): string {
  const columns = ['id', 'when', 'program', 'kind', 'text', 'transaction_id', 'amount', 'currency', 'read'] as const
  const rows = notifications.map((notification) => ({
    id: notification.id,
    when: notification.created_at,
    program: notification.program_name,
    kind: notification.kind,
    text: textOf(notification),
    transaction_id: notification.payload.transaction_id ?? null,
    amount: amountOf(notification.payload, majorUnits) ?? null,
    currency: notification.payload.currency ?? null,
    read: notification.read,
  }))
  return toCsv(columns, rows)
}
