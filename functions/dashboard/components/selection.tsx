import type { PropsWithChildren } from 'hono/jsx'
import * as z from 'zod/mini'
import { NoDefault, Problem } from './fields.tsx'
import { emptyForm, type FormState, optionalText } from './form.ts'

/** A form above a list. It acts on the selected rows, or on all rows that the page shows, even if newer rows arrived since. */
const formId = 'selection'

/** The checkbox that selects a row. */
export function SelectRow({ id, label, form = emptyForm }: { id: number; label: string; form?: FormState }) {
  const name = `row-${id}`
  return (
    <input type="checkbox" name={name} form={formId} checked={name in form.values} aria-label={`Select ${label}`} />
  )
}

interface SelectionFormProps {
  action: string
  ids: number[]
  form: FormState
}

export function SelectionForm({ action, ids, form, children }: PropsWithChildren<SelectionFormProps>) {
  return (
    <>
      <Problem form={form} />
      <form method="post" action={action} id={formId} class="row end">
        <NoDefault />
        <input type="hidden" name="shown" value={ids.join(' ')} />
        {children}
      </form>
    </>
  )
}

/** `which` is `chosen` or `shown`. Fields for another button don't block these. */
export function SelectionButtons({ verb, count, confirm }: { verb: string; count: number; confirm: string }) {
  return (
    <>
      <button type="submit" name="which" value="chosen" formnovalidate>
        {verb} selected
      </button>
      <button type="submit" name="which" value="shown" formnovalidate data-confirm={confirm}>
        {verb} all {count} on this page
      </button>
    </>
  )
}

/** All ids of the page in one text. Each selected row adds a field `row-<id>`. */
export const shownField = optionalText.check(
  z.regex(/^[1-9]\d{0,14}( [1-9]\d{0,14}){0,99}$/, 'Reload the page and select again.'),
)

/** Returns the selected ids, or all ids of the page. */
export function idsOf({ shown, which, ...fields }: { shown: string; which?: string }): number[] {
  return shown
    .split(' ')
    .filter((id) => which === 'shown' || `row-${id}` in fields)
    .map(Number)
}
