import * as z from 'zod/mini'
import { apiKeysStatement, createApiKey, revokeApiKey, rotateProxyKey } from '../../../lib/access/program-keys.ts'
import { proxyKey } from '../../../lib/access/proxy-keys.ts'
import { may } from '../../../lib/access/roles.ts'
import { ApiError } from '../../../lib/errors.ts'
import { readBrand } from '../../../lib/programs/brand.ts'
import { proofOf, proveDomain } from '../../../lib/programs/domain-proof.ts'
import { proxyPath } from '../../../lib/programs/proxy-path.ts'
import {
  type ProgramSettings,
  programStatement,
  type StoredSettings,
  updateProgram,
} from '../../../lib/programs/programs.ts'
import { processorTitles } from '../../../lib/processors/processors.ts'
import { readConnectionState } from '../../../lib/processors/stripe/connection-state.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { programOfClickId } from '../../../lib/tracking/clicks.ts'
import { eraseCustomer } from '../../../lib/tracking/erase-customer.ts'
import { idInPath } from '../components/address.ts'
import { Card, Copy, LinkButton, Segments } from '../components/blocks.tsx'
import { Field, Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { Day } from '../components/format.tsx'
import { form, FormRefusal, optionalText, shortText } from '../components/form.ts'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { ApiKeys, keyUse, scopesOf } from './api-keys.tsx'
import { ProgramFields, programForm } from './program-form.tsx'
import { BrandForms } from './brand.tsx'
import { connectionsAddress } from './connections.tsx'
import { EmbeddedPortal } from './embedded-portal.tsx'
import { type SettingsTab, settingsTab, settingsTabs } from './settings-tabs.ts'
import { StripeConnection } from './stripe-connection.tsx'
import { TrackerTag } from './tracker-tag.tsx'
import { afterStep, stepAddress, stepOf } from './wizard-steps.ts'

/** The settings of a program: terms, tracker tag, API keys, payment processor, and a form that erases a customer. */
export const pages = createProgramPages()

const addressIn = (programId: number) => `/programs/${programId}/settings`
const tabOf = (tab: SettingsTab) => (c: ProgramContext) => settingsTab(c.get('program').id, tab)

pages.get('/settings', requireProgram('program:read'), (c) => renderSettings(c, c.req.query('tab')))

async function renderSettings(c: ProgramContext, tabName: string | undefined, createdKey?: string) {
  const program = c.get('program')
  const { id: programId, roles } = program
  const db = c.get('db')
  const address = addressIn(programId)
  const open = settingsTabs.filter(({ actions }) => actions.some((action) => may(roles, action)))
  const tab = (open.find(({ name }) => name === tabName) ?? open[0])?.name
  const [[[settings], keys], stripe, brand] = await Promise.all([
    db.batch([programStatement(programId), apiKeysStatement(programId)]),
    may(roles, 'processor:manage') ? readConnectionState(db, programId) : undefined,
    tab === 'brand' ? readBrand(db, programId) : undefined,
  ])
  if (!settings) throw new ApiError('not_found', "This program doesn't exist, or you don't have access to it.")
  return c.render(
    <ProgramPage
      title="Settings"
      current="/settings"
      lead={
        <>
          Program id <code>{programId}</code>
        </>
      }
    >
      <Segments
        label="Parts of this page"
        items={open.map(({ name, title }) => ({
          href: settingsTab(programId, name),
          text: title,
          current: name === tab,
        }))}
      />
      {tab === 'program' && (
        <>
          <Terms address={address} settings={settings} />
          <DomainProof address={address} programId={programId} settings={settings} />
        </>
      )}
      {tab === 'tracking' && (
        <TrackerTag
          baseUrl={c.env.BASE_URL}
          program={{ ...program, link_params: settings.link_params }}
          path={await proxyPath(program)}
        />
      )}
      {tab === 'brand' && <BrandForms program={program} brand={brand} />}
      {tab === 'embed' && <EmbeddedPortal action={`${address}/embed`} settings={settings} />}
      {tab === 'keys' && (
        <ApiKeys
          baseUrl={c.env.BASE_URL}
          programId={programId}
          keys={keys}
          created={createdKey}
          proxyKey={await proxyKey(c.env, programId, settings.proxy_key_number)}
          previousProxyKeyUntil={settings.previous_proxy_key_until}
        />
      )}
      {tab === 'payments' && stripe && (
        <>
          <StripeConnection
            env={c.env}
            programId={programId}
            accountId={settings.processor_account_id}
            mayOwn={may(roles, 'own-account:connect')}
            attributesKnown={settings.attribute_known_customers}
            state={stripe}
          />
          <Card title={processorTitles('conjunction')}>
            <p class="muted">Connect the processor that sells for you through a separate webhook.</p>
            <div class="row">
              <LinkButton href={connectionsAddress(programId)} text="Payment connections" />
            </div>
          </Card>
        </>
      )}
      {tab === 'people' && may(roles, 'member:manage') && (
        <Card title="Members">
          <p class="muted">Roles apply to the whole workspace.</p>
          <div class="row">
            <LinkButton href={`/workspaces/${program.workspaceId}/members`} text="Members and roles" />
          </div>
        </Card>
      )}
      {tab === 'people' && may(roles, 'customer:forget') && <EraseCustomer address={`${address}/forget`} />}
    </ProgramPage>,
  )
}

function Terms({ address, settings }: { address: string; settings: ProgramSettings }) {
  return (
    <Card title="Program">
      <Form action={address} submit="Save">
        <ProgramFields settings={settings} />
      </Form>
    </Card>
  )
}

interface DomainProofProps {
  address: string
  programId: number
  settings: StoredSettings
}

function DomainProof({ address, programId, settings }: DomainProofProps) {
  const { domain, domain_proven_at: provenAt, domain_verified_at: seenAt } = settings
  const { name, value } = proofOf(programId, domain)
  if (provenAt) {
    return (
      <Card title="Domain">
        <p class="muted">
          {shownHost(domain)} was verified with its DNS record on <Day at={provenAt} />.
        </p>
      </Card>
    )
  }
  return (
    <Card title="Domain">
      <p class="muted">
        Only needed if your own code sends clicks without the program id. If another program has the same partner code,
        such a click counts for the program that verified the domain. {seenAt && 'Your tag was seen there. '}
        To verify your domain, create this DNS record: TXT, name <code>{name}</code>, value:
      </p>
      <Copy text={value} label="TXT record" />
      <Form action={`${address}/domain`} submit="Check the record" layout="inline" />
    </Card>
  )
}

function EraseCustomer({ address }: { address: string }) {
  return (
    <Card title="Erase a customer">
      <p class="muted">
        Removes everything that identifies a customer: id, e-mail hash, addresses, device and location. Amounts, dates
        and commissions stay. This can't be undone.
      </p>
      <Form action={address} submit="Erase" layout="inline" danger confirm="Erase this customer? This can't be undone.">
        <Field name="forgotten" label="Customer key or click id" placeholder="user-1 or cust_…" required />
      </Form>
    </Card>
  )
}

/** The page with the program's form: the step of the wizard, or the settings. */
const programPage = (c: ProgramContext) => (stepOf(c) ? stepAddress(c.get('program').id, 'rate') : tabOf('program')(c))

pages.post('/settings', requireProgram('program:update'), form(programForm, programPage), async (c) => {
  const [{ id: programId }, step] = [c.get('program'), stepOf(c)]
  await updateProgram(c.get('db'), programId, c.req.valid('form'))
  const next = step ? afterStep(programId, step) : programPage(c)
  return redirectWith(c, next, 'Saved. New commissions use the new terms.')
})

pages.post('/settings/domain', requireProgram('program:update'), async (c) => {
  const { id, domain } = c.get('program')
  const isProven = await proveDomain(c.get('db'), c.env, { id, domain }).catch(() => null)
  const answer = {
    true: 'The record was found, and the domain is verified.',
    false: 'The record was not found. New records can take an hour to appear.',
    null: "The DNS server didn't respond. Try again.",
  }
  return redirectWith(c, tabOf('program')(c), answer[`${isProven}`], isProven ? 'good' : 'bad')
})

const nobody = 'Enter the customer key or the click id of the customer.'
const eraseForm = z.object({ forgotten: z.string(nobody).check(z.trim(), z.minLength(1, nobody)) })

pages.post('/settings/forget', requireProgram('customer:forget'), form(eraseForm, tabOf('people')), async (c) => {
  const { id: programId } = c.get('program')
  const { forgotten } = c.req.valid('form')
  const customer = programOfClickId(forgotten) ? { click_id: forgotten } : { customer_key: forgotten }
  try {
    await eraseCustomer(c.get('db'), programId, customer)
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'not_found') throw error
    throw new FormRefusal({ forgotten: error.message })
  }
  return redirectWith(c, tabOf('people')(c), "The customer was erased. Amounts and dates didn't change.")
})

