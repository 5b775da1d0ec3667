import { csvOf } from '../../../lib/csv.ts'
import { decimalAmount } from '../../../lib/money.ts'
import type { PayoutLine } from '../../../lib/money/payout-lines.ts'
import { Badge } from './blocks.tsx'
import { Day } from './format.tsx'
import { byId, type ListOf } from './list.tsx'
import { english, type PageTexts, useTexts } from './text.tsx'
import { causeTexts } from '../../../lib/money/statements.ts'

/** The lines of payouts. `saleAddress` returns the address of the explanation of a line's sale. */
export const payoutLineList = ({
  texts: { t } = english,
  ...of
}: {
  texts?: PageTexts
  title: string
  current: string
  file: string
  read: ListOf<PayoutLine>['read']
  totals: ListOf<PayoutLine>['totals']
  saleAddress: (sale: { programId: number; transactionId: string }) => string
}): ListOf<PayoutLine> => ({
  title: of.title,
  current: of.current,
  rows: (count) => t('{count} lines', { count }),
  cursor: byId,
  read: of.read,
  totals: of.totals,
  show: () => ({
    lead: t(
      'The commissions, reversals and manual adjustments that were paid. They add up to the amount of each payout.',
    ),
    caption: t('Paid commissions, reversals and adjustments, newest first'),
    columns: [
      { label: 'Posted', cell: ({ created_at: at }) => <Day at={at} />, phone: 'plain' },
      { label: 'Payout', cell: ({ payout_id: payout, partner_name: partner }) => `${payout}, ${partner}` },
      { label: 'For', cell: (line) => <Cause line={line} saleAddress={of.saleAddress} />, phone: 'title' },
      { label: 'Amount', right: true, cell: (line) => <Amount line={line} />, phone: 'amount' },
    ],
    empty: { title: t('Not paid yet'), text: t('This page lists the commissions once the payout is paid.') },
  }),
  file: () => of.file,
  csv: (lines) =>
    csvOf(lines, {
      payout_run_id: (line) => line.payout_run_id,
      payout_id: (line) => line.payout_id,
      reference: ({ reference }) => reference,
      partner_id: (line) => line.partner_id,
      partner: (line) => line.partner_name,
      cause: ({ cause }) => cause,
      commission_id: (line) => line.commission_id,
      transaction_id: (line) => line.transaction_id,
      refund_id: (line) => line.refund_id,
      adjustment_id: (line) => line.adjustment_id,
      note: ({ note }) => note,
      currency: ({ currency }) => currency,
      amount: (line) => decimalAmount(line.amount_cents, line.currency),
      entry: (line) => decimalAmount(line.entry_cents, line.currency),
      returned: (line) => (line.is_returned ? 'yes' : 'no'),
      returned_at: (line) => line.returned_at,
      posted: (line) => line.created_at,
    }),
})

interface CauseProps {
  line: PayoutLine
  saleAddress: (sale: { programId: number; transactionId: string }) => string
}

function Cause({ line, saleAddress }: CauseProps) {
  const { cause, transaction_id: transactionId, program_id: programId, note } = line
  return (
    <div>
      {useTexts().fixed(causeTexts[cause] ?? cause)}
      {transactionId !== null && (
        <>
          {' '}
          <a href={saleAddress({ programId, transactionId })}>{transactionId}</a>
        </>
      )}
      {note !== null && <div class="muted small">{note}</div>}
    </div>
  )
}

/** The paid part, and the whole entry if it is larger. */
function Amount({ line }: { line: PayoutLine }) {
  const { amount_cents: cents, entry_cents: entry, currency, is_returned: isReturned, returned_at: returnedAt } = line
  const { t, money } = useTexts()
  return (
    <div>
      <strong>{money(cents, currency)}</strong> {isReturned && <Badge tone="bad">{t('Came back')}</Badge>}
      {returnedAt && (
        <div class="muted small">
          <Day at={returnedAt} />
        </div>
      )}
      {cents !== entry && <div class="muted small">{t('part of {amount}', { amount: money(entry, currency) })}</div>}
    </div>
  )
}
