import { failingDays } from '../../../lib/notifications/failing-days.ts'
import type { ProgramDelivery, WebhookAttempt, WebhookDelivery } from '../../../lib/notifications/webhook-log.ts'
import type { WebhookEndpoint } from '../../../lib/notifications/webhook-endpoints.ts'
import { Badge, Card, Copy, Segments } from '../components/blocks.tsx'
import { Time } from '../components/format.tsx'
import { StateBadge, type States } from '../components/list.tsx'
import { type Column, TableCard } from '../components/table.tsx'
import { Text, useTexts } from '../components/text.tsx'

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
  const { t } = useTexts()
  return (
    <div class="stack tight">
      <span>
        <StateBadge states={deliveryStates} status={status} /> {finished && <Time at={finished} />}
      </span>
      {(attempt_count > 1 || (attempt_count > 0 && status !== 'delivered')) && (
        <span class="small muted">
          {t('{count} attempts', { count: attempt_count })}
          {next && (
            <>
              , <Text of="next one at {time}" time={<Time at={next} />} />
            </>
          )}
        </span>
      )}
    </div>
  )
}

/** Shows whether the endpoint is enabled. If it is disabled, also shows when and why that happened. */
export function EndpointState({ endpoint }: { endpoint: WebhookEndpoint }) {
  const { disabled_at: off, disabled_because: because, failing_since: failing } = endpoint
  const { t } = useTexts()
  if (off) {
    return (
      <div class="stack tight">
        <span>
          <Text
            of="{state} since {time}"
            state={<Badge tone={because === 'failures' ? 'bad' : 'plain'}>{t('Disabled')}</Badge>}
            time={<Time at={off} />}
          />
        </span>
        <span class="small muted">
          {because === 'failures'
            ? t('Disabled because every attempt failed for {count} days.', { count: failingDays })
            : t('Disabled manually.')}
        </span>
      </div>
    )
  }
  if (!failing) return <Badge tone="good">{t('Enabled')}</Badge>
  return (
    <span>
      <Text of="{state} since {time}" state={<Badge tone="warn">{t('Failing')}</Badge>} time={<Time at={failing} />} />
    </span>
  )
}

/** A new secret, which is shown once. */
export function SigningSecret({ secret }: { secret: string }) {
  const { t } = useTexts()
  return (
    <Card title={t('Secret')}>
      <p>
        <Text
          of="Your server verifies each request with this secret. Copy it now: it won't be shown again. The verification is explained in the <a>documentation</a>."
          a={(text) => <a href="/docs">{text}</a>}
        />
      </p>
      <Copy text={secret} label={t('Webhook secret')} />
    </Card>
  )
}

/** The attempts of a delivery, each with its response. */
export function Attempts({ endpoint, attempts }: { endpoint: WebhookEndpoint; attempts: WebhookAttempt[] }) {
  const { t, number } = useTexts()
  return (
    <TableCard
      title={t('Attempts')}
      caption={t('Attempts, newest first')}
      rows={attempts.toReversed()}
      columns={[
        { label: 'At (UTC)', cell: ({ attempted_at: at }) => <Time at={at} /> },
        { label: 'Duration', cell: ({ duration_ms: took }) => `${number(took)} ms` },
        { label: 'Response', cell: (attempt) => <Answer attempt={attempt} /> },
      ]}
      none={
        endpoint.url === null
          ? 'The command svc listen fetches this delivery and forwards it locally, so no attempts are recorded here.'
          : t('No attempts yet.')
      }
    />
  )
}

function Answer({ attempt: { status, error, answer } }: { attempt: WebhookAttempt }) {
  if (status === null) return <span class="bad">{error}</span>
  return (
    <div class="stack tight">
      <span>
        <Badge tone={status >= 200 && status < 300 ? 'good' : 'bad'}>{status}</Badge>
      </span>
      {answer && (
        <details class="more">
          <summary>{useTexts().t('Response body')}</summary>
          <pre class="wrap">{answer}</pre>
        </details>
      )}
    </div>
  )
}
