import type { Child, PropsWithChildren } from 'hono/jsx'
import { emptyForm, type FormState } from './form.ts'

interface FieldProps {
  name: string
  /** Distinguishes fields with the same name on one page. */
  id?: string
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
  maxlength?: number
  /** The number of lines, if the field takes several. */
  rows?: number
  options?: readonly (readonly [value: string, label: string])[]
}

/** A labeled input with its hint, and with its error after a refusal. */
export function Field({
  name,
  id = name,
  label,
  form,
  hint,
  value,
  options,
  type = 'text',
  autofocus,
  rows,
  ...rest
}: FieldProps) {
  const error = form.errors[name]
  const isFirstError = error !== undefined && Object.keys(form.errors)[0] === name
  const described = [error && `${id}-error`, hint && `${id}-hint`].filter(Boolean).join(' ')
  const shared = {
    id,
    name,
    'aria-invalid': error ? 'true' : undefined,
    'aria-describedby': described || undefined,
    autofocus: isFirstError || autofocus,
  } as const
  const current = type === 'password' ? undefined : (form.values[name] ?? value)
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {options ? (
        <select {...shared}>
          {options.map(([option, text]) => (
            <option value={option} selected={option === current}>
              {text}
            </option>
          ))}
        </select>
      ) : rows ? (
        <textarea {...shared} {...rest} rows={rows}>
          {current}
        </textarea>
      ) : (
        <input {...shared} {...rest} type={type} value={current} />
      )}
      {error && (
        <p class="small bad" id={`${id}-error`}>
          {error}
        </p>
      )}
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

export function Problem({ form }: { form: FormState }) {
  if (form.problem === undefined) return null
  return (
    <p class="message bad" role="alert" tabindex={-1} autofocus>
      {form.problem}
    </p>
  )
}

/** The button that sends a form with several fields. */
export function Submit({ danger, children }: PropsWithChildren<{ danger?: true }>) {
  return (
    <div class="row">
      <button type="submit" class={danger ? 'danger' : 'primary'}>
        {children}
      </button>
    </div>
  )
}

/**
 * The first button of a form with several buttons. Browsers press the first button on Enter, so this one prevents a choice that nobody made.
 * It closes a dialog and does nothing outside of one. Browsers skip a disabled button if the focus is on a checkbox.
 */
export function NoDefault() {
  return <button type="submit" formmethod="dialog" formnovalidate hidden />
}

interface PostButtonProps {
  action: string
  class?: string
  /** A full label for screen readers, if the text alone is unclear. */
  label?: string
  /** The question to confirm first. */
  confirm?: string | undefined
  /** Hidden fields of the form. */
  fields?: Record<string, string>
}

export function PostButton({
  action,
  class: look,
  label,
  confirm,
  fields = {},
  children,
}: PropsWithChildren<PostButtonProps>) {
  return (
    <form method="post" action={action}>
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <button type="submit" class={look} aria-label={label} data-confirm={confirm}>
        {children}
      </button>
    </form>
  )
}

/** Names the menu that sent the form, so only a refused menu opens again. */
const menuField = 'menu'

/** Returns the refusal of the form in the menu `id`. */
const refusedIn = (form: FormState, id: string) => (form.values[menuField] === id ? form : emptyForm)

interface MenuFormProps {
  action: string
  /** Distinguishes the menus of one page. */
  id: string
  /** The button's text, and its label for screen readers. */
  text: string
  label: string
  form: FormState
  /** Renders the fields of the form with its last refusal. */
  children: (form: FormState) => Child
}

export function MenuForm({ action, id, text, label, form, children }: MenuFormProps) {
  const shown = refusedIn(form, id)
  return (
    <details class="switcher" open={shown !== emptyForm}>
      <summary class="compact" aria-label={label}>
        {text}
      </summary>
      <form method="post" action={action} class="menu stack">
        <input type="hidden" name={menuField} value={id} />
        {children(shown)}
      </form>
    </details>
  )
}

interface ReasonMenuProps {
  action: string
  /** Distinguishes the menus of one page. */
  id: number
  verb: string
  subject: string
  /** The label of the reason. It says who reads it. */
  label: string
  submit: string
  form: FormState
}

export function ReasonMenu({ action, id, verb, subject, label, submit, form }: ReasonMenuProps) {
  const menu = `${verb.toLowerCase()}-${id}`
  return (
    <MenuForm action={action} id={menu} text={verb} label={`${verb} ${subject}`} form={form}>
      {(shown) => (
        <>
          <Field name="reason" id={`reason-${menu}`} label={label} maxlength={1000} form={shown} required />
          <button type="submit" class="danger">
            {submit}
          </button>
        </>
      )}
    </MenuForm>
  )
}
