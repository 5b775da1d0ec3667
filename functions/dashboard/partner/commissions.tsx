import { listCommissions } from '../../../lib/money/commission-list.ts'
import { causeColumn, commissionColumns, commissionsCsv, commissionStates } from '../components/commission.tsx'
import { renderPartner } from '../components/layout.tsx'
import { idOf, ListPage, listResponse, readPageById, stateIn } from '../components/list.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { partnerSaleAddress } from './sale.tsx'

/** A partner's commissions in all their programs. */
export const partnerCommissionPages = createPages()

const address = '/partner/commissions'

partnerCommissionPages.get(address, requirePartner, async (c) => {
  const { id: userId } = c.get('viewer').user
  const status = stateIn(c, commissionStates)
  const page = await readPageById(c, address, (part) => listCommissions(c.get('db'), { userId }, { ...part, status }), {
    status,
  })
  const { made, state, amount } = commissionColumns
  return renderPartner(c, c.get('viewer'), {
    title: 'Commissions',
    current: '/commissions',
    children: (
      <ListPage
        title="Commissions"
        lead="Your commission for each sale, and its state."
        address={address}
        query={{ status }}
        rows="commissions"
        states={commissionStates}
        csv={`${address}.csv`}
        actions={
          <a class="button" href="/partner/adjustments">
            Manual commissions
          </a>
        }
        page={page}
        caption="Your commissions, newest first"
        columns={[made, causeColumn(partnerSaleAddress), state, amount]}
        empty={noneYet}
      />
    ),
  })
})

const noneYet = {
  title: 'No commissions yet',
  text: (
    <>
      The first sale through one of your <a href="/partner/links">links</a> appears here.
    </>
  ),
}

partnerCommissionPages.get(`${address}.csv`, requirePartner, async (c) => {
  const { id: userId } = c.get('viewer').user
  const columns = ['id', 'made', 'kind', 'transaction_id', 'status', 'currency', 'amount', 'reversed', 'reason']
  return await listResponse(c, {
    nameOf: () => 'commissions',
    read: (part) => listCommissions(c.get('db'), { userId }, part),
    cursorOf: idOf,
    write: (commissions) => commissionsCsv(commissions, columns),
  })
})
