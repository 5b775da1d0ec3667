import { toCsv } from '../../../lib/csv.ts'
import { adjustmentTotals, adjustmentsStatement } from '../../../lib/money/adjustments.ts'
import { adjustmentColumns, adjustmentRow, whatColumn } from '../components/adjustment.tsx'
import { byId, partnerList } from '../components/list.tsx'
import { createPages } from '../components/page.ts'
import { partnerSaleAddress } from './sale.tsx'

/** Manual commissions and deductions in a partner's balances. */
export const pages = createPages()

const csvColumns = ['id', 'created', 'program', 'currency', 'amount', 'note', 'transaction_id', 'paid'] as const

partnerList(pages, '/partner/adjustments', (c) => {
  const { t } = c.get('texts')
  return {
    title: t('Manual commissions'),
    heading: t('Manual commissions and deductions'),
    current: '/commissions',
    rows: (count) => t('{count} manual commissions', { count }),
    cursor: byId,
    read: (part) => adjustmentsStatement({ userId: c.get('viewer').user.id }, part),
    totals: () => adjustmentTotals({ userId: c.get('viewer').user.id }, {}),
    show: () => ({
      lead: t('Manual changes to your balance by advertisers, with their reasons.'),
      caption: t('Your manual commissions and deductions, newest first'),
      columns: [
        adjustmentColumns.created,
        { label: 'Program', cell: ({ program_name: name }) => name },
        whatColumn(({ program_id: programId, partner_id: partnerId, sale_partner_id: ofPartner }, transactionId) =>
          ofPartner === partnerId ? partnerSaleAddress({ programId, transactionId }) : undefined,
        ),
        adjustmentColumns.amount,
      ],
      empty: {
        title: t('No manual commissions yet'),
        text: <a href="/partner/commissions">{t('Commissions for sales')}</a>,
      },
    }),
    file: () => 'manual-commissions',
    csv: (adjustments) => toCsv(csvColumns, adjustments.map(adjustmentRow)),
  }
})
