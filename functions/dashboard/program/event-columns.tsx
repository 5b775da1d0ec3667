import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { formatMoney } from '../../../lib/money.ts'
import { campaignIn } from '../../../lib/tracking/campaign.ts'
import type { ListedEvent } from '../../../lib/tracking/event-list.ts'
import { Badge } from '../components/blocks.tsx'
import { CampaignText } from '../components/campaign.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { Time } from '../components/format.tsx'
import type { Column } from '../components/table.tsx'
import { customerAddress } from './customer.tsx'
import { partnerAddress } from './partner-columns.tsx'

/** The columns of a list of events. Test events have neither a partner nor a timeline, because they don't create customers. */
export function eventColumns(program: ViewerProgram, isTest: boolean): (Column<ListedEvent> | false)[] {
  return [
    { label: 'When (UTC)', cell: ({ timestamp }) => <Time at={timestamp} /> },
    { label: 'Type', phone: 'title', cell: (event) => <Kind event={event} /> },
    !isTest && { label: 'Partner', cell: (event) => <Partner event={event} program={program} /> },
    { label: 'Details', cell: (event) => <What event={event} program={program} isTest={isTest} /> },
    {
      label: 'Amount',
      right: true,
      phone: 'amount',
      cell: (event) => <Amount event={event} currency={program.currency} />,
    },
    { label: 'From', cell: (event) => <From event={event} /> },
    { label: 'Customer', cell: (event) => <Customer event={event} program={program} isTest={isTest} /> },
  ]
}

const none = <span class="muted">–</span>

function Kind({ event }: { event: ListedEvent }) {
  if (event.event_type === 'conversion') return <Badge tone="good">Sale</Badge>
  if (event.event_type === 'lead') return <Badge tone="accent">Lead</Badge>
  return <Badge>{event.device_type === 'bot' ? 'Bot click' : 'Click'}</Badge>
}

function Partner({ event, program }: { event: ListedEvent; program: ViewerProgram }) {
  const { partner_id: id, partner_name: name, link_code: code } = event
  if (id === null) return none
  return (
    <div>
      <a href={partnerAddress(program.id, id)}>{name}</a>
      {code && (
        <div class="small">
          <code>{code}</code>
        </div>
      )}
    </div>
  )
}

interface CellProps {
  event: ListedEvent
  program: ViewerProgram
  isTest: boolean
}

function What({ event, program, isTest }: CellProps) {
  if (event.event_type === 'conversion') {
    const { transaction_id: id, payment_status: status } = event
    return (
      <div>
        {id !== null && may(program.roles, 'commission:list') ? (
          <a href={saleAddress(program.id, id, isTest)}>{id}</a>
        ) : (
          <span>{id}</span>
        )}
        <div class="muted small">
          {event.sale_type}
          {event.is_recurring && ', renewal'}
          {status !== 'paid' && `, ${status}`}
        </div>
      </div>
    )
  }
  if (event.event_type === 'lead' && event.provisional) {
    return <span class="muted">provisional, because your server hasn't confirmed it yet</span>
  }
  return (
    <div>
      {event.page_url ?? <span class="muted">{event.event_type === 'lead' ? 'signed up' : 'page unknown'}</span>}
      {event.referrer_url && <div class="muted small">from {event.referrer_url}</div>}
      <CampaignText campaign={campaignIn(event.campaign)} />
    </div>
  )
}

function Amount({ event, currency: own }: { event: ListedEvent; currency: string }) {
  const { amount_cents: amount, refunded_cents: refunded, currency } = event
  if (amount === null || currency === null) return none
  return (
    <div>
      <strong>{formatMoney(amount, currency)}</strong>
      {refunded !== null && refunded > 0 && (
        <div class="muted small">{refunded === amount ? 'fully' : formatMoney(refunded, currency)} refunded</div>
      )}
      {currency !== own && (
        <div class="muted small words-wrap">not in the program's currency, so not included in its figures</div>
      )}
    </div>
  )
}

function From({ event }: { event: ListedEvent }) {
  const place = [event.geo_city, event.geo_country].filter(Boolean).join(', ')
  const device = [event.browser_name, event.device_os].filter(Boolean).join(', ')
  if (!place && !device) return none
  return (
    <div>
      {place || none}
      {device && <div class="muted small">{device}</div>}
    </div>
  )
}

/** Shows the integrator's id of a customer, or else the end of the click id. */
function Customer({ event, program, isTest }: CellProps) {
  const { customer_key: key, customer_id: id, click_id: clickId } = event
  if (isTest) return key === null ? none : <span>{key}</span>
  if (id === null) return clickId === null ? none : <span class="muted">deleted</span>
  return <a href={customerAddress(program.id, id)}>{key ?? `…${clickId?.slice(-6) ?? id}`}</a>
}
