import type { Child } from 'hono/jsx'
import { type Language, languages } from '../../../lib/languages.ts'
import { portal } from '../../../lib/texts/messages/portal.ts'
import { createTexts, type Texts, type ValueNames } from '../../../lib/texts/texts.ts'
import { useRequest } from './request.ts'

/** The texts of a page, in the reader's language on pages for partners and in English on all others. */
export interface PageTexts extends Texts<typeof portal> {
  /** The reader's time zone on the pages for partners: null before the first page has stored it. Undefined on pages in UTC. */
  zone: string | null | undefined
  /** Formats a time in the reader's zone, or else in UTC. */
  localTime: (at: Date) => string
}
export type PageText = keyof typeof portal

export function textsIn(language: Language, zone?: string | null): PageTexts {
  let format: Intl.DateTimeFormat | undefined
  const formatOf = () =>
    new Intl.DateTimeFormat(languages[language].locale, {
      dateStyle: 'medium',
      timeStyle: 'short',
      timeZone: zone ?? 'UTC',
    })
  return { ...createTexts(portal, language), zone, localTime: (at) => (format ??= formatOf()).format(at) }
}

export const english = textsIn('en')

export function useTexts(): PageTexts {
  const texts: PageTexts | undefined = useRequest().get('texts')
  return texts ?? english
}

/** The names of the elements in a message. */
type ElementNames<Key extends string> = Key extends `${string}<${infer Name}>${infer Rest}`
  ? Exclude<Name, `/${string}`> | ElementNames<Rest>
  : never

type TextProps<Key extends string> = { of: Key } & Record<ValueNames<Key>, Child> &
  Record<ElementNames<Key>, (text: Child) => Child>

/** Renders a message with elements: `<Text of="See <link>{name}</link>." name={name} link={(text) => <a href="/">{text}</a>} />`. */
export function Text<Key extends PageText>({ of, ...parts }: TextProps<Key>) {
  return <>{partsOf(useTexts().fixed(of), new Map(Object.entries<unknown>(parts)))}</>
}

/** The element around a name in a message. */
export const bdi = (name: Child) => <bdi>{name}</bdi>

function partsOf(message: string, parts: ReadonlyMap<string, unknown>): Child[] {
  const found = message.matchAll(/<(\w+)>(.*?)<\/\1>|\{(\w+)\}|[^<{]+/g)
  return Array.from(found, ([text, element = '', inside = '', value]) => {
    // oxlint-disable-next-line no-unsafe-type-assertion -- `TextProps` types the value by its name
    if (value !== undefined) return parts.get(value) as Child
    const wrap = parts.get(element)
    return typeof wrap === 'function' ? wrap(partsOf(inside, parts)) : text
  })
}
