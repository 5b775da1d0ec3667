import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { changeOf, type Moment, readTimeline, type Timeline, timelineRows } from '../../../lib/money/timeline.ts'
import { Badge, Card, Copy, Heading, type Tone } from '../components/blocks.tsx'
import { CampaignText } from '../components/campaign.tsx'
import { saleAddress, tones } from '../components/explanation.tsx'
import { Time } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import { createPages, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import { partnerAddress } from './partner-columns.tsx'

/** The timeline of a customer, from the first click to the last payout. Partners don't see it. */
export const customerPages = createPages()

/** Returns the address of a customer's timeline, by id or click id. */
export const customerAddress = (programId: number, customer: number | string) =>
  `/programs/${programId}/customers/${customer}`

customerPages.get('/programs/:programId/customers/:customerId', requireProgram('tracking:list'), async (c) => {
  const program = c.get('program')
  const timeline = await readTimeline(c.get('db'), program.id, c.req.param('customerId'))
  return renderProgram(c, {
    title: 'Customer',
    current: '/events',
    children: <CustomerPage program={program} timeline={timeline} />,
  })
})

function CustomerPage({
  program,
  timeline: { customer, moments, isCut },
}: {
  program: ViewerProgram
  timeline: Timeline
}) {
  return (
    <>
      <Heading
        title={customer.customer_key ?? 'Customer without a key'}
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
      />
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
        {isCut && <p class="muted small">The newest {timelineRows} clicks, leads and sales. Older ones exist.</p>}
      </Card>
    </>
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
