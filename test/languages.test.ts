import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseAst } from 'vite'
import { describe, expect, test } from 'vitest'
import { chooseLanguage, languageCodes } from '../lib/languages.ts'
import { portal } from '../lib/texts/messages/portal.ts'
import { createTexts, type Messages } from '../lib/texts/texts.ts'

const table: Messages = portal
const isKey = (text: string) => Object.hasOwn(table, text)

interface Node {
  type: string
  [key: string]: unknown
}
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'type' in value

const nameOf = (node: unknown) => (isNode(node) && isNode(node['name']) ? node['name']['name'] : undefined)

/** Finds the texts for readers in a code file: page texts, and literals that look like a sentence or a label. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf)
  if (!isNode(value) || value.type === 'ImportDeclaration') return []
  if (value.type === 'JSXAttribute' && ['class', 'autocomplete'].includes(String(nameOf(value)))) return []
  const text = value.type === 'JSXText' || value.type === 'Literal' ? value['value'] : undefined
  if (typeof text === 'string') {
    const line = text.replaceAll(/\s+/g, ' ').trim()
    const isText = value.type === 'JSXText' ? /\p{L}/u.test(line) : /^[A-Z][a-z]|[a-z,] [a-z]/.test(line)
    return isText ? [line] : []
  }
  if (value.type === 'TemplateLiteral' && Array.isArray(value['quasis'])) {
    const words = value['quasis'].map((quasi: { value: { cooked: string } }) => quasi.value.cooked).join('{}')
    return [...(/^[A-Z][a-z]+ |[a-z] [a-z{]/.test(words) ? [words] : []), ...textsOf(value['expressions'])]
  }
  return Object.values(value).flatMap(textsOf)
}

const partnerFiles = [
  ...globSync('functions/dashboard/{partner,join}/*.{ts,tsx}'),
  'functions/dashboard/account/invitations.tsx',
  'functions/embed/portal.tsx',
]

/** Texts of these files that no partner reads in another language. */
const english = new Set([
  // The invitation to a workspace is for members.
  'You are invited as',
  ', with the address',
  'Join {}',
  // The key of a counter.
  'application from {}',
  // Names of parameters.
  '&sub1=',
  '&sub2=',
  '&sub3=',
  '&sub1=newsletter',
  'utm_source, utm_medium, utm_campaign, utm_term, utm_content',
  // The rules for addresses of endpoints are in English, as in the API.
  'The address {}.',
  // A response header.
  'Content-Location',
  'Welcome! You are now a member.',
  // The size of the embedded portal on phones.
  'width=device-width, initial-scale=1',
])

/** Messages that the code composes. */
const composed = new Set([
  'Use at most 80 characters, without line breaks or characters that change the direction of text.',
  '{title} by day',
  'Day',
  'Use 300 characters at most.',
  'Use 3000 characters at most.',
])

const parts = (text: string) => [...new Set(text.match(/\{\w+\}|<\/?\w+>/g))].toSorted()

describe('the message table', () => {
  test('has every text of the pages for partners', () => {
    const missing = partnerFiles.flatMap((file) => {
      const lang = path.extname(file) === '.ts' ? 'ts' : 'tsx'
      const texts = textsOf(parseAst(readFileSync(file, 'utf8'), { lang }))
      return texts.filter((text) => !isKey(text) && !english.has(text)).map((text) => `${file}: ${text}`)
    })
    expect(partnerFiles.length).toBeGreaterThan(12)
    expect(missing).toEqual([])
  })

  test('has no message that the code does not use', () => {
    const code = globSync(['functions/**/*.{ts,tsx}', 'lib/**/*.ts'], { exclude: (name) => name === 'messages' })
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n')
      .replaceAll(/\s+/g, ' ')
      .replaceAll("\\'", "'")
    const isUsed = (key: string) => ["'", '"', '`'].some((mark) => code.includes(mark + key + mark))
    const unused = Object.keys(table).filter((key) => !isUsed(key) && !composed.has(key))
    expect(unused).toEqual([])
  })

  test('keeps the values and elements of each message in every language', () => {
    const wrong = Object.entries(table).flatMap(([key, message]) =>
      languageCodes
        .flatMap((language) => message[language] ?? [])
        .flatMap((forms) => (typeof forms === 'string' ? [forms] : [forms.one, forms.other]))
        .filter((text) => text.trim() === '' || parts(text).join() !== parts(key).join()),
    )
    expect(wrong).toEqual([])
  })
})

test.each([
  [[], '', 'en'],
  [[], '*', 'en'],
  [[], 'xx, pt-BR;q=0.8, de;q=0.9', 'de'],
  [[], 'de;q=0, fr;q=0.1', 'fr'],
  [[null, 'es'], 'de', 'es'],
  [['pt', 'es'], 'de', 'pt'],
  [['constructor', undefined], '__proto__, fr-CA', 'fr'],
])('the choices %j and the header %j lead to %s', (choices, header, language) => {
  expect(chooseLanguage(choices, header)).toBe(language)
})

test('counts, numbers, amounts and days follow the language', () => {
  const messages = {
    '{count} clicks': {
      en: { one: '{count} click', other: '{count} clicks' },
      de: { one: '{count} Klick', other: '{count} Klicks' },
      fr: { one: '{count} clic', other: '{count} clics' },
      es: { one: '{count} clic', other: '{count} clics' },
      pt: { one: '{count} clique', other: '{count} cliques' },
    },
  } satisfies Messages
  const written = languageCodes.map((language) => {
    const { t, money, day } = createTexts(messages, language)
    const counts = [0, 1, 1234].map((count) => t('{count} clicks', { count }))
    return [...counts, money(123_456, 'eur'), day('2026-03-09T23:30:00Z')]
      .join(' | ')
      .replaceAll(/[\u00A0\u202F]/g, ' ')
  })
  expect(written).toEqual([
    '0 clicks | 1 click | 1,234 clicks | €1,234.56 | Mar 9, 2026',
    '0 Klicks | 1 Klick | 1.234 Klicks | 1.234,56 € | 09.03.2026',
    '0 clic | 1 clic | 1 234 clics | 1 234,56 € | 9 mars 2026',
    '0 clics | 1 clic | 1234 clics | 1234,56 € | 9 mar 2026',
    '0 clique | 1 clique | 1.234 cliques | € 1.234,56 | 9 de mar. de 2026',
  ])
})
