import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import { createApiKey, listApiKeys, retireApiKey, type StoredApiKey } from '../../../lib/access/api-keys.ts'
import { programOfClickId } from '../../../lib/tracking/clicks.ts'
import { ApiError } from '../../../lib/errors.ts'
import { eraseCustomer } from '../../../lib/tracking/erase-customer.ts'
import {
  connectAddress,
  connectByCode,
  connectProcessor,
  disconnectProcessor,
  takeConnectState,
} from '../../../lib/stripe/connect.ts'
import { isPageOf } from '../../../lib/programs/links.ts'
import { programSettings, readProgram, readProgress, updateProgram } from '../../../lib/programs/programs.ts'
import { readSessionToken } from '../../../lib/access/sessions.ts'
import { renderProgram } from '../parts/layout.tsx'
import {
  createPages,
  emptyForm,
  fieldErrors,
  flash,
  type FormState,
  type PageContext,
  positiveInteger,
  readForm,
  requireProgram,
  requireViewer,
} from '../parts/page.ts'
import { Badge, Card, Copy, Day, Field, Heading, Problem, Table, Time } from '../parts/parts.tsx'
import { ProgramFields, readProgramSettings } from '../parts/program-form.tsx'

/** A program's settings: its terms, the tracker tag, API keys and the payment processor. */
export const settingsPages = createPages()

type ProgramContext = PageContext<{ viewer: Viewer; program: ViewerProgram }>

function isLoopback(baseUrl: string): boolean {
  return ['127.0.0.1', 'localhost', '[::1]'].includes(new URL(baseUrl).hostname)
}

/** The tag that goes on every page of the integrator's site. */
export function trackerTag(baseUrl: string, programId: number): string {
  return `<script src="${baseUrl}/js/svc-tracker.js" data-svc-program-id="${programId}" defer></script>`
}

async function renderSettings(
  c: ProgramContext,
  shown: { form?: FormState; apiKey?: string; status?: 200 | 400 } = {},
) {
  const program = c.get('program')
  const db = c.get('db')
  const base = `/programs/${program.id}/settings`
  const [settings, keys] = await Promise.all([
    readProgram(db, program.id),
    may(program.roles, 'api-key:manage') ? listApiKeys(db, program.id) : undefined,
  ])
  if (!settings) throw new ApiError('not_found', 'There is no such program among yours.')
  const form = shown.form ?? emptyForm
  return renderProgram(c, {
    title: 'Settings',
    current: '/settings',
    status: shown.status ?? 200,
    children: (
      <>
        <Heading
          title="Settings"
          lead={
            <>
              Program id <code>{program.id}</code>
            </>
          }
        />
        <Card title="Tracker tag">
          <p class="muted">Put this into the head of every page of {program.domain}.</p>
          <Copy text={trackerTag(c.env.BASE_URL, program.id)} label="tracker tag" />
          <TagCheck path={`${base}/tag`} />
        </Card>
        {may(program.roles, 'program:update') && (
          <Card title="Program">
            <form method="post" action={base} class="stack">
              <Problem form={form} />
              <ProgramFields form={form} settings={settings} />
              <div class="row">
                <button type="submit" class="primary">
                  Save
                </button>
              </div>
            </form>
          </Card>
        )}
        {keys && <ApiKeys base={base} keys={keys} shown={shown.apiKey} />}
        {may(program.roles, 'processor:manage') && (
          <Processor c={c} base={base} accountId={settings.processor_account_id} />
        )}
        {may(program.roles, 'customer:forget') && <ForgetCustomer base={base} />}
        {may(program.roles, 'member:manage') && (
          <Card title="Members">
            <p class="muted">Who may see and change this program is set for the whole workspace.</p>
            <div class="row">
              <a class="button" href={`/workspaces/${program.workspaceId}/members`}>
                Members and roles
              </a>
            </div>
          </Card>
        )}
      </>
    ),
  })
}

/** Where the check stands before its first answer; the script asks for the rest. */
function TagCheck({ path }: { path: string }) {
  return (
    <div data-part data-poll={path} aria-live="polite">
      <p class="muted">
        <a href={path}>Check that it works</a>
      </p>
    </div>
  )
}

