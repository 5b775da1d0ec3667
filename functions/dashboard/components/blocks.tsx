import { raw } from 'hono/html'
import type { Child, PropsWithChildren } from 'hono/jsx'
import { encodeQR } from 'qr'
import { useTexts } from './text.tsx'

/** The heading of a page, with its actions. */
export function Heading({
  title,
  lead,
  above,
  children,
}: PropsWithChildren<{ title: string; lead?: Child; above?: Child }>) {
  return (
    <header class="row apart end">
      <div class="stack tight">
        {above}
        <h1>{title}</h1>
        {lead && <p class="muted">{lead}</p>}
      </div>
      {[children].flat().some(Boolean) && <div class="row">{children}</div>}
    </header>
  )
}

interface CardProps {
  title?: string | undefined
  aside?: Child
  /** A prefix of the addresses that belong to this entry. */
  id?: string
}

export function Card({ title, aside, id, children }: PropsWithChildren<CardProps>) {
  return (
    <section class="card stack" id={id}>
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

/** A long amount has smaller digits or a wider tile, so that it never wraps. */
const widthOf = ({ length }: string) => (length > 15 ? ' huge' : length > 10 ? ' long' : '')

/** One figure with a note below it. `bad` marks a figure that needs attention. */
export function Metric({
  label,
  value,
  bad,
  children,
}: PropsWithChildren<{ label: string; value: string; bad?: boolean }>) {
  return (
    <div class={`card metric${widthOf(value)}`}>
      <dt>{label}</dt>
      <dd class={bad ? 'value bad' : 'value'}>{value}</dd>
      {children}
    </div>
  )
}

/** Facts with their labels. Omits facts that are null. */
export function Facts({ facts }: { facts: Record<string, string | null> }) {
  return (
    <dl class="stack">
      {Object.entries(facts).map(
        ([name, value]) =>
          value !== null && (
            <div>
              <dt class="muted small">{name}</dt>
              <dd>
                <bdi>{value}</bdi>
              </dd>
            </div>
          ),
      )}
    </dl>
  )
}

/** A message for an empty list, with the next step. */
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

interface LinkButtonProps {
  href: string
  text: string
  class?: string
  /** A full label for screen readers, if the text alone is unclear. */
  label?: string
  rel?: string
}

/** A link that looks like a button. */
export function LinkButton({ href, text, class: look, label, rel }: LinkButtonProps) {
  return (
    <a class={look ? `button ${look}` : 'button'} href={href} aria-label={label} rel={rel}>
      {text}
    </a>
  )
}

interface CopyProps {
  text: string
  label: string
  wrap?: boolean
  /** True if copying is the main action of the page. */
  isPrimary?: boolean
}

/** Text with a copy button. It stays on one line unless `wrap` is set. */
export function Copy({ text, label, wrap, isPrimary }: CopyProps) {
  const { t } = useTexts()
  return (
    <div class="copy">
      <pre tabindex={0} aria-label={label} class={wrap ? 'wrap' : undefined}>
        {text}
      </pre>
      <button
        type="button"
        class={isPrimary ? 'primary' : undefined}
        data-copy={text}
        data-copied={t('Copied')}
        aria-label={t('Copy {label}', { label })}
      >
        {t('Copy')}
      </button>
    </div>
  )
}

/** A QR code for phones. */
export function QrCode({ text, label }: { text: string; label: string }) {
  return (
    <div class="qr" role="img" aria-label={label}>
      {raw(encodeQR(text, 'svg'))}
    </div>
  )
}

/** Links that switch between views of a page. */
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
