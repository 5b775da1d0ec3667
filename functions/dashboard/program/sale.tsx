import { may } from '../../../lib/access/roles.ts'
import { explainSale, type Explanation } from '../../../lib/money/explanation.ts'
import { Badge, Card } from '../parts/blocks.tsx'
import { ExplanationPage } from '../parts/explanation.tsx'
import { Time } from '../parts/format.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { createPages, requireProgram } from '../parts/page.ts'
import { Table } from '../parts/table.tsx'
import { customerAddress } from './customer.tsx'

/** Why a sale has its partner and its commission, or a payment none. */
export const salePages = createPages()

salePages.get('/programs/:programId/sales/:transactionId', requireProgram('commission:list'), async (c) => {
  const program = c.get('program')
  const explanation = await explainSale(c.get('db'), {
    programId: program.id,
    transaction_id: c.req.param('transactionId'),
    test: c.req.query('test') === 'true',
    withCustomer: may(program.roles, 'tracking:list'),
  })
  return renderProgram(c, {
    title: `Sale ${explanation.transaction_id}`,
    current: '/commissions',
    children: (
      <>
        <ExplanationPage
          explanation={explanation}
          timeline={explanation.customer ? customerAddress(program.id, explanation.customer.click_id) : undefined}
        />
        {may(program.roles, 'delivery:list') && <Deliveries explanation={explanation} />}
      </>
    ),
  })
})

function Deliveries({ explanation: { deliveries } }: { explanation: Explanation }) {
  if (deliveries.length === 0) return null
  return (
    <Card title="Stripe events">
      <Table
        caption="Stripe events of this payment, oldest first"
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
    </Card>
  )
}
