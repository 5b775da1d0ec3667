import { createHmac } from 'node:crypto'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { ApiOperations } from '../api-types.ts'
import { create, type Flags, type Subcommand, wholeNumber } from './flags.ts'
import type { Row } from './lists.ts'
import { CommandError, connect, type Connection, request } from './service.ts'
import { green, plain, red } from './text.ts'
import { aboutOf, typesOf, typesOption } from './webhooks.ts'

type Delivery = Row<'listWebhookDeliveries'>

const pollMilliseconds = 1000
/** The service's own timeout for an endpoint. */
const answerMilliseconds = 10_000
/** The delays before further attempts if the server refuses an event. The service itself makes more attempts, over several days. */
const retryMilliseconds = [5000, 60_000, 300_000]
/** The longest duration of a transaction that writes an event. Such an event can appear after later events. */
const overlapMilliseconds = 60_000
/** The listener continues after these errors, because the service may only be unreachable for a moment. */
const passing = new Set(['network_error', 'invalid_response', 'rate_limited', 'unavailable', 'internal_error'])

const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

function httpAddress(text: string): string {
  if (/^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text
  throw new InvalidArgumentError('Pass an address such as http://localhost:3000/hooks.')
}

function secretIn(text: string, others: string[] = []): string[] {
  if (/^whsec_[\w+/]+=*$/.test(text)) return [...others, text]
  throw new InvalidArgumentError('Pass a secret that begins with whsec_.')
}

/** Returns the headers of a webhook according to Standard Webhooks, with one signature for each secret. */
function signed(id: string, body: string, secrets: string[]): Record<string, string> {
  const timestamp = String(Math.floor(Date.now() / 1000))
  const signatureBy = (secret: string) => {
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
  }
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': secrets.map(signatureBy).join(' '),
  }
}

