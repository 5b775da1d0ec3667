import { type Command, Option } from 'commander'
import type { ApiOperations } from '../api-types.ts'
import { webhookTypes } from '../webhook-types.ts'
import { create, type Flags, optionValues, type Print, type Subcommand, wholeNumber } from './flags.ts'
import { addListOptions, type Column, type ListFlags, printList, type Row, tableOf } from './lists.ts'
import { connect, type ConnectionFlags, request } from './service.ts'
import { green, plain } from './text.ts'

type Answer<Id extends keyof ApiOperations> = ApiOperations[Id]['answer']

const path = (id: number) => `/api/v1/webhook-endpoints/${id}`

/** Splits the given types at commas. Default: all types. */
export const typesOf = (types: string | undefined) => types?.split(',').map((type) => type.trim()) ?? webhookTypes

export const typesOption = () =>
  new Option('--types <types>', `Event types, separated by commas. Default: all (${webhookTypes.join(', ')}).`)

/** Returns the main object of an event. */
export function aboutOf(data: Record<string, unknown>): string {
  const field = ['transaction_id', 'payout_id', 'commission_id', 'lead_id', 'partner_id'].find((name) => name in data)
  return field === undefined ? '' : plain(`${field.replace('_id', '')} ${String(data[field])}`)
}

const columns: Column<Row<'listWebhookDeliveries'>>[] = [
  ['ID', ({ id }) => id],
  ['HAPPENED', ({ payload }) => payload.timestamp],
  ['TYPE', ({ type }) => type],
  ['ABOUT', ({ payload }) => aboutOf(payload.data)],
  ['STATUS', ({ status }) => status],
  ['ATTEMPTS', ({ attempt_count }) => attempt_count],
  ['NEXT ATTEMPT', ({ next_attempt_at: at }) => at],
]
const deliveries = { noun: 'deliveries', filters: { status: 'pending, delivered, failed or to_fetch' }, columns }

type Attempt = Answer<'getWebhookDelivery'>['delivery']['attempts'][number]
const attemptColumns: Column<Attempt>[] = [
  ['AT', ({ attempted_at: at }) => at],
  ['MS', ({ duration_ms: took }) => took],
  ['STATUS', ({ status }) => status],
  ['RESPONSE', ({ error, answer }) => error ?? answer?.slice(0, 100) ?? ''],
]

/** Adds the commands of `svc webhooks` except `list`. */
export function addWebhooks(webhooks: Command, subcommand: Subcommand, print: Print): void {
  const onOne = (name: string, description: string) =>
    subcommand(webhooks, name, description).argument('<endpoint_id>', 'Id of the endpoint.', wholeNumber)

  subcommand(webhooks, 'create', 'Add an endpoint, and show the secret that signs its webhooks.')
    .requiredOption('--url <address>', 'Address of your server: https:// on a public host.')
    .addOption(typesOption())
    .option('--description <text>', 'Your own note.')
    .option('--idempotency-key <key>', 'Makes the command safe to repeat.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc webhooks create --url https://shop.example.com/webhooks --types sale.created,sale.refunded',
    )
    .action(async (flags: Flags & { types?: string }) => {
      const body = { ...optionValues(flags, ['url', 'description']), types: typesOf(flags.types) }
      const created = await create<Answer<'createWebhookEndpoint'>>(flags, 'webhook-endpoints', body)
      const { id, url, secret } = created.webhook_endpoint
      print(flags, created, `${green('✓')} Endpoint ${id}: ${plain(url)}\n  Secret, shown this once: ${secret}`)
    })

  onOne('delete', 'Delete an endpoint. It no longer receives any events.')
    .addHelpText('after', '\nExamples:\n  $ svc webhooks delete 3')
    .action(async (id: number, flags: ConnectionFlags) => {
      const answer = await request<Answer<'deleteWebhookEndpoint'>>(connect(flags), path(id), { method: 'DELETE' })
      print(flags, answer, `${green('✓')} Endpoint ${id} was deleted.`)
    })

  onOne('rotate', 'Create a new secret and show it. For a day, webhooks are also signed with the previous secret.')
    .option('--idempotency-key <key>', 'Makes the command safe to repeat.')
    .addHelpText('after', '\nExamples:\n  $ svc webhooks rotate 3')
    .action(async (id: number, flags: Flags) => {
      const created = await create<Answer<'rotateWebhookSecret'>>(flags, `webhook-endpoints/${id}/rotate-secret`, {})
      const { secret } = created.webhook_endpoint
      print(
        flags,
        created,
        `${green('✓')} Endpoint ${id} has a new secret, shown this once: ${secret}\n  For a day, the previous secret also signs.`,
      )
    })

  onOne('test', 'Send a test event.')
    .addHelpText('after', '\nExamples:\n  $ svc webhooks test 3')
    .action(async (id: number, flags: ConnectionFlags) => {
      const sent = { method: 'POST' }
      const answer = await request<Answer<'testWebhookEndpoint'>>(connect(flags), `${path(id)}/test`, sent)
      print(
        flags,
        answer,
        `${green('✓')} ${answer.delivery_id} was sent. See: svc webhooks delivery ${id} ${answer.delivery_id}`,
      )
    })

  onOne('replay', 'Send one webhook again, or all in a period.')
    .option('--delivery-id <id>', 'Id of one webhook, such as evt_1.')
    .option('--since <time>', 'Only events since this time, such as 2026-01-31T12:00:00Z.')
    .option('--until <time>', 'Events before this time.')
    .option('--failed-only', 'Only failed webhooks.')
    .addHelpText(
      'after',
      '\nExamples:\n  $ svc webhooks replay 3 --delivery-id evt_1\n  $ svc webhooks replay 3 --since 2026-01-31T12:00:00Z --failed-only',
    )
    .action(async (id: number, flags: Flags) => {
      const body = {
        ...optionValues(flags, ['delivery-id', 'since', 'until']),
        ...(flags['failedOnly'] === true && { failed_only: true }),
      }
      const answer = await request<Answer<'replayWebhooks'>>(connect(flags), `${path(id)}/replay`, { body })
      print(flags, answer, `${green('✓')} ${answer.replayed} sent again.`)
    })

  onOne('delivery', 'Show one delivery: its payload and the response to each attempt.')
    .argument('<delivery_id>', 'Such as evt_1.')
    .addHelpText('after', '\nExamples:\n  $ svc webhooks delivery 3 evt_1')
    .action(async (id: number, deliveryId: string, flags: ConnectionFlags) => {
      const address = `${path(id)}/deliveries/${encodeURIComponent(deliveryId)}`
      const answer = await request<Answer<'getWebhookDelivery'>>(connect(flags), address)
      const { type, status, payload, attempts } = answer.delivery
      const lines = [
        `${plain(type)}: ${status}`,
        JSON.stringify(payload, null, 2),
        '',
        attempts.length > 0
          ? tableOf(attemptColumns, attempts)
          : status === 'to_fetch'
            ? 'svc listen fetches it.'
            : 'No attempts yet.',
      ]
      print(flags, answer, lines.join('\n'))
    })

  addListOptions(onOne('deliveries', 'List the deliveries of an endpoint, newest first.'), deliveries)
    .addHelpText('after', '\nExamples:\n  $ svc webhooks deliveries 3 --status failed')
    .action(
      async (id: number, flags: ListFlags) =>
        await printList({ ...deliveries, path: `webhook-endpoints/${id}/deliveries` }, flags, print),
    )
}
