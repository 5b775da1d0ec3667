import type { Adjustment } from '../../../lib/money/adjustments.ts'
import { decimalAmount } from '../../../lib/money.ts'
import { Badge } from './blocks.tsx'
import { Day } from './format.tsx'
import type { Column } from './table.tsx'
import { Text, useTexts } from './text.tsx'

export const adjustmentColumns = {
  created: { label: 'Created', phone: 'plain', cell: ({ created_at: at }) => <Day at={at} /> },
  amount: {
    label: 'Amount',
    right: true,
    phone: 'amount',
    cell: (adjustment) => <Amount adjustment={adjustment} />,
  },
} satisfies Record<string, Column<Adjustment>>

function Amount({ adjustment: { amount_cents: cents, currency } }: { adjustment: Adjustment }) {
  return <strong class={cents < 0 ? 'bad' : undefined}>{useTexts().money(cents, currency)}</strong>
}

/** Shows the kind and the note of an adjustment. `explanationOf` returns the address of its sale, if the reader may see the sale. */
export function whatColumn(explanationOf: (adjustment: Adjustment, transactionId: string) => string | undefined) {
  return {
    label: 'What',
    phone: 'title',
    cell: (adjustment) => <What adjustment={adjustment} explanationOf={explanationOf} />,
  } satisfies Column<Adjustment>
}

interface WhatProps {
  adjustment: Adjustment
  explanationOf: Parameters<typeof whatColumn>[0]
}

function What({ adjustment, explanationOf }: WhatProps) {
  const { amount_cents: cents, note, transaction_id: sale, paid_at: paidAt } = adjustment
  const address = sale === null ? undefined : explanationOf(adjustment, sale)
  const { t } = useTexts()
  return (
    <div class="stack tight">
      <span>
        {cents < 0 ? <Badge tone="bad">{t('Deduction')}</Badge> : <Badge tone="accent">{t('Manual commission')}</Badge>}
        {paidAt && (
          <span class="muted small">
            {' '}
            <Text of="paid {day}" day={<Day at={paidAt} />} />
          </span>
        )}
      </span>
      <span class="small lines">{note ?? t('The note was erased with the customer.')}</span>
      {sale && (
        <span class="muted small">
          <Text of="Sale {id}" id={address === undefined ? sale : <a href={address}>{sale}</a>} />
        </span>
      )}
    </div>
  )
}

export function adjustmentRow(adjustment: Adjustment) {
  return {
    id: adjustment.id,
    created: adjustment.created_at,
    program: adjustment.program_name,
    partner_id: adjustment.partner_id,
    partner: adjustment.partner_name,
    currency: adjustment.currency,
    amount: decimalAmount(adjustment.amount_cents, adjustment.currency),
    note: adjustment.note,
    transaction_id: adjustment.transaction_id,
    external_id: adjustment.external_id,
    paid: adjustment.paid_at,
  }
}
