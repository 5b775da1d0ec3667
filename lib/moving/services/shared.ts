import { commissionStatus, isInactive, withPartner } from '../read-files.ts'
import type { ReadContext } from '../read-files.ts'
import { type ReadRow, row } from '../rows.ts'
import { readCurrency, readEmail, readName } from '../values.ts'

type Text = string | null | undefined

/** Creates the row of a partner. */
export function partnerRow(
  origin: string,
  {
    id,
    names,
    email,
    payoutEmail,
    group,
    status,
  }: { id: string; names: Text[]; email: Text; payoutEmail?: Text; group?: Text; status?: Text },
): ReadRow {
  const address = readEmail(email ?? '')
  // The text that Rewardful uses for a missing name.
  const fullName = names.map((part) => (part === 'Unknown' ? '' : (part ?? ''))).join(' ')
  const name = readName(fullName) ?? readName(address?.split('@')[0] ?? '')
  const payout = readEmail(payoutEmail ?? '')
  return row(
    'partner',
    id,
    origin,
    {
      name,
      email: address,
      payout_email: payout === address ? undefined : payout,
      group,
      status: isInactive(status ?? '') ? 'inactive' : undefined,
      note: email && address === undefined ? 'email_not_accepted' : undefined,
    },
    name === undefined ? 'nobody_named' : undefined,
  )
}

/** Creates a customer's row. The e-mail address is hashed at once. */
export async function customerRow(
  origin: string,
  { hash }: ReadContext,
  customer: {
    id: string
    partner: Text
    link?: Text
    processorId?: Text
    key?: Text
    email?: Text
    signup?: string | undefined
    purchase?: string | undefined
  },
): Promise<ReadRow> {
  const { id, partner, link, processorId, key, signup, purchase } = customer
  const email = readEmail(customer.email ?? '')
  const fields = {
    partner,
    link,
    processor_customer_id: processorId?.slice(0, 255),
    customer_key: key?.slice(0, 255),
    ...(email !== undefined && (await hash(email))),
    signup_date: signup,
    first_purchase_date: purchase,
  }
  return withPartner(row('customer', id, origin, fields, processorId || key || email ? undefined : 'no_customer_id'))
}

/** Creates the row of a past commission. */
export function commissionRow(
  origin: string,
  commission: {
    id: string
    partner: Text
    customer?: Text
    cents: number | undefined
    currency: Text
    status: Text
    saleCents?: number | undefined
    paymentId?: Text
    earnedAt: string | undefined
    isMoney?: boolean
  },
): ReadRow {
  const { id, partner, customer, cents, status, saleCents, paymentId, earnedAt, isMoney = true } = commission
  const currency = readCurrency(commission.currency ?? '')
  const problem = !isMoney
    ? 'not_money'
    : currency === undefined
      ? 'currency_not_accepted'
      : cents === undefined
        ? 'amount_not_accepted'
        : undefined
  const fields = {
    partner,
    customer,
    amount_cents: cents,
    currency,
    status: commissionStatus(status ?? ''),
    sale_cents: saleCents === undefined ? undefined : Math.max(saleCents, 0),
    payment_id: paymentId?.slice(0, 255),
    earned_at: earnedAt,
  }
  return withPartner(row('commission', id, origin, fields, problem))
}
