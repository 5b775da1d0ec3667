import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Server } from 'node:http'
import type { FauxqsServer } from 'fauxqs'
import { localAws } from './environment.ts'
import { refusePages } from './pages.ts'

export interface Queue {
  /** The value of `AWS_ENDPOINT_URL`. */
  endpoint: string
  url: string
  deadLetterUrl: string
  /** The webhooks queue. Its messages only wake the consumer, so it has no dead-letter queue. */
  webhookUrl: string
  /** Returns the bodies of all messages in the queue, including delayed and in-flight messages, without receiving them. */
  messages(): string[]
  webhookMessages(): string[]
  deadLetters(): string[]
  /** The number of waiting messages, for notifications and webhooks. */
  readyCount(): number
  readyWebhookCount(): number
  close(): Promise<void>
}

const name = 'notifications'
const deadLetterName = 'notifications-dead-letters'
const webhookName = 'webhooks'
const arn = (queue: string) => `arn:aws:sqs:${localAws.region}:000000000000:${queue}`

/**
 * Starts an SQS emulator with the notifications queue, its dead-letter queue and the webhooks queue. After five receives without
 * a delete, a message becomes a dead letter, as in SQS. With `dataFolder`, messages survive a restart.
 */
export async function startQueue(options: { dataFolder?: string } = {}): Promise<Queue> {
  const server = await startOnLoopback({
    port: 0,
    logger: false,
    defaultRegion: localAws.region,
    ...(options.dataFolder && { dataDir: options.dataFolder }),
    init: {
      queues: [
        { name: deadLetterName },
        { name: webhookName, attributes: { VisibilityTimeout: '60', MessageRetentionPeriod: '3600' } },
        {
          name,
          attributes: {
            VisibilityTimeout: '30',
            RedrivePolicy: JSON.stringify({ deadLetterTargetArn: arn(deadLetterName), maxReceiveCount: '5' }),
          },
        },
      ],
    },
  })
  const endpoint = `http://127.0.0.1:${server.port}`
  const bodies = (queue: string) => {
    const { ready, delayed, inflight } = server.inspectQueue(queue)?.messages ?? {
      ready: [],
      delayed: [],
      inflight: [],
    }
    return [...ready, ...delayed, ...inflight.map(({ message }) => message)].map(({ body }) => body)
  }
  const readyCount = (queue: string) => server.inspectQueue(queue)?.messages.ready.length ?? 0
  return {
    endpoint,
    url: `${endpoint}/000000000000/${name}`,
    deadLetterUrl: `${endpoint}/000000000000/${deadLetterName}`,
    webhookUrl: `${endpoint}/000000000000/${webhookName}`,
    messages: () => bodies(name),
    webhookMessages: () => bodies(webhookName),
    deadLetters: () => bodies(deadLetterName),
    readyCount: () => readyCount(name),
    readyWebhookCount: () => readyCount(webhookName),
    close: () => server.stop(),
  }
}

/**
 * The emulator listens on all interfaces, and no option changes this. While it starts, this function makes servers without an address
 * listen on loopback. If the emulator still listens elsewhere, this function stops it.
 */
async function startOnLoopback(options: Parameters<typeof import('fauxqs').startFauxqs>[0]): Promise<FauxqsServer> {
  const { startFauxqs } = await import('fauxqs')
  const listening: Server[] = []
  const onListen = (message: unknown) => {
    if (typeof message !== 'object' || message === null || !('server' in message) || !('options' in message)) return
    const { server, options: listenOptions } = message
    if (
      !(server instanceof Server) ||
      typeof listenOptions !== 'object' ||
      listenOptions === null ||
      !('host' in listenOptions)
    )
      return
    if (listenOptions.host !== '0.0.0.0') return
    listenOptions.host = '127.0.0.1'
    refusePagesAt(server)
    listening.push(server)
  }
  subscribe(channel, onListen)
  try {
    const started = await startFauxqs(options)
    const addresses = listening.map((server) => server.address())
    const isOpen = (address: (typeof addresses)[number]) =>
      typeof address !== 'object' || address?.address !== '127.0.0.1'
    if (addresses.length > 0 && !addresses.some(isOpen)) return started
    await started.stop()
    throw new Error('The queue emulator was stopped, because other machines could reach it.')
  } finally {
    unsubscribe(channel, onListen)
  }
}

const channel = 'tracing:net.server.listen:asyncStart'

/** Any website could send these forms, and topics could even put messages into queues. */
function refusePagesAt(server: Server): void {
  const answers = server.listeners('request')
  server.removeAllListeners('request')
  server.on('request', (request, response) => {
    if (refusePages(request, response)) return
    for (const answer of answers) Reflect.apply(answer, server, [request, response])
  })
}
