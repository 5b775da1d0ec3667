import { createApp, onlyMethods } from '../lib/api/app.ts'
import { base64, etag } from '../tracker/dist/served/package.js'

const path = '/svc-tracker.tgz'
const tarball = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
const app = createApp()

/** GET /svc-tracker.tgz, public: the package for integrators, for `npm install <this address>`. It changes with the service's version. */
app.get(path, (c) => {
  const headers = { ETag: etag, 'Cache-Control': 'public, max-age=300', 'Content-Type': 'application/gzip' }
  if (c.req.header('if-none-match') === etag) return new Response(null, { status: 304, headers })
  return new Response(tarball, { headers })
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