function ApiKeys({ base, keys, shown }: { base: string; keys: StoredApiKey[]; shown: string | undefined }) {
  return (
    <Card title="API keys">
      <p class="muted">
        Your server sends leads, sales and refunds with one of these. A key is for this program alone.
      </p>
      {shown !== undefined && (
        <div class="notice good stack tight" role="status">
          <p>
            <strong>This is the new key. Copy it now: it is not shown again.</strong>
          </p>
          <Copy text={shown} label="API key" />
        </div>
      )}
      {keys.length > 0 && (
        <Table
          caption="API keys"
          rows={keys}
          columns={[
            { label: 'Name', cell: ({ name }) => name },
            { label: 'Key', cell: ({ hint }) => <code>svc_live_…{hint}</code> },
            { label: 'Made', cell: ({ created_at: at }) => <Day at={at} /> },
            {
              label: '',
              right: true,
              cell: (key) =>
                key.retired_at ? (
                  <Badge>Retired</Badge>
                ) : (
                  <form method="post" action={`${base}/keys/${key.id}/retire`}>
                    <button
                      type="submit"
                      class="compact danger"
                      aria-label={`Retire the key ${key.name}`}
                      data-confirm="Retire this key? Calls that use it are refused at once, for good."
                    >
                      Retire
                    </button>
                  </form>
                ),
            },
          ]}
        />
      )}
      <form method="post" action={`${base}/keys`} class="row end">
        <Field name="key_name" label="Name of a new key" value="server" form={emptyForm} />
        <button type="submit">Make a key</button>
      </form>
    </Card>
  )
}

function Processor({ c, base, accountId }: { c: ProgramContext; base: string; accountId: string | null }) {
  return (
    <Card
      title="Payment processor"
      aside={accountId ? <Badge tone="good">Connected</Badge> : <Badge>Not connected</Badge>}
    >
      {accountId ? (
        <>
          <p>
            Stripe account <code>{accountId}</code>. Its payments, refunds and disputes arrive by themselves.
          </p>
          <form method="post" action={`${base}/processor/disconnect`}>
            <button
              type="submit"
              class="danger"
              data-confirm="Disconnect Stripe? Payments are no longer recorded from then on."
            >
              Disconnect
            </button>
          </form>
        </>
      ) : !c.env.STRIPE_CLIENT_ID && !isLoopback(c.env.BASE_URL) ? (
        <p class="muted">
          Connecting Stripe is not set up here: its operator has to give the service STRIPE_CLIENT_ID.
        </p>
      ) : (
        <>
          <p class="muted">
            Connect Stripe and sales, renewals, refunds and disputes are recorded without a call from your server.
          </p>
          <form method="post" action={`${base}/processor/connect`} class="row end">
            {!c.env.STRIPE_CLIENT_ID && (
              <Field name="account_id" label="Stripe account id" placeholder="acct_…" form={emptyForm} required />
            )}
            <button type="submit" class="primary">
              Connect Stripe
            </button>
          </form>
        </>
      )}
    </Card>
  )
}

function ForgetCustomer({ base }: { base: string }) {
  return (
    <Card title="Forget a customer">
      <p class="muted">
        Removes what identifies one of your customers: their id, e-mail hash, addresses, device and place. Amounts, days
        and commissions stay. It cannot be undone.
      </p>
      <form method="post" action={`${base}/forget`} class="row end">
        <Field
          name="forgotten"
          label="Customer key or click id"
          placeholder="user-1 or cust_…"
          form={emptyForm}
          required
        />
        <button type="submit" class="danger" data-confirm="Forget this customer? It cannot be undone.">
          Forget
        </button>
      </form>
    </Card>
  )
}

settingsPages.get('/programs/:programId/settings', requireProgram('program:read'), (c) => renderSettings(c))

settingsPages.get('/programs/:programId/settings/tag', requireProgram('program:read'), async (c) => {
  const program = c.get('program')
  const path = `/programs/${program.id}/settings/tag`
  const { last_click: click } = await readProgress(c.get('db'), program.id)
  return renderProgram(c, {
    title: 'Tracker tag',
    current: '/settings',
    children: (
      <div data-part data-poll={click ? undefined : path} aria-live="polite">
        {click ? (
          <p>
            {click.page_url === null || isPageOf(click.page_url, program.domain) ? (
              <Badge tone="good">Works</Badge>
            ) : (
              <Badge tone="warn">Not on {program.domain}</Badge>
            )}{' '}
            Last click <Time at={click.at} /> UTC
            {click.page_url && (
              <>
                {' '}
                on <code>{click.page_url}</code>
              </>
            )}
          </p>
        ) : (
          <p class="waiting">
            Waiting for the first click. Open your site through a partner's link: this changes by itself.
          </p>
        )}
      </div>
    ),
  })
})

