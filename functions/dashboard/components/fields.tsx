import type { Child, PropsWithChildren } from 'hono/jsx'
import { emptyForm, type FormState } from './form.ts'

interface FieldProps {
  name: string
  /** Tells fields of the same name on one page apart. */
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
  /** How many lines the field has, where it takes several. */
  rows?: number
  options?: readonly (readonly [value: string, label: string])[]
}

/** A labelled input or choice with its hint and, after a refusal, what is wrong with it. */
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

/** The button that sends a form of several fields. */
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
 * Stands first in a form that can be sent in several ways, so that Enter in one of its fields chooses none of them: browsers press the first
 * button, and one that closes a dialog does nothing outside of one. On a checkbox they would pass over a disabled one.
 */
export function NoDefault() {
  return <button type="submit" formmethod="dialog" formnovalidate hidden />
}

interface PostButtonProps {
  action: string
  class?: string
  /** What it does and to whom, where its text alone does not say it. */
  label?: string
  /** What is asked before. */
  confirm?: string | undefined
  /** What is sent with it. */
  fields?: Record<string, string>
}

/** A button that posts to `action`. */
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

/** Names the menu of a page whose form it is, so that one that is refused opens again, and no other. */
const menuField = 'menu'

/** What the form in the menu `id` of a page was refused for. */
const refusedIn = (form: FormState, id: string) => (form.values[menuField] === id ? form : emptyForm)

interface MenuFormProps {
  action: string
  /** Tells the menus of one page apart. */
  id: string
  /** What opens it, and how screen readers call it. */
  text: string
  label: string
  form: FormState
  /** What stands in its form, by what that was refused for. */
  children: (form: FormState) => Child
}

/** A button that opens a form. */
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
  /** Tells the menus of one page apart. */
  id: number
  verb: string
  subject: string
  /** Who reads the reason. */
  label: string
  submit: string
  form: FormState
}

/** A button that asks for a reason before it posts to `action`. */
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
