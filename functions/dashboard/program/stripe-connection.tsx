import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { readSessionToken } from '../../../lib/access/sessions.ts'
import { ApiError } from '../../../lib/errors.ts'
import {
  connectAddress,
  connectByCode,
  connectProcessor,
  disconnectProcessor,
  takeConnectState,
} from '../../../lib/processors/stripe/connect.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import {
  type Backfill,
  continueBackfill,
  resumeBackfill,
  startBackfill,
  stopBackfill,
} from '../../../lib/processors/stripe/backfill.ts'
import { openStripe, ownAccount } from '../../../lib/processors/stripe/client.ts'
import type { ConnectionState } from '../../../lib/processors/stripe/connection-state.ts'
import { attributeKnownCustomers } from '../../../lib/processors/known-customers.ts'
import { applyParkedEvents, type WaitingEvents } from '../../../lib/processors/parked-events.ts'
import { Badge, Card, Copy } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal } from '../components/form.ts'
import { formatDate, formatNumber } from '../components/format.tsx'
import { ownAccountAddress } from './own-account.tsx'
import {
  createPages,
  createProgramPages,
  type DashboardEnv,
  type PageContext,
  type ProgramContext,
  requireProgram,
  requireViewer,
} from '../components/page.ts'
import { settingsTab } from './settings-tabs.ts'

/** Connects a program to its Stripe account. */
export const pages = createProgramPages()
export const callbackPages = createPages()

const settingsOf = (programId: number) => `/programs/${programId}/settings`
const settingsPage = (c: ProgramContext) => settingsTab(c.get('program').id, 'payments')

/** How the reader can connect an account: on Stripe's page, by its id, or not at all. */
export function wayToConnect(
  env: Pick<DashboardEnv, 'STRIPE_CLIENT_ID' | 'BASE_URL' | 'STRIPE_API_URL'>,
): 'consent' | 'name' | undefined {
  if (env.STRIPE_CLIENT_ID) return 'consent'
  // Anybody can type an account id, so only Stripe's consent page proves ownership. With a local Stripe emulator, no real account is at
  // risk.
  return isOnThisMachine(env.BASE_URL) && isOnThisMachine(env.STRIPE_API_URL) ? 'name' : undefined
}

function isOnThisMachine(address: string | undefined): boolean {
  return address !== undefined && ['127.0.0.1', 'localhost', '[::1]'].includes(new URL(address).hostname)
}

interface StripeConnectionProps {
  env: DashboardEnv
  programId: number
  accountId: string | null
  /** True if the reader may connect the deployment's own account. */
  mayOwn: boolean
  attributesKnown: boolean
  state: ConnectionState
}

export function StripeConnection(props: StripeConnectionProps) {
  const { env, programId, accountId, mayOwn, attributesKnown, state } = props
  const address = `${settingsOf(programId)}/processor`
  return (
    <Card
      title="Payment processor"
      aside={accountId ? <Badge tone="good">Connected</Badge> : <Badge>Not connected</Badge>}
    >
      {accountId ? <Connected accountId={accountId} address={address} /> : <NotConnected env={env} address={address} />}
      {!accountId && mayOwn && (
        <p class="small">
          Is it the service's own account? <a href={ownAccountAddress(programId)}>Connect that account</a>
        </p>
      )}
      {accountId && <TryStripe baseUrl={env.BASE_URL} programId={programId} isOwn={accountId === ownAccount} />}
      {(accountId || state.excluded > 0) && (
        <Excluded programId={programId} payments={state.excluded} isOn={attributesKnown} />
      )}
      {accountId && <Past programId={programId} backfill={state.backfill} />}
      {state.waiting.map((events) => (
        <Waiting {...events} isConnected={events.account_id === accountId} />
      ))}
    </Card>
  )
}

function Connected({ accountId, address }: { accountId: string; address: string }) {
  return (
    <>
      <p>
        {accountId === ownAccount ? (
          "The service's own Stripe account."
        ) : (
          <>
            Stripe account <code>{accountId}</code>.
          </>
        )}{' '}
        Its payments, refunds and disputes arrive automatically.
      </p>
      <PostButton
        action={`${address}/disconnect`}
        class="danger"
        confirm="Disconnect Stripe? Later events are recorded only if you connect it again within 90 days."
        text="Disconnect"
      />
    </>
  )
}

