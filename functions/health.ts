import { sql } from 'kysely'
import { sameHash } from '../lib/access/tokens.ts'
import { createApp, onlyMethods } from '../lib/api/app.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { ApiError } from '../lib/errors.ts'
import { kysely } from '../lib/kysely.ts'
import { asPrometheus, type HealthFigures, problemsOf, readDatabaseFigures } from '../lib/health.ts'
import { type ChannelsEnv, openChannels } from '../lib/notifications/channels.ts'
import { clickRetentionMonths } from '../lib/tracking/retention.ts'

type Env = DatabaseEnv &
  ChannelsEnv & {
    METRICS_TOKEN: string
    CLICK_RETENTION_MONTHS?: string
    /** The metrics of the process on one box. See lib/serve/metrics.ts. */
    PROCESS_METRICS?: { text(): Promise<string> }
  }

const app = createApp<Env>()

/**
 * GET /healthz. Without a token, it reports whether the database responds: 200 `{ok: true}` or 503 `{ok: false}`. With `Authorization:
 * Bearer <METRICS_TOKEN>`, it returns the figures of lib/health.ts: 200 `{ok, version, problems, figures}`, or 503 if one is unhealthy.
 * `?format=prometheus` returns Prometheus' text format, always with 200, so that the scraper reads it. On one box, the text also
 * contains the metrics of the process.
 */
for (const path of ['/', '/healthz']) {
  app.get(path, async (c) => {
    c.header('Cache-Control', 'no-store')
    const token = /^Bearer (.+)$/i.exec(c.req.header('authorization') ?? '')?.[1]
    if (token === undefined && c.req.query('format') === undefined) {
      const ok = await databaseAnswers(c.env)
      return c.json({ ok }, ok ? 200 : 503)
    }
    if (token === undefined || !(await sameHash(token, c.env.METRICS_TOKEN))) {
      throw new ApiError('unauthorized', 'Send the METRICS_TOKEN of this deployment: Authorization: Bearer <token>.')
    }
    const figures = await readFigures(c.env)
    if (c.req.query('format') === 'prometheus') {
      const ofProcess = (await c.env.PROCESS_METRICS?.text()) ?? ''
      return c.text(asPrometheus(figures) + ofProcess, 200, {
        'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
      })
    }
    const problems = problemsOf(figures)
    return c.json(
      { ok: problems.length === 0, version: c.env.VERSION, problems, figures },
      problems.length === 0 ? 200 : 503,
    )
  })
  app.all(path, onlyMethods('GET'))
}

/** Anyone can call this, so each isolate queries the database at most once a second. */
const answerMilliseconds = 1000
let latest: { at: number; ok: boolean } | undefined

async function databaseAnswers(env: Env): Promise<boolean> {
  if (latest !== undefined && Date.now() - latest.at < answerMilliseconds) return latest.ok
  const ok = await openDatabase(env)
    .query(kysely.selectNoFrom(sql.lit(1).as('one')))
    .then(
      () => true,
      () => false,
    )
  latest = { at: Date.now(), ok }
  return ok
}

async function readFigures(env: Env): Promise<HealthFigures> {
  const [database, queue] = await Promise.all([
    readDatabaseFigures(openDatabase(env), clickRetentionMonths(env.CLICK_RETENTION_MONTHS)),
    openChannels(env).readFigures(),
  ])
  return { ...database, ...queue }
}

export default app
