import { ApiError } from '../../../lib/errors.ts'
import { isCurrency } from '../../../lib/money.ts'
import { maxPayments, type PayoutLayout, payoutLayouts } from '../../../lib/money/payout-files.ts'
import { addressOf } from '../parts/address.ts'

const layoutNames: Record<PayoutLayout, string> = { paypal: 'PayPal', wise: 'Wise' }

const most = (layout: PayoutLayout) => maxPayments[layout].toLocaleString('en')

/** Links to the files that PayPal and Wise take, of what is to be paid in each of `currencies`. */
export function PayoutLinks({ base, currencies }: { base: string; currencies: string[] }) {
  return (
    <>
      {[...new Set(currencies)].flatMap((currency) =>
        payoutLayouts.map((layout) => (
          <a class="button" href={addressOf(`${base}/payouts.csv`, { layout, currency })}>
            {layoutNames[layout]} file, {currency.toUpperCase()}
          </a>
        )),
      )}
      {currencies.length > 0 && (
        <p class="muted small">
          A file has the longest waiting payments: {most('paypal')} at most for PayPal, {most('wise')} for Wise.
          Partners without an e-mail address are left out.
        </p>
      )}
    </>
  )
}

/** Which file a query asks for. Refuses with `invalid_request`. */
export function payoutFileOf(query: Record<string, string>): { layout: PayoutLayout; currency: string } {
  const { layout: name, currency = '' } = query
  const layout = payoutLayouts.find((known) => known === name)
  if (!layout || !isCurrency(currency)) {
    throw new ApiError('invalid_request', 'Say layout=paypal or layout=wise, and a currency such as usd.')
  }
  return { layout, currency }
}
