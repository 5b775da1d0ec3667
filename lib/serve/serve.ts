import { pathToFileURL } from 'node:url'
import { builtService } from './build.ts'

// What functions read of their surroundings is the same as at Cloudflare.
process.env['TZ'] = 'UTC'
process.env['NODE_ENV'] ??= 'production'

const built = await builtService()
if (built) {
  // What is logged of an error names the sources.
  process.setSourceMapsEnabled(true)
  await import(pathToFileURL(built).href)
} else {
  const { runService } = await import('./service.ts')
  const { readSource } = await import('./sources.ts')
  await runService(readSource)
}
