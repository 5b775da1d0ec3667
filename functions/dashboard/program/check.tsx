import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { isPageOf, linkAddress } from '../../../lib/programs/links.ts'
import { type Integration, later, readIntegration } from '../../../lib/tracking/status.ts'
import { testCode } from '../../../lib/tracking/test-links.ts'
import { Badge, Card, Copy, Heading } from '../parts/blocks.tsx'
import { Time } from '../parts/format.tsx'
import { renderProgram } from '../parts/layout.tsx'
import { createPages, requireProgram } from '../parts/page.ts'

/** Whether an integration works: it waits for a click, a lead and a sale, and says what stands in their way. */
export const checkPages = createPages()

const checkOf = (programId: number) => `/programs/${programId}/check`

/** The address that a program's own people open to try their site. */
export function testLink({ id, domain }: { id: number; domain: string }): string {
  return linkAddress(domain, testCode(id), null)
}

checkPages.get('/programs/:programId/check', requireProgram('program:read'), async (c) => {
  const program = c.get('program')
  const since = readSince(c.req.query('since'))
  const integration = await readIntegration(c.get('db'), program.id)
  const hasAll = isComplete(integration, since)
  return renderProgram(c, {
    title: 'Check that it works',
    current: '/check',
    // For browsers that run no script, and as often as one may read.
    ...(!hasAll && { refreshSeconds: 5 }),
    children: (
      <>
        <Heading
          title="Check that it works"
          lead={since ? 'What has come since you began anew.' : 'What has come, as a test or for good.'}
        >
          <a class="button" href={`${checkOf(program.id)}?since=${Date.now()}`}>
            Begin anew
          </a>
        </Heading>
        <Check program={program} integration={integration} since={since} />
        <IfNothingComes program={program} />
      </>
    ),
  })
})

/** The moment in the address from which on things count, by milliseconds; undefined for all that ever came. */
function readSince(text: string | undefined): Date | undefined {
  return text && /^\d{13}$/.test(text) ? new Date(Number(text)) : undefined
}

const kinds = ['click', 'lead', 'sale'] as const
type Kind = (typeof kinds)[number]

function cameAt({ activity, checks }: Integration, kind: Kind, since: Date | undefined): Date | undefined {
  // A signup of which a browser alone tells is no lead yet where the server has to tell it.
  if (!checks.some(({ name, ok }) => name === `${kind}_seen` && ok)) return undefined
  const { live, test } = activity[`last_${kind}`]
  const at = later(live, test)
  return at && at >= (since ?? new Date(0)) ? at : undefined
}

const isComplete = (integration: Integration, since: Date | undefined) =>
  kinds.every((kind) => cameAt(integration, kind, since))

interface CheckProps {
  program: ViewerProgram
  integration: Integration
  since?: Date | undefined
}

/** The three steps with the link that starts them; they keep themselves fresh until all are done. */
export function Check({
  program,
  integration,
  since,
  title = 'Try it by the test link',
}: CheckProps & { title?: string }) {
  const poll = since ? `${checkOf(program.id)}?since=${since.getTime()}` : checkOf(program.id)
  return (
    <Card title={title}>
      <p class="muted">
        Open it in a private window, sign up there, and pay. All of it is <a href="/docs/test-data">test data</a>: it
        counts in no figure, and nobody earns by it.
      </p>
      <Copy text={testLink(program)} label="test link" />
      <div data-part data-poll={isComplete(integration, since) ? undefined : poll} aria-live="polite" class="stack">
        <Steps program={program} integration={integration} since={since} />
      </div>
    </Card>
  )
}

const titles: Record<Kind, string> = {
  click: 'A click from your site',
  lead: 'A lead from your server',
  sale: 'A sale',
}

