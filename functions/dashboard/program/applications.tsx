import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { csvOf } from '../../../lib/csv.ts'
import { openDatabase } from '../../../lib/database.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { mailApprovals, mailRejection } from '../../../lib/programs/application-mails.ts'
import {
  type Application,
  type applicationStatuses,
  approveApplication,
  approveApplications,
  deleteApplication,
  listApplications,
  readApplication,
  rejectApplication,
} from '../../../lib/programs/applications.ts'
import { listGroups } from '../../../lib/programs/groups.ts'
import { backTo, idInPath, positiveInteger } from '../components/address.ts'
import { Badge, Card, Heading } from '../components/blocks.tsx'
import { Field, PostButton, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { emptyForm, form, type FormState, optionalText, refuseForm, shortText, shownForm } from '../components/form.ts'
import { Day, Time } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import { exportList, idOf, ListPage, readPageById, searchIn, stateIn, type States } from '../components/list.tsx'
import { createPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { idsOf, SelectionButtons, SelectionForm, SelectRow, shownField } from '../components/selection.tsx'
import { Answers, PlainText } from '../join/plain-text.tsx'
import { partnerAddress } from './partner-columns.tsx'

/** Lists applications to a program, and approves or rejects them. */
export const applicationPages = createPages()

const addressIn = (programId: number) => `/programs/${programId}/applications`

const states: States<(typeof applicationStatuses)[number]> = {
  waiting: { name: 'Waiting', tone: 'warn' },
  approved: { name: 'Approved', tone: 'good' },
  rejected: { name: 'Rejected', tone: 'bad' },
  unverified: { name: 'Not confirmed', tone: 'plain' },
}

/** Reads the filters from the query. Searches e-mail addresses only for readers who see them. */
function askedIn(c: ProgramContext) {
  return {
    search: searchIn(c),
    searchesEmail: may(c.get('program').roles, 'payout-address:read'),
    status: stateIn(c, states),
  }
}

applicationPages.get('/programs/:programId/applications', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const address = addressIn(program.id)
  const asked = askedIn(c)
  const query = { q: asked.search, status: asked.status }
  const page = await readPageById(
    c,
    address,
    (part) => listApplications(c.get('db'), program.id, { ...part, ...asked }),
    query,
  )
  const manages = may(program.roles, 'partner:manage')
  const waiting = manages ? page.rows.filter(({ status }) => status === 'waiting') : []
  return renderProgram(c, {
    title: 'Applications',
    current: '/applications',
    children: (
      <ListPage
        title="Applications"
        lead="People who want to be your partners."
        address={address}
        query={query}
        rows="applications"
        states={states}
        what={asked.searchesEmail ? 'Name or e-mail' : 'Name'}
        actions={
          may(program.roles, 'program:update') && (
            <a class="button" href={`/programs/${program.id}/join-page`}>
              Join page
            </a>
          )
        }
        page={page}
        caption="Applications, newest first"
        columns={[
          waiting.length > 0 && {
            label: 'Select',
            cell: ({ id, name, status }) => status === 'waiting' && <SelectRow id={id} label={name} />,
          },
          { label: 'Applied', cell: ({ applied_at: at }) => <Day at={at} /> },
          {
            label: 'Name',
            cell: ({ id, name, email }) => (
              <div>
                <a href={`${address}/${id}`}>
                  <strong>
                    <bdi>{name}</bdi>
                  </strong>
                </a>
                {asked.searchesEmail && email !== null && <div class="muted small">{email}</div>}
              </div>
            ),
          },
          { label: 'State', cell: (application) => <State application={application} /> },
          manages && {
            label: '',
            right: true,
            cell: ({ id, name, status }) =>
              status === 'waiting' && (
                <PostButton action={`${address}/${id}/approve`} class="compact" label={`Approve ${name}`}>
                  Approve
                </PostButton>
              ),
          },
        ]}
        empty={{
          title: 'No applications yet',
          text: 'Set up and open your join page, then link to it from your site.',
        }}
      >
        {waiting.length > 0 && <ApproveSome address={address} applications={waiting} form={shownForm(c)} />}
      </ListPage>
    ),
  })
})

interface ApproveSomeProps {
  address: string
  applications: Application[]
  form: FormState
}

function ApproveSome({ address, applications, form: shown }: ApproveSomeProps) {
  return (
    <SelectionForm action={`${address}/approve`} ids={applications.map(({ id }) => id)} form={shown}>
      <SelectionButtons
        verb="Approve"
        count={applications.length}
        confirm={`Approve all ${applications.length} on this page that wait?`}
      />
    </SelectionForm>
  )
}

function State({ application: { status } }: { application: Application }) {
  return <Badge tone={states[status].tone}>{states[status].name}</Badge>
}

applicationPages.get('/programs/:programId/applications.csv', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const asked = askedIn(c)
  const write = (applications: Awaited<ReturnType<typeof listApplications>>) =>
    csvOf(applications, {
      id: ({ id }) => id,
      applied: (application) => application.applied_at,
      name: ({ name }) => name,
      email: ({ email }) => (asked.searchesEmail ? email : null),
      state: ({ status }) => status,
      terms_version: (application) => application.terms_version,
      partner_id: (application) => application.partner_id,
      decided: (application) => application.decided_at,
      answers: ({ answers }) => answers.map(({ question, answer }) => `${question}: ${answer}`).join('\n'),
    })
  return await exportList(c, {
    nameOf: () => `applications-${program.id}`,
    read: (part) => listApplications(c.get('db'), program.id, { ...part, ...asked }),
    cursorOf: idOf,
    write,
  })
})

