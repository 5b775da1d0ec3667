import { ApiError } from '../../../lib/errors.ts'
import { isCurrency } from '../../../lib/money.ts'
import {
  maxPayments,
  type PayoutFile,
  type PayoutLayout,
  payoutLayouts,
  pays,
} from '../../../lib/money/payout-files.ts'
import { addressOf, positiveInteger } from '../components/address.ts'
import { Segments } from '../components/blocks.tsx'
import { LinkButton } from '../components/blocks.tsx'

const layoutNames: Record<PayoutLayout, string> = { paypal: 'PayPal', wise: 'Wise', csv: 'CSV' }

/** The number of payments in a currency, over all its files. */
export interface PaymentCount {
  currency: string
  payments: number
}

/** If there are more files, they are in a menu. */
const buttonsShown = 3

interface PayoutFileLinksProps {
  address: string
  counts: PaymentCount[]
  /** The files of a paid run are for the records. Their links are in a menu. */
  isPaid?: boolean
}

/** Links to the payment files of each currency, in parts if one file can't hold all payments. */
export function PayoutFileLinks({ address, counts, isPaid = false }: PayoutFileLinksProps) {
  const byCurrency = Map.groupBy(counts, ({ currency }) => currency)
  const files = [...byCurrency].map(([currency, list]) => ({
    currency,
    length: list.reduce((sum, { payments }) => sum + payments, 0),
  }))
  const links = files.flatMap(({ currency, length }) =>
    payoutLayouts
      .filter((layout) => pays(layout, currency))
      .flatMap((layout) => {
        const parts = Math.ceil(length / (maxPayments[layout] ?? length))
        return Array.from({ length: parts }, (_, index) => ({
          href: addressOf(address, { layout, currency, part: String(index + 1) }),
          text: `${layoutNames[layout]} file, ${currency.toUpperCase()}${parts > 1 ? ` (${index + 1} of ${parts})` : ''}`,
        }))
      }),
  )
  if (links.length === 0) return null
  if (links.length <= buttonsShown && !isPaid)
    return (
      <>
        {links.map((link) => (
          <LinkButton {...link} />
        ))}
      </>
    )
  return (
    <details class="switcher">
      <summary class="button">{isPaid ? 'Payment files, already paid' : 'Payment files'}</summary>
      <div class="menu">
        {links.map(({ href, text }) => (
          <a href={href}>{text}</a>
        ))}
      </div>
    </details>
  )
}

/** Switches between the due partners, the payout runs, all payouts, and the documents. */
export function PayoutViews({
  programId,
  current,
}: {
  programId: number
  current: 'due' | 'runs' | 'payouts' | 'documents'
}) {
  const base = `/programs/${programId}`
  return (
    <Segments
      label="View"
      items={[
        { href: `${base}/payouts`, text: 'Payouts', current: current === 'payouts' },
        { href: `${base}/payouts/due`, text: 'Due now', current: current === 'due' },
        { href: `${base}/payout-runs`, text: 'Runs', current: current === 'runs' },
        { href: `${base}/documents`, text: 'Documents', current: current === 'documents' },
      ]}
    />
  )
}

/** Reads the requested file from the query. Throws `invalid_request`. */
export function payoutFileOf(query: Record<string, string>): PayoutFile & { currency: string } {
  const { layout: name, currency = '', part } = query
  const layout = payoutLayouts.find((known) => known === name)
  if (!layout || !isCurrency(currency)) {
    throw new ApiError('invalid_request', `Set layout=${payoutLayouts.join(' or ')}, and a currency such as usd.`)
  }
  return { layout, currency, part: positiveInteger(part) ?? 1 }
}
