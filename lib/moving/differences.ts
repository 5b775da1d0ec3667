import { formatMoney } from '../money.ts'
import type { Difference } from './comparison.ts'

/** The reasons why the former service and the program pay differently for a sale. The sentences may change. The codes are stable. */
const reasons = {
  only_there: (): string =>
    'Only the former service has it. The program has no sale with this payment, customer or amount around this time.',
  only_here: () => 'Only this program has it. The former service reported no commission for this sale.',
  test: () => 'Here the sale is a test, which earns nothing.',
  unattributed: () =>
    'Here nothing connects the sale to a partner. Check that your server sends the lead and the metadata of the payment.',
  click_expired: () => 'Here, the attribution window had ended before the customer started the purchase.',
  after_duration: () => "Here the sale is after the months in which a customer's sales earn a commission.",
  capped: () => 'Here the customer has already earned the maximum.',
  no_commission: () => "Here the partner's terms don't give a commission for this sale.",
  rejected: () => 'Here somebody rejected the commission.',
  held: () => 'Here it is held for review, and not paid until somebody releases it.',
  other_partner: ({ former_partner_name: there, partner_name: here }: Difference) =>
    `Another partner: ${there ?? 'nobody'} there, ${here ?? 'nobody'} here.`,
  other_currency: ({ former_currency: there, currency: here }: Difference) =>
    `Another currency: ${there?.toUpperCase()} there, ${here?.toUpperCase()} here.`,
  refunded: ({ cents, pays_cents: left, currency }: Difference) =>
    `A refund reversed ${money((cents ?? 0) - (left ?? 0), currency)} here, and nothing there.`,
  rejected_there: () => 'The former service refunded or rejected it. Here no refund arrived.',
  other_base: ({
    former_sale_cents: there,
    base_cents: base,
    sale_cents: paid,
    fee_cents: fee,
    currency,
  }: Difference) =>
    `Another base: ${money(there, currency)} there, ${money(base, currency)} here${excluded(paid, base, fee, currency)}.`,
  other_rate: (difference: Difference) =>
    `Another rate: ${percent(difference.former_cents, difference.former_sale_cents)} there, ${percent(difference.cents, difference.base_cents)} here.`,
  rounding: () => 'The former service rounds differently.',
  other_amount: () =>
    'The amounts differ. The former service did not report the amount of the sale, so its rate is unknown.',
}

export type DifferenceReason = keyof typeof reasons

// oxlint-disable-next-line no-unsafe-type-assertion -- the keys of a constant
export const differenceReasons = Object.keys(reasons) as [DifferenceReason, ...DifferenceReason[]]

/** Explains a difference: one sentence for each of its reasons. */
export function explainDifference(difference: Difference): { code: DifferenceReason; text: string }[] {
  return differenceReasons
    .filter((code) => difference.reasons.includes(code))
    .map((code) => ({ code, text: reasons[code](difference) }))
}

const money = (cents: number | null, currency: string | null) => formatMoney(cents ?? 0, currency ?? 'usd')

const percentFormat = new Intl.NumberFormat('en-US', { style: 'percent', maximumFractionDigits: 2 })
const percent = (cents: number | null, of: number | null) => percentFormat.format((cents ?? 0) / (of ?? 1))

/** Lists the parts of the paid amount that the base excludes. */
function excluded(paid: number | null, base: number | null, fee: number | null, currency: string | null): string {
  const rest = (paid ?? 0) - (base ?? 0)
  if (rest <= 0) return ''
  const tax = rest - (fee ?? 0)
  const parts = [
    ...(tax > 0 ? [`${money(tax, currency)} tax`] : []),
    ...(fee ? [`${money(fee, currency)} fee of the processor`] : []),
  ]
  return `, which is the paid ${money(paid, currency)} without ${parts.join(' and ')}`
}
