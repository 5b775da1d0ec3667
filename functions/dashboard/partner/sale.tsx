import { explainSale } from '../../../lib/money/explanation.ts'
import { idInPath } from '../components/address.ts'
import { ExplanationPage } from '../components/explanation.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { createPages, requirePartner } from '../components/page.ts'

export const partnerSaleAddress = ({ programId, transactionId }: { programId: number; transactionId: string }) =>
  `/partner/sales/${programId}/${encodeURIComponent(transactionId)}`

/** The explanation of a sale for its partner: the program's own explanation without customer data. Its sentences are in English. */
export const pages = createPages()

pages.get('/partner/sales/:programId/:transactionId', requirePartner, async (c) => {
  const explanation = await explainSale(c.get('db'), {
    programId: idInPath(c, 'programId', 'You are not a partner of this program.'),
    transaction_id: c.req.param('transactionId'),
    test: false,
    withCustomer: false,
    partnerUserId: c.get('viewer').user.id,
  })
  return c.render(
    <PartnerPage
      title={c.get('texts').t('Sale {id}', { id: explanation.transaction_id })}
      current="/commissions"
      heading={null}
    >
      <div class="stack loose" lang="en" dir="ltr">
        <ExplanationPage explanation={explanation} />
      </div>
    </PartnerPage>,
  )
})