function Steps({ program, integration, since }: CheckProps) {
  const came = kinds.map((kind) => ({ kind, at: cameAt(integration, kind, since) }))
  const next = came.find(({ at }) => !at)?.kind
  const keyProblems = integration.refusals.filter(({ call }) => call === 'key')
  return (
    <>
      <ol class="steps">
        {came.map(({ kind, at }) => (
          <li class={at ? 'done' : kind === next ? 'now' : ''}>
            <div class="stack tight">
              <h3>{titles[kind]}</h3>
              {at ? (
                <Came program={program} integration={integration} kind={kind} at={at} />
              ) : (
                <>
                  <p class={kind === next ? 'waiting' : 'muted'}>{waitingFor(kind, integration)}</p>
                  <Refusals
                    refusals={integration.refusals.filter(
                      ({ call, refused_at: refusedAt }) => call === kind && refusedAt >= (since ?? new Date(0)),
                    )}
                  />
                </>
              )}
            </div>
          </li>
        ))}
      </ol>
      <Refusals refusals={keyProblems} />
      {next !== undefined && next !== 'click' && integration.key_used_at === null && (
        <p class="muted small">
          No call with a key of this program has come yet. A call with a wrong key cannot be shown here, because it says
          no program: your server is answered 401 and <code>unauthorized</code>.
        </p>
      )}
      {next === undefined && (
        <p>
          <strong>All three have come: it works.</strong>{' '}
          {may(program.roles, 'partner:manage') && (
            <a href={`/programs/${program.id}/partners`}>Add a partner, and live figures begin.</a>
          )}
        </p>
      )}
    </>
  )
}

function waitingFor(kind: Kind, { processor, has_provisional_leads: isProvisional }: Integration): string {
  if (kind === 'click') return 'Waiting. Open your site by the test link.'
  if (kind === 'lead') {
    return isProvisional
      ? 'A browser told of a signup, which settles no lead in this program. Waiting for your server to send it.'
      : 'Waiting. Sign up on your site, or run: npx svc test lead'
  }
  return processor.connected
    ? "Waiting. Pay on your site in Stripe's test mode, or run: npx svc test sale"
    : 'Waiting. Pay on your site, or run: npx svc test sale'
}

function Came({ program, integration, kind, at }: CheckProps & { kind: Kind; at: Date }) {
  const isTest = integration.activity[`last_${kind}`].test?.getTime() === at.getTime()
  const page = kind === 'click' ? integration.latest_click?.page_url : null
  const isForNobody = kind === 'sale' && integration.latest_sale?.attributed === false && !isTest
  return (
    <>
      <p>
        It came at <Time at={at} /> UTC{isTest && ', as a test'}
        {page && may(program.roles, 'tracking:list') && (
          <>
            , on <code>{page}</code>
          </>
        )}
        .
      </p>
      {page && !isPageOf(page, program.domain) && (
        <p>
          <Badge tone="warn">Not on {shownHost(program.domain)}</Badge> The page is of another host than the program's.
          Where that is no mistake, <a href={`/programs/${program.id}/settings`}>change the domain</a>.
        </p>
      )}
      {isForNobody && (
        <p>
          <Badge tone="warn">Nobody's</Badge> No partner brought this customer, so it earns nothing. Send the same
          customer id as with the lead.
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

/** What the service cannot see, since nothing is sent to it. */
function IfNothingComes({ program }: { program: ViewerProgram }) {
  return (
    <Card title="If nothing comes">
      <ul class="stack tight">
        <li>
          The tag is missing on this page: look for <code>data-svc-program-id="{program.id}"</code> in its source. The{' '}
          <a href={`/programs/${program.id}/settings`}>settings</a> have it.
        </li>
        <li>
          The page waits for <a href="/docs/consent">consent</a>: until the visitor agrees, nothing is sent, and nothing
          can be seen here.
        </li>
        <li>
          A blocker keeps the script from loading: serve it from <a href="/docs/own-domain">your own domain</a>.
        </li>
        <li>
          The lead is missing: your server has no key, or not this program's. <code>npx svc status</code> asks with the
          key in <code>.svc/.env</code>.
        </li>
        <li>
          Each code that the service answers, and what to do: <a href="/docs/errors">errors</a>.
        </li>
      </ul>
    </Card>
  )
}
