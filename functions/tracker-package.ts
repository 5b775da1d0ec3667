import { createApp, onlyMethods } from '../lib/api/app.ts'
import { ApiError } from '../lib/errors.ts'
import { packageFile } from '../tracker/dist/served/package.js'
import { packages } from '../tracker/dist/served/packages.js'

const packed = new Map(Object.entries(packages))
const path = '/packages/:file'
const app = createApp<{ API_BASE_URL: string }>()

/** GET /packages/svc-tracker-<version>.tgz, public: the package for integrators. A version's bytes never change. */
app.get(path, (c) => {
  const base64 = packed.get(c.req.param('file'))
  if (base64 === undefined)
    throw new ApiError(
      'not_found',
      `There is no such package. The current one is ${c.env.API_BASE_URL}/packages/${packageFile}.`,
    )
  const headers = { 'Cache-Control': 'public, max-age=31536000, immutable', 'Content-Type': 'application/gzip' }
  return new Response(
    Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)),
    { headers },
  )
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
