import { createApp, onlyMethods } from '../lib/api/app.ts'
import { figures } from '../lib/api/figures.ts'
import { schemaOfKind } from '../lib/moving/archive-fields.ts'
import { kindNames, kindOf } from '../lib/moving/archive-kinds.ts'
import { webhookPayloads } from '../lib/api/webhook-payloads.ts'
import { ApiError, errorCodes, type ErrorCode } from '../lib/errors.ts'
import { pages } from '../tracker/dist/served/docs.js'
import { fontBase64 } from '../tracker/dist/served/font.js'
import { packageFile } from '../tracker/dist/served/package.js'
import { fontPath } from './api-reference/style.ts'
import { DocsPage, NoPage, SearchPage } from './docs/page.tsx'
import { remedies } from './docs/remedies.ts'
import { script, scriptPath } from './docs/script.ts'
import { search } from './docs/search.ts'

const font = Uint8Array.from(atob(fontBase64), (character) => character.charCodeAt(0))

const app = createApp<{ API_BASE_URL: string }>()

app.use(async (c, next) => {
  await next()
  if (!c.res.ok && c.res.status !== 404) return
  if (c.req.path !== fontPath) c.header('Cache-Control', 'public, max-age=300')
  c.header(
    'Content-Security-Policy',
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  )
})

/** GET /docs/docs.js, public: the script of the pages. */
app.get(scriptPath, (c) => c.body(script, 200, { 'Content-Type': 'text/javascript; charset=utf-8' }))

/** GET /docs/inter.woff2, public: the font of the documentation and of the API reference. */
app.get(fontPath, (c) => c.body(font, 200, { 'Content-Type': 'font/woff2', 'Cache-Control': 'public, max-age=604800' }))

/** GET /docs/search?q=, public: the sections of the documentation that contain all words of `q`. */
app.get('/docs/search', (c) => {
  const query = (c.req.query('q') ?? '').slice(0, 100)
  return c.html(<SearchPage query={query} found={search(query)} />)
})

/** GET /docs/archive/:file, public: the JSON Schema for a line in one of an archive's files. */
app.get('/docs/archive/:file', (c) => {
  const kind = kindNames.find((name) => c.req.param('file') === `${name}.json`)
  if (!kind) throw new ApiError('not_found', `There is no such schema. ${c.env.API_BASE_URL}/docs/export lists all.`)
  return c.body(JSON.stringify(schemaOfKind(kind, c.env.API_BASE_URL), null, 2), 200, {
    'Content-Type': 'application/schema+json',
    'Access-Control-Allow-Origin': '*',
  })
})

/** GET /docs/:page, public: a page of the documentation, as Markdown if the path ends with `.md`. /docs is the first page. */
app.get('/docs/:page?', (c) => {
  const [, name, markdown] = /^(.+?)(\.md)?$/.exec(c.req.param('page') ?? 'index') ?? []
  const page = pages.find((one) => one.name === name)
  if (!page && markdown)
    throw new ApiError('not_found', `There is no such page. ${c.env.API_BASE_URL}/llms.txt lists all pages.`)
  if (!page) return c.html(<NoPage />, 404)
  if (markdown) return text(c.env.API_BASE_URL, page.markdown, 'text/markdown')
  return c.html(<DocsPage page={page} html={fillIn(page.html, c.env.API_BASE_URL, htmlTable)} />)
})

/** All other addresses under /docs don't exist. */
app.get('/docs/*', (c) => c.html(<NoPage />, 404))

/** GET /docs.md, public: the first page as Markdown, because every page's address takes `.md`. */
app.get('/docs.md', (c) => c.redirect('/docs/index.md', 301))

/** GET /llms.txt, public: the table of contents of the documentation for language models. See https://llmstxt.org. */
app.get('/llms.txt', (c) => {
  const base = c.env.API_BASE_URL
  const lines = Array.from(
    Map.groupBy(pages, ({ group }) => group),
    ([group, ofGroup]) => {
      const links = ofGroup.map(({ name, title, summary }) => `- [${title}](${base}/docs/${name}.md): ${summary}`)
      return `## ${group}\n\n${links.join('\n')}`
    },
  )
  const api = `- [OpenAPI](${base}/api/v1/openapi.json): every endpoint and field
- [Everything](${base}/llms-full.txt): all pages in one file`
  return text(base, `${introduction}\n\n${lines.join('\n\n')}\n${api}\n`, 'text/plain')
})

