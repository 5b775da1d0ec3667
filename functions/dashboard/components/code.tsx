import { formatMoney } from '../../../lib/money.ts'
import type { CodeWithFigures } from '../../../lib/programs/codes.ts'
import { Badge } from './blocks.tsx'
import { formatNumber } from './format.tsx'
import type { Column } from './table.tsx'

/** The columns of a list of codes. The number of sales is a link to the overview of that code. */
export function codeColumns({ id: programId, currency }: { id: number; currency: string }): Column<CodeWithFigures>[] {
  return [
    { label: 'Code', phone: 'title', cell: (code) => <CodeName code={code} /> },
    {
      label: 'Sales',
      right: true,
      cell: ({ id, code, sales }) => (
        <a
          href={`/programs/${programId}?period=all&metric=sales&code=${id}`}
          aria-label={`${formatNumber(sales)} sales with ${code}`}
        >
          {formatNumber(sales)}
        </a>
      ),
    },
    {
      label: 'Commission',
      right: true,
      phone: 'amount',
      cell: ({ commission_cents: cents }) => formatMoney(cents, currency),
    },
  ]
}

function CodeName({ code }: { code: CodeWithFigures }) {
  return (
    <div class="row">
      <code>{code.code}</code>
      {code.promotion_code_id !== null && <span class="muted small">in Stripe</span>}
      {code.revoked_at !== null && <Badge tone="bad">Revoked</Badge>}
    </div>
  )
}
