import type { ProgramDelivery, WebhookDelivery } from '../../../lib/notifications/webhook-log.ts'
import type { WebhookEndpoint } from '../../../lib/notifications/webhook-endpoints.ts'
import { Segments } from '../components/blocks.tsx'
import { formatNumber, Time } from '../components/format.tsx'
import { StateBadge, type States } from '../components/list.tsx'
import type { Column } from '../components/table.tsx'

export const webhooksOf = (programId: number) => `/programs/${programId}/webhooks`
export const endpointAddress = (programId: number, endpointId: number) => `${webhooksOf(programId)}/${endpointId}`

export function deliveryAddress(
  programId: number,
  { endpoint_id: endpointId, message_id: messageId }: Pick<ProgramDelivery, 'endpoint_id' | 'message_id'>,
) {
  return `${endpointAddress(programId, endpointId)}/deliveries/${messageId}`
}

/** The time of a delivery, linked to its page. */
export function deliveryTimeColumn(programId: number): Column<ProgramDelivery> {
  return {
    label: 'When (UTC)',
    cell: (delivery) => (
      <a href={deliveryAddress(programId, delivery)}>
        <Time at={delivery.created_at} />
      </a>
    ),
  }
}

export const missingEndpoint = 'This program has no webhook endpoint with this id.'

/** Describes the target of an endpoint. */
export const targetOf = ({ url }: Pick<WebhookEndpoint, 'url'>) => url ?? 'svc listen'

export const deliveryStates: States<WebhookDelivery['status']> = {
  pending: { name: 'Pending', tone: 'warn' },
  delivered: { name: 'Delivered', tone: 'good' },
  failed: { name: 'Failed', tone: 'bad' },
  to_fetch: { name: 'For svc listen', tone: 'plain' },
}

/** Switches between endpoints and deliveries. */
export function WebhookViews({ programId, current }: { programId: number; current: 'endpoints' | 'deliveries' }) {
  const address = webhooksOf(programId)
  return (
    <Segments
      label="View"
      items={[
        { href: address, text: 'Endpoints', current: current === 'endpoints' },
        { href: `${address}/deliveries`, text: 'Deliveries', current: current === 'deliveries' },
      ]}
    />
  )
}

/** The progress of a delivery: its state, its attempts, and the time of the next attempt. */
export function DeliveryState({ delivery }: { delivery: WebhookDelivery }) {
  const { status, attempt_count, next_attempt_at: next, finished_at: finished } = delivery
  return (
    <div class="stack tight">
      <span>
        <StateBadge states={deliveryStates} status={status} /> {finished && <Time at={finished} />}
      </span>
      {(attempt_count > 1 || (attempt_count > 0 && status !== 'delivered')) && (
        <span class="small muted">
          {formatNumber(attempt_count)} {attempt_count === 1 ? 'attempt' : 'attempts'}
          {next && (
            <>
              , next one at <Time at={next} />
            </>
          )}
        </span>
      )}
    </div>
  )
}
