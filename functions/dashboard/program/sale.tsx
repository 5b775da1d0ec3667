import { type Action, may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { explainSale } from '../../../lib/money/explanation.ts'
import type { Explanation } from '../../../lib/money/explanation-fields.ts'
import { addressOf } from '../components/address.ts'
import { Badge } from '../components/blocks.tsx'
import { ExplanationPage, type RelatedPage } from '../components/explanation.tsx'
import { Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, requireProgram } from '../components/page.ts'
import { TableCard } from '../components/table.tsx'
import { customerAddress } from './customer.tsx'
import { partnerAddress } from './partner-columns.tsx'

/** Explains why a sale has its partner and its commission, or why a payment has none. */
export const pages = createProgramPages()

pages.get('/sales/:transactionId', requireProgram('commission:list'), async (c) => {
  const program = c.get('program')
  const explanation = await explainSale(c.get('db'), {
    programId: program.id,
    transaction_id: c.req.param('transactionId'),
    test: c.req.query('test') === 'true',
    withCustomer: may(program.roles, 'tracking:list'),
  })
  return c.render(
    <ProgramPage title={`Sale ${explanation.transaction_id}`} current="/commissions" heading={null}>
      <ExplanationPage explanation={explanation} related={relatedTo(program, explanation)} />
      {may(program.roles, 'delivery:list') && <Deliveries explanation={explanation} />}
    </ProgramPage>,
  )
})

/** Returns pages about the partner, link, customer, commission and payout. For links and manual payouts, these are lists. */
function relatedTo(program: ViewerProgram, explanation: Explanation): RelatedPage[] {
  const { partner, link, customer, commission, payout, is_test: isTest, transaction_id: transaction } = explanation
  const related: RelatedPage[] = []
  const add = (action: Action, text: string, href: string) => {
    if (may(program.roles, action)) related.push({ href, text })
  }
  const address = `/programs/${program.id}`
  if (partner) add('partner:list', `Partner ${partner.name}`, partnerAddress(program.id, partner.id))
  if (link && !isTest) {
    add('tracking:list', `Events of the link ${link.code}`, addressOf(`${address}/events`, { code: link.code }))
  }
  if (customer) add('tracking:list', 'Timeline of the customer', customerAddress(program.id, customer.click_id))
  if (commission && commission.id !== null) {
    add('commission:list', `Commission ${commission.id}`, addressOf(`${address}/commissions`, { q: transaction }))
  }
  if (payout) {
    const { id, payout_run_id: run } = payout
    const ofPartner = addressOf(`${address}/payouts`, { partner: partner?.id.toString(), status: 'paid' })
    if (run === null) add('payout:list', `Payout ${id}`, ofPartner)
    else add('payout:list', `Payout ${id} of payout run ${run}`, `${address}/payout-runs/${run}`)
  }
  return related
}

function Deliveries({ explanation: { deliveries } }: { explanation: Explanation }) {
  if (deliveries.length === 0) return null
  return (
    <TableCard
      title="Processor events"
      caption="Processor events of this payment, oldest first"
      rows={deliveries}
      columns={[
        { label: 'Received (UTC)', cell: ({ received_at: at }) => <Time at={at} /> },
        {
          label: 'Event',
          cell: ({ event_type: type, event_id: id }) => (
            <div>
              <code>{type}</code>
              <div class="muted small">{id}</div>
            </div>
          ),
        },
        { label: 'Outcome', cell: ({ outcome }) => <Badge>{outcome}</Badge> },
        { label: 'Why', cell: ({ reason }) => reason ?? '–' },
      ]}
    />
  )
}
