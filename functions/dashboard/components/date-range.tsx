import { maxRangeDays } from '../../../lib/api/date-range.ts'
import { Field, Hidden } from './fields.tsx'

interface DateRangeProps {
  action: string
  from: string
  to: string
  /** True if the requested dates are not a valid range. */
  refused: boolean
  maxDays?: number
  keep?: Record<string, string>
}

/** Lets the reader choose the first and the last day of a range, both inclusive. */
export function DateRange({ action, from, to, refused, maxDays = maxRangeDays, keep = {} }: DateRangeProps) {
  return (
    <div class="stack tight">
      <form method="get" action={action} class="row find">
        <Hidden fields={keep} />
        <Field name="dateFrom" label="From" type="date" value={from} required />
        <Field name="dateTo" label="To" type="date" value={to} required />
        <button type="submit">Show</button>
      </form>
      {refused && (
        <p class="small bad" role="alert">
          This range can't be shown. Choose a last day on or after the first day, and at most {maxDays} days in all.
        </p>
      )}
    </div>
  )
}
