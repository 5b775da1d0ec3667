import * as z from 'zod/mini'
import { transferDay } from '../../../lib/money/payouts.ts'
import { Field, Hidden, MenuForm } from './fields.tsx'
import { shortText } from './form.ts'

const stale = 'Reload the page, then mark it as paid.'
const needsReference = 'Enter the reference of the transfer at your bank, PayPal or Wise.'
const needsDay = 'Enter the day on which the money left, today or earlier, with a four-digit year.'

/** The amount in minor units that the page showed, so the reader pays exactly that amount. */
export const shownCents = z.pipe(z.string(stale).check(z.regex(/^(0|[1-9]\d{0,14})$/, stale)), z.transform(Number))

/** Converts the fields of `TransferFields` to `Transfer` from lib/money/payouts.ts. */
export const transferFields = {
  reference: z.string(needsReference).check(shortText(200), z.minLength(1, needsReference)),
  paid_on: z.pipe(z.string(needsDay), z.pipe(z.transform(transferDay), z.date(needsDay))),
}

/** The message for a person who records a transfer after somebody else has already recorded one for the same payment. */
export const paidBefore = (reference: string | null) =>
  `This was already paid with the transfer ${reference}, so yours was not recorded. Check whether the money was sent twice.`

/** Inputs for a transfer. `id` distinguishes the inputs of one page. */
export function TransferFields({ id }: { id: string }) {
  const today = new Date().toISOString().slice(0, 10)
  return (
    <>
      <Field name="reference" id={`reference-${id}`} label="Reference of the transfer" maxlength={200} required />
      <Field name="paid_on" id={`paid-on-${id}`} label="Paid on" type="date" value={today} required />
    </>
  )
}

interface PayMenuProps {
  action: string
  id: string
  /** The payment's name for screen readers. */
  subject: string
  /** The amount that the page shows, in minor units. */
  amountCents: number
  fields?: Record<string, string>
  text?: string
}

/** A button that opens a form for the transfer and then records the payment. */
export function PayMenu({ action, id, subject, amountCents, fields = {}, text = 'Mark as paid' }: PayMenuProps) {
  return (
    <MenuForm action={action} id={`pay-${id}`} text={text} label={`${text}: ${subject}`}>
      <Hidden fields={{ amount_cents: String(amountCents), ...fields }} />
      <TransferFields id={id} />
      <button type="submit" class="primary">
        Record the payment
      </button>
    </MenuForm>
  )
}