/** GET /llms-full.txt, public: all pages of the documentation in one file. */
app.get('/llms-full.txt', (c) => {
  const whole = [introduction, ...pages.map(({ markdown }) => markdown)].join('\n\n')
  return text(c.env.API_BASE_URL, `${whole}\n`, 'text/plain')
})
for (const path of ['/docs', '/docs/archive/*', '/docs.md', '/docs/*', '/llms.txt', '/llms-full.txt'])
  app.all(path, onlyMethods('GET', 'HEAD'))

export default app

const introduction = `# Affiliate tracking

> Clicks, leads and sales that partners bring, and the commissions they earn.

## Authentication

Every call from a server sends \`Authorization: Bearer svc_live_…\`, a key of one program. The dashboard creates keys under
API keys. The scope \`track\` sends leads, sales and refunds, \`read\` reads the program, and \`manage\` changes it. A click
doesn't need a key. Never put a key into code that a browser loads.

## Quick start

1. Run this in the project's folder. It writes \`.svc/AGENTS.md\`, which has every step with code for this program:
   \`npm install {{package_url}} && npx --yes --package={{package_url}} svc init --base-url {{api_base_url}} --api-key svc_live_…\`
2. Without Node, put the tag of {{api_base_url}}/docs/html.md on every page, and send each lead and each sale:

\`\`\`sh
curl -sS {{api_base_url}}/api/v1/track/lead -H "Authorization: Bearer $SVC_API_KEY" \\
  -H 'Content-Type: application/json' -d '{"customer_key": "user-1", "click_id": "the cookie svc_click_id"}'
curl -sS {{api_base_url}}/api/v1/track/sale -H "Authorization: Bearer $SVC_API_KEY" \\
  -H 'Content-Type: application/json' -d '{"customer_key": "user-1", "transaction_id": "order-1", "amount_cents": 4990}'
\`\`\``

function text(baseUrl: string, markdown: string, type: string): Response {
  return new Response(fillIn(markdown, baseUrl, markdownTable), {
    headers: { 'Content-Type': `${type}; charset=utf-8`, 'Access-Control-Allow-Origin': '*' },
  })
}

type Table = (head: string[], rows: string[][]) => string

/** Fills in the service's address and the tables that come from code. */
function fillIn(page: string, baseUrl: string, table: Table): string {
  return page
    .replaceAll('{{package_url}}', () => `${baseUrl}/packages/${packageFile}`)
    .replaceAll('{{api_base_url}}', () => baseUrl)
    .replace(/(<p>)?\{\{figures\}\}(<\/p>)?/, () =>
      table(
        ['Figure', 'Meaning'],
        Object.entries(figures).map(([name, meaning]) => [`\`${name}\``, meaning]),
      ),
    )
    .replace(/(<p>)?\{\{archive\}\}(<\/p>)?/, () =>
      table(
        ['File', 'Rows', 'Schema'],
        kindNames.map((kind) => [
          `\`data/${kind}.jsonl\``,
          kindOf(kind).title,
          `\`${baseUrl}/docs/archive/${kind}.json\``,
        ]),
      ),
    )
    .replace(/(<p>)?\{\{webhooks\}\}(<\/p>)?/, () =>
      table(
        ['Type', 'When', '`data`, for example'],
        Object.entries(webhookPayloads).map(([type, { when, example }]) => [
          `\`${type}\``,
          when,
          `\`${JSON.stringify(example)}\``,
        ]),
      ),
    )
    .replace(/(<p>)?\{\{errors\}\}(<\/p>)?/, () =>
      table(['Code', 'Status', 'Why', 'What to do'], Object.entries(errorCodes).map(errorRow)),
    )
}

function errorRow([code, { status, title }]: [string, { status: number; title: string }]): string[] {
  // oxlint-disable-next-line no-unsafe-type-assertion -- these are the table's keys
  return [`\`${code}\``, String(status), title, remedies[code as ErrorCode]]
}

const markdownTable: Table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

const htmlTable: Table = (head, rows) => {
  const body = rows.map((cells) => htmlRow(cells, 'td')).join('')
  const table = `<table><thead>${htmlRow(head, 'th')}</thead><tbody>${body}</tbody></table>`
  return `<div class="table" tabindex="0" role="region" aria-label="Table">${table}</div>`
}

const htmlRow = (cells: string[], tag: string) =>
  `<tr>${cells.map((cell) => `<${tag}>${inline(cell)}</${tag}>`).join('')}</tr>`

/** Converts backticks to `<code>` in text from our own tables. */
const inline = (cell: string) => cell.replaceAll('"', '&quot;').replaceAll(/`([^`]+)`/g, '<code>$1</code>')