/** Shows how to test a Stripe payment: with commands on a local machine, and with a test mode payment on a deployment. */
function TryStripe({ baseUrl, programId, isOwn }: { baseUrl: string; programId: number; isOwn: boolean }) {
  const check = <a href={`/programs/${programId}/check`}>Check that it works</a>
  if (!isOnThisMachine(baseUrl)) {
    return (
      <p>
        To try it, pay on your site in Stripe's test mode, for example with the card 4242 4242 4242 4242: {check}. You
        don't have to copy a secret or forward anything, because Stripe sends events directly to this service. You find
        each event in the <a href={`/programs/${programId}/test/deliveries`}>processor events of the test data</a>.
      </p>
    )
  }
  const fixture = (rest: string) => `npm run -s stripe:fixture -- ${rest} --program ${programId} --test-mode`
  return (
    <details class="more">
      <summary>Try it on this machine</summary>
      <div class="stack">
        <p>
          If you don't have a Stripe account, run these lines in the folder of the service. They sign events as Stripe
          does and send them here: a payment, its refund, a subscription, and its renewal after a month. Without{' '}
          <code>--test-mode</code> they count as live, and without a name the command lists all events. {check}
        </p>
        <Copy
          text={[
            'checkout.session.completed',
            'refund.created',
            'checkout.session.completed:subscription --order 2',
            '--advance 31d',
          ]
            .map(fixture)
            .join('\n')}
          label="lines that send events"
        />
        <p>
          If you have your own account in test mode, start the service with its key and with the secret of the Stripe
          CLI, which forwards the events.
        </p>
        <Copy
          text={`STRIPE_SECRET_KEY=sk_test_... STRIPE_WEBHOOK_SECRET=$(stripe listen --print-secret) npm start`}
          label="line that starts the service"
        />
        <Copy text={`stripe listen --forward-to ${baseUrl}/api/v1/webhooks/stripe`} label="line that forwards events" />
        {!isOwn && (
          <>
            <p>Its events don't contain an account id. This line assigns them to this program:</p>
            <Copy text={`npm run -s own-account -- ${programId}`} label="line that connects your own account" />
          </>
        )}
        <p>Without both variables, this machine has its own webhook secret. Your own tests can sign events with it:</p>
        <Copy
          text={`node -p "JSON.parse(fs.readFileSync('.local/secrets.json')).STRIPE_WEBHOOK_SECRET"`}
          label="line that prints the secret"
        />
      </div>
    </details>
  )
}

/**
 * The number of payments that are unattributed because the setting is disabled, with a button that enables the setting and attributes them.
 */
export function Excluded({ programId, payments, isOn }: { programId: number; payments: number; isOn: boolean }) {
  if (payments === 0) return null
  const one = payments === 1
  return (
    <div class="stack">
      <p>
        <strong>
          {formatNumber(payments)} {one ? 'payment is' : 'payments are'} excluded
        </strong>
        : Stripe sent no metadata with {one ? 'it' : 'them'}, but a partner referred an earlier payment for the same
        customer or subscription.
      </p>
      <PostButton
        action={`${settingsOf(programId)}/processor/known-customers`}
        text={isOn ? 'Attribute them' : 'Attribute them and all future ones'}
      />
    </div>
  )
}

const kindNames: Record<Backfill['kind'], string> = {
  customers: 'customers',
  sessions: 'checkout sessions',
  subscriptions: 'subscriptions',
  invoices: 'invoices',
  intents: 'payments',
  refunds: 'refunds',
  disputes: 'disputes',
}

/** The import of past payments: its progress, and buttons to start, stop and resume it. */
function Past({ programId, backfill }: { programId: number; backfill: Backfill | undefined }) {
  const address = `${settingsOf(programId)}/processor/backfill`
  const isOn = backfill?.status === 'running' && backfill.is_connected
  return (
    <div class="stack">
      {backfill?.is_connected && <PastProgress backfill={backfill} />}
      {isOn ? (
        <div class="row">
          <PostButton action={`${address}/continue`} text="Continue now" />
          <PostButton action={`${address}/stop`} text="Stop the import" />
        </div>
      ) : (
        <>
          {backfill?.status === 'stopped' && backfill.is_connected && (
            <PostButton action={`${address}/continue`} text="Resume the import" />
          )}
          <Form action={address} submit="Import" layout="inline">
            <Field
              name="months"
              label="Past payments"
              value="3"
              hint="Payments with this program in their metadata are recorded once, no matter how often you import them."
              options={pastMonths.map((months) => [
                months,
                `of the last ${months === '1' ? 'month' : `${months} months`}`,
              ])}
            />
          </Form>
        </>
      )}
    </div>
  )
}

