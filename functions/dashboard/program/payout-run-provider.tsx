import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import type { Database } from '../../../lib/database.ts'
import { ApiError } from '../../../lib/errors.ts'
import { listProviders } from '../../../lib/money/payout-connections.ts'
import {
  listRunBatches,
  readSendable,
  type RunBatch,
  sendRunToProvider,
  stopBatch,
} from '../../../lib/money/provider-batches.ts'
import { readPayoutRunPart } from '../../../lib/money/payout-runs.ts'
import type { PayoutProvider } from '../../../lib/money/providers/provider.ts'
import { isProvider, providers } from '../../../lib/money/providers/providers.ts'
import { idInPath } from '../components/address.ts'
import { Badge, Card, LinkButton, Metric } from '../components/blocks.tsx'
import { Form, Hidden, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form } from '../components/form.ts'
import { counted, formatNumber } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { payoutsOf, totals } from '../components/payout.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import { shownCents } from '../components/transfer.tsx'

/** Sends the payments of a run to a provider, and shows their progress. */
export const pages = createProgramPages()

const missing = 'This program has no such payout run or provider.'
const runIn = (c: ProgramContext) => idInPath(c, 'runId', missing)
const runPage = (c: ProgramContext) => `${payoutsOf(c.get('program').id)}/${runIn(c)}`
const providerOf = (name: string): PayoutProvider | undefined => (isProvider(name) ? providers[name] : undefined)

/** Reads the batches of a run, and the providers that can pay its unsent payments. */
export async function readProviding(db: Database, { id, roles }: ViewerProgram, runId: number) {
  const [batches, connections] = await Promise.all([
    listRunBatches(db, id, runId),
    may(roles, 'payout:pay') ? listProviders(db, id) : [],
  ])
  return { batches, connections }
}

interface ProvidingProps extends Awaited<ReturnType<typeof readProviding>> {
  program: ViewerProgram
  /** The run's page. */
  address: string
  hasUnsent: boolean
}

/** The batches of a run at its providers, and links that send its unsent payments. */
export function Providing({ batches, connections, program, address, hasUnsent }: ProvidingProps) {
  const sends = hasUnsent && connections.length > 0
  if (!sends && batches.length === 0) return null
  return (
    <Card title="Provider">
      {sends && (
        <div class="row">
          {connections.map(({ provider }) => (
            <LinkButton href={`${address}/send/${provider}`} text={`Pay with ${providerOf(provider)?.title}`} />
          ))}
        </div>
      )}
      {batches.length > 0 && (
        <Table
          caption="Batches of this run"
          rows={batches}
          columns={[
            { label: 'Batch', cell: (batch) => <BatchName batch={batch} /> },
            { label: 'Payments', cell: ({ payments }) => formatNumber(payments) },
            { label: 'State', cell: (batch) => <BatchState batch={batch} /> },
            may(program.roles, 'payout:pay') && {
              cell: ({ id, unsent, status }) =>
                status !== 'stopped' &&
                unsent > 0 && (
                  <PostButton
                    action={`${address}/batches/${id}/stop`}
                    text={`Stop ${counted(unsent, 'payment', 'payments')}`}
                    confirm="Stop the payments that haven't been submitted to the provider? They go back to the run."
                  />
                ),
            },
          ]}
        />
      )}
    </Card>
  )
}

const BatchName = ({ batch }: { batch: RunBatch }) => (
  <div>
    {providerOf(batch.provider)?.title}, {batch.currency.toUpperCase()}
    {batch.provider_batch_id && <div class="muted small">{batch.provider_batch_id}</div>}
  </div>
)

const states: Record<RunBatch['status'], string> = {
  sending: 'Sending',
  sent: 'Sent',
  done: 'Done',
  stopped: 'Stopped',
}

function BatchState({ batch: { status, problem, provider } }: { batch: RunBatch }) {
  const remaining = providerOf(provider)?.remaining
  return (
    <div class="stack tight">
      <span>
        <Badge tone={problem ? 'bad' : status === 'done' ? 'good' : 'warn'}>{states[status]}</Badge>
      </span>
      {status === 'sent' && remaining && <span class="small">{remaining}</span>}
      {problem && <span class="small bad">{problem}</span>}
    </div>
  )
}

pages.get('/payout-runs/:runId/send/:provider', requireProgram('payout:pay'), async (c) => {
  const { id: programId } = c.get('program')
  const name = c.req.param('provider')
  const provider = providerOf(name)
  if (!provider) throw new ApiError('not_found', missing)
  const [sums] = await Promise.all([
    readSendable(c.get('db'), programId, runIn(c), name),
    // Throws if there is no such run.
    readPayoutRunPart(c.get('db'), programId, runIn(c), { payments: { limit: 0 } }),
  ])
  const payments = sums.reduce((sum, { payments: count }) => sum + count, 0)
  const cents = sums.reduce((sum, { payable_cents: one }) => sum + one, 0)
  return c.render(
    <ProgramPage
      title={`Pay with ${provider.title}`}
      current="/payouts"
      heading={`Pay ${counted(payments, 'payment', 'payments')} with ${provider.title}?`}
      lead="Their amounts and recipients are fixed from now on. The service sends them within a minute."
    >
      <Card>
        <dl class="cards">
          <Metric label="Payments" value={formatNumber(payments)} />
          <Metric label="Sum" value={payments === 0 ? '—' : totals(sums)} />
        </dl>
        <p class="muted">
          {provider.title} pays the unsent payments of this run if it supports their currency and recipient. Pay the
          others with a file.
        </p>
        <Form action={`${runPage(c)}/send/${name}`} submit="Confirm and send" cancel={runPage(c)}>
          <Hidden fields={{ amount_cents: String(cents) }} />
        </Form>
      </Card>
    </ProgramPage>,
  )
})

const sendForm = z.object({ amount_cents: shownCents })

pages.post('/payout-runs/:runId/send/:provider', requireProgram('payout:pay'), form(sendForm, runPage), async (c) => {
  const { id: programId } = c.get('program')
  const connections = await listProviders(c.get('db'), programId)
  const connection = connections.find(({ provider }) => provider === c.req.param('provider'))
  if (!connection) throw new ApiError('not_found', missing)
  await sendRunToProvider(c.get('db'), programId, runIn(c), connection, c.req.valid('form').amount_cents)
  return redirectWith(c, runPage(c), 'The payments are sent within a minute. Their results appear here automatically.')
})

pages.post('/payout-runs/:runId/batches/:batchId/stop', requireProgram('payout:pay'), async (c) => {
  const stopped = await stopBatch(c.get('db'), c.get('program').id, idInPath(c, 'batchId', missing))
  return redirectWith(c, runPage(c), `${counted(stopped, 'payment was', 'payments were')} stopped.`)
})
