import { proxyKey, type ProxyEnv } from '../lib/access/proxy-keys.ts'
import { type KeyedEnv, readKey } from '../lib/api/api-key.ts'
import { createApp, onlyMethods } from '../lib/api/app.ts'
import { openDatabase } from '../lib/database.ts'
import { proxyPath } from '../lib/programs/proxy-path.ts'
import { readStatus } from '../lib/tracking/status.ts'

const app = createApp<KeyedEnv & ProxyEnv & { API_BASE_URL: string }>()

/**
 * GET /api/v1/cli/status, program API key: the program's setup and the events that it has received. 200
 * `{success, program, api_base_url, proxy_path, proxy_key, processor, activity, refusals, checks}`, from
 * `readStatus`.
 */
for (const path of ['/', '/api/v1/cli/status']) {
  app.get(path, readKey, async (c) => {
    const status = await readStatus(openDatabase(c.env), c.get('keyHash'))
    const { program, may_track, proxy_key_number, ...rest } = status
    const proxy_key = may_track ? await proxyKey(c.env, program.id, proxy_key_number) : null
    const own = { api_base_url: c.env.API_BASE_URL, proxy_path: await proxyPath(program), proxy_key }
    c.header('Cache-Control', 'no-store')
    return c.json({ success: true, program, ...own, ...rest })
  })
  app.all(path, onlyMethods('GET'))
}

export default app
