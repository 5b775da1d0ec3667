import type { Child } from 'hono/jsx'
import { ApiError } from '../../../lib/errors.ts'
import { listApplicationsOf, type OwnApplication } from '../../../lib/programs/applications.ts'
import { idInPath } from '../components/address.ts'
import { Badge, Card, Heading, type Tone } from '../components/blocks.tsx'
import { Day } from '../components/format.tsx'
import { renderAccount, renderPartner } from '../components/layout.tsx'
import { List, readPageById } from '../components/list.tsx'
import { createPages, requireViewer, type ViewerContext } from '../components/page.ts'
import { Answers, PlainText } from '../join/plain-text.tsx'

/** A person's own applications with their status, answers and accepted terms. */
export const partnerApplicationPages = createPages()

const address = '/partner/applications'

const states: Record<OwnApplication['status'], { name: string; tone: Tone }> = {
  unverified: { name: 'Not confirmed', tone: 'plain' },
  waiting: { name: 'Waiting', tone: 'warn' },
  approved: { name: 'Approved', tone: 'good' },
  rejected: { name: 'Rejected', tone: 'bad' },
}

function render(c: ViewerContext, page: { title: string; children: Child }) {
  const viewer = c.get('viewer')
  return viewer.partner
    ? renderPartner(c, viewer, { ...page, current: '/applications' })
    : renderAccount(c, viewer, page)
}

partnerApplicationPages.get(address, requireViewer, async (c) => {
  const page = await readPageById(c, address, (part) => listApplicationsOf(c.get('db'), c.get('viewer').user, part))
  return render(c, {
    title: 'Applications',
    children: (
      <>
        <Heading title="Applications" lead="Programs that you applied to, and the terms that you accepted." />
        <List
          page={page}
          caption="Your applications, newest first"
          columns={[
            {
              label: 'Program',
              cell: ({ program_id: programId, id, program_name: name }) => (
                <a href={`${address}/${programId}/${id}`}>
                  <strong>
                    <bdi>{name}</bdi>
                  </strong>
                </a>
              ),
            },
            { label: 'Applied', cell: ({ applied_at: at }) => <Day at={at} /> },
            { label: 'State', cell: ({ status }) => <State status={status} /> },
          ]}
          empty={{
            title: 'No applications',
            text: 'Applications with this address appear here once they are confirmed.',
          }}
        />
      </>
    ),
  })
})

function State({ status }: { status: OwnApplication['status'] }) {
  return <Badge tone={states[status].tone}>{states[status].name}</Badge>
}

partnerApplicationPages.get(`${address}/:programId/:applicationId`, requireViewer, async (c) => {
  const missing = 'You have no such application.'
  const of = { programId: idInPath(c, 'programId', missing), applicationId: idInPath(c, 'applicationId', missing) }
  const [application] = await listApplicationsOf(c.get('db'), c.get('viewer').user, { limit: 1, of })
  if (!application) throw new ApiError('not_found', missing)
  const { program_name: name, status, applied_at: at, answers, terms, terms_version: version } = application
  return render(c, {
    title: `Application to ${name}`,
    children: (
      <>
        <Heading
          title={name}
          lead={
            <>
              You applied <Day at={at} />. <State status={status} />
            </>
          }
        />
        <Card title="What you sent">
          <Answers answers={answers} />
          {answers.length === 0 && <p class="muted">Your name and your address.</p>}
        </Card>
        {terms !== null && (
          <Card title={`The terms that you accepted, version ${version}`}>
            <PlainText text={terms} />
          </Card>
        )}
      </>
    ),
  })
})