const missing = 'This program has no such application.'

applicationPages.get('/programs/:programId/applications/:applicationId', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const manages = may(program.roles, 'partner:manage')
  const [application, groups] = await Promise.all([
    readApplication(c.get('db'), program.id, idInPath(c, 'applicationId', missing)),
    manages ? listGroups(c.get('db'), program.id, { limit: 100 }) : [],
  ])
  const address = `${addressIn(program.id)}/${application.id}`
  return renderProgram(c, {
    title: `Application of ${application.name}`,
    current: '/applications',
    children: (
      <>
        <Heading
          title={application.name}
          lead={
            <>
              Applied <Time at={application.applied_at} />
              {application.source === 'api' && ', by your own form'}. <State application={application} />
            </>
          }
        />
        <Sent application={application} program={program} />
        {application.status === 'waiting' && manages && (
          <Review address={address} groups={groups.map(({ id, name }) => [String(id), name] as const)} />
        )}
        {(application.status === 'rejected' || application.status === 'unverified') && manages && (
          <Card title="Delete">
            <p>
              The name, the address and the answers are deleted
              {application.status === 'rejected' ? ' a year after the rejection' : ' a week after they were sent'}, or
              now. Then the person can apply again at once.
            </p>
            <form method="post" action={`${address}/delete`}>
              <button type="submit" class="danger" data-confirm={`Delete the application of ${application.name}?`}>
                Delete the application
              </button>
            </form>
          </Card>
        )}
      </>
    ),
  })
})

function Sent({
  application,
  program,
}: {
  application: Awaited<ReturnType<typeof readApplication>>
  program: ViewerProgram
}) {
  const { email, answers, terms, terms_version: version, decided_at: decidedAt, note } = application
  const seesEmail = may(program.roles, 'payout-address:read')
  const facts: [label: string, value: string | null][] = [
    ['E-mail', seesEmail ? email : null],
    ['Account', application.has_account ? 'They applied with their account.' : null],
    ['Note', note],
  ]
  return (
    <>
      <Card title="Application">
        <dl class="stack">
          {facts.map(
            ([label, value]) =>
              value !== null && (
                <div>
                  <dt class="muted small">{label}</dt>
                  <dd>
                    <bdi>{value}</bdi>
                  </dd>
                </div>
              ),
          )}
        </dl>
        <Answers answers={answers} />
        {answers.length === 0 && <p class="muted">No answers.</p>}
        {decidedAt && (
          <p>
            {states[application.status].name} <Time at={decidedAt} />
            {application.decided_by === null ? '' : ` by ${application.decided_by}`}.{' '}
            {application.partner_id !== null && (
              <a href={partnerAddress(program.id, application.partner_id)}>Open partner</a>
            )}
          </p>
        )}
      </Card>
      {terms !== null && (
        <Card title={`Terms, version ${version}`}>
          <details class="more">
            <summary>Accepted terms</summary>
            <PlainText text={terms} />
          </details>
        </Card>
      )}
    </>
  )
}

