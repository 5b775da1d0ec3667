import { sql } from 'kysely'
import type { Database } from './database.ts'
import { kysely } from './kysely.ts'
import { schemaVersion } from './schema.ts'

/** What an operator watches. Ages are in seconds, 0 where nothing waits; null is what could not be had. */
export interface HealthFigures {
  database_seconds: number | null
  /** 1 where the database has the schema that this version was written for, or a newer one. */
  schema_current: number | null
  outbox_undelivered: number | null
  outbox_oldest_seconds: number | null
  clicks_uncounted_oldest_seconds: number | null
  commissions_due_oldest_seconds: number | null
  webhooks_due_oldest_seconds: number | null
  queue_messages: number | null
  dead_letters: number | null
}

interface Watched {
  what: string
  /** The most that is healthy; `least` where less is not. */
  most?: number
  least?: number
  /** What an operator does, in the words of the runbook. */
  look: string
}

/** What each figure is, and between which bounds it is healthy. A figure that cannot be had is not. */
export const watched: Record<keyof HealthFigures, Watched> = {
  database_seconds: { what: 'Time of one request to the database', most: 2, look: 'Database down' },
  schema_current: { what: 'Whether the schema is that of this version', least: 1, look: 'Rollback' },
  outbox_undelivered: { what: 'Outbox rows not delivered', look: 'Queue backlog' },
  outbox_oldest_seconds: { what: 'Age of the oldest of them', most: 2700, look: 'Queue backlog' },
  clicks_uncounted_oldest_seconds: { what: 'Age of the oldest click not counted', most: 7200, look: 'Late counting' },
  commissions_due_oldest_seconds: { what: 'How long the oldest commission is due', most: 7200, look: 'Late counting' },
  webhooks_due_oldest_seconds: {
    what: 'How long the oldest webhook is due that nobody attempt_count',
    most: 2700,
    look: 'Late webhooks',
  },
  queue_messages: { what: 'Messages in the queue', most: 10_000, look: 'Queue backlog' },
  dead_letters: { what: 'Messages that nobody could handle', most: 0, look: 'Dead letters' },
}

type DatabaseFigures = Omit<HealthFigures, 'queue_messages' | 'dead_letters'>

const unknown: DatabaseFigures = {
  database_seconds: null,
  schema_current: null,
  outbox_undelivered: null,
  outbox_oldest_seconds: null,
  clicks_uncounted_oldest_seconds: null,
  commissions_due_oldest_seconds: null,
  webhooks_due_oldest_seconds: null,
}

const secondsSince = (column: 'created_at' | 'clicked_at' | 'hold_until' | 'due.next_attempt_at') =>
  sql<number>`coalesce(greatest(floor(extract(epoch from now() - min(${sql.ref(column)}))), 0), 0)::integer`

/** Reads the database's figures in one request; null each where it does not answer, or its schema is another. */
export async function readDatabaseFigures(db: Database): Promise<DatabaseFigures> {
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
      kysely
        .selectFrom('commissions')
        .select(secondsSince('hold_until').as('oldest_seconds'))
        .where('hold_until', '<=', sql<Date>`now()`)
        .where('credited_at', 'is', null)
        .where('rejected_at', 'is', null)
        .where('reversal', '<>', 'full')
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
        // Of an endpoint that fails, only one is tried at a time.
        .where('e.failing_since', 'is', null)
        .where('e.disabled_at', 'is', null)
        .where('e.deleted_at', 'is', null)
        .as('webhooks'),
    )
    .select([
      'outbox.undelivered as outbox_undelivered',
      'outbox.oldest_seconds as outbox_oldest_seconds',
      'clicks.oldest_seconds as clicks_uncounted_oldest_seconds',
      'due.oldest_seconds as commissions_due_oldest_seconds',
      'webhooks.oldest_seconds as webhooks_due_oldest_seconds',
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

/** The figures out of their bounds, a sentence each. */
export function problemsOf(figures: HealthFigures): string[] {
  return names.flatMap((name) => {
    const { what, most = Infinity, least = -Infinity, look } = watched[name]
    const value = figures[name]
    if (value === null) return [`${what}: could not be had. See "${look}".`]
    if (value <= most && value >= least) return []
    return [`${what}: ${value}, healthy is ${value > most ? `at most ${most}` : least}. See "${look}".`]
  })
}

/** The figures as Prometheus reads them; those that could not be had are left out, and `svc_up` says whether all is well. */
export function asPrometheus(figures: HealthFigures): string {
  const gauges: [name: string, what: string, value: number | null][] = [
    ['up', 'Whether every figure is healthy', problemsOf(figures).length === 0 ? 1 : 0],
    ...names.map((name): [string, string, number | null] => [name, watched[name].what, figures[name]]),
  ]
  return gauges
    .filter(([, , value]) => value !== null)
    .map(([name, what, value]) => `# HELP svc_${name} ${what}\n# TYPE svc_${name} gauge\nsvc_${name} ${value}\n`)
    .join('')
}

// oxlint-disable-next-line no-unsafe-type-assertion -- its names are the record's own
const names = Object.keys(watched) as (keyof HealthFigures)[]
