import { sameHash } from '../lib/access/tokens.ts'
import { createApp, onlyMethods } from '../lib/api/app.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { ApiError } from '../lib/errors.ts'
import { asPrometheus, type HealthFigures, problemsOf, readDatabaseFigures } from '../lib/health.ts'
import { type ChannelsEnv, openChannels } from '../lib/notifications/channels.ts'

type Env = DatabaseEnv & ChannelsEnv & { METRICS_TOKEN: string }

const app = createApp<Env>()

/**
 * GET /healthz. Without a token `{ok: true}`, which only says that the edge answers. With `Authorization: Bearer
 * <METRICS_TOKEN>` the figures of lib/health.ts: 200 `{ok, problems, figures}`, or 503 if one is unhealthy.
 * `?format=prometheus` returns Prometheus' text format, always with 200, so that the scraper reads it.
 */
for (const path of ['/', '/healthz']) {
  app.get(path, async (c) => {
    c.header('Cache-Control', 'no-store')
    const token = /^Bearer (.+)$/i.exec(c.req.header('authorization') ?? '')?.[1]
    if (token === undefined && c.req.query('format') === undefined) return c.json({ ok: true })
    if (token === undefined || !(await sameHash(token, c.env.METRICS_TOKEN))) {
      throw new ApiError('unauthorized', 'Send the METRICS_TOKEN of this deployment: Authorization: Bearer <token>.')
    }
    const figures = await readFigures(c.env)
    if (c.req.query('format') === 'prometheus') {
      return c.text(asPrometheus(figures), 200, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' })
    }
    const problems = problemsOf(figures)
    return c.json({ ok: problems.length === 0, problems, figures }, problems.length === 0 ? 200 : 503)
  })
  app.all(path, onlyMethods('GET'))
}

async function readFigures(env: Env): Promise<HealthFigures> {
  const [database, queue] = await Promise.all([readDatabaseFigures(openDatabase(env)), openChannels(env).readFigures()])
  return { ...database, ...queue }
}

export default app
