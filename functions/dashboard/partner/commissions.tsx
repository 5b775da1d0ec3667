import { commissionTotals, commissionsStatement } from '../../../lib/money/commission-list.ts'
import { LinkButton } from '../components/blocks.tsx'
import { causeColumn, commissionColumns, commissionsCsv, commissionStates } from '../components/commission.tsx'
import { byId, partnerList, stateIn } from '../components/list.tsx'
import { createPages } from '../components/page.ts'
import { Text } from '../components/text.tsx'
import { partnerSaleAddress } from './sale.tsx'

/** A partner's commissions in all their programs. */
export const pages = createPages()

const csvColumns = ['id', 'created', 'kind', 'transaction_id', 'status', 'currency', 'amount', 'reversed', 'reason']

partnerList(pages, '/partner/commissions', (c) => {
  const status = stateIn(c, commissionStates)
  const of = { userId: c.get('viewer').user.id }
  const { t } = c.get('texts')
  return {
    title: t('Commissions'),
    current: '/commissions',
    rows: (count) => t('{count} commissions', { count }),
    query: { status },
    states: commissionStates,
    cursor: byId,
    read: (part) => commissionsStatement(of, { ...part, status }),
    totals: () => commissionTotals(of, { status }),
    show: () => ({
      lead: t('Your commission for each sale, with its state.'),
      actions: <LinkButton href="/partner/adjustments" text={t('Manual commissions')} />,
      caption: t('Your commissions, newest first'),
      columns: [
        commissionColumns.created,
        causeColumn(partnerSaleAddress),
        commissionColumns.state,
        commissionColumns.amount,
      ],
      empty: {
        title: t('No commissions yet'),
        text: (
          <Text
            of="The first sale through one of your <a>links</a> appears here."
            a={(text) => <a href="/partner/links">{text}</a>}
          />
        ),
      },
    }),
    file: () => 'commissions',
    csv: (commissions) => commissionsCsv(commissions, csvColumns),
  }
})
