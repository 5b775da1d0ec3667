import type { Child, PropsWithChildren } from 'hono/jsx'
import { maxRangeDays } from '../../../lib/api/date-range.ts'
import type { FormState } from './page.ts'

const locale = 'en-US'
const dateFormat = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeZone: 'UTC' })
const timeFormat = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
const numberFormat = new Intl.NumberFormat(locale)

export function formatNumber(value: number): string {
  return numberFormat.format(value)
}

/** An amount in major units; `short` leaves out decimals that are zero. */
export function formatAmount(amount: number, currency: string, length: 'full' | 'short' = 'full'): string {
  const trailingZeroDisplay = length === 'short' ? 'stripIfInteger' : 'auto'
  return new Intl.NumberFormat(locale, { style: 'currency', currency, trailingZeroDisplay }).format(amount)
}

export function formatDate(date: Date | string): string {
  return dateFormat.format(new Date(date))
}

/** A moment, in UTC like the days of every figure. */
export function Time({ at }: { at: Date | string }) {
  const moment = new Date(at)
  return (
    <time class="number" datetime={moment.toISOString()} title={moment.toISOString()}>
      {timeFormat.format(moment)}
    </time>
  )
}

export function Day({ at }: { at: Date | string }) {
  return (
    <time class="number" datetime={new Date(at).toISOString()}>
      {formatDate(at)}
    </time>
  )
}

/** The heading of a page with what can be done on it. */
export function Heading({ title, lead, children }: PropsWithChildren<{ title: string; lead?: Child }>) {
  return (
    <header class="row apart end">
      <div class="stack tight">
        <h1>{title}</h1>
        {lead && <p class="muted">{lead}</p>}
      </div>
      {children && <div class="row">{children}</div>}
    </header>
  )
}

export function Card({ title, aside, children }: PropsWithChildren<{ title?: string; aside?: Child }>) {
  return (
    <section class="card stack">
      {title && (
        <div class="row apart">
          <h2>{title}</h2>
          {aside}
        </div>
      )}
      {children}
    </section>
  )
}

/** What stands where there is nothing yet, and what to do about it. */
export function Empty({ title, children }: PropsWithChildren<{ title: string }>) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  )
}

export type Tone = 'good' | 'warn' | 'bad' | 'accent' | 'plain'

export function Badge({ tone = 'plain', children }: PropsWithChildren<{ tone?: Tone }>) {
  return <span class={`badge ${tone}`}>{children}</span>
}

interface FieldProps {
  name: string
  label: string
  form: FormState
  type?: string
  hint?: string
  value?: string | undefined
  required?: boolean
  autocomplete?: string
  inputmode?: 'numeric' | 'decimal' | 'email' | 'url'
  placeholder?: string
  autofocus?: boolean
  minlength?: number
  options?: readonly (readonly [value: string, label: string])[]
}

/** A labelled input or choice with its hint and, after a refusal, what is wrong with it. */
export function Field({ name, label, form, hint, value, options, type = 'text', ...rest }: FieldProps) {
  const error = form.errors[name]
  const described = [error && `${name}-error`, hint && `${name}-hint`].filter(Boolean).join(' ')
  const shared = {
    id: name,
    name,
    'aria-invalid': error ? 'true' : undefined,
    'aria-describedby': described || undefined,
  } as const
  const current = type === 'password' ? undefined : (form.values[name] ?? value)
  return (
    <div class="field">
      <label for={name}>{label}</label>
      {options ? (
        <select {...shared}>
          {options.map(([option, text]) => (
            <option value={option} selected={option === current}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input {...shared} {...rest} type={type} value={current} />
      )}
      {error && (
        <p class="small bad" id={`${name}-error`}>
          {error}
        </p>
      )}
      {hint && (
        <p class="hint" id={`${name}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

export function Problem({ form }: { form: FormState }) {
  if (form.problem === undefined) return null
  return (
    <p class="notice bad" role="alert">
      {form.problem}
    </p>
  )
}

/** Text to copy, with a button that does it. */
export function Copy({ text, label }: { text: string; label: string }) {
  return (
    <div class="copy">
      <pre tabindex={0} aria-label={label}>
        {text}
      </pre>
      <button type="button" data-copy={text} aria-label={`Copy ${label}`}>
        Copy
      </button>
    </div>
  )
}

interface Column<Row> {
  label: string
  cell: (row: Row) => Child
  right?: boolean
}

/** A table that turns into a list of cards on a phone. `caption` tells screen readers what it lists. */
export function Table<Row>({ caption, columns, rows }: { caption: string; columns: Column<Row>[]; rows: Row[] }) {
  return (
    <table class="cards-on-phone">
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          {columns.map(({ label, right }) => (
            <th scope="col" class={right ? 'right' : undefined}>
              {label === '' ? <span class="hidden">Actions</span> : label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {columns.map(({ label, cell, right }) => (
              <td data-label={label} class={right ? 'right' : undefined}>
                {cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** Links to choose one of a few views of a page. */
export function Segments({
  label,
  items,
}: {
  label: string
  items: { href: string; text: string; current: boolean }[]
}) {
  return (
    <nav class="segments" aria-label={label}>
      {items.map(({ href, text, current }) => (
        <a href={href} aria-current={current ? 'true' : undefined}>
          {text}
        </a>
      ))}
    </nav>
  )
}

/** Older and newer, where a list goes on. */
export function Pager({
  newer,
  older,
  children,
}: PropsWithChildren<{ newer?: string | undefined; older?: string | undefined }>) {
  if (!newer && !older && !children) return null
  return (
    <div class="row apart">
      <p class="muted small">{children}</p>
      <div class="row">
        {newer && (
          <a class="button compact" href={newer} rel="prev">
            Newer
          </a>
        )}
        {older && (
          <a class="button compact" href={older} rel="next">
            Older
          </a>
        )}
      </div>
    </div>
  )
}

interface DateRangeProps {
  action: string
  from: string
  to: string
  /** Whether these dates were asked for and are no range. */
  refused: boolean
  aside?: Child
  /** Other query parameters that the form keeps. */
  keep?: Record<string, string>
}

/** Two dates and a button: a range of the reader's own. Both days belong to it. */
export function DateRange({ action, from, to, refused, aside, keep = {} }: DateRangeProps) {
  return (
    <div class="stack tight">
      <div class="row apart end">
        <form method="get" action={action} class="row end inline">
          {Object.entries(keep).map(([name, value]) => (
            <input type="hidden" name={name} value={value} />
          ))}
          <div class="field">
            <label for="dateFrom">From</label>
            <input id="dateFrom" name="dateFrom" type="date" value={from} required />
          </div>
          <div class="field">
            <label for="dateTo">To</label>
            <input id="dateTo" name="dateTo" type="date" value={to} required />
          </div>
          <button type="submit">Show</button>
        </form>
        {aside}
      </div>
      {refused && (
        <p class="small bad" role="alert">
          This range cannot be shown. Choose a last day that is not before the first one, and at most {maxRangeDays}{' '}
          days in all.
        </p>
      )}
    </div>
  )
}
