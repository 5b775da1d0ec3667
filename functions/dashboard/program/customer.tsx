import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { changeOf, type Moment, readTimeline, timelineRows } from '../../../lib/money/timeline.ts'
import { Badge, Card, Copy, type Tone } from '../components/blocks.tsx'
import { CampaignText } from '../components/campaign.tsx'
import { saleAddress, tones } from '../components/explanation.tsx'
import { Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import { partnerAddress } from './partner-columns.tsx'

/** The timeline of a customer, from the first click to the last payout. Partners don't see it. */
export const pages = createProgramPages()

/** Returns the address of a customer's timeline, by id or click id. */
export const customerAddress = (programId: number, customer: number | string) =>
  `/programs/${programId}/customers/${customer}`

pages.get('/customers/:customerId', requireProgram('tracking:list'), async (c) => {
  const program = c.get('program')
  const { customer, moments, isCut } = await readTimeline(c.get('db'), program.id, c.req.param('customerId'))
  return c.render(
    <ProgramPage
      title="Customer"
      current="/events"
      heading={customer.customer_key ?? 'Customer without a key'}
      lead={
        <>
          Referred by{' '}
          {customer.partner_name === null ? (
            'nobody'
          ) : (
            <a href={partnerAddress(program.id, customer.partner_id)}>{customer.partner_name}</a>
          )}
          {customer.link_code && (
            <>
              , link <code>{customer.link_code}</code>
            </>
          )}
          . Times are UTC.
        </>
      }
    >
      <Copy text={customer.click_id} label="click id" />
      <Card title="Timeline">
        <Table
          caption="Timeline of this customer, oldest first"
          rows={moments}
          columns={[
            { label: 'When (UTC)', cell: ({ at }) => <Time at={at} /> },
            { label: 'Event', cell: ({ kind }) => <Badge tone={toneOf[kind]}>{kind}</Badge> },
            { label: 'Details', cell: (moment) => <Words moment={moment} program={program} /> },
            { label: 'Commission', right: true, cell: (moment) => changeOf(moment) ?? '–' },
          ]}
        />
        {moments.length === 0 && <p class="muted">Nothing is stored about this customer anymore.</p>}
        {isCut && <p class="muted small">Only the newest {timelineRows} clicks, leads and sales are shown.</p>}
      </Card>
    </ProgramPage>,
  )
})

interface TimelineLinkProps {
  programId: number
  of: { customer_id: number }
  commissionId: number
}

/** A link to the timeline of a commission's customer. */
export function TimelineLink({ programId, of, commissionId }: TimelineLinkProps) {
  const label = `Timeline of the customer of commission ${commissionId}`
  return (
    <div class="small">
      <a href={customerAddress(programId, of.customer_id)} aria-label={label}>
        Timeline
      </a>
    </div>
  )
}

const toneOf: Record<Moment['kind'], Tone> = {
  ...tones,
  click: 'plain',
  'bot click': 'plain',
  lead: 'accent',
  'unconfirmed lead': 'plain',
  sale: 'good',
}

function Words({ moment, program }: { moment: Moment; program: ViewerProgram }) {
  const { text, link, campaign, transaction_id: id } = moment
  return (
    <div>
      {text}
      {link && (
        <div class="small">
          <code>{link.code}</code>
          {link.partner_id !== null && (
            <>
              {' '}
              of <a href={partnerAddress(program.id, link.partner_id)}>{link.partner_name}</a>
            </>
          )}
        </div>
      )}
      <CampaignText campaign={campaign} />
      {id !== null && (
        <div class="small">
          {may(program.roles, 'commission:list') ? <a href={saleAddress(program.id, id)}>{id}</a> : id}
        </div>
      )}
    </div>
  )
}
