import { readFileSync } from 'node:fs'
import { Marked, type Tokens } from 'marked'
import { callIn } from './docs-calls.ts'

/** A page of the documentation. The function that serves it fills in `{{api_base_url}}`, `{{figures}}` and `{{errors}}`. */
export interface DocsPage {
  /** Its address is `/docs/<name>`. The first page is `/docs` itself. */
  name: string
  /** The page's group in the menu. */
  group: string
  title: string
  /** The paragraph under the title. */
  summary: string
  html: string
  markdown: string
  /** The sections that the search finds, from one heading to the next. */
  sections: { id: string; title: string; text: string }[]
}

/** The menu groups with their pages. */
const groups = {
  'Get started': ['index', 'html', 'nextjs', 'react', 'test-data', 'migrate', 'migrate-guides', 'export'],
  'Sales and refunds': [
    'which-way',
    'stripe',
    'paddle',
    'lemonsqueezy',
    'polar',
    'own-calls',
    'calls',
    'renewals',
    'refunds',
    'codes',
  ],
  'Your site': ['own-domain', 'consent', 'csp', 'several-programs'],
  'Partners and money': ['joining', 'embed', 'payouts', 'figures', 'why-this-partner', 'mail'],
  'For developers': ['program-api', 'agents', 'webhooks', 'walk', 'command', 'errors'],
}

/** Reads the line before the tag, which stores a page's calls until the script has loaded. */
export function readStub(): string {
  const [stub] = /<script>window\.svc.*<\/script>/.exec(read('templates/AGENTS.md')) ?? []
  if (!stub) throw new Error('AGENTS.md has no stub.')
  return stub
}

const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')

const tagFrom = (src: string) => `\`\`\`html
${readStub()}
<script async src="${src}" data-svc-program-id="{{program_id}}"></script>
\`\`\``

/** Placeholders for the values that `svc init` fills in. The dashboard shows readers their own values. */
const examples: Record<string, string> = {
  program_id: 'PROGRAM_ID',
  domain: 'shop.example.com',
  site: 'https://shop.example.com',
  currency: 'PROGRAM_CURRENCY',
  proxy_path: 'YOUR_PATH',
}

/** Renders the pages of `docs/`. They share code blocks with the instructions of `svc init`. */
export function renderDocs(): DocsPage[] {
  const instructions = read('templates/AGENTS.md')
  const blocks = new Map(
    Array.from(instructions.matchAll(/^```\w+ file=(.+)\n[^]*?^```$/gm), ([block, file = '']) => [file, block]),
  )
  const codeOf = (file: string) => {
    const block = blocks.get(file)
    if (!block) throw new Error(`docs/: AGENTS.md has no code block for ${file}.`)
    return block
  }
  const names = Object.entries(groups).flatMap(([group, ofGroup]) => ofGroup.map((name) => ({ group, name })))
  return names.map(({ group, name }) => {
    const markdown = read(`docs/${name}.md`)
      .replaceAll(/^\{\{code (.+)\}\}$/gm, (_, file: string) => codeOf(file))
      .replaceAll(/^\{\{call (.+)\}\}$/gm, (_, call: string) => callIn(call))
      .replace('{{own_domain_tag}}', () => tagFrom('/{{proxy_path}}'))
      .replace('{{plain_tag}}', () => tagFrom('{{api_base_url}}/js/svc-tracker.js'))
      .replaceAll(/\{\{(\w+)\}\}/g, (placeholder, key: string) => examples[key] ?? placeholder)
    return { name, group, markdown, ...render(markdown) }
  })
}

function render(markdown: string): Omit<DocsPage, 'name' | 'group' | 'markdown'> {
  const marked = new Marked()
  const ids = new Map<string, number>()
  const idOf = (title: string) => {
    const id = title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
      .replaceAll(/^-|-$/g, '')
    const count = ids.get(id) ?? 0
    ids.set(id, count + 1)
    return count ? `${id}-${count}` : id
  }
  marked.use({
    renderer: {
      heading({ tokens, depth, text }) {
        const id = idOf(text)
        const link = depth > 1 ? ` <a class="anchor" href="#${id}" aria-label="Link to ${escape(text)}">#</a>` : ''
        return `<h${depth} id="${id}">${this.parser.parseInline(tokens)}${link}</h${depth}>\n`
      },
      code({ text, lang = '' }) {
        const file = /\bfile=(\S+)/.exec(lang)?.[1]
        const tab = /\btab=(\S+)/.exec(lang)?.[1]
        const caption = file || tab ? `<figcaption>${escape(file ?? tab ?? '')}</figcaption>` : ''
        return `<figure class="code"${tab ? ` data-tab="${escape(tab)}"` : ''}>${caption}<pre tabindex="0"><code>${escape(text)}</code></pre></figure>\n`
      },
    },
  })
  const tokens = marked.lexer(markdown)
  const heading = tokens.find((token): token is Tokens.Heading => token.type === 'heading')
  const summary = tokens.find((token): token is Tokens.Paragraph => token.type === 'paragraph')
  if (heading?.depth !== 1 || !summary) throw new Error('docs/: a page starts with its title and a paragraph.')
  const html = marked.parser(tokens)
  ids.clear()
  const sections: DocsPage['sections'] = []
  for (const token of tokens) {
    if (token.type === 'heading') sections.push({ id: idOf(token['text']), title: token['text'], text: '' })
    else {
      const section = sections.at(-1)
      if (section) section.text += plain(token.raw)
    }
  }
  return { title: heading.text, summary: plain(summary.text).trim(), html: withTables(html), sections }
}

/** Puts each table into a scrollable region with its own name, so that a keyboard can reach it. */
function withTables(html: string): string {
  let tables = 0
  const region = () => `<div class="table" tabindex="0" role="region" aria-label="Table ${++tables}"><table>`
  return html
    .replaceAll('<table>', region)
    .replaceAll('</table>', '</table></div>')
    .replaceAll('<th></th>', '<td></td>')
    .replaceAll('<th>', '<th scope="col">')
}

/** Removes the Markdown syntax from a text. */
const plain = (markdown: string) =>
  markdown
    .replaceAll(/^```.*$|^\|[ :|-]+\|$/gm, '')
    .replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .replaceAll(/[`*|]+/g, ' ')
    .replaceAll(/\s+/g, ' ')

const escape = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
