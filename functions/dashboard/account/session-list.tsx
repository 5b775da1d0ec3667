import { endSessions, listSessions } from '../../../lib/access/account.ts'
import { visitorDevice } from '../../../lib/tracking/visitor.ts'
import { Badge, Card } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { Day, Time } from '../components/format.tsx'
import { AccountPage } from '../components/layout.tsx'
import { createPages, requireViewer } from '../components/page.ts'
import { Table } from '../components/table.tsx'
import type { PageTexts } from '../components/text.tsx'
import { startOf, withNext } from './credentials.tsx'

/** The devices on which a person is signed in. */
export const pages = createPages()

const address = '/account/sessions'

async function deviceOf(userAgent: string | null, { t }: PageTexts): Promise<string> {
  const { browser_name: name, device_os: system } = await visitorDevice(userAgent)
  const browser = name ?? t('Another app')
  return system ? t('{browser} on {system}', { browser, system }) : browser
}

pages.get(address, requireViewer, async (c) => {
  const viewer = c.get('viewer')
  const texts = c.get('texts')
  const { t } = texts
  const listed = await listSessions(c.get('db'), viewer.user.id)
  const sessions = await Promise.all(
    listed.map(async (session) => ({ ...session, device: await deviceOf(session.user_agent, texts) })),
  )
  return c.render(
    <AccountPage
      title={t('Your sessions')}
      lead={t(
        "These devices are signed in to your account. If you don't recognize one, sign it out and change your password.",
      )}
      actions={
        <PostButton
          action={`${address}/end`}
          class="danger"
          confirm={t('Sign out everywhere? You also have to sign in again on this device.')}
          text={t('Sign out everywhere')}
        />
      }
    >
      <Card>
        <Table
          caption={t('Your sessions')}
          rows={sessions}
          columns={[
            {
              label: 'Device',
              cell: ({ id, device }) => (
                <>
                  {device} {id === viewer.sessionId && <Badge tone="good">{t('This device')}</Badge>}
                </>
              ),
            },
            { label: 'Signed in (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
            { label: 'Ends (UTC)', cell: ({ expires_at: at }) => <Day at={at} /> },
            {
              cell: ({ id, device }) => (
                <PostButton
                  action={`${address}/${encodeURIComponent(id)}/end`}
                  class="compact"
                  label={t('Sign out {device}', { device })}
                  text={t('Sign out')}
                />
              ),
            },
          ]}
        />
      </Card>
      <p>
        <a href="/account">{t('Back to your account')}</a>
      </p>
    </AccountPage>,
  )
})

pages.post(`${address}/end`, requireViewer, async (c) => {
  await endSessions(c.get('db'), c.get('viewer').user.id, null)
  return redirectWith(c, withNext('/sign-in', startOf(c)), 'You are signed out everywhere.')
})

pages.post(`${address}/:sessionId/end`, requireViewer, async (c) => {
  await endSessions(c.get('db'), c.get('viewer').user.id, c.req.param('sessionId'))
  return redirectWith(c, address, 'The device was signed out.')
})
