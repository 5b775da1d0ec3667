import type { PropsWithChildren } from 'hono/jsx'
import * as z from 'zod/mini'
import { Hidden, NoDefault, Problem } from './fields.tsx'
import { FormContext, optionalText, useForm, useFormOf } from './form.ts'

/** A form above a list. It acts on the selected rows, or on all rows that the page shows, but never on rows that arrived later. */
const formId = 'selection'

/** The checkbox that selects a row. */
export function SelectRow({ id, label }: { id: number; label: string }) {
  const name = `row-${id}`
  return (
    <input
      type="checkbox"
      name={name}
      form={formId}
      checked={name in useForm().values}
      aria-label={`Select ${label}`}
    />
  )
}

export function SelectionForm({ action, ids, children }: PropsWithChildren<{ action: string; ids: number[] }>) {
  return (
    <FormContext.Provider value={useFormOf(action)}>
      <Problem />
      <form method="post" action={action} id={formId} class="row bulk">
        <NoDefault />
        <Hidden fields={{ shown: ids.join(' ') }} />
        <output class="number" data-selected></output>
        {children}
      </form>
    </FormContext.Provider>
  )
}

interface SelectionButtonsProps {
  verb: string
  /** The number of rows on the page. */
  count: number
  confirm: string
}

/** `which` is `chosen` or `shown`. The required fields of another button don't block these buttons. */
export function SelectionButtons({ verb, count, confirm }: SelectionButtonsProps) {
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

/** All ids of the page in one field. Each selected row adds a field `row-<id>`. */
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
