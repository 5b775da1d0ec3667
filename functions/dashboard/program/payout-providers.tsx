import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import {
  connectProvider,
  disconnectProvider,
  listProviders,
  parseRecipients,
  setRecipients,
} from '../../../lib/money/payout-connections.ts'
import type { PayoutProvider } from '../../../lib/money/providers/provider.ts'
import { isProvider, type ProviderName, providers } from '../../../lib/money/providers/providers.ts'
import { Badge, Card, Copy } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal } from '../components/form.ts'
import { counted } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'

/** Connects a program to the providers that pay its payout runs. */
export const pages = createProgramPages()

const route = '/payouts/providers'
const addressIn = (programId: number) => `/programs/${programId}${route}`
const page = (c: ProgramContext) => addressIn(c.get('program').id)

type Connection = Awaited<ReturnType<typeof listProviders>>[number]

pages.get(route, requireProgram('processor:manage'), async (c) => {
  const { id: programId } = c.get('program')
  const connections = await listProviders(c.get('db'), programId)
  const address = addressIn(programId)
  const named = Object.entries<PayoutProvider>(providers)
  return c.render(
    <ProgramPage
      title="Payout providers"
      current="/payouts"
      lead="A provider pays the payments of a run and reports each result. Without one, you pay with files."
    >
      {named.map(([name, provider]) => (
        <Provider
          provider={provider}
          connection={connections.find((one) => one.provider === name)}
          address={`${address}/${name}`}
          webhooks={`${c.env.BASE_URL}/api/v1/webhooks/payouts`}
        />
      ))}
      {connections.some(({ provider }) => provider === 'stripe') && (
        <Card title="Recipients at Stripe">
          <p class="muted">
            Stripe pays recipients that you created in Stripe. Enter one per line: the partner’s id and the recipient,
            for example <code>17, acct_1Abc</code>.
          </p>
          <Form action={`${address}/recipients`} submit="Save recipients">
            <Field name="recipients" label="Recipients" rows={6} required />
          </Form>
        </Card>
      )}
    </ProgramPage>,
  )
})

interface ProviderProps {
  provider: PayoutProvider
  connection: Connection | undefined
  address: string
  webhooks: string
}

function Provider({ provider: { title, keys, remaining }, connection, address, webhooks }: ProviderProps) {
  return (
    <Card
      title={title}
      aside={connection ? <Badge tone="good">{connection.livemode ? 'Connected' : 'Sandbox'}</Badge> : undefined}
    >
      {remaining && <p class="muted">{remaining}</p>}
      {connection && <Copy text={`${webhooks}/${connection.id}`} label={`webhook address of ${title}`} />}
      <Form action={address} submit={connection ? 'Replace keys' : `Connect ${title}`} primary>
        {!connection && (
          <Field
            name="mode"
            id={`mode-${title}`}
            label="Mode"
            options={[
              ['live', 'Live'],
              ['sandbox', 'Sandbox'],
            ]}
          />
        )}
        {Object.entries(keys).map(([name, { label, hint, rows, isAccount, isOptional }]) => (
          <Field
            name={name}
            id={`${name}-${title}`}
            label={isOptional ? `${label} (optional)` : label}
            type="password"
            hint={
              connection ? `Leave empty to keep it.${isAccount ? ' To change the account, disconnect it.' : ''}` : hint
            }
            {...(rows && { rows })}
          />
        ))}
      </Form>
      {connection && (
        <PostButton
          action={`${address}/disconnect`}
          class="danger"
          text={`Disconnect ${title}`}
          confirm={`Disconnect ${title}? After that, you have to decide on its open payments yourself.`}
        />
      )}
    </Card>
  )
}

const nameIn = (c: ProgramContext): ProviderName => {
  const name = c.req.param('provider') ?? ''
  if (!isProvider(name)) throw new ApiError('not_found', 'There is no such provider.')
  return name
}

const key = z.optional(z.string().check(z.maxLength(4000)))
const keysForm = z.object({
  mode: z.optional(z.enum(['live', 'sandbox'], 'Choose a mode.')),
  ...Object.fromEntries(
    Object.values<PayoutProvider>(providers).flatMap(({ keys }) => Object.keys(keys).map((name) => [name, key])),
  ),
})

const recipientsForm = z.object({ recipients: z.string().check(z.maxLength(60_000)) })

pages.post(`${route}/recipients`, requireProgram('processor:manage'), form(recipientsForm, page), async (c) => {
  const recipients = parseRecipients(c.req.valid('form').recipients)
  if (!recipients) throw new FormRefusal({ recipients: 'Write each line like this: 17, acct_1Abc.' })
  const stored = await setRecipients(c.get('db'), c.get('program').id, recipients)
  return redirectWith(c, page(c), `${counted(stored, 'recipient was', 'recipients were')} saved.`)
})

pages.post(`${route}/:provider`, requireProgram('processor:manage'), form(keysForm, page), async (c) => {
  const provider = nameIn(c)
  const { mode, ...keys } = c.req.valid('form')
  const to = { provider, livemode: mode !== 'sandbox', keys }
  await connectProvider(c.get('db'), c.env, c.get('program').id, to)
  return redirectWith(c, page(c), `${providers[provider].title} is connected. Add its webhook address there.`)
})

pages.post(`${route}/:provider/disconnect`, requireProgram('processor:manage'), async (c) => {
  const { title } = providers[nameIn(c)]
  await disconnectProvider(c.get('db'), c.get('program').id, nameIn(c))
  return redirectWith(c, page(c), `${title} is disconnected.`)
})
