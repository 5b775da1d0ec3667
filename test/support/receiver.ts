import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A webhook as the receiver's process reports it. */
export interface ReceivedWebhook {
  name: string
  behaviour: string
  /** Whether the Standard Webhooks library verified the webhook. */
  signed: boolean
  at: number
  method: string
  search: string
  id: string
  headers: Record<string, string>
  body: string
}

export interface Receiver {
  /** The address of an endpoint with this name and behavior. */
  urlOf(name: string, behaviour: 'ok' | '500' | 'down' | '300ms' | 'slow' | 'hang' | 'redirect' | 'long'): string
  /** Sends the process the secret for a name. */
  expect(name: string, secret: string): void
  received: ReceivedWebhook[]
  /** Waits until all webhooks are in `received`. */
  settle(): Promise<void>
  of(name: string): ReceivedWebhook[]
  close(): void
}

/** Starts a process that receives webhooks until the process ends. */
export async function startReceiver(): Promise<Receiver> {
  const child = fork(fileURLToPath(new URL('receiver-process.ts', import.meta.url)))
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  const received: ReceivedWebhook[] = []
  const settling: (() => void)[] = []
  child.on('message', (message: ReceivedWebhook | { settled: true }) => {
    if ('settled' in message) settling.shift()?.()
    else received.push(message)
  })
  return {
    urlOf: (name, behaviour) => `http://127.0.0.1:${port}/${name}/${behaviour}`,
    expect: (name, secret) => void child.send({ name, secret }),
    received,
    settle: () =>
      new Promise((resolve) => {
        settling.push(resolve)
        child.send({})
      }),
    of: (name) => received.filter((webhook) => webhook.name === name),
    close: () => child.disconnect(),
  }
}
