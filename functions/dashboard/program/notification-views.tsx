import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { Segments } from '../components/blocks.tsx'

/** The two sides of a program's notifications: those that its people review, and all that were sent, where the reader's roles open both. */
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