const keyForm = z.object({
  key_name: optionalText.check(shortText(100)),
  key_scope: keyUse,
  key_days: z.prefault(z.enum(['', '30', '90', '365'], 'Choose when the key expires.'), ''),
})

pages.post('/settings/keys', requireProgram('api-key:manage'), form(keyForm, tabOf('keys')), async (c) => {
  const { key_name: name, key_scope: scope, key_days: days } = c.req.valid('form')
  const key = await createApiKey(c.get('db'), c.get('program').id, name || 'default', {
    scopes: scopesOf(scope),
    ...(days && { days: Number(days) }),
    createdBy: c.get('viewer').user.id,
  })
  c.header('Content-Location', tabOf('keys')(c))
  return await renderSettings(c, 'keys', key)
})

pages.post('/settings/keys/:keyId/revoke', requireProgram('api-key:manage'), async (c) => {
  const { id: programId } = c.get('program')
  await revokeApiKey(c.get('db'), programId, idInPath(c, 'keyId', 'This program has no such API key.'))
  return redirectWith(c, tabOf('keys')(c), 'The key was revoked.')
})

pages.post('/settings/proxy-key/rotate', requireProgram('api-key:manage'), async (c) => {
  const { id: programId } = c.get('program')
  await rotateProxyKey(c.get('db'), programId)
  return redirectWith(c, tabOf('keys')(c), 'The proxy key was rotated. Add the new key to your proxy.')
})
