import type { PropsWithChildren } from 'hono/jsx'
import { LinkButton } from './blocks.tsx'
import { emptyForm, FormContext, useForm, useFormOf } from './form.ts'
import { Icon } from './icon.tsx'
import { useTexts } from './text.tsx'

interface FieldProps {
  name: string
  /** Distinguishes fields with the same name on one page. */
  id?: string
  label: string
  type?: string
  hint?: string | undefined
  value?: string | undefined
  required?: boolean
  autocomplete?: string
  inputmode?: 'numeric' | 'decimal' | 'email' | 'url'
  placeholder?: string
  autofocus?: boolean
  minlength?: number
  maxlength?: number
  /** The number of lines, if the field has several. */
  rows?: number
  /** Whether a file field accepts several files. */
  multiple?: boolean
  options?: readonly (readonly [value: string, label: string])[]
}

/** Returns an option for each of these rows. */
export const optionsOf = (rows: { id: number | string; name: string }[]) =>
  rows.map(({ id, name }) => [String(id), name] as const)

/** A labeled input with its hint, and with its error after a refusal. */
export function Field({
  name,
  id = name,
  label,
  hint,
  value,
  options,
  type = 'text',
  autofocus,
  rows,
  ...rest
}: FieldProps) {
  const form = useForm()
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
  const current = type === 'password' || type === 'file' ? undefined : (form.values[name] ?? value)
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
      <FieldError name={name} id={id} />
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

/** The error of a field after a refusal. */
export function FieldError({ name, id = name }: { name: string; id?: string }) {
  const error = useForm().errors[name]
  return error ? (
    <p class="small bad" id={`${id}-error`}>
      {useTexts().fixed(error)}
    </p>
  ) : null
}

/** The error of a whole form after a refusal. */
export function Problem() {
  const { problem } = useForm()
  return problem === undefined ? null : (
    <p class="message bad" role="alert" tabindex={-1} autofocus>
      {useTexts().fixed(problem)}
    </p>
  )
}

interface FormProps {
  action: string
  /** The text of the button. */
  submit: string
  /** `inline` puts the fields and the button in one row. `wide` makes the button as wide as the form. */
  layout?: 'inline' | 'wide'
  primary?: boolean
  danger?: true
  /** The question to confirm first. */
  confirm?: string
  /** The address of a link that cancels the form. */
  cancel?: string
  takesFiles?: true
  /** The size of the parts in which the script sends a larger program archive. */
  partBytes?: number
  /** The keyboard key that presses the button. */
  shortcut?: string
}

/** A form with its fields and one button. After a refusal it shows the typed values and the errors. */
export function Form(props: PropsWithChildren<FormProps>) {
  const {
    action,
    submit,
    layout,
    primary = layout !== 'inline',
    danger,
    confirm,
    cancel,
    shortcut,
    takesFiles,
    partBytes,
    children,
  } = props
  const look = danger ? 'danger' : primary ? 'primary' : ''
  const button = (
    <button
      type="submit"
      class={layout === 'wide' ? `${look} wide-button` : look}
      data-confirm={confirm}
      data-key={shortcut}
      aria-keyshortcuts={shortcut}
    >
      {submit}
    </button>
  )
  return (
    <FormContext.Provider value={useFormOf(action)}>
      <form
        method="post"
        action={action}
        enctype={takesFiles && 'multipart/form-data'}
        data-part-bytes={partBytes}
        class={layout === 'inline' ? 'row end' : 'stack'}
      >
        <Problem />
        {layout === 'inline' ? children : <div class="fields">{children}</div>}
        {layout ? (
          button
        ) : (
          <div class="row">
            {button}
            {cancel && <LinkButton href={cancel} text={useTexts().t('Cancel')} />}
          </div>
        )}
      </form>
    </FormContext.Provider>
  )
}

interface FormDetailsProps extends FormProps {
  summary: string
  open?: boolean
}

/**
 * A button that opens a form with several fields over the page. The form is open after a refusal. `primary` marks the main action of the
 * page.
 */
export function FormDetails({ summary, open, primary, children, ...props }: PropsWithChildren<FormDetailsProps>) {
  return (
    <details class="switcher" open={open || useFormOf(props.action) !== emptyForm}>
      <summary class={primary ? 'button primary' : 'button'}>{summary}</summary>
      <div class="menu panel">
        <Form {...props}>{children}</Form>
      </div>
    </details>
  )
}

interface RowMenuProps {
  label: string
  /** The prefix of the addresses of the menu's forms. The menu stays open after one of these forms was refused. */
  posts?: string
}

/** The actions on a row, behind one button. Its children are links, forms of one button, and menus with a form. */
export function RowMenu({ label, posts, children }: PropsWithChildren<RowMenuProps>) {
  const { action } = useForm()
  if (![children].flat().some(Boolean)) return null
  return (
    <details class="switcher row-menu" open={posts !== undefined && action?.startsWith(posts)}>
      <summary aria-label={label}>
        <Icon name="more" />
      </summary>
      <div class="menu">{children}</div>
    </details>
  )
}

/** Hidden fields of a form. */
export function Hidden({ fields }: { fields: Record<string, string | undefined> }) {
  return (
    <>
      {Object.entries(fields).map(
        ([name, value]) => value !== undefined && <input type="hidden" name={name} value={value} />,
      )}
    </>
  )
}

/**
 * The first button of a form with several buttons. When somebody presses Enter, the browser clicks the first button. This one prevents an
 * accidental choice. It closes a dialog and does nothing outside of one. Browsers skip a disabled button if the focus is on a checkbox.
 */
export function NoDefault() {
  return <button type="submit" formmethod="dialog" formnovalidate hidden />
}

interface PostButtonProps {
  action: string
  text: string
  class?: string
  /** A full label for screen readers, if the text alone is unclear. */
  label?: string
  /** The question to confirm first. */
  confirm?: string | undefined
  /** Hidden fields of the form. */
  fields?: Record<string, string>
}

/** A form that is only a button. */
export function PostButton({ action, text, class: look, label, confirm, fields = {} }: PostButtonProps) {
  return (
    <form method="post" action={action}>
      <Hidden fields={fields} />
      <button type="submit" class={look} aria-label={label} data-confirm={confirm}>
        {text}
      </button>
    </form>
  )
}

/** The name of the menu that sent the form. After a refusal, only this menu opens again. */
const menuField = 'menu'

interface MenuFormProps {
  action: string
  /** Distinguishes the menus of one page. */
  id: string
  /** The button's text, and its label for screen readers. */
  text: string
  label: string
}

/** A button that opens a form. */
export function MenuForm({ action, id, text, label, children }: PropsWithChildren<MenuFormProps>) {
  const refused = useFormOf(action)
  const form = refused.values[menuField] === id ? refused : emptyForm
  return (
    <details class="switcher" open={form !== emptyForm}>
      <summary class="compact" aria-label={label}>
        {text}
      </summary>
      <FormContext.Provider value={form}>
        <form method="post" action={action} class="menu stack">
          <Problem />
          <Hidden fields={{ [menuField]: id }} />
          {children}
        </form>
      </FormContext.Provider>
    </details>
  )
}

interface ReasonMenuProps {
  action: string
  /** Distinguishes the menus of one page. */
  id: number
  verb: string
  subject: string
  /** The label of the reason field, which says who will see the reason. */
  label: string
  submit: string
}

/** A button that opens a form with a reason. */
export function ReasonMenu({ action, id, verb, subject, label, submit }: ReasonMenuProps) {
  const menu = `${verb.toLowerCase()}-${id}`
  return (
    <MenuForm action={action} id={menu} text={verb} label={`${verb} ${subject}`}>
      <Field name="reason" id={`reason-${menu}`} label={label} maxlength={1000} required />
      <button type="submit" class="danger">
        {submit}
      </button>
    </MenuForm>
  )
}
