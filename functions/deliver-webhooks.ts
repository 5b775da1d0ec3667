import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { type ChannelsEnv, openChannels } from '../lib/notifications/channels.ts'
import type { AddressEnv } from '../lib/notifications/public-address.ts'
import { type ConsumerTerm, deliverWebhooks } from '../lib/notifications/webhook-delivery.ts'
import type { WebhookSecretEnv } from '../lib/notifications/webhook-secrets.ts'

type Env = DatabaseEnv & ChannelsEnv & AddressEnv & WebhookSecretEnv

/** The function runs every minute, so the next run starts when this one ends. */
const termMilliseconds = 65_000
/** At the edge, each lane has six connections of its own. One run can call 32 Workers. */
const maxLanes = 24
/** Only these lanes call slow endpoints, so that fast endpoints always find a free lane. */
const lanesForSlow = 12

interface Lane {
  lane: number
  deadline: number
  waits: boolean
}

/** The execution context of a called function. The edge and the local stack provide one, but a plain run in Node doesn't. */
interface Context {
  exports?: { lane: { fetch(url: string, init: { method: string; body: string }): Promise<Response> } }
}

async function runLane(env: Env, context: Context | undefined, { lane, ...term }: Lane): Promise<void> {
  const next = { lane: lane + 1, deadline: term.deadline, waits: false }
  const consumer = { db: openDatabase(env), channels: openChannels(env), env }
  const lanes = context?.exports
  const onFull: ConsumerTerm['onFull'] = async () =>
    lanes ? await lanes.lane.fetch('https://lane/', { method: 'POST', body: JSON.stringify(next) }) : undefined
  const figures = await deliverWebhooks(consumer, {
    ...term,
    takesSlow: lane <= lanesForSlow,
    ...(lane < maxLanes && lanes && { onFull }),
  })
  if (figures.delivered + figures.failed > 0) {
    console.log(JSON.stringify({ function: 'deliver-webhooks', lane, ...figures }))
  }
}

/**
 * Scheduled: delivers webhooks for a minute, until the next run starts. The local stack calls it without a schedule. That run ends when
 * the queue is empty.
 */
export default {
  async scheduled(event: { cron?: string }, env: Env, context?: Context): Promise<void> {
    await runLane(env, context, { lane: 1, deadline: Date.now() + termMilliseconds, waits: Boolean(event.cron) })
  },
}

/** An entry point that only this function calls. It is a further lane that is used when all connections of the other lanes are busy. */
export const lane = {
  async fetch(request: Request, env: Env, context?: Context): Promise<Response> {
    // oxlint-disable-next-line no-unsafe-type-assertion -- only this function calls it
    await runLane(env, context, (await request.json()) as Lane)
    return new Response(null, { status: 204 })
  },
}
