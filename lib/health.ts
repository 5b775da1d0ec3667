import { sql } from 'kysely'
import type { Database } from './database.ts'
import { kysely } from './kysely.ts'
import { schemaVersion } from './schema.ts'

/** The figures for operators. Ages are in seconds, or 0 if nothing is waiting. Unavailable figures are null. */
export interface HealthFigures {
  database_seconds: number | null
  /** 1 if the database has the schema of this version or a newer one. */
  schema_current: number | null
  outbox_undelivered: number | null
  outbox_oldest_seconds: number | null
  clicks_uncounted_oldest_seconds: number | null
  clicks_unsent_oldest_seconds: number | null
  commissions_due_oldest_seconds: number | null
  webhooks_due_oldest_seconds: number | null
  mails_failing: number | null
  retention_behind_seconds: number | null
  click_months_due: number | null
  queue_messages: number | null
  dead_letters: number | null
}

interface Watched {
  what: string
  /** The highest healthy value. `least` is the lowest healthy value. */
  most?: number
  least?: number
  /** The next step for the operator, as in the runbook. */
  look: string
}

/** Each figure's meaning and healthy bounds. An unavailable figure is unhealthy. */
export const watched: Record<keyof HealthFigures, Watched> = {
  database_seconds: { what: 'Time of one database request', most: 2, look: 'Database down' },
  schema_current: { what: 'Whether the schema is current', least: 1, look: 'Rollback' },
  outbox_undelivered: { what: 'Undelivered outbox rows', look: 'Queue backlog' },
  outbox_oldest_seconds: { what: 'Age of the oldest undelivered outbox row', most: 2700, look: 'Queue backlog' },
  clicks_uncounted_oldest_seconds: { what: 'Age of the oldest uncounted click', most: 7200, look: 'Late counting' },
  clicks_unsent_oldest_seconds: {
    what: 'Age of the oldest click that ClickHouse lacks',
    most: 7200,
    look: 'ClickHouse down',
  },
  commissions_due_oldest_seconds: { what: 'Age of the oldest due commission', most: 7200, look: 'Late counting' },
  webhooks_due_oldest_seconds: {
    what: 'Age of the oldest due webhook',
    most: 2700,
    look: 'Late webhooks',
  },
  mails_failing: { what: 'Mails that failed three times or more', most: 2, look: 'Mail API down' },
  retention_behind_seconds: {
    what: 'Delay of the deletion of expired customers',
    most: 172_800,
    look: 'Late retention',
  },
  click_months_due: {
    what: 'Months of clicks that have been due for deletion for two days',
    most: 0,
    look: 'Late retention',
  },
  queue_messages: { what: 'Messages in the queue', most: 10_000, look: 'Queue backlog' },
  dead_letters: { what: 'Dead letters', most: 0, look: 'Dead letters' },
}

type DatabaseFigures = Omit<HealthFigures, 'queue_messages' | 'dead_letters'>

const unknown: DatabaseFigures = {
  database_seconds: null,
  schema_current: null,
  outbox_undelivered: null,
  outbox_oldest_seconds: null,
  clicks_uncounted_oldest_seconds: null,
  clicks_unsent_oldest_seconds: null,
  commissions_due_oldest_seconds: null,
  webhooks_due_oldest_seconds: null,
  mails_failing: null,
  retention_behind_seconds: null,
  click_months_due: null,
}

const secondsSince = (column: 'created_at' | 'clicked_at' | 'hold_until' | 'due.next_attempt_at') =>
  sql<number>`coalesce(greatest(floor(extract(epoch from now() - min(${sql.ref(column)}))), 0), 0)::integer`