function PastProgress({ backfill }: { backfill: Backfill }) {
  const { status, kind, objects_read: read, events_recorded: recorded, reads_from: from, problem } = backfill
  const figures = `${formatNumber(read)} ${read === 1 ? 'object' : 'objects'} since ${formatDate(from)} read, ${formatNumber(recorded)} recorded.`
  return (
    <>
      <p>
        <strong>
          {status === 'done' && 'The import is complete.'}
          {status === 'running' && `Importing past ${kindNames[kind]}.`}
          {status === 'stopped' && `The import stopped at ${kindNames[kind]}.`}
        </strong>{' '}
        {figures} {status === 'running' && 'It continues automatically.'}
      </p>
      {problem !== null && <p class="bad">{problem}</p>}
    </>
  )
}

const keptDays = 90

/** Events that arrived while the account was disconnected. */
function Waiting({ account_id: id, events, oldest_at: at, isConnected }: WaitingEvents & { isConnected: boolean }) {
  const until = new Date(at.getTime() + keptDays * 24 * 60 * 60 * 1000)
  return (
    <p>
      <strong>
        {eventCount(events)} of <code>{id}</code> {events === 1 ? 'waits' : 'wait'}
      </strong>
      , received while it was disconnected.{' '}
      {isConnected
        ? 'They will be applied within half an hour.'
        : `They will be applied when this account is connected again. Each is kept for ${keptDays} days, the oldest until ${formatDate(until)}.`}
    </p>
  )
}

function NotConnected({ env, address }: { env: DashboardEnv; address: string }) {
  const way = wayToConnect(env)
  if (way === undefined) {
    return (
      <p class="muted">
        You can only connect the operator's own Stripe account here, because the deployment has no STRIPE_CLIENT_ID.
      </p>
    )
  }
  return (
    <>
      <p class="muted">
        Connect Stripe to record sales, renewals, refunds and disputes without calls from your server.
      </p>
      <Form action={`${address}/connect`} submit="Connect Stripe" layout="inline" primary>
        {way === 'name' && (
          <Field
            name="account_id"
            label="Stripe account id"
            placeholder="acct_…"
            hint="This machine has no connection to Stripe, so any id works, for example acct_test."
            required
          />
        )}
        {way === 'consent' && (
          <label class="choice">
            <input type="checkbox" name="write" />
            <span>
              Allow the service to create partner codes there{' '}
              <span class="muted small">otherwise the access is read-only</span>
            </span>
          </label>
        )}
      </Form>
    </>
  )
}

const pastMonths = ['1', '3', '6', '12', '24'] as const
const backfillForm = z.object({ months: z.enum(pastMonths, 'Choose how far back to import.') })

const noAccount = 'A Stripe account id begins with acct_. Copy it from Stripe.'
const connectForm = z.object({
  /** Whether the service may create promotion codes in the account. */
  write: z.optional(z.string()),
  /** The account id that the person typed, if they don't use Stripe's consent page. */
  account_id: z.optional(z.string().check(z.trim(), z.regex(/^acct_[A-Za-z0-9_]{1,100}$/, noAccount))),
})

/** Ensures that Stripe's redirect belongs to the person who started the connection. */
async function sessionOf({ req, env }: Pick<PageContext, 'req' | 'env'>): Promise<string> {
  return (await readSessionToken(req.raw.headers, env.AUTH_SECRET)) ?? ''
}

pages.post(
  '/settings/processor/connect',
  requireProgram('processor:manage'),
  form(connectForm, settingsPage, 'account_id'),
  async (c) => {
    const { id: programId } = c.get('program')
    const { account_id: accountId, write } = c.req.valid('form')
    const way = wayToConnect(c.env)
    if (way === undefined) throw new ApiError('conflict', 'Connecting Stripe is not set up here.')
    if (way === 'consent') {
      const returnAddress = `${c.env.BASE_URL}/processor/callback`
      const options = { write: write === 'on' }
      const session = await sessionOf(c)
      return c.redirect(await connectAddress(c.get('db'), c.env, programId, session, returnAddress, options), 303)
    }
    if (accountId === undefined) throw new FormRefusal({ account_id: noAccount })
    await connectProcessor(c.get('db'), programId, accountId)
    return redirectWith(c, settingsPage(c), await applyWaited(c, accountId))
  },
)

