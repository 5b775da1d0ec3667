import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { Segments } from '../components/blocks.tsx'

/** Switches between notifications to review and all sent notifications, if the reader's roles open both. */
export function NotificationViews({ program, current }: { program: ViewerProgram; current: 'review' | 'sent' }) {
  if (!may(program.roles, 'notice:list') || !may(program.roles, 'delivery:list')) return null
  const base = `/programs/${program.id}`
  return (
    <Segments
      label="Notifications"
      items={[
        { href: `${base}/notices`, text: 'To review', current: current === 'review' },
        { href: `${base}/deliveries/notifications`, text: 'Sent', current: current === 'sent' },
      ]}
    />
  )
}
