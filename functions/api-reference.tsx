import { createApp, onlyMethods } from '../lib/api/app.ts'
import { openApiDocument } from '../lib/api/openapi.ts'
import { ReferencePage } from './api-reference/page.tsx'

const documentPath = '/api/v1/openapi.json'
const pagePath = '/api/v1/reference'
const app = createApp<{ API_BASE_URL: string }>()

/** GET /api/v1/openapi.json, public: the OpenAPI 3.1 document of the API. Any site can read it. */
app.get(documentPath, (c) => {
  c.header('Access-Control-Allow-Origin', '*')
  c.header('Cache-Control', 'public, max-age=300')
  return c.json(openApiDocument(c.env.API_BASE_URL))
})

/** GET /api/v1/reference, public: the API reference as a page. */
app.get(pagePath, (c) => {
  c.header('Cache-Control', 'public, max-age=300')
  c.header(
    'Content-Security-Policy',
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
  )
  return c.html(<ReferencePage baseUrl={c.env.API_BASE_URL} documentPath={documentPath} />)
})
for (const path of [documentPath, pagePath]) app.all(path, onlyMethods('GET', 'HEAD'))

export default app
