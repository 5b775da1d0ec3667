import { explainSale } from '../../../lib/money/explanation.ts'
import { idInPath } from '../components/address.ts'
import { ExplanationPage } from '../components/explanation.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { createPages, requirePartner } from '../components/page.ts'

export const partnerSaleAddress = ({ programId, transactionId }: { programId: number; transactionId: string }) =>
  `/partner/sales/${programId}/${encodeURIComponent(transactionId)}`

/** The explanation of a sale for its partner: the program's own explanation without customer data. */
export const pages = createPages()

pages.get('/partner/sales/:programId/:transactionId', requirePartner, async (c) => {
  const texts = c.get('texts')
  const sale = {
    programId: idInPath(c, 'programId', 'You are not a partner of this program.'),
    transaction_id: c.req.param('transactionId'),
    test: false,
    withCustomer: false,
    partnerUserId: c.get('viewer').user.id,
  }
  const explanation = await explainSale(c.get('db'), sale, texts)
  return c.render(
    <PartnerPage title={texts.t('Sale {id}', { id: explanation.transaction_id })} current="/commissions" heading={null}>
      <ExplanationPage explanation={explanation} />
    </PartnerPage>,
  )
})
