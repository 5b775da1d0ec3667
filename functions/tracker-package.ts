import { createApp, onlyMethods } from '../lib/api/app.ts'
import { ApiError } from '../lib/errors.ts'
import { packageFile } from '../tracker/dist/served/package.js'
import { packages } from '../tracker/dist/served/packages.js'
import { fileName, packFor } from '../tracker/pack.ts'

const templates = new Map(Object.entries(packages).map(([version, base64]) => [fileName(version), { version, base64 }]))
/** The requested packages, each packed once. */
const packed = new Map<string, Uint8Array<ArrayBuffer>>()
const path = '/packages/:file'
const app = createApp<{ API_BASE_URL: string }>()

/**
 * GET /packages/svc-tracker-<version>.tgz, public: the package for integrators, which calls this service. The bytes
 * of a version never change.
 */
app.get(path, (c) => {
  const file = c.req.param('file')
  const template = templates.get(file)
  if (template === undefined)
    throw new ApiError(
      'not_found',
      `This package doesn't exist. The current package is ${c.env.API_BASE_URL}/packages/${packageFile}.`,
    )
  const headers = { 'Cache-Control': 'public, max-age=31536000, immutable', 'Content-Type': 'application/gzip' }
  const { version, base64 } = template
  const bytes =
    packed.get(file) ?? new Uint8Array(packFor(Buffer.from(base64, 'base64'), { baseUrl: c.env.API_BASE_URL, version }))
  packed.set(file, bytes)
  return new Response(bytes, { headers })
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
