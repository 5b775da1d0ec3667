import { ApiError } from '../../../lib/errors.ts'
import { isCurrency } from '../../../lib/money.ts'
import {
  type AskedFile,
  maxPayments,
  type PayoutFile,
  type PayoutLayout,
  payoutLayouts,
  pays,
} from '../../../lib/money/payout-files.ts'
import { addressOf } from '../components/address.ts'
import { LinkButton, Segments } from '../components/blocks.tsx'
import { counted, formatDate, formatNumber } from '../components/format.tsx'
import type { ProgramContext } from '../components/page.ts'

const layoutNames: Record<PayoutLayout, string> = { paypal: 'PayPal', wise: 'Wise', csv: 'CSV' }

/** The number of payments in a currency, over all its files. */
export interface PaymentCount {
  currency: string
  payments: number
}

interface FileLink {
  href: string
  text: string
}

const fileName = (layout: PayoutLayout, currency: string, number?: number | null) =>
  `${layoutNames[layout]} file${number ? ` ${number}` : ''}, ${currency.toUpperCase()}`

const layoutsFor = (currency: string) => payoutLayouts.filter((layout) => pays(layout, currency))

interface RunFileLinksProps {
  address: string
  /** The payments of the run in any state, because the parts of its files count all of them. */
  counts: PaymentCount[]
  /** The files of a paid run are for the records. Their links are in a menu. */
  isPaid: boolean
}

/** Links to the payment files of a run by currency, in parts if one file can't hold all payments. */
export function RunFileLinks({ address, counts, isPaid }: RunFileLinksProps) {
  const links = counts.flatMap(({ currency, payments }) =>
    layoutsFor(currency).flatMap((layout) => {
      const parts = Math.ceil(payments / (maxPayments[layout] ?? payments))
      return Array.from({ length: parts }, (_, index) => ({
        href: addressOf(address, { layout, currency, part: String(index + 1) }),
        text: `${fileName(layout, currency)}${parts > 1 ? ` (${index + 1} of ${parts})` : ''}`,
      }))
    }),
  )
  return isPaid ? <FileMenu title="Payment files, already paid" links={links} /> : <FileButtons links={links} />
}

/** The number of earlier files that can be downloaded again. */
const earlierShown = 20

/** Links to the payment files of requested payouts: new files, and a menu that downloads the files of earlier exports again. */
export function AskedFileLinks({ address, files }: { address: string; files: AskedFile[] }) {
  const unsent = files.filter(({ payment_file_number: number }) => number === null)
  const fresh = unsent.flatMap(({ currency, payments }) =>
    layoutsFor(currency).map((layout) => {
      const limit = maxPayments[layout] ?? payments
      const name = fileName(layout, currency)
      return {
        href: addressOf(address, { layout, currency }),
        text: payments > limit ? `${name} (first ${formatNumber(limit)})` : name,
      }
    }),
  )
  const earlier = files
    .filter(({ payment_file_number: number }) => number !== null)
    .slice(0, earlierShown)
    .flatMap(({ currency, payment_file_number: number, sent_at: sentAt, payments }) =>
      layoutsFor(currency)
        .filter((layout) => payments <= (maxPayments[layout] ?? payments))
        .map((layout) => ({
          href: addressOf(address, { layout, currency, file: String(number) }),
          text: `${fileName(layout, currency, number)}: sent ${sentAt ? formatDate(sentAt) : ''}, ${counted(payments, 'payout', 'payouts')}`,
        })),
    )
  return (
    <>
      {earlier.length > 0 ? <FileMenu title="Payment files" links={fresh} /> : <FileButtons links={fresh} />}
      <FileMenu title="Download again" links={earlier} />
    </>
  )
}

/** If there are more files, they are in a menu. */
const buttonsShown = 3

function FileButtons({ links }: { links: FileLink[] }) {
  if (links.length > buttonsShown) return <FileMenu title="Payment files" links={links} />
  return (
    <>
      {links.map((link) => (
        <LinkButton {...link} />
      ))}
    </>
  )
}

function FileMenu({ title, links }: { title: string; links: FileLink[] }) {
  if (links.length === 0) return null
  return (
    <details class="switcher">
      <summary class="button">{title}</summary>
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

/**
 * Reads the requested payment file from the query. The first download marks payouts as sent, so a link on another site or in a mail can't
 * start it.
 * Throws `invalid_request` and `forbidden`.
 */
export function payoutFileOf({ req }: Pick<ProgramContext, 'req'>): PayoutFile & { currency: string } {
  if ((req.header('sec-fetch-site') ?? 'same-origin') !== 'same-origin')
    throw new ApiError(
      'forbidden',
      'This link is not on a page of this service. Open the payouts page, and download the file there.',
    )
  const { layout: name, currency = '' } = req.query()
  const layout = payoutLayouts.find((known) => known === name)
  if (!layout || !isCurrency(currency)) {
    throw new ApiError('invalid_request', `Set layout=${payoutLayouts.join(' or ')}, and a currency such as usd.`)
  }
  return { layout, currency }
}
