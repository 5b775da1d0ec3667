import { toCsv } from '../../../lib/csv.ts'
import { listAdjustments } from '../../../lib/money/adjustments.ts'
import { adjustmentColumns, adjustmentRow, whatColumn } from '../components/adjustment.tsx'
import { renderPartner } from '../components/layout.tsx'
import { idOf, ListPage, listResponse, readPageById } from '../components/list.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { partnerSaleAddress } from './sale.tsx'

/** Manual commissions and deductions in a partner's balances. */
export const partnerAdjustmentPages = createPages()

const address = '/partner/adjustments'

partnerAdjustmentPages.get(address, requirePartner, async (c) => {
  const { id: userId } = c.get('viewer').user
  const page = await readPageById(c, address, (part) => listAdjustments(c.get('db'), { userId }, part))
  const { made, amount } = adjustmentColumns
  const what = whatColumn(
    ({ program_id: programId, partner_id: partnerId, sale_partner_id: ofPartner }, transactionId) =>
      ofPartner === partnerId ? partnerSaleAddress({ programId, transactionId }) : undefined,
  )
  return renderPartner(c, c.get('viewer'), {
    title: 'Manual commissions',
    current: '/commissions',
    children: (
      <ListPage
        title="Manual commissions and deductions"
        lead="Manual changes of your balance by advertisers, with their reasons."
        address={address}
        rows="manual commissions"
        page={page}
        caption="Your manual commissions and deductions, newest first"
        columns={[made, { label: 'Program', cell: ({ program_name: name }) => name }, what, amount]}
        empty={{
          title: 'No manual commissions yet',
          text: <a href="/partner/commissions">Commissions for sales</a>,
        }}
      />
    ),
  })
})

partnerAdjustmentPages.get(`${address}.csv`, requirePartner, async (c) => {
  const { id: userId } = c.get('viewer').user
  const columns = ['id', 'made', 'program', 'currency', 'amount', 'note', 'transaction_id', 'paid'] as const
  return await listResponse(c, {
    nameOf: () => 'manual-commissions',
    read: (part) => listAdjustments(c.get('db'), { userId }, part),
    cursorOf: idOf,
    write: (adjustments) => toCsv(columns, adjustments.map(adjustmentRow)),
  })
})