/** Reads the figures from the database in one request. They are null if the database doesn't respond or has another schema. */
export async function readDatabaseFigures(db: Database, clickMonths: number): Promise<DatabaseFigures> {
  const started = performance.now()
  const statement = kysely
    .selectFrom(
      kysely
        .selectFrom('outbox')
        .select((eb) => [eb.fn.countAll<number>().as('undelivered'), secondsSince('created_at').as('oldest_seconds')])
        .where('delivered_at', 'is', null)
        .as('outbox'),
    )
    .crossJoin(
      kysely.selectFrom('uncounted_clicks').select(secondsSince('clicked_at').as('oldest_seconds')).as('clicks'),
    )
    .crossJoin(
      // Before the copy of earlier clicks is complete, they wait as planned.
      sql<{ oldest_seconds: number }>`
      (select coalesce((
        select greatest(floor(extract(epoch from now() - u.clicked_at)), 0)::integer from unsent_clicks u, click_sink k
        where k.is_complete and not u.is_erased order by u.id limit 1
      ), 0) as oldest_seconds)`.as('unsent'),
    )
    .crossJoin(
      kysely
        .selectFrom('commissions')
        .select(secondsSince('hold_until').as('oldest_seconds'))
        .where('hold_until', '<=', sql<Date>`now()`)
        .where('credited_at', 'is', null)
        .where('rejected_at', 'is', null)
        .where('reversal', '<>', 'full')
        .where('is_shadow', '=', sql.lit(false))
        .where(sql<boolean>`not in_shadow_mode(program_id)`)
        .as('due'),
    )
    .crossJoin(
      kysely
        .selectFrom('webhook_deliveries as due')
        .innerJoin('webhook_endpoints as e', (join) =>
          join.onRef('e.program_id', '=', 'due.program_id').onRef('e.id', '=', 'due.endpoint_id'),
        )
        .select(secondsSince('due.next_attempt_at').as('oldest_seconds'))
        .where('due.next_attempt_at', '<=', sql<Date>`now()`)
        // Failing endpoints get only one attempt at a time.
        .where('e.failing_since', 'is', null)
        .where('e.disabled_at', 'is', null)
        .where('e.deleted_at', 'is', null)
        .as('webhooks'),
    )
    .crossJoin(
      kysely
        .selectFrom('notification_mails')
        .select((eb) => eb.fn.count<number>('mail_id').distinct().as('failing'))
        .where('attempts', '>=', 3)
        .as('mails'),
    )
    .crossJoin(
      kysely
        .selectFrom('programs as p')
        .leftJoin('customers_expired as x', 'x.program_id', 'p.id')
        .select(
          sql<number>`coalesce(greatest(floor(extract(epoch from
            max(window_start(now(), p.cookie_window_days) - greatest(x.up_to, p.created_at)))), 0), 0)::integer`.as(
            'behind_seconds',
          ),
        )
        .as('retention'),
    )
    .crossJoin(
      sql<{ months: number }>`
      (select count(oldest)::integer as months from click_month_due(${clickMonths}, interval '2 days'))`.as(
        'due_clicks',
      ),
    )
    .select([
      'outbox.undelivered as outbox_undelivered',
      'outbox.oldest_seconds as outbox_oldest_seconds',
      'clicks.oldest_seconds as clicks_uncounted_oldest_seconds',
      'unsent.oldest_seconds as clicks_unsent_oldest_seconds',
      'due.oldest_seconds as commissions_due_oldest_seconds',
      'webhooks.oldest_seconds as webhooks_due_oldest_seconds',
      'mails.failing as mails_failing',
      'retention.behind_seconds as retention_behind_seconds',
      'due_clicks.months as click_months_due',
      sql<number>`(exists (select from schema_migrations where name >= ${schemaVersion}))::integer`.as(
        'schema_current',
      ),
    ])
  try {
    const [row] = await db.query(statement)
    return { ...unknown, ...row, database_seconds: Math.round(performance.now() - started) / 1000 }
  } catch (error) {
    console.error(JSON.stringify({ error: 'health', name: error instanceof Error ? error.name : typeof error }))
    return unknown
  }
}

/** A sentence for each figure outside its bounds. */
export function problemsOf(figures: HealthFigures): string[] {
  return names.flatMap((name) => {
    const { what, most = Infinity, least = -Infinity, look } = watched[name]
    const value = figures[name]
    if (value === null) return [`${what}: unavailable. See "${look}".`]
    if (value <= most && value >= least) return []
    return [`${what}: ${value}, healthy: ${value > most ? `at most ${most}` : least}. See "${look}".`]
  })
}

/** The figures as gauges, without unavailable ones. `svc_up` is 1 if all are healthy. */
export function gaugesOf(figures: HealthFigures) {
  const gauges: [name: string, what: string, value: number | null][] = [
    ['up', 'Whether every figure is healthy', problemsOf(figures).length === 0 ? 1 : 0],
    ...names.map((name): [string, string, number | null] => [name, watched[name].what, figures[name]]),
  ]
  return gauges.flatMap(([name, help, value]) =>
    value === null ? [] : [{ name: `svc_${name}`, help, type: 'gauge', values: [{ labels: {}, value }] }],
  )
}

/** The gauges in the Prometheus format. */
export const asPrometheus = (figures: HealthFigures): string =>
  gaugesOf(figures)
    .map(({ name, help, values }) => `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${name} ${values[0]?.value}\n`)
    .join('')

// oxlint-disable-next-line no-unsafe-type-assertion -- its names are the record's own
const names = Object.keys(watched) as (keyof HealthFigures)[]
