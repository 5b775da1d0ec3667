import { type FauxqsServer, startFauxqs } from 'fauxqs'
import { localAws } from './environment.ts'

export interface Queue {
  /** What goes into `AWS_ENDPOINT_URL`. */
  endpoint: string
  url: string
  deadLetterUrl: string
  /** Bodies of all messages in the queue, delayed and in flight included, without receiving them. */
  messages(): string[]
  deadLetters(): string[]
  /** How many messages wait to be received. */
  readyCount(): number
  close(): Promise<void>
}

const name = 'notifications'
const deadLetterName = 'notifications-dead-letters'
const arn = (queue: string) => `arn:aws:sqs:${localAws.region}:000000000000:${queue}`

/**
 * An SQS emulator with the notifications queue and its dead-letter queue. What SQS does after five receives without a
 * delete, it does too. Messages outlive a restart where `dataFolder` is given.
 */
export async function startQueue(
  options: { dataFolder?: string; visibilityTimeoutSeconds?: number } = {},
): Promise<Queue> {
  const server: FauxqsServer = await startFauxqs({
    port: 0,
    logger: false,
    defaultRegion: localAws.region,
    ...(options.dataFolder && { dataDir: options.dataFolder }),
    init: {
      queues: [
        { name: deadLetterName },
        {
          name,
          attributes: {
            VisibilityTimeout: String(options.visibilityTimeoutSeconds ?? 30),
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
  return {
    endpoint,
    url: `${endpoint}/000000000000/${name}`,
    deadLetterUrl: `${endpoint}/000000000000/${deadLetterName}`,
    messages: () => bodies(name),
    deadLetters: () => bodies(deadLetterName),
    readyCount: () => server.inspectQueue(name)?.messages.ready.length ?? 0,
    close: () => server.stop(),
  }
}
