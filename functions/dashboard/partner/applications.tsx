import { ApiError } from '../../../lib/errors.ts'
import { listApplicationsOf, ownApplicationTotals, type OwnApplication } from '../../../lib/programs/applications.ts'
import { idInPath } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { Day } from '../components/format.tsx'
import { byId, List, readPage, StateBadge, type States } from '../components/list.tsx'
import { createPages, requireViewer } from '../components/page.ts'
import { Answers, PlainText } from '../join/plain-text.tsx'
import { PartnerOrAccountPage } from '../components/layout.tsx'
import { Text } from '../components/text.tsx'

/** A person's own applications with their status, answers and accepted terms. */
export const pages = createPages()

const address = '/partner/applications'

const states: States<OwnApplication['status']> = {
  unverified: { name: 'Not confirmed', tone: 'plain' },
  waiting: { name: 'Waiting', tone: 'warn' },
  approved: { name: 'Approved', tone: 'good' },
  rejected: { name: 'Rejected', tone: 'bad' },
}

pages.get(address, requireViewer, async (c) => {
  const { t } = c.get('texts')
  const { user } = c.get('viewer')
  const [page, totals] = await Promise.all([
    readPage(c, byId, (part) => listApplicationsOf(c.get('db'), user, part)),
    c.get('db').query(ownApplicationTotals(user)),
  ])
  return c.render(
    <PartnerOrAccountPage
      title={t('Applications')}
      current="/applications"
      lead={t('Programs that you applied to, and the terms that you accepted.')}
    >
      <List
        page={page}
        totals={totals}
        rows={(count) => t('{count} applications', { count })}
        caption={t('Your applications, newest first')}
        columns={[
          {
            label: 'Program',
            phone: 'title',
            cell: ({ program_id: programId, id, program_name: name }) => (
              <a href={`${address}/${programId}/${id}`}>
                <strong>
                  <bdi>{name}</bdi>
                </strong>
              </a>
            ),
          },
          { label: 'Applied', cell: ({ applied_at: at }) => <Day at={at} /> },
          { label: 'State', cell: ({ status }) => <StateBadge states={states} status={status} /> },
        ]}
        empty={{
          title: t('No applications'),
          text: t('Applications with this address appear here once they are confirmed.'),
        }}
      />
    </PartnerOrAccountPage>,
  )
})

pages.get(`${address}/:programId/:applicationId`, requireViewer, async (c) => {
  const missing = 'You have no such application.'
  const of = { programId: idInPath(c, 'programId', missing), applicationId: idInPath(c, 'applicationId', missing) }
  const [application] = await listApplicationsOf(c.get('db'), c.get('viewer').user, { limit: 1, of })
  if (!application) throw new ApiError('not_found', missing)
  const { t } = c.get('texts')
  const { program_name: name, status, applied_at: at, answers, terms, terms_version: version } = application
  return c.render(
    <PartnerOrAccountPage
      title={t('Application to {name}', { name })}
      current="/applications"
      heading={name}
      lead={
        <Text
          of="You applied {day}. {state}"
          day={<Day at={at} />}
          state={<StateBadge states={states} status={status} />}
        />
      }
    >
      <Card title={t('Your answers')}>
        <Answers answers={answers} />
        {answers.length === 0 && <p class="muted">{t('Your name and your address.')}</p>}
      </Card>
      {terms !== null && (
        <Card title={t('The terms that you accepted, version {version}', { version: String(version) })}>
          <PlainText text={terms} />
        </Card>
      )}
    </PartnerOrAccountPage>,
  )
})
