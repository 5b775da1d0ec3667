import { type InboxItem, listInbox, markInboxRead } from '../../../lib/notifications/notification-list.ts'
import { toCsv } from '../../../lib/csv.ts'
import { formatMoney, majorUnits } from '../../../lib/money.ts'
import { renderProgram } from '../parts/layout.tsx'
import { createPages, csvResponse, flash, positiveInteger, requireProgram } from '../parts/page.ts'
import { Badge, Card, Empty, Heading, Pager, Table, Time } from '../parts/parts.tsx'

/** What an advertiser should look at by hand. */
export const noticePages = createPages()

const pageSize = 50
const csvRows = 10_000

/** A notification in words. */
function noticeText({ kind, payload, partner_name: partner }: InboxItem): string {
  const amount = formatMoney(payload.amount_cents, payload.currency)
  const sale = payload.transaction_id ? ` for the sale ${payload.transaction_id}` : ''
  const why = payload.reason ? ` Reason: ${payload.reason}.` : ''
  switch (kind) {
    case 'commission_reversed':
      return `Your commission${sale} was reversed: ${amount}${payload.deducted ? ' is deducted from your balance' : ' will not be credited'}.${why}`
    case 'commission_refunded':
      return `Your commission${sale} was reduced by ${amount}${payload.deducted ? ', which is deducted from your balance' : ''}.${why}`
    case 'withdrawal_reduced':
      return `Your withdrawal was reduced by ${formatMoney(payload.reduced_by_cents ?? 0, payload.currency)} to ${amount}, because a commission${sale} was reversed.${why}`
    case 'paid_commission_reversed':
      return `Review by hand: ${amount} of a commission${sale} was reversed after ${partner} had been paid.${why}`
    case 'dispute_reinstated':
      return `Review by hand: a dispute was decided for you, and the commission${sale} of ${partner} is put back.${why}`
    default:
      return `${kind.replaceAll('_', ' ')}: ${amount}${sale}.${why}`
  }
}

/** Notifications as CSV text. */
export function inboxCsv(items: InboxItem[]): string {
  const columns = ['id', 'when', 'program', 'kind', 'text', 'transaction_id', 'amount', 'currency', 'read'] as const
  const rows = items.map((item) => ({
    id: item.id,
    when: item.created_at,
    program: item.program_name,
    kind: item.kind,
    text: noticeText(item),
    transaction_id: item.payload.transaction_id ?? null,
    amount: majorUnits(item.payload.amount_cents, item.payload.currency),
    currency: item.payload.currency,
    read: item.read,
  }))
  return toCsv(columns, rows)
}

/** Notifications as a list, the unread ones marked. */
export function InboxTable({
  items,
  caption,
  withProgram,
}: {
  items: InboxItem[]
  caption: string
  withProgram: boolean
}) {
  return (
    <Table
      caption={caption}
      rows={items}
      columns={[
        { label: 'When (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
        ...(withProgram ? [{ label: 'Program', cell: ({ program_name: name }: InboxItem) => name }] : []),
        { label: 'What happened', cell: (item) => <span>{noticeText(item)}</span> },
        {
          label: 'State',
          cell: ({ read }) => (read ? <span class="muted">Read</span> : <Badge tone="warn">New</Badge>),
        },
      ]}
    />
  )
}

noticePages.get('/programs/:programId/notices', requireProgram('notice:list'), async (c) => {
  const program = c.get('program')
  const before = positiveInteger(c.req.query('before'))
  const rows = await listInbox(c.get('db'), { programId: program.id }, c.get('viewer').user.id, {
    limit: pageSize + 1,
    before,
  })
  const items = rows.slice(0, pageSize)
  const last = rows.length > pageSize ? items.at(-1) : undefined
  const base = `/programs/${program.id}/notices`
  return renderProgram(c, {
    title: 'Notices',
    current: '/notices',
    children: (
      <>
        <Heading title="Notices" lead="What went on by itself but should be looked at by somebody.">
          {items.length > 0 && (
            <a class="button" href={`${base}.csv`}>
              Export CSV
            </a>
          )}
          {program.unread > 0 && (
            <form method="post" action={`${base}/read`}>
              <button type="submit">Mark all as read</button>
            </form>
          )}
        </Heading>
        <Card>
          {items.length === 0 ? (
            <Empty title="Nothing to review">
              <p>
                A notice comes when a commission is reversed that was paid out already, or a dispute is decided for you.
              </p>
            </Empty>
          ) : (
            <>
              <InboxTable items={items} caption="Notices, newest first" withProgram={false} />
              <Pager newer={before === undefined ? undefined : base} older={last && `${base}?before=${last.id}`} />
            </>
          )}
        </Card>
      </>
    ),
  })
})

noticePages.get('/programs/:programId/notices.csv', requireProgram('notice:list'), async (c) => {
  const { id: programId } = c.get('program')
  const items = await listInbox(c.get('db'), { programId }, c.get('viewer').user.id, { limit: csvRows })
  return csvResponse(c, `notices-${programId}`, inboxCsv(items))
})

noticePages.post('/programs/:programId/notices/read', requireProgram('notice:list'), async (c) => {
  const program = c.get('program')
  await markInboxRead(c.get('db'), { programId: program.id }, c.get('viewer').user.id)
  flash(c, 'good', 'All notices are marked as read.')
  return c.redirect(`/programs/${program.id}/notices`, 303)
})