/** Sends one event. Returns the status of the response, or the error. */
async function post(address: string, { payload }: Delivery, secrets: string[]): Promise<number | Error> {
  const body = JSON.stringify(payload)
  try {
    const response = await fetch(address, {
      method: 'POST',
      headers: signed(payload.id, body, secrets),
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(answerMilliseconds),
    })
    await response.arrayBuffer().catch(() => undefined)
    return response.status
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

function reasonOf({ message, cause }: Error): string {
  if (!(cause instanceof Error)) return message
  return 'code' in cause ? String(cause.code) : cause.message
}

/**
 * Forwards one event, and tries again until the address responds. Any status and any timeout count as a response. Returns undefined if
 * the listener ends before that.
 */
async function forward(address: string, delivery: Delivery, secrets: string[], ended: AbortSignal) {
  for (let attempt_count = 1; !ended.aborted; attempt_count++) {
    const answer = await post(address, delivery, secrets)
    const isTimeout = answer instanceof Error && answer.name === 'TimeoutError'
    if (!(answer instanceof Error) || isTimeout) {
      if (attempt_count > 1) console.error(`${green('✓')} ${address} responds again.`)
      return isTimeout ? `no response in ${answerMilliseconds / 1000} s` : answer
    }
    if (attempt_count === 1) {
      console.error(`${red('✗')} ${address} does not respond (${reasonOf(answer)}). Events wait until it does.`)
    }
    await pause(pollMilliseconds, ended)
  }
  return undefined
}

const pause = (milliseconds: number, ended: AbortSignal) =>
  sleep(milliseconds, undefined, { signal: ended }).catch(() => undefined)

/** Reads the unseen deliveries of an endpoint, oldest first. `seen` contains the times of deliveries that can appear again. */
async function readNew(connection: Connection, endpointId: number, seen: Map<string, number>): Promise<Delivery[]> {
  const since = Math.max(...seen.values()) - overlapMilliseconds
  const isRecent = ({ payload }: Delivery) => Date.parse(payload.timestamp) >= since
  const found: Delivery[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const path = `/api/v1/webhook-endpoints/${endpointId}/deliveries?limit=100${cursor && `&cursor=${cursor}`}`
    const page: ApiOperations['listWebhookDeliveries']['answer'] = await request(connection, path)
    // Older deliveries were already seen, but `seen` no longer contains them.
    found.push(...page.data.filter((delivery) => isRecent(delivery) && !seen.has(delivery.id)))
    const last = page.data.at(-1)
    cursor = last && isRecent(last) ? page.next_cursor : null
  }
  for (const [id, at] of seen) if (at < since) seen.delete(id)
  return found.toReversed()
}

interface ListenFlags extends Flags {
  forward: string
  types?: string
  secret?: string[]
  endpoint?: number
}

interface Listened {
  id: number
  created_at: string
  secrets: string[]
}

/** Returns the endpoint of --endpoint, with the given secrets or a new one. Without --endpoint, creates an endpoint. */
async function openEndpoint(connection: Connection, flags: ListenFlags): Promise<Listened> {
  if (flags.endpoint === undefined) {
    const body = { url: null, description: 'svc listen', types: typesOf(flags.types) }
    const created = await create<ApiOperations['createWebhookEndpoint']['answer']>(flags, 'webhook-endpoints', body)
    return { ...created.webhook_endpoint, secrets: flags.secret ?? [created.webhook_endpoint.secret] }
  }
  const path = `webhook-endpoints/${flags.endpoint}`
  const { webhook_endpoint: found } = await request<ApiOperations['getWebhookEndpoint']['answer']>(
    connection,
    `/api/v1/${path}`,
  )
  if (found.url !== null) {
    throw new CommandError(
      'not_a_listener',
      `The webhooks of endpoint ${found.id} are sent to ${plain(found.url)}.`,
      'Pass the endpoint of a listener that was killed (svc webhooks list), or none for a new one.',
    )
  }
  if (flags.secret !== undefined) return { ...found, secrets: flags.secret }
  const rotated = await create<ApiOperations['rotateWebhookSecret']['answer']>(flags, `${path}/rotate-secret`, {})
  return { ...rotated.webhook_endpoint, secrets: [rotated.webhook_endpoint.secret] }
}

/**
 * `svc listen`: creates its own endpoint and deletes it at the end, so that two listeners don't take each other's events. It reuses the
 * endpoint of a killed listener only if the user specifies it, because the endpoint of a running listener looks the same.
 */
async function listen(flags: ListenFlags): Promise<void> {
  const connection = connect(flags)
  const endpoint = await openEndpoint(connection, flags)
  const { secrets } = endpoint
  const say = (data: object, text: string) => console.log(flags.json ? JSON.stringify(data) : text)

  const ended = new AbortController()
  const end = () => ended.abort()
  // The process gets SIGHUP when the terminal closes.
  for (const signal of endings) process.once(signal, end)
  /** The ids that were typed. Empty for the latest event. */
  const typed: string[] = []
  const input = createInterface({ input: process.stdin }).on('line', (line) => typed.push(line.trim()))
  try {
    say(
      { endpoint_id: endpoint.id, secret: secrets[0], forward: flags.forward },
      `${green('✓')} Endpoint ${endpoint.id} forwards to ${flags.forward}. Ctrl-C ends it. Enter sends the latest event again.\n  Signed by ${secrets.join(' and ')}\n  Try it: svc webhooks test ${endpoint.id}\n`,
    )
    const seen = new Map([['', Date.parse(endpoint.created_at)]])
    const sent = new Map<string, Delivery>()
    let refused: { delivery: Delivery; attempt: number; at: number }[] = []
    let isAway = false

    /** Forwards an event and prints the response. If the event is refused, there is another attempt later. */
    const deliver = async (delivery: Delivery, attempt: number) => {
      const { id, type, payload } = delivery
      const answer = await forward(flags.forward, delivery, secrets, ended.signal)
      // Nobody else forwards the remaining events when the listener ends.
      if (answer === undefined) return
      seen.set(id, Date.parse(payload.timestamp))
      sent.delete(id)
      sent.set(id, delivery)
      const isTaken = typeof answer === 'number' && answer >= 200 && answer < 300
      const cells = [payload.timestamp.slice(11, 19), plain(id).padEnd(12), plain(type).padEnd(20)]
      const about = aboutOf(payload.data).padEnd(24)
      say({ ...payload, answer }, [...cells, about, (isTaken ? green : red)(String(answer))].join('  '))
      const delay = retryMilliseconds[attempt - 1]
      if (!isTaken && delay !== undefined) refused.push({ delivery, attempt: attempt + 1, at: Date.now() + delay })
    }
    while (!ended.signal.aborted) {
      try {
        const deliveries = await readNew(connection, endpoint.id, seen)
        if (isAway) console.error(`${green('✓')} The service responds again. No event was lost.`)
        isAway = false
        for (const delivery of deliveries) await deliver(delivery, 1)
        const due = refused.filter(({ at }) => at <= Date.now())
        refused = refused.filter((waiting) => !due.includes(waiting))
        for (const { delivery, attempt } of due) await deliver(delivery, attempt)
        for (const id of typed.splice(0)) {
          const delivery = id ? sent.get(id) : [...sent.values()].at(-1)
          if (delivery) await deliver(delivery, retryMilliseconds.length + 1)
          else console.error(`${red('✗')} This listener has sent no event ${plain(id)}.`)
        }
      } catch (error) {
        if (!(error instanceof CommandError)) throw error
        if (error.code === 'not_found') {
          throw new CommandError(
            'listener_ended',
            'The endpoint of this listener was deleted, by a person or after a day.',
            'Run the command again.',
          )
        }
        if (!passing.has(error.code)) throw error
        if (!isAway) console.error(`${red('✗')} ${error.message} The service keeps events until it responds.`)
        isAway = true
      }
      await pause(pollMilliseconds, ended.signal)
    }
  } finally {
    for (const signal of endings) process.off(signal, end)
    input.close()
    await request(connection, `/api/v1/webhook-endpoints/${endpoint.id}`, { method: 'DELETE' }).catch(
      (error: unknown) => {
        if (error instanceof CommandError && error.code === 'not_found') return
        console.error(`${red('✗')} Endpoint ${endpoint.id} could not be deleted. The service deletes it after a day.`)
      },
    )
  }
}

export function addListen(svc: Command, subcommand: Subcommand): void {
  subcommand(
    svc,
    'listen',
    "Forward the program's webhooks to a server on this machine. The key needs the scopes read and manage.",
  )
    .requiredOption('--forward <address>', 'Address of your server, such as http://localhost:3000/hooks.', httpAddress)
    .addOption(typesOption())
    .option(
      '--secret <secret>',
      'Sign with this secret, whsec_…, instead of a new one. Repeat it to sign with two.',
      secretIn,
    )
    .addOption(
      new Option('--endpoint <id>', 'Continue the endpoint of a killed listener.')
        .argParser(wholeNumber)
        .conflicts('types'),
    )
    .addHelpText(
      'after',
      `
Prints a line for each event with the server's answer. With --json, prints one object per line. Signs events like the service.
Each listener gets every event. Ctrl-C ends it and leaves nothing behind. While the server or the service is down,
events wait, and the listener forwards them later. If the server responds with anything but a 2xx, the listener sends the event again
after 5 s, 1 min and 5 min. Enter sends the latest event again; an event's id and Enter sends that one.

A killed listener cannot delete its endpoint. The endpoint keeps all events for a day and takes one of the program's 20
places: \`svc webhooks list\` shows it. --endpoint forwards all of them from the beginning, under the same ids, so
you miss nothing, but some events arrive twice.

Examples:
  $ svc listen --forward http://localhost:3000/hooks
  $ svc listen --forward http://localhost:3000/hooks --types sale.created,sale.refunded
  $ svc listen --forward http://localhost:3000/hooks --endpoint 7`,
    )
    .action(listen)
}
