import * as z from 'zod/mini'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { toCsv } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { listAdjustments, createAdjustment } from '../../../lib/money/adjustments.ts'
import { formatMoney, isCurrency, maxAmountCents } from '../../../lib/money.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { idInPath } from '../components/address.ts'
import { adjustmentColumns, adjustmentRow, whatColumn } from '../components/adjustment.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { Field, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, optionalText, refuseForm, shortText } from '../components/form.ts'
import { renderProgram } from '../components/layout.tsx'
import { askedOf, asQuery, exportList, idOf, ListPage, readPageById } from '../components/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { amountProblem, smallestUnits } from '../components/typed-number.ts'
import { partnerAddress, partnerColumn, partnerPageOf } from './partner-columns.tsx'

/** Lists a program's manual commissions and deductions, and creates one for a partner. */
export const adjustmentPages = createPages()

export const adjustmentsAddress = (programId: number) => `/programs/${programId}/adjustments`

const askedIn = (c: ProgramContext) => {
  const { sort: _, ...asked } = askedOf(c, {})
  return asked
}

adjustmentPages.get('/programs/:programId/adjustments', requireProgram('commission:list'), async (c) => {
  const program = c.get('program')
  const address = adjustmentsAddress(program.id)
  const asked = askedIn(c)
  const query = asQuery({ ...asked, sort: undefined })
  const page = await readPageById(
    c,
    address,
    (part) => listAdjustments(c.get('db'), { programId: program.id }, { ...part, ...asked }),
    query,
  )
  const { made, amount } = adjustmentColumns
  return renderProgram(c, {
    title: 'Manual commissions',
    current: '/commissions',
    children: (
      <ListPage
        title="Manual commissions and deductions"
        lead="Amounts that you added to balances or deducted by hand. Add one on the partner's page."
        address={address}
        query={query}
        rows="manual commissions"
        what="Partner, note or transaction id"
        page={page}
        caption="Manual commissions and deductions, newest first"
        columns={[made, partnerColumn(program.id), whatColumn((_, sale) => saleAddress(program.id, sale)), amount]}
        empty={{
          title: 'No manual commissions yet',
          text: (
            <>
              Choose one of your <a href={`/programs/${program.id}/partners`}>partners</a> to add a bonus or a
              deduction.
            </>
          ),
        }}
      />
    ),
  })
})

adjustmentPages.get('/programs/:programId/adjustments.csv', requireProgram('commission:list'), async (c) => {
  const { id: programId } = c.get('program')
  const columns = [
    'id',
    'made',
    'partner_id',
    'partner',
    'currency',
    'amount',
    'note',
    'transaction_id',
    'external_id',
    'paid',
  ] as const
  return await exportList(c, {
    nameOf: () => `manual-commissions-${programId}`,
    read: (part) => listAdjustments(c.get('db'), { programId }, { ...part, ...askedIn(c) }),
    cursorOf: idOf,
    write: (adjustments) => toCsv(columns, adjustments.map(adjustmentRow)),
  })
})

const kinds = [
  ['commission', 'Add a manual commission'],
  ['deduction', 'Deduct'],
] as const

/** Adds to a partner's balance or deducts from it. */
export function AdjustForm({
  program,
  partnerId,
  form: shown,
}: {
  program: ViewerProgram
  partnerId: number
  form: FormState
}) {
  return (
    <form method="post" action={`${partnerAddress(program.id, partnerId)}/adjust`} class="stack">
      <input type="hidden" name="request_id" value={crypto.randomUUID()} />
      <div class="fields">
        <Field name="kind" label="What" options={kinds} form={shown} />
        <Field name="amount" label="Amount" inputmode="decimal" form={shown} required />
        <Field
          name="currency"
          label="Currency"
          value={program.currency.toUpperCase()}
          maxlength={3}
          form={shown}
          required
        />
        <Field name="adjust_note" label="Note, shown to the partner" maxlength={1000} form={shown} required />
        <Field
          name="transaction_id"
          label="Transaction id"
          hint="The related sale, if there is one."
          maxlength={255}
          form={shown}
        />
      </div>
      <p class="muted small">
        It changes the balance at once and can't be edited. To correct it, add another one. A deduction can leave the
        balance below zero.
      </p>
      <Submit>Change the balance</Submit>
    </form>
  )
}

const missing = 'This program has no such partner.'
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

const withMinus = 'Enter the amount without a minus, and choose a deduction to take it from the balance.'

adjustmentPages.post(
  '/programs/:programId/partners/:partnerId/adjust',
  requireProgram('commission:decide'),
  form(adjustForm, partnerPageOf),
  async (c) => {
    const partnerId = idInPath(c, 'partnerId', missing)
    const { kind, amount, currency, adjust_note: note, transaction_id, request_id } = c.req.valid('form')
    const cents = smallestUnits(amount, currency)
    if (!(cents > 0 && cents <= maxAmountCents)) {
      const isTooMuch = cents > maxAmountCents || /^\s*\d{13}/.test(amount)
      const text = isTooMuch
        ? `Enter ${formatMoney(maxAmountCents, currency)} at most.`
        : amountProblem(amount, currency, withMinus)
      return await refuseForm(c, partnerPageOf(c), { errors: { amount: text } })
    }
    const outbox: RelayMessage[] = []
    const amountCents = kind === 'deduction' ? -cents : cents
    const adjustment = { partnerId, amountCents, currency, note, transactionId: transaction_id || undefined }
    try {
      await createAdjustment(c.get('db'), c.get('program').id, adjustment, request_id, outbox)
    } catch (error) {
      if (!(error instanceof ApiError) || error.details?.[0]?.field !== 'transaction_id') throw error
      return await refuseForm(c, partnerPageOf(c), { errors: { transaction_id: 'This program has no such sale.' } })
    }
    await sendSoon(c.env, outbox)
    const money = formatMoney(cents, currency)
    return redirectWith(
      c,
      partnerPageOf(c),
      kind === 'deduction'
        ? `${money} is deducted from the balance. The partner is notified.`
        : `${money} is in the balance. The partner is notified.`,
    )
  },
)