settingsPages.post('/programs/:programId/settings', requireProgram('program:update'), async (c) => {
  const values = await readForm(c)
  const parsed = programSettings.safeParse(readProgramSettings(values))
  if (!parsed.success) {
    return renderSettings(c, { form: { values, errors: fieldErrors(parsed.error.issues) }, status: 400 })
  }
  const program = c.get('program')
  await updateProgram(c.get('db'), program.id, parsed.data)
  flash(c, 'good', 'Saved. What is earned from now on follows the new terms.')
  return c.redirect(`/programs/${program.id}/settings`, 303)
})

settingsPages.post('/programs/:programId/settings/forget', requireProgram('customer:forget'), async (c) => {
  const program = c.get('program')
  const who = ((await readForm(c))['forgotten'] ?? '').trim()
  if (!who) throw new ApiError('invalid_request', 'Enter the customer key or the click id of whom to forget.')
  await eraseCustomer(c.get('db'), program.id, programOfClickId(who) ? { click_id: who } : { customer_key: who })
  flash(c, 'good', 'The customer is forgotten. Amounts and days stay as they were.')
  return c.redirect(`/programs/${program.id}/settings`, 303)
})

settingsPages.post('/programs/:programId/settings/keys', requireProgram('api-key:manage'), async (c) => {
  const values = await readForm(c)
  const name = (values['key_name'] ?? '').trim().slice(0, 100).toWellFormed() || 'default'
  return renderSettings(c, { apiKey: await createApiKey(c.get('db'), c.get('program').id, name) })
})

settingsPages.post('/programs/:programId/settings/keys/:keyId/retire', requireProgram('api-key:manage'), async (c) => {
  const program = c.get('program')
  const keyId = positiveInteger(c.req.param('keyId'))
  if (keyId === undefined) throw new ApiError('not_found', 'There is no such API key.')
  await retireApiKey(c.get('db'), program.id, keyId)
  flash(c, 'good', 'The key is retired.')
  return c.redirect(`/programs/${program.id}/settings`, 303)
})

const accountForm = z.object({
  account_id: z
    .string()
    .check(z.trim(), z.regex(/^acct_[A-Za-z0-9_]{1,100}$/, 'A Stripe account id begins with acct_.')),
})

settingsPages.post('/programs/:programId/settings/processor/connect', requireProgram('processor:manage'), async (c) => {
  const program = c.get('program')
  if (c.env.STRIPE_CLIENT_ID) {
    const session = (await readSessionToken(c.req.raw.headers, c.env.AUTH_SECRET)) ?? ''
    const returnAddress = `${c.env.BASE_URL}/processor/callback`
    return c.redirect(await connectAddress(c.get('db'), c.env, program.id, session, returnAddress), 303)
  }
  // Anybody can name an account; only Stripe's consent page shows that it is theirs. On one machine there is nobody else.
  if (!isLoopback(c.env.BASE_URL)) throw new ApiError('conflict', 'Connecting Stripe is not set up here.')
  const parsed = accountForm.safeParse(await readForm(c))
  if (!parsed.success)
    throw new ApiError('invalid_request', 'A Stripe account id begins with acct_. Copy it from Stripe.')
  await connectProcessor(c.get('db'), program.id, parsed.data.account_id)
  flash(c, 'good', 'Stripe is connected.')
  return c.redirect(`/programs/${program.id}/settings`, 303)
})

/** Where Stripe leads back to after somebody let us into their account. */
settingsPages.get('/processor/callback', requireViewer, async (c) => {
  const viewer = c.get('viewer')
  const session = (await readSessionToken(c.req.raw.headers, c.env.AUTH_SECRET)) ?? ''
  const programId = await takeConnectState(c.get('db'), c.req.query('state') ?? '', session)
  const program = viewer.programs.find(({ id }) => id === programId)
  if (!program || !may(program.roles, 'processor:manage')) {
    throw new ApiError(
      'forbidden',
      'This link works once, and for who asked for it. Connect Stripe from the settings of your program.',
    )
  }
  const code = c.req.query('code')
  if (code === undefined) {
    flash(c, 'bad', 'Stripe was not connected.')
  } else {
    await connectByCode(c.get('db'), c.env, program.id, code)
    flash(c, 'good', 'Stripe is connected.')
  }
  return c.redirect(`/programs/${program.id}/settings`, 303)
})

settingsPages.post(
  '/programs/:programId/settings/processor/disconnect',
  requireProgram('processor:manage'),
  async (c) => {
    const program = c.get('program')
    await disconnectProcessor(c.get('db'), c.env, program.id)
    flash(c, 'good', 'Stripe is disconnected.')
    return c.redirect(`/programs/${program.id}/settings`, 303)
  },
)
