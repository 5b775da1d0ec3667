import * as z from 'zod/mini'
import { createApiKey } from '../../../lib/access/program-keys.ts'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { isPageOf, linkAddress } from '../../../lib/programs/links.ts'
import { isProcessor } from '../../../lib/processors/connections.ts'
import { processors, processorTitles } from '../../../lib/processors/processors.ts'
import { type Integration, later, readIntegration } from '../../../lib/tracking/status.ts'
import { testCode } from '../../../lib/tracking/test-links.ts'
import { Badge, Card, Copy, LinkButton } from '../components/blocks.tsx'
import { Field, Form } from '../components/fields.tsx'
import { form } from '../components/form.ts'
import { Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { connectionsAddress } from './connections.tsx'
import { keyUse, scopesOf, setUpUses } from './api-keys.tsx'
import { settingsTab } from './settings-tabs.ts'
import { SetUp } from './set-up-command.tsx'
import { Progress } from './wizard.tsx'
import { afterStep, inStep, stepOf } from './wizard-steps.ts'

/**
 * Guides people through the setup until the first sale. Each step is checked off when its first event arrives. After that, the page shows
 * whether events still arrive.
 */
export const pages = createProgramPages()

/** Returns the address of the set-up page. */
export const checkOf = (programId: number) => `/programs/${programId}/check`

/** Returns the link that the program's own people open to test their site. */
export function testLink({ id, domain }: { id: number; domain: string }): string {
  return linkAddress(domain, testCode(id), null)
}

pages.get('/check', requireProgram('program:read'), (c) => renderCheck(c))

const ownPage = (c: ProgramContext) => inStep(checkOf(c.get('program').id), stepOf(c))
const keyForm = z.object({ key_scope: keyUse })

pages.post('/check/key', requireProgram('api-key:manage'), form(keyForm, ownPage), async (c) => {
  const scopes = scopesOf(c.req.valid('form').key_scope)
  const createdBy = c.get('viewer').user.id
  return await renderCheck(c, await createApiKey(c.get('db'), c.get('program').id, 'server', { scopes, createdBy }))
})

/**
 * Renders the set-up page. `createdKey` is a new API key, which is shown only once. The page is the direct response to the form, and a
 * repeated form redirects to the page without the key.
 */
async function renderCheck(c: ProgramContext, createdKey?: string) {
  const program = c.get('program')
  const step = stepOf(c)
  const since = createdKey === undefined ? readSince(c.req.query('since')) : undefined
  const integration = await readIntegration(c.get('db'), program.id)
  const isDone = isComplete(integration, since)
  if (createdKey !== undefined) c.header('Content-Location', ownPage(c))
  return c.render(
    <ProgramPage
      title="Set up"
      current="/check"
      // Browsers without scripts reload the page as often as the rate limit allows. A page with a key isn't reloaded, because the key would
      // disappear.
      refreshSeconds={!isDone && createdKey === undefined ? 5 : undefined}
      heading={isDone && !since ? `${program.name} is ready` : `Set up ${program.name}`}
      lead={
        since
          ? 'Events since you started over.'
          : 'Each step is checked off when its event arrives, either as a test or live.'
      }
      actions={
        step ? (
          <LinkButton class="primary" href={afterStep(program.id, step)} text="Continue" />
        ) : (
          <LinkButton href={`${checkOf(program.id)}?since=${Date.now()}`} text="Test again" />
        )
      }
    >
      {step && <Progress current={step} programId={program.id} />}
      <Card title="Your project">
        {createdKey ? (
          <SetUp baseUrl={c.env.BASE_URL} apiKey={createdKey} page={checkOf(program.id)} />
        ) : (
          may(program.roles, 'api-key:manage') && (
            <>
              <p class="muted">One command sets up your project with an API key. Other keys stay valid.</p>
              <Form action={`${checkOf(program.id)}/key`} submit="Show the command with a new key" layout="inline">
                <Field name="key_scope" label="Permissions" options={setUpUses} />
              </Form>
            </>
          )
        )}
        <p>
          Then follow <code>.svc/AGENTS.md</code>, or give it to your coding agent. Or set it up by hand:{' '}
          <a href="/docs/html">HTML and any server</a>, <a href="/docs/nextjs">Next.js</a>,{' '}
          <a href="/docs/react">React</a>, or the <a href="/api/v1/reference">API reference</a>.
        </p>
      </Card>
      <Check program={program} integration={integration} since={since} />
      <IfNothingComes program={program} />
    </ProgramPage>,
  )
}

/** Parses the start of the check from the address, in milliseconds. Returns undefined if all events count. */
function readSince(text: string | undefined): Date | undefined {
  return text && /^\d{13}$/.test(text) ? new Date(Number(text)) : undefined
}

const kinds = ['click', 'lead', 'sale'] as const
type Kind = (typeof kinds)[number]

function cameAt({ activity, checks }: Integration, kind: Kind, since: Date | undefined): Date | undefined {
  // If the program requires the server to report signups, a browser's report is not a lead yet.
  if (!checks.some(({ name, ok }) => name === `${kind}_seen` && ok)) return undefined
  const { live, test } = activity[`last_${kind}`]
  const at = later(live, test)
  return at && at >= (since ?? new Date(0)) ? at : undefined
}

/** Steps that the service can check itself, no matter when the events arrived. */
const states = {
  key: ({ key_used_at: at, processor, program }: Integration) =>
    at !== null || (processor.connected && program.lead_auth_policy === 'browser_allowed'),
  // A sale without a processor came from the integrator's server.
  money: ({ processor, checks }: Integration) =>
    processor.connected || checks.some(({ name, ok }) => name === 'sale_seen' && ok),
  partner: ({ has_invited: hasInvited }: Integration) => hasInvited,
}

const order = ['click', 'key', 'lead', 'money', 'sale', 'partner'] as const
type Step = (typeof order)[number]

const isState = (step: Step): step is keyof typeof states => Object.hasOwn(states, step)

const otherCurrency = ({ checks }: Integration) => checks.find(({ name, ok }) => name === 'currency_matches' && !ok)

const isStepDone = (step: Step, integration: Integration, since: Date | undefined) =>
  isState(step)
    ? states[step](integration)
    : cameAt(integration, step, since) !== undefined && !(step === 'sale' && otherCurrency(integration))

const isComplete = (integration: Integration, since: Date | undefined) =>
  order.every((step) => isStepDone(step, integration, since))

interface CheckProps {
  program: ViewerProgram
  integration: Integration
  since?: Date | undefined
}

/** The steps with their test link. The page refreshes them until all are done. */
function Check({ program, integration, since }: CheckProps) {
  const poll = since ? `${checkOf(program.id)}?since=${since.getTime()}` : checkOf(program.id)
  return (
    <Card title="Steps">
      <p class="muted">
        Open the test link in a private window, sign up there, and pay. Everything is{' '}
        <a href="/docs/test-data">test data</a>: it is not included in any figures, and nobody earns from it.
      </p>
      <Copy text={testLink(program)} label="test link" />
      <div data-part data-poll={isComplete(integration, since) ? undefined : poll} aria-live="polite" class="stack">
        <Steps program={program} integration={integration} since={since} />
      </div>
    </Card>
  )
}

const titles: Record<Step, string> = {
  click: 'The tag works: a click from your site',
  key: 'The API key is used',
  lead: 'A lead from your server',
  money: 'Sales arrive from your processor or your server',
  sale: 'A sale',
  partner: 'A partner is invited',
}

function Steps({ program, integration, since }: CheckProps) {
  const steps = order.map((step) => ({ step, isDone: isStepDone(step, integration, since) }))
  const next = steps.find(({ isDone }) => !isDone)?.step
  return (
    <>
      <ol class="steps">
        {steps.map(({ step, isDone }) => (
          <li class={isDone ? 'done' : step === next ? 'now' : ''}>
            <div class="stack tight">
              <h3>
                {titles[step]}
                {isDone && <span class="hidden">: done</span>}
              </h3>
              {isState(step) ? (
                <State step={step} isDone={isDone} program={program} integration={integration} />
              ) : (
                <Kept kind={step} isNext={step === next} program={program} integration={integration} since={since} />
              )}
            </div>
          </li>
        ))}
      </ol>
      {next === undefined && (
        <p role="status">
          <strong>Everything works.</strong> <a href={`/programs/${program.id}`}>The overview</a> shows figures from the
          first click on a partner's link.
        </p>
      )}
    </>
  )
}

/** One of the three events: the time when it arrived, or else the missing steps and the refusals. */
function Kept({ kind, isNext, program, integration, since }: CheckProps & { kind: Kind; isNext: boolean }) {
  const at = cameAt(integration, kind, since)
  if (at) return <Came program={program} integration={integration} kind={kind} at={at} />
  const begun = since ?? new Date(0)
  return (
    <>
      <p class={isNext ? 'waiting' : 'muted'}>{waitingFor(kind, integration)}</p>
      <Refusals
        refusals={integration.refusals.filter(({ call, refused_at: refusedAt }) => call === kind && refusedAt >= begun)}
      />
    </>
  )
}

interface StateProps extends CheckProps {
  step: keyof typeof states
  isDone: boolean
}

function State({ step, isDone, program, integration }: StateProps) {
  const settings = settingsTab(program.id, 'payments')
  if (step === 'key') {
    return (
      <>
        {integration.key_used_at === null ? (
          <p class="muted small">
            {isDone
              ? 'Not needed here: browsers report leads, and your processor reports sales.'
              : "No call with a key of this program has arrived yet. Calls with a wrong key can't be assigned to a program, so they don't appear here. Your server gets the error 401 unauthorized."}
          </p>
        ) : (
          <p class="muted small">
            Last used <Time at={integration.key_used_at} /> UTC, to the hour.
          </p>
        )}
        <Refusals refusals={integration.refusals.filter(({ call }) => call === 'key')} />
      </>
    )
  }
  if (step === 'money') {
    const { processor, connected_processors: others } = integration
    if (processor.account_id !== null) return <p class="muted small">Stripe is connected.</p>
    if (processor.connected) {
      const names = others.map((name) => (isProcessor(name) ? processors[name].title : name))
      return (
        <p class="muted small">
          {names.join(' and ')} {names.length === 1 ? 'is' : 'are'} connected.
        </p>
      )
    }
    if (isDone) return <p class="muted small">Your server sends its sales.</p>
    return (
      <p class="muted small">
        Connect <a href={settings}>Stripe</a> or{' '}
        <a href={connectionsAddress(program.id)}>{processorTitles('disjunction')}</a>, or{' '}
        <a href="/docs/html">have your server send each sale</a>: the first sale completes this step.
      </p>
    )
  }
  if (isDone) return null
  return (
    <p class="muted small">
      Each partner gets a link, and sees their earnings once they accept your invitation.{' '}
      {may(program.roles, 'partner:manage') && <a href={`/programs/${program.id}/partners`}>Add or invite a partner</a>}
    </p>
  )
}

function waitingFor(kind: Kind, { processor, has_provisional_leads: isProvisional }: Integration): string {
  if (kind === 'click') return 'Waiting. Open your site with the test link.'
  if (kind === 'lead') {
    return isProvisional
      ? 'A browser reported a signup, but this program only counts leads from a server. Waiting for your server to send it.'
      : 'Waiting. Sign up on your site, or run: node_modules/.bin/svc test lead'
  }
  return processor.connected
    ? "Waiting. Pay on your site in your processor's test mode, or run: node_modules/.bin/svc test sale"
    : 'Waiting. Pay on your site, or run: node_modules/.bin/svc test sale'
}

function Came({ program, integration, kind, at }: CheckProps & { kind: Kind; at: Date }) {
  const isTest = integration.activity[`last_${kind}`].test?.getTime() === at.getTime()
  const page = kind === 'click' ? integration.latest_click?.page_url : null
  const currency = kind === 'sale' && otherCurrency(integration)
  const isForNobody = kind === 'sale' && integration.latest_sale?.attributed === false && !isTest
  return (
    <>
      <p>
        Received at <Time at={at} /> UTC{isTest && ', as a test'}
        {page && may(program.roles, 'tracking:list') && (
          <>
            , on <code>{page}</code>
          </>
        )}
        .
      </p>
      {page && !isPageOf(page, program.domain) && (
        <p>
          <Badge tone="warn">Not on {shownHost(program.domain)}</Badge> The page isn't on the program's host. If this is
          intended, <a href={`/programs/${program.id}/settings`}>change the domain</a>.
        </p>
      )}
      {currency && (
        <p>
          <Badge tone="bad">Other currency</Badge> {currency.message}
        </p>
      )}
      {isForNobody && (
        <p>
          <Badge tone="warn">No partner</Badge> No partner referred this customer, so the sale earns nothing. Send the
          same customer id as in the lead.
        </p>
      )}
    </>
  )
}

function Refusals({ refusals }: { refusals: Integration['refusals'] }) {
  return (
    <>
      {refusals.map(({ message, refused_at: at }) => (
        <p>
          <Badge tone="bad">Refused</Badge> {message}{' '}
          <span class="muted small">
            <Time at={at} /> UTC
          </span>
        </p>
      ))}
    </>
  )
}

/** Help with problems that the service can't detect because no request arrives. */
function IfNothingComes({ program }: { program: ViewerProgram }) {
  return (
    <Card title="If nothing arrives">
      <ul class="bullets">
        <li>
          The tag may be missing on this page. Look for <code>data-svc-program-id="{program.id}"</code> in its source.
          The <a href={settingsTab(program.id, 'tracking')}>settings</a> show it.
        </li>
        <li>
          The page waits for <a href="/docs/consent">consent</a>: until the visitor agrees, nothing is sent, and nothing
          appears here.
        </li>
        <li>
          An ad blocker may block the script. Serve it from <a href="/docs/own-domain">your own domain</a>.
        </li>
        <li>
          If the lead is missing, your server may have no key, or the key of another program.{' '}
          <code>node_modules/.bin/svc status</code> checks the key in <code>.svc/.env</code>.
        </li>
        <li>
          All error codes and what to do about them: <a href="/docs/errors">errors</a>.
        </li>
      </ul>
    </Card>
  )
}
