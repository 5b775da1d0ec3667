import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseAst } from 'vite'
import { expect, test } from 'vitest'
import { languageCodes } from '../lib/languages.ts'
import { failingDays } from '../lib/notifications/failing-days.ts'
import { mails } from '../lib/texts/messages/mails.ts'
import { portal } from '../lib/texts/messages/portal.ts'
import type { Messages } from '../lib/texts/texts.ts'

const texts = globSync(['**/*.md', '.github/*.md'], {
  exclude: (name) => ['node_modules', 'dist', 'templates', 'docs', '.local'].includes(name),
})

test('every file in lib/README.md exists', () => {
  const named = readFileSync('lib/README.md', 'utf8').matchAll(/`((?:lib|functions|migrations|test)\/[^`]*)`/g)
  const files = Array.from(named, ([, file = '']) => file)
  expect(files.length).toBeGreaterThan(20)
  expect(files.filter((file) => !existsSync(file))).toEqual([])
})

test('migrations, lib and functions only name files that exist', () => {
  const sources = globSync(['migrations/**/*.sql', 'lib/**/*.{ts,tsx}', 'functions/**/*.{ts,tsx}'])
  const named = sources.flatMap((source) =>
    Array.from(
      readFileSync(source, 'utf8').matchAll(/\b(?:lib|functions|test|tracker)\/[\w./-]+\.(?:tsx?|sql|md)\b/g),
      ([file]) => ({ source, file }),
    ),
  )
  expect(named.length).toBeGreaterThan(100)
  expect(named.filter(({ file }) => !existsSync(file) && !existsSync(`migrations/${file}`))).toEqual([])
})

test('comments only name database functions that exist in the named file', () => {
  const named = globSync(['lib/**/*.ts', 'functions/**/*.{ts,tsx}']).flatMap((source) =>
    Array.from(
      readFileSync(source, 'utf8').matchAll(/\b(\w+_\w+) in[\s*]+(migrations\/functions\/[\w./-]+\.sql)/g),
      ([, name = '', file = '']) => ({ source, name, file }),
    ),
  )
  expect(named.length).toBeGreaterThan(1)
  const missing = named.filter(({ name, file }) => !readFileSync(file, 'utf8').includes(`function ${name}(`))
  expect(missing).toEqual([])
})

const textOf = (file: string) => readFileSync(file, 'utf8').replaceAll(/\s+/g, ' ')

test('documents name the number of days after which a failing endpoint is disabled', () => {
  expect(textOf('tracker/docs/webhooks.md')).toContain(`once in ${failingDays} days, the service disables it`)
  expect(textOf('lib/commands/README.md')).toContain(`is disabled after ${failingDays} days`)
})

/** Returns the anchors of a text's headings. */
function anchorsOf(text: string): string[] {
  return Array.from(text.matchAll(/^#+ (.*)$/gm), ([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  )
}

test.each(texts)('every link of %s has a target', (file) => {
  const links = Array.from(readFileSync(file, 'utf8').matchAll(/\]\((?!https?:)([^)]+)\)/g), ([, link = '']) => link)
  const broken = links.filter((link) => {
    const [target = '', anchor] = link.split('#')
    const linked = target === '' ? file : path.join(path.dirname(file), target)
    if (!existsSync(linked)) return true
    return anchor !== undefined && !anchorsOf(readFileSync(linked, 'utf8')).includes(anchor)
  })
  expect(broken).toEqual([])
})

/** Banned words, with their replacements. See .github/CONTRIBUTING.md. */
const banned: [words: RegExp, instead: string][] = [
  [/\b(?<!party |parties' |third-party |npm run )notices?\b/i, 'notification'],
  [/\bdelivery log\b/i, 'Processor events, or webhook deliveries'],
  [/\bwithdrawals?\b(?!-| as )|\bwithdrawn now\b/i, 'payout'],
  [/\bask for (it|a payout)\b|\basked for \{\}/i, 'request a payout'],
  [/^make\b|\bmake (one|a|an|the|another|new)\b.*\b(key|link|program|endpoint|secret|codes?)\b/i, 'create, or add'],
  [/^made\b/i, 'created'],
  [/\bretired?\b|\btak(e|en) back\b/i, 'revoke'],
  [/\bturn(ed)? (it |them |this |the \w+ )?(on|off)\b|\bswitch(ed)? (it |the \w+ )?(on|off)\b/i, 'enable, disable'],
  [/^(On|Off)$/, 'enabled, disabled'],
  [/\bdemand(s|ed)?\b/i, 'require'],
  [/\bas long before\b|\bthe (time|one) before\b|\{\} before$/i, 'previous'],
  [/\banew\b|\bfor good\b/i, 'again, or permanently'],
  [/\bmend (it|these)\b/i, 'correct'],
  [/^tries\b|\beach try\b/i, 'attempts'],
  [/^name apart\b|^not \w+ is\b/i, 'a plain sentence'],
]

interface Node {
  type: string
  [key: string]: unknown
}
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'type' in value

/** Finds user-visible texts in a code file: page texts, sentences and labels. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf)
  if (!isNode(value) || value.type === 'ImportDeclaration') return []
  if (value.type === 'JSXText' && typeof value['value'] === 'string') {
    return [value['value'].replaceAll(/\s+/g, ' ').trim()].filter(Boolean)
  }
  if (value.type === 'Literal') {
    const { value: text } = value
    return typeof text === 'string' && /^[A-Z][a-z]|[a-z,] [a-z]/.test(text) ? [text] : []
  }
  if (value.type === 'TemplateLiteral' && Array.isArray(value['quasis'])) {
    const text = value['quasis'].map((quasi: { value: { cooked: string } }) => quasi.value.cooked).join('{}')
    return [...(/^[A-Z{][a-z{]/.test(text) ? [text] : []), ...textsOf(value['expressions'])]
  }
  return Object.values(value).flatMap(textsOf)
}

/** Returns sentences, headings and cells of a Markdown page, without code. */
function sentencesOf(markdown: string): string[] {
  const prose = markdown.replaceAll(/^```[^]*?^```$/gm, '').replaceAll(/`[^`]*`/g, '{}')
  return prose.split(/\n\n+|\n(?=[-#|>]|\d+\. )|\| | \||(?<=[.:?!]) /).map((text) =>
    text
      .replaceAll(/\s+/g, ' ')
      .replace(/^[-#> ]+/, '')
      .trim(),
  )
}

const codeWithTexts = globSync([
  'functions/**/*.{ts,tsx}',
  'lib/{access,api,commands,money,notifications,programs,stripe,tracking}/**/*.ts',
  'tracker/src/**/*.ts',
])

const readAs: Record<string, (source: string) => string[]> = {
  ts: (source) => textsOf(parseAst(source, { lang: 'ts' })),
  tsx: (source) => textsOf(parseAst(source, { lang: 'tsx' })),
  md: sentencesOf,
}

test('no text contains a character of another script', () => {
  const found = [...codeWithTexts, ...globSync('tracker/docs/*.md')].flatMap((file) =>
    (readAs[path.extname(file).slice(1)]?.(readFileSync(file, 'utf8')) ?? []).flatMap((text) =>
      banned.filter(([words]) => words.test(text)).map(([, instead]) => `${file}: "${text}": write ${instead}`),
    ),
  )
  expect(codeWithTexts.length).toBeGreaterThan(150)
  expect(found).toEqual([])
})

/** Mistakes in the punctuation of each language. Lines break at normal spaces, and Inter has no narrow no-break space (U+202F). */
const mispunctuated = {
  en: /\s[:?!;%]|"/,
  de: /\s[:?!;]|"|(?<!\u00A0)%|„[^“]*$/,
  fr: /(?<!\u00A0)[?!;%»]|«(?!\u00A0)|[^\S\u00A0]:|\d \d|[\p{L}}]:(?!\/)|["“”]/u,
  es: /\s[:?!;»]|«\s|"|(?<!\u00A0)%|^[^¿]*\?|^[^¡]*!/,
  pt: /\s[:?!;%]|["«»]/,
}

test('translations have the quotation marks of their language, and no line breaks before a sign that belongs to a word', () => {
  const table: Messages = { ...portal, ...mails }
  const translations = Object.entries(table).flatMap(([key, message]) =>
    languageCodes.flatMap((language) => {
      const forms = message[language] ?? key
      return (typeof forms === 'string' ? [forms] : [forms.one, forms.other]).map((text) => ({ language, text }))
    }),
  )
  expect(translations.length).toBeGreaterThan(1000)
  expect(translations.filter(({ language, text }) => mispunctuated[language].test(text))).toEqual([])
})
