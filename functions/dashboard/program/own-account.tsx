import { ownAccount } from '../../../lib/processors/stripe/client.ts'
import {
  askOwnAccountCode,
  type OwnAccountState,
  readOwnAccountState,
} from '../../../lib/processors/stripe/own-account.ts'
import { ownershipField } from '../../../lib/processors/stripe/read-ownership.ts'
import { Card, Copy } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, requireProgram } from '../components/page.ts'

/** Connects a program to the deployment's own Stripe account. An owner must prove that they own the account. */
export const pages = createProgramPages()

const route = '/settings/processor/own-account'
export const ownAccountAddress = (programId: number) => `/programs/${programId}${route}`

pages.get(route, requireProgram('own-account:connect'), async (c) => {
  const { id: programId } = c.get('program')
  const state = await readOwnAccountState(c.get('db'), programId)
  return c.render(
    <ProgramPage
      title="The deployment's Stripe account"
      current="/settings"
      lead="The service's own Stripe account. Its events don't contain an account id, so only one program can connect to it."
    >
      <Steps state={state} baseUrl={c.env.BASE_URL} address={ownAccountAddress(programId)} />
      <p>
        <a href={`/programs/${programId}/settings?tab=payments`}>Back to the settings</a>
      </p>
    </ProgramPage>,
  )
})

pages.post(route, requireProgram('own-account:connect'), async (c) => {
  const { id: programId } = c.get('program')
  await askOwnAccountCode(c.get('db'), c.env, programId, c.get('viewer').user.id)
  return c.redirect(ownAccountAddress(programId), 303)
})

interface StepsProps {
  state: OwnAccountState | undefined
  baseUrl: string
  address: string
}

/** The steps that prove who owns the account. The page refreshes until Stripe sends the code. */
function Steps({ state, baseUrl, address }: StepsProps) {
  const { account_id: accountId, code, needs_livemode: isLive, expires_at: until, refusal } = state ?? {}
  if (accountId === ownAccount) {
    return (
      <div data-part aria-live="polite">
        <Card title="It is connected">
          <p>Stripe sent your code. The account's payments, refunds and disputes arrive automatically.</p>
        </Card>
      </div>
    )
  }
  if (!code || !until) {
    return (
      <div data-part>
        <Card title="Prove that the account is yours">
          <p>Get a code and enter it in that Stripe account. Stripe then sends it to this service.</p>
          <PostButton action={address} class="primary" text="Get code" />
        </Card>
      </div>
    )
  }
  return (
    <div data-part data-poll={address} aria-live="polite">
      <Card title="Prove that the account is yours">
        <ol class="steps">
          <li class="now">
            <div class="stack tight">
              <h3>Send the account's events here</h3>
              <p>
                In that account's webhooks, add an endpoint for events of <strong>your account</strong>, not of
                connected accounts. The service stores its signing secret as <code>STRIPE_WEBHOOK_SECRET</code>It also
                sends the events <code>product.created</code> and <code>product.updated</code>.
              </p>
              <Copy text={`${baseUrl}/api/v1/webhooks/stripe`} label="endpoint" />
            </div>
          </li>
          <li class="now">
            <div class="stack tight">
              <h3>Write the code into a product</h3>
              <p>
                Open any product of that account {isLive ? 'in live mode' : '(test mode is enough)'}, or create one, and
                add to its metadata <code>{ownershipField}</code> with this value. You can remove it afterward.
              </p>
              <Copy text={code} label="code" />
            </div>
          </li>
          <li class="now">
            <div class="stack tight">
              <h3>Wait for Stripe</h3>
              <p class="waiting">
                Waiting. This page updates automatically. The code works until <Time at={until} /> (UTC).
              </p>
              {refusal && <p class="bad">Stripe sent a code, but nothing was connected: {refusal}</p>}
            </div>
          </li>
        </ol>
      </Card>
    </div>
  )
}
