import * as z from 'zod/mini'
import { transferDay } from '../../../lib/money/payouts.ts'
import { Field, MenuForm } from './fields.tsx'
import { type FormState, shortText } from './form.ts'

const stale = 'Reload the page, then mark it as paid.'
const needsReference = 'Enter the reference of the transfer at your bank, PayPal or Wise.'
const needsDay = 'Enter the day on which the money left, today or earlier, with a four-digit year.'

/** The amount in minor units that the page showed, so the reader pays exactly that amount. */
export const shownCents = z.pipe(z.string(stale).check(z.regex(/^(0|[1-9]\d{0,14})$/, stale)), z.transform(Number))

/** The fields of `TransferFields`, as `Transfer` of lib/money/payouts.ts. */
export const transferFields = {
  reference: z.string(needsReference).check(shortText(200), z.minLength(1, needsReference)),
  paid_on: z.pipe(z.string(needsDay), z.pipe(z.transform(transferDay), z.date(needsDay))),
}

/** Inputs for a transfer. `id` distinguishes the inputs of one page. */
export function TransferFields({ id, form }: { id: string; form: FormState }) {
  const today = new Date().toISOString().slice(0, 10)
  return (
    <>
      <Field
        name="reference"
        id={`reference-${id}`}
        label="Reference of the transfer"
        maxlength={200}
        form={form}
        required
      />
      <Field name="paid_on" id={`paid-on-${id}`} label="Paid on" type="date" value={today} form={form} required />
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
  form: FormState
}

/** A button that opens a form for the transfer and then records the payment. */
export function PayMenu({ action, id, subject, amountCents, fields = {}, text = 'Mark as paid', form }: PayMenuProps) {
  return (
    <MenuForm action={action} id={`pay-${id}`} text={text} label={`${text}: ${subject}`} form={form}>
      {(shown) => (
        <>
          <input type="hidden" name="amount_cents" value={String(amountCents)} />
          {Object.entries(fields).map(([name, value]) => (
            <input type="hidden" name={name} value={value} />
          ))}
          <TransferFields id={id} form={shown} />
          <button type="submit" class="primary">
            Record the payment
          </button>
        </>
      )}
    </MenuForm>
  )
}
