import { pathToFileURL } from 'node:url'
import { builtService } from './build.ts'

// Functions have the same time zone as on Cloudflare.
process.env['TZ'] = 'UTC'
process.env['NODE_ENV'] ??= 'production'

const built = await builtService()
if (built) {
  // This makes stack traces refer to the source files.
  process.setSourceMapsEnabled(true)
  await import(pathToFileURL(built).href)
} else {
  const { runService } = await import('./service.ts')
  const { readSource } = await import('./sources.ts')
  await runService(readSource)
}
