import { createApp, onlyMethods } from '../lib/api/app.ts'
import { openApiDocument } from '../lib/api/openapi.ts'
import { clientAddress, enforceRateLimit, type RateLimit } from '../lib/api/rate-limits.ts'
import { ReferencePage } from './api-reference/page.tsx'

const documentPath = '/api/v1/openapi.json'
const pagePath = '/api/v1/reference'
const app = createApp<{ API_BASE_URL: string; RATE_LIMIT?: RateLimit }>()

app.use(async (c, next) => {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  await next()
})

/** Caches the rendered bytes. Rendering takes 30 ms of CPU time, and anybody may request it. */
const rendered = new Map<string, ArrayBuffer>()

async function renderOnce(
  path: string,
  baseUrl: string,
  render: () => Response | Promise<Response>,
): Promise<ArrayBuffer> {
  const key = `${path} ${baseUrl}`
  const bytes = rendered.get(key) ?? (await (await render()).arrayBuffer())
  rendered.set(key, bytes)
  return bytes
}

/** GET /api/v1/openapi.json, public: the OpenAPI 3.1 document of the API. Any site can read it. */
app.get(documentPath, async (c) => {
  c.header('Access-Control-Allow-Origin', '*')
  c.header('Cache-Control', 'public, max-age=300')
  const { API_BASE_URL: baseUrl } = c.env
  const bytes = await renderOnce(documentPath, baseUrl, () => Response.json(openApiDocument(baseUrl)))
  return c.body(bytes, 200, { 'Content-Type': 'application/json' })
})

/** GET /api/v1/reference, public: the API reference as a page. */
app.get(pagePath, async (c) => {
  c.header('Cache-Control', 'public, max-age=300')
  c.header(
    'Content-Security-Policy',
    "default-src 'none'; style-src 'unsafe-inline'; font-src 'self'; base-uri 'none'; form-action 'none'",
  )
  const { API_BASE_URL: baseUrl } = c.env
  const page = await renderOnce(pagePath, baseUrl, () =>
    c.html(<ReferencePage baseUrl={baseUrl} documentPath={documentPath} />),
  )
  return c.body(page, 200, { 'Content-Type': 'text/html; charset=UTF-8' })
})
for (const path of [documentPath, pagePath]) app.all(path, onlyMethods('GET', 'HEAD'))

export default app
