import * as z from 'zod/mini'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { toCsv } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { adjustmentTotals, createAdjustment, adjustmentsStatement } from '../../../lib/money/adjustments.ts'
import { formatMoney, isCurrency, maxAmountCents } from '../../../lib/money.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { adjustmentColumns, adjustmentRow, whatColumn } from '../components/adjustment.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { Field, Form, Hidden } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, optionalText, refuseForm, shortText } from '../components/form.ts'
import { asQuery, readListQuery, byId, programList } from '../components/list.tsx'
import { createProgramPages, requireProgram } from '../components/page.ts'
import { amountProblem, smallestUnits } from '../components/typed-number.ts'
import { partnerAddress, partnerColumn, partnerIn, partnerTabOf } from './partner-columns.tsx'

/** Lists a program's manual commissions and deductions, and creates one for a partner. */
export const pages = createProgramPages()

export const adjustmentsAddress = (programId: number) => `/programs/${programId}/adjustments`

const csvColumns = [
  'id',
  'created',
  'partner_id',
  'partner',
  'currency',
  'amount',
  'note',
  'transaction_id',
  'external_id',
  'paid',
] as const

programList(pages, '/adjustments', 'commission:list', (c) => {
  const { id: programId } = c.get('program')
  const { search, partner_id } = readListQuery(c, {})
  return {
    title: 'Manual commissions',
    heading: 'Manual commissions and deductions',
    current: '/adjustments',
    rows: 'manual commissions',
    query: asQuery({ search, partner_id, sort: undefined }),
    cursor: byId,
    read: (part) => adjustmentsStatement({ programId }, { ...part, search, partner_id }),
    totals: () => adjustmentTotals({ programId }, { search, partner_id }),
    show: () => ({
      lead: "Amounts that you manually added to or deducted from balances. Add one on the partner's page.",
      what: 'Partner, note or transaction id',
      caption: 'Manual commissions and deductions, newest first',
      columns: [
        adjustmentColumns.created,
        partnerColumn(programId),
        whatColumn((_, sale) => saleAddress(programId, sale)),
        adjustmentColumns.amount,
      ],
      empty: {
        title: 'No manual commissions yet',
        text: (
          <>
            Choose one of your <a href={`/programs/${programId}/partners`}>partners</a> to add a bonus or a deduction.
          </>
        ),
      },
    }),
    file: () => `manual-commissions-${programId}`,
    csv: (adjustments) => toCsv(csvColumns, adjustments.map(adjustmentRow)),
  }
})

const kinds = [
  ['commission', 'Add a manual commission'],
  ['deduction', 'Deduct'],
] as const

/** Adds to a partner's balance or deducts from it. */
export function AdjustForm({ program, partnerId }: { program: ViewerProgram; partnerId: number }) {
  return (
    <Form action={`${partnerAddress(program.id, partnerId)}/adjust`} submit="Change the balance">
      <Hidden fields={{ request_id: crypto.randomUUID() }} />
      <Field name="kind" label="What" options={kinds} />
      <Field name="amount" label="Amount" inputmode="decimal" required />
      <Field name="currency" label="Currency" value={program.currency.toUpperCase()} maxlength={3} required />
      <Field name="adjust_note" label="Note, shown to the partner" maxlength={1000} required />
      <Field name="transaction_id" label="Transaction id" hint="The related sale, if there is one." maxlength={255} />
      <p class="muted small">
        The amount changes the balance immediately and can't be edited. To correct it, add another one. A deduction can
        reduce the balance below zero.
      </p>
    </Form>
  )
}

const needsNote = 'Enter a note. The partner sees it.'
const adjustForm = z.object({
  request_id: z.uuid('Reload the page, then send the form again.'),
  kind: z.enum(['commission', 'deduction'], 'Choose what to do.'),
  amount: z.string('Enter an amount.'),
  currency: z
    .string('Enter a currency.')
    .check(z.trim(), z.toLowerCase(), z.refine(isCurrency, 'Enter a currency code of three letters, such as USD.')),
  adjust_note: z.string(needsNote).check(shortText(1000), z.minLength(1, needsNote)),
  transaction_id: z.pipe(optionalText, z.string().check(shortText(255))),
})

const withMinus = 'Enter the amount without a minus sign, and choose a deduction to subtract it from the balance.'

pages.post(
  '/partners/:partnerId/adjust',
  requireProgram('commission:decide'),
  form(adjustForm, partnerTabOf('commissions')),
  async (c) => {
    const { kind, amount, currency, adjust_note: note, transaction_id, request_id } = c.req.valid('form')
    const cents = smallestUnits(amount, currency)
    if (!(cents > 0 && cents <= maxAmountCents)) {
      const isTooMuch = cents > maxAmountCents || /^\s*\d{13}/.test(amount)
      const text = isTooMuch
        ? `Enter ${formatMoney(maxAmountCents, currency)} at most.`
        : amountProblem(amount, currency, c.get('texts'), withMinus)
      return await refuseForm(c, partnerTabOf('commissions')(c), { errors: { amount: text } })
    }
    const outbox: RelayMessage[] = []
    const amountCents = kind === 'deduction' ? -cents : cents
    const adjustment = {
      partnerId: partnerIn(c),
      amountCents,
      currency,
      note,
      transactionId: transaction_id || undefined,
    }
    try {
      await createAdjustment(c.get('db'), c.get('program').id, adjustment, request_id, outbox)
    } catch (error) {
      if (!(error instanceof ApiError) || error.details?.[0]?.field !== 'transaction_id') throw error
      return await refuseForm(c, partnerTabOf('commissions')(c), {
        errors: { transaction_id: 'This program has no such sale.' },
      })
    }
    await sendSoon(c.env, outbox)
    const done = kind === 'deduction' ? 'is deducted from the balance' : 'is in the balance'
    return redirectWith(
      c,
      partnerTabOf('commissions')(c),
      `${formatMoney(cents, currency)} ${done}. The partner is notified.`,
    )
  },
)
