import {
  createPartnerKey,
  listPartnerKeys,
  maxPartnerKeys,
  revokePartnerKey,
  type StoredPartnerKey,
} from '../../../lib/access/partner-keys.ts'
import { ApiError } from '../../../lib/errors.ts'
import type { ProgramOfPartner } from '../../../lib/programs/partnerships.ts'
import { idInPath, positiveInteger } from '../components/address.ts'
import { Card, Copy } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { Day, Time } from '../components/format.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { createPages, type PartnerContext, requirePartner } from '../components/page.ts'
import { TableCard } from '../components/table.tsx'
import { Text, useTexts } from '../components/text.tsx'
import { ownProgram } from './money.ts'

/** A partner's API keys for their own data in a program. */
export const pages = createPages()

export const keysAddress = (programId: number) => `/partner/api-keys/${programId}`
const ofProgram = '/partner/api-keys/:programId'

pages.get(ofProgram, requirePartner, async (c) => {
  const [program, keys] = await Promise.all([ownProgram(c), keysOf(c, positiveInteger(c.req.param('programId')) ?? 0)])
  return renderKeys(c, program, keys)
})

const keysOf = (c: PartnerContext, programId: number) =>
  listPartnerKeys(c.get('db'), { programId, userId: c.get('viewer').user.id })

function renderKeys(c: PartnerContext, program: ProgramOfPartner, keys: StoredPartnerKey[], created?: string) {
  const { t } = c.get('texts')
  const canCreate = !program.ended_at && keys.length < maxPartnerKeys
  return c.render(
    <PartnerPage
      title={t('API keys')}
      current="/postbacks"
      lead={t(
        'Your tools read your own links, figures, commissions and payouts at {name}. A key cannot change anything.',
        {
          name: program.name,
        },
      )}
      actions={canCreate && <PostButton action={keysAddress(program.id)} class="primary" text={t('Create key')} />}
    >
      {created !== undefined && <NewKey apiKey={created} />}
      <KeyTable programId={program.id} keys={keys} />
    </PartnerPage>,
  )
}

/** A new key, which is shown once. */
function NewKey({ apiKey }: { apiKey: string }) {
  const { t } = useTexts()
  return (
    <Card title={t('New key')}>
      <p>
        <Text
          of="Copy it now: it won't be shown again. The <a>reference</a> explains the calls."
          a={(text) => <a href="/api/v1/reference#listOwnLinks">{text}</a>}
        />
      </p>
      <Copy text={apiKey} label={t('API key')} />
    </Card>
  )
}

function KeyTable({ programId, keys }: { programId: number; keys: StoredPartnerKey[] }) {
  const { t } = useTexts()
  return (
    <TableCard
      title={t('Keys')}
      caption={t('Your API keys, newest first')}
      rows={keys}
      columns={[
        { label: 'Key', cell: ({ hint }) => <code class="words">{`svc_partner_…${hint}`}</code> },
        { label: 'Created', cell: ({ created_at: at }) => <Day at={at} /> },
        { label: 'Last used (UTC)', cell: ({ last_used_at: at }) => (at ? <Time at={at} /> : t('never')) },
        {
          cell: ({ id, hint }) => (
            <PostButton
              action={`${keysAddress(programId)}/${id}/revoke`}
              class="compact danger"
              label={t('Revoke key …{hint}', { hint })}
              confirm={t('Revoke this key? Calls with this key fail immediately and permanently.')}
              text={t('Revoke')}
            />
          ),
        },
      ]}
      none={t('No keys yet.')}
    />
  )
}

pages.post(ofProgram, requirePartner, async (c) => {
  const program = await ownProgram(c)
  if (program.ended_at) throw new ApiError('conflict', 'Your partnership with this program has ended.')
  const key = await createPartnerKey(c.get('db'), { programId: program.id, userId: c.get('viewer').user.id })
  // If the form is repeated, it redirects to the page without the key.
  c.header('Content-Location', keysAddress(program.id))
  return renderKeys(c, program, await keysOf(c, program.id), key)
})

pages.post(`${ofProgram}/:partnerKeyId/revoke`, requirePartner, async (c) => {
  const program = await ownProgram(c)
  const keyId = idInPath(c, 'partnerKeyId', 'You have no API key with this id.')
  await revokePartnerKey(c.get('db'), { programId: program.id, userId: c.get('viewer').user.id }, keyId)
  return redirectWith(c, keysAddress(program.id), 'The key was revoked.')
})