function Review({ address, groups }: { address: string; groups: (readonly [string, string])[] }) {
  return (
    <Card title="Approve or reject">
      <form method="post" action={`${address}/approve`} class="row end">
        {groups.length > 0 && <Field name="group" label="Group" options={[['', 'None'], ...groups]} form={emptyForm} />}
        <button type="submit" class="primary">
          Approve
        </button>
      </form>
      <details class="more">
        <summary>Reject</summary>
        <form method="post" action={`${address}/reject`} class="stack">
          <Field name="note" label="Note" hint="Only your workspace sees it." maxlength={1000} form={emptyForm} />
          <label class="row">
            <input type="checkbox" name="notify" value="yes" />
            <span>Notify the applicant by mail</span>
          </label>
          <p class="muted small">They can apply again after 30 days.</p>
          <Submit>Reject application</Submit>
        </form>
      </details>
    </Card>
  )
}

const someFields = z.looseObject({
  which: z.enum(['chosen', 'shown'], 'Select which applications to approve.'),
  shown: shownField,
})

applicationPages.post(
  '/programs/:programId/applications/approve',
  requireProgram('partner:manage'),
  form(someFields),
  async (c) => {
    const { id: programId } = c.get('program')
    const ids = idsOf(c.req.valid('form'))
    if (ids.length === 0)
      return await refuseForm(c, addressIn(programId), { problem: 'Select at least one application first.' })
    const { approved, outbox } = await approveApplications(c.get('db'), programId, ids, null)
    c.executionCtx.waitUntil(mailApprovals(openDatabase(c.env), c.env, approved))
    c.executionCtx.waitUntil(sendSoon(c.env, outbox))
    const count = approved.filter(({ isFirst }) => isFirst).length
    const text = `${count} approved: they are mailed how to get their links.`
    const left = ids.length - count
    return redirectWith(
      c,
      backTo(c, addressIn(programId)),
      left === 0 ? text : `${text} ${left} had been approved, rejected or withdrawn already.`,
    )
  },
)

const approveFields = z.object({ group: optionalText })

applicationPages.post(
  '/programs/:programId/applications/:applicationId/approve',
  requireProgram('partner:manage'),
  form(approveFields),
  async (c) => {
    const { id: programId } = c.get('program')
    const { group } = c.req.valid('form')
    const applicationId = idInPath(c, 'applicationId', missing)
    const groupId = positiveInteger(group) ?? null
    const approved = await approveApplication(c.get('db'), programId, applicationId, groupId)
    c.executionCtx.waitUntil(mailApprovals(openDatabase(c.env), c.env, [approved]))
    c.executionCtx.waitUntil(sendSoon(c.env, approved.outbox))
    const { name } = approved.application
    const text = approved.isFirst
      ? `${name} is a partner now, and is mailed how to get their link.`
      : `${name} was approved already.`
    return redirectWith(c, backTo(c, addressIn(programId)), text)
  },
)

const rejectFields = z.object({ note: optionalText.check(shortText(1000)), notify: optionalText })

applicationPages.post(
  '/programs/:programId/applications/:applicationId/reject',
  requireProgram('partner:manage'),
  form(rejectFields),
  async (c) => {
    const { id: programId } = c.get('program')
    const { note, notify } = c.req.valid('form')
    const applicationId = idInPath(c, 'applicationId', missing)
    const { application, isFirst } = await rejectApplication(c.get('db'), programId, applicationId, note || null)
    const notifies = notify === 'yes' && isFirst
    if (notifies) c.executionCtx.waitUntil(mailRejection(openDatabase(c.env), c.env, application))
    const text = `The application of ${application.name} is rejected${notifies ? ', and the applicant gets a mail' : ''}.`
    return redirectWith(c, backTo(c, addressIn(programId)), text)
  },
)

applicationPages.post(
  '/programs/:programId/applications/:applicationId/delete',
  requireProgram('partner:manage'),
  async (c) => {
    const { id: programId } = c.get('program')
    await deleteApplication(c.get('db'), programId, idInPath(c, 'applicationId', missing))
    return redirectWith(c, addressIn(programId), 'The application is deleted.')
  },
)
