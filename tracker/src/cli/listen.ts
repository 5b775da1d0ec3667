import { createHmac } from 'node:crypto'
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
/** As long as the service gives an endpoint. */
const answerMilliseconds = 10_000
/** How long a transaction may take that told something: what it told can show up behind what came later. */
const overlapMilliseconds = 60_000
/** After these the listener goes on: the service or the way there is away for a moment. */
const passing = new Set(['network_error', 'invalid_response', 'rate_limited', 'unavailable', 'internal_error'])

const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

function httpAddress(text: string): string {
  if (/^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text
  throw new InvalidArgumentError('It is an address such as http://localhost:3000/hooks.')
}

function secretIn(text: string): string {
  if (/^whsec_[\w+/]+=*$/.test(text)) return text
  throw new InvalidArgumentError('It begins with whsec_.')
}

/** The headers by which the service signs, by Standard Webhooks. */
function signed(id: string, body: string, secret: string): Record<string, string> {
  const timestamp = String(Math.floor(Date.now() / 1000))
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  }
}

/** Sends one event: the status that was answered, or why there is none. */
async function post(address: string, { payload }: Delivery, secret: string): Promise<number | Error> {
  const body = JSON.stringify(payload)
  try {
    const response = await fetch(address, {
      method: 'POST',
      headers: signed(payload.id, body, secret),
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
 * Forwards one event, again and again while nobody answers at the address: what is answered, whatever the status, and what takes too long has
 * arrived. Undefined where the listener ends meanwhile.
 */
async function forward(address: string, delivery: Delivery, secret: string, ended: AbortSignal) {
  for (let attempt_count = 1; !ended.aborted; attempt_count++) {
    const answer = await post(address, delivery, secret)
    const isTimeout = answer instanceof Error && answer.name === 'TimeoutError'
    if (!(answer instanceof Error) || isTimeout) {
      if (attempt_count > 1) console.error(`${green('✓')} ${address} answers again.`)
      return isTimeout ? `no answer in ${answerMilliseconds / 1000} s` : answer
    }
    if (attempt_count === 1) {
      console.error(`${red('✗')} ${address} does not answer (${reasonOf(answer)}). Events wait until it does.`)
    }
    await pause(pollMilliseconds, ended)
  }
  return undefined
}

const pause = (milliseconds: number, ended: AbortSignal) =>
  sleep(milliseconds, undefined, { signal: ended }).catch(() => undefined)

/** What there is for an endpoint and was not seen, the first one first. `seen` holds what may be met again, with its time. */
async function readNew(connection: Connection, endpointId: number, seen: Map<string, number>): Promise<Delivery[]> {
  const since = Math.max(...seen.values()) - overlapMilliseconds
  const isRecent = ({ payload }: Delivery) => Date.parse(payload.timestamp) >= since
  const found: Delivery[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const path = `/api/v1/webhook-endpoints/${endpointId}/deliveries?limit=100${cursor && `&cursor=${cursor}`}`
    const page: ApiOperations['listWebhookDeliveries']['answer'] = await request(connection, path)
    // What is older was seen, and is in `seen` no more.
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
  secret?: string
  endpoint?: number
}

interface Listened {
  id: number
  created_at: string
  secret: string
}

/** The endpoint that was named, with a secret that is given or new; else one of its own. */
async function openEndpoint(connection: Connection, flags: ListenFlags): Promise<Listened> {
  if (flags.endpoint === undefined) {
    const body = { url: null, description: 'svc listen', types: typesOf(flags.types) }
    const made = await create<ApiOperations['createWebhookEndpoint']['answer']>(flags, 'webhook-endpoints', body)
    return { ...made.webhook_endpoint, secret: flags.secret ?? made.webhook_endpoint.secret }
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
      'Give the endpoint of a listener that was killed (svc webhooks list), or none for a new one.',
    )
  }
  if (flags.secret !== undefined) return { ...found, secret: flags.secret }
  const rotated = await create<ApiOperations['rotateWebhookSecret']['answer']>(flags, `${path}/rotate-secret`, {})
  return rotated.webhook_endpoint
}

/**
 * `svc listen`: has an endpoint of its own, which is gone with it, so that two listeners take nothing from each other. For the same reason it
 * takes over one that a killed listener left behind only where it is named: that of a listener which still runs looks the same.
 */
async function listen(flags: ListenFlags): Promise<void> {
  const connection = connect(flags)
  const endpoint = await openEndpoint(connection, flags)
  const { secret } = endpoint
  const say = (data: object, text: string) => console.log(flags.json ? JSON.stringify(data) : text)

  const ended = new AbortController()
  const end = () => ended.abort()
  // The last one comes where the terminal is closed.
  for (const signal of endings) process.once(signal, end)
  try {
    say(
      { endpoint_id: endpoint.id, secret, forward: flags.forward },
      `${green('✓')} Endpoint ${endpoint.id} forwards to ${flags.forward}. Ctrl-C ends it.\n  Signed by ${secret}\n  Try it: svc webhooks test ${endpoint.id}\n`,
    )
    const seen = new Map([['', Date.parse(endpoint.created_at)]])
    let isAway = false
    while (!ended.signal.aborted) {
      try {
        const deliveries = await readNew(connection, endpoint.id, seen)
        if (isAway) console.error(`${green('✓')} The service answers again. Nothing was missed.`)
        isAway = false
        for (const delivery of deliveries) {
          const { id, type, payload } = delivery
          const answer = await forward(flags.forward, delivery, secret, ended.signal)
          // What is left when it ends has no other taker.
          if (answer === undefined) break
          seen.set(id, Date.parse(payload.timestamp))
          const isTaken = typeof answer === 'number' && answer >= 200 && answer < 300
          const cells = [payload.timestamp.slice(11, 19), plain(id).padEnd(12), plain(type).padEnd(20)]
          const about = aboutOf(payload.data).padEnd(24)
          say({ ...payload, answer }, [...cells, about, (isTaken ? green : red)(String(answer))].join('  '))
        }
      } catch (error) {
        if (!(error instanceof CommandError)) throw error
        if (error.code === 'not_found') {
          throw new CommandError(
            'listener_ended',
            'The endpoint of this listener was deleted, by somebody or since a day is over.',
            'Run the command again.',
          )
        }
        if (!passing.has(error.code)) throw error
        if (!isAway) console.error(`${red('✗')} ${error.message} Events are kept there until it answers.`)
        isAway = true
      }
      await pause(pollMilliseconds, ended.signal)
    }
  } finally {
    for (const signal of endings) process.off(signal, end)
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
    .requiredOption('--forward <address>', 'Where they go, such as http://localhost:3000/hooks.', httpAddress)
    .addOption(typesOption())
    .option('--secret <secret>', 'Sign with this secret, as whsec_…, in place of a new one.', secretIn)
    .addOption(
      new Option('--endpoint <id>', 'Go on with the endpoint of a listener that was killed.')
        .argParser(wholeNumber)
        .conflicts('types'),
    )
    .addHelpText(
      'after',
      `
Prints a line for each event with what the server answered; with --json an object a line. They are signed as the service
signs. Each listener gets every event; ended with Ctrl-C, it leaves nothing behind. While the server or the service is
away, events wait, and go on by themselves.

A listener that is killed cannot delete its endpoint. It stays for a day, with everything that happens, and takes one of
the program's 20 places: \`svc webhooks list\` shows it. --endpoint forwards all of it from the beginning, under the
same ids, so that nothing is missed and some events come twice.

Examples:
  $ svc listen --forward http://localhost:3000/hooks
  $ svc listen --forward http://localhost:3000/hooks --types sale.created,sale.refunded
  $ svc listen --forward http://localhost:3000/hooks --endpoint 7`,
    )
    .action(listen)
}
