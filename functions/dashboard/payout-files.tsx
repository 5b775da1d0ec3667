import { ApiError } from '../../lib/errors.ts'
import { isCurrency } from '../../lib/money.ts'
import { type PayoutLayout, payoutLayouts } from '../../lib/payouts.ts'
import { addressOf } from './page.ts'

const layoutNames: Record<PayoutLayout, string> = { paypal: 'PayPal', wise: 'Wise' }

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