/** The number of waiting events that the request applies. A scheduled function applies the rest. */
const appliedAtOnce = 100

/** Applies waiting events and returns the message. The scheduled function continues if there are many. */
async function applyWaited({ env, get }: Pick<PageContext, 'env' | 'get'>, accountId: string): Promise<string> {
  const { applied, outbox } = await applyParkedEvents(get('db'), openStripe(env), { limit: appliedAtOnce, accountId })
  await sendSoon(env, outbox)
  return `Stripe is connected.${applied === 0 ? '' : ` Events received in the meantime are applied: ${eventCount(applied)}.`}`
}

const eventCount = (count: number) => `${formatNumber(count)} ${count === 1 ? 'event' : 'events'}`

/** Stripe redirects here after a person grants access to their account. */
callbackPages.get('/processor/callback', requireViewer, async (c) => {
  const programId = await takeConnectState(c.get('db'), c.req.query('state') ?? '', await sessionOf(c))
  const program = c.get('viewer').programs.find(({ id }) => id === programId)
  if (!program || !may(program.roles, 'processor:manage')) {
    throw new ApiError(
      'forbidden',
      'This link works once, and only for the person who opened it. Connect Stripe from the settings of your program.',
    )
  }
  const code = c.req.query('code')
  if (code === undefined)
    return redirectWith(c, settingsTab(program.id, 'payments'), 'Stripe was not connected.', 'bad')
  const accountId = await connectByCode(c.get('db').actingAs(c.get('viewer').user.id), c.env, program.id, code)
  return redirectWith(c, settingsTab(program.id, 'payments'), await applyWaited(c, accountId))
})

pages.post('/settings/processor/disconnect', requireProgram('processor:manage'), async (c) => {
  await disconnectProcessor(c.get('db'), c.env, c.get('program').id)
  return redirectWith(c, settingsPage(c), 'Stripe was disconnected.')
})

pages.post('/settings/processor/known-customers', requireProgram('processor:manage'), async (c) => {
  const accountIds = await attributeKnownCustomers(c.get('db'), c.get('program').id)
  if (accountIds.length === 0) throw new ApiError('conflict', 'Connect a payment processor first.')
  for (const accountId of accountIds) {
    const { outbox } = await applyParkedEvents(c.get('db'), openStripe(c.env), { limit: appliedAtOnce, accountId })
    await sendSoon(c.env, outbox)
  }
  const text = 'Payments of known customers now count. The excluded ones will be attributed within half an hour.'
  return redirectWith(c, settingsPage(c), text)
})

/** The number of seconds for imports before and after the response. */
const secondsAtOnce = 3
const secondsAfterwards = 20

/** Imports the first payments during the request and a few more after it. A scheduled function imports the rest. */
async function importPast(c: ProgramContext): Promise<Response> {
  const readFor = async (seconds: number) => {
    const options = { programId: c.get('program').id, seconds }
    await sendSoon(c.env, await continueBackfill(c.get('db'), openStripe(c.env), c.env.EMAIL_HASH_KEY, options))
  }
  await readFor(secondsAtOnce)
  c.executionCtx.waitUntil(readFor(secondsAfterwards))
  return redirectWith(c, settingsPage(c), 'The import has started.')
}

pages.post(
  '/settings/processor/backfill',
  requireProgram('processor:manage'),
  form(backfillForm, settingsPage),
  async (c) => {
    await startBackfill(c.get('db'), c.get('program').id, Number(c.req.valid('form').months))
    return await importPast(c)
  },
)

pages.post('/settings/processor/backfill/continue', requireProgram('processor:manage'), async (c) => {
  await resumeBackfill(c.get('db'), c.get('program').id)
  return await importPast(c)
})

pages.post('/settings/processor/backfill/stop', requireProgram('processor:manage'), async (c) => {
  await stopBackfill(c.get('db'), c.get('program').id)
  return redirectWith(c, settingsPage(c), 'The import was stopped. Recorded payments are kept.')
})
