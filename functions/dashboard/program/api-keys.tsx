import * as z from 'zod/mini'
import { type KeyScope, keyScopes } from '../../../lib/access/api-keys.ts'
import { listedApiKeys, proxyRotationDays, type StoredApiKey } from '../../../lib/access/program-keys.ts'
import { Badge, Card, Copy } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { Day, Time } from '../components/format.tsx'
import { Table } from '../components/table.tsx'
import { settingsTab } from './settings-tabs.ts'
import { SetUp } from './set-up-command.tsx'

interface ApiKeysProps {
  baseUrl: string
  programId: number
  keys: StoredApiKey[]
  /** The new key. It is shown only once. */
  created: string | undefined
  proxyKey: string
  /** When the previous proxy key expires, if there is one. */
  previousProxyKeyUntil: Date | null
}

/** A program's API keys and its proxy key. */
export function ApiKeys({ baseUrl, programId, keys, created, proxyKey, previousProxyKeyUntil: until }: ApiKeysProps) {
  const isRotating = until !== null && until > new Date()
  const settings = `/programs/${programId}/settings`
  const address = `${settings}/keys`
  return (
    <Card title="API keys" id="keys">
      <p class="muted">
        Your server uses a key to send leads, sales and refunds, or to read and change the program. A key belongs to
        this program only. The <a href="/docs">documentation</a> has the code.
      </p>
      {created !== undefined && <SetUp baseUrl={baseUrl} apiKey={created} page={settingsTab(programId, 'keys')} />}
      {keys.length > 0 && (
        <Table
          caption="API keys"
          rows={keys}
          columns={[
            { label: 'Name', cell: ({ name }) => <span class="name">{name}</span> },
            { label: 'Key', cell: ({ hint }) => <code class="words">svc_live_…{hint}</code> },
            { label: 'Permissions', cell: ({ scopes }) => <span class="words">{scopes.join(', ')}</span> },
            { label: 'Created', cell: ({ created_at: at, creator }) => <Made at={at} by={creator} /> },
            { label: 'Expires', cell: ({ expires_at: at }) => (at ? <Day at={at} /> : 'never') },
            { label: 'Last used (UTC)', cell: ({ last_used_at: at }) => (at ? <Time at={at} /> : 'never') },
            { cell: (key) => <RevokeKey address={address} apiKey={key} /> },
          ]}
        />
      )}
      {keys.length === listedApiKeys && (
        <p class="muted">Older revoked keys are only in the audit log of the workspace.</p>
      )}
      <Form action={address} submit="Create key" layout="inline">
        <Field name="key_name" label="Name of the new key" value="server" />
        <Field name="key_scope" label="Permissions" options={scopeOptions} />
        <Field name="key_days" label="Expires" options={expiryOptions} />
      </Form>
      <p class="muted">
        The tracker under <a href="/docs/own-domain">your own domain</a> needs a separate key,{' '}
        <code>SVC_PROXY_KEY</code>, so each visitor is counted separately. The key can't do anything else, and{' '}
        <code>svc init</code> saves it.
      </p>
      <Copy text={proxyKey} label="Proxy key" />
      <div class="row">
        <PostButton
          action={`${settings}/proxy-key/rotate`}
          class="compact"
          confirm={
            isRotating
              ? 'Rotate the proxy key? The older of the two valid keys stops working immediately.'
              : `Rotate the proxy key? The current key works for ${proxyRotationDays} more days.`
          }
          text="Rotate proxy key"
        />
        {isRotating && (
          <span class="muted">
            The previous key works until <Day at={until} />.
          </span>
        )}
      </div>
    </Card>
  )
}

/** The purposes of a key. A key that can change a program can also read it. */
export const keyUses = ['track', 'read', 'manage', 'all'] as const

/** Returns the scopes for a purpose. */
export function scopesOf(use: (typeof keyUses)[number]): readonly KeyScope[] {
  return { track: ['track'] as const, read: ['read'] as const, manage: ['read', 'manage'] as const, all: keyScopes }[
    use
  ]
}

/** The field for a key's purpose in the form that creates the key. */
export const keyUse = z.prefault(z.enum(keyUses, 'Choose what the key is for.'), 'track')

/** The purposes of a key in a set-up command. `svc listen` and the list commands need more scopes than a server. */
export const setUpUses = [
  ['all', 'Everything that the svc command can do'],
  ['track', 'Send leads, sales and refunds: for a live server'],
] as const satisfies readonly (readonly [(typeof keyUses)[number], string])[]

const scopeOptions = [
  ['track', 'Send leads, sales and refunds'],
  ['read', 'Read the program: partners, sales, money'],
  ['manage', 'Read and change the program'],
  ['all', 'All of the above'],
] as const satisfies readonly (readonly [(typeof keyUses)[number], string])[]

const expiryOptions = [
  ['', 'Never'],
  ['30', 'After 30 days'],
  ['90', 'After 90 days'],
  ['365', 'After a year'],
] as const

function Made({ at, by }: { at: Date; by: string | null }) {
  return (
    <span class="name">
      <Day at={at} />
      {by && ` by ${by}`}
    </span>
  )
}

function RevokeKey({ address, apiKey }: { address: string; apiKey: StoredApiKey }) {
  if (apiKey.revoked_at) return <Badge>Revoked</Badge>
  if (apiKey.is_expired) return <Badge>Expired</Badge>
  return (
    <PostButton
      action={`${address}/${apiKey.id}/revoke`}
      class="compact danger"
      label={`Revoke key ${apiKey.name}`}
      confirm="Revoke this key? Calls with this key will fail immediately and permanently."
      text="Revoke"
    />
  )
}
