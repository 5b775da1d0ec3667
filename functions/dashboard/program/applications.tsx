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
  applicationsStatement,
  applicationTotals,
  approveApplication,
  deleteApplication,
  readApplication,
  rejectApplication,
} from '../../../lib/programs/applications.ts'
import { groupNamesStatement } from '../../../lib/programs/groups.ts'
import { backTo, idInPath, positiveInteger } from '../components/address.ts'
import { Card, Facts, LinkButton } from '../components/blocks.tsx'
import { Field, Form, Hidden, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, optionalText, refuseForm, shortText } from '../components/form.ts'
import { Day, formatNumber, Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { byId, programList, searchIn, StateBadge, stateIn, type States } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { selectLabel } from '../components/table.tsx'
import { idsOf, SelectionButtons, SelectionForm, SelectRow, shownField } from '../components/selection.tsx'
import { Answers, PlainText } from '../join/plain-text.tsx'
import { approveAndMail } from './application-approval.ts'
import { AllThatMatch } from './bulk-kinds.tsx'
import { partnerAddress } from './partner-columns.tsx'

/** Lists applications to a program, and approves or rejects them. */
export const pages = createProgramPages()

const addressIn = (programId: number) => `/programs/${programId}/applications`

const states: States<(typeof applicationStatuses)[number]> = {
  waiting: { name: 'Waiting', tone: 'warn' },
  approved: { name: 'Approved', tone: 'good' },
  rejected: { name: 'Rejected', tone: 'bad' },
  unverified: { name: 'Not confirmed', tone: 'plain' },
}

programList(pages, '/applications', 'partner:list', (c) => {
  const { id: programId, roles } = c.get('program')
  const search = searchIn(c)
  const status = stateIn(c, states)
  const seesEmail = may(roles, 'payout-address:read')
  const manages = may(roles, 'partner:manage')
  const address = addressIn(programId)
  const filters = { search, status, searchesEmail: seesEmail }
  return {
    title: 'Applications',
    current: '/applications',
    rows: 'applications',
    query: { q: search, status },
    states,
    cursor: byId,
    read: (part) => applicationsStatement(programId, { ...part, ...filters }),
    totals: () => applicationTotals(programId, filters),
    show: (rows, _, count) => {
      const isCut = count > rows.length
      const waiting = manages ? rows.filter((row) => row.status === 'waiting') : []
      return {
        lead: 'People who want to become your partners.',
        what: seesEmail ? 'Name or e-mail' : 'Name',
        actions: (
          <>
            {isCut && waiting.length > 0 && (
              <AllThatMatch
                programId={programId}
                text={
                  status === 'waiting' ? `All ${formatNumber(count)} that match` : 'All waiting applications that match'
                }
                kinds={['approve', 'reject']}
                query={{ q: search }}
              />
            )}
            {may(roles, 'program:update') && <LinkButton href={`/programs/${programId}/join-page`} text="Join page" />}
          </>
        ),
        above: waiting.length > 0 && (
          <SelectionForm action={`${address}/approve`} ids={waiting.map(({ id }) => id)}>
            <SelectionButtons
              verb="Approve"
              count={waiting.length}
              confirm={`Approve all ${waiting.length} waiting applications on this page?`}
            />
          </SelectionForm>
        ),
        caption: 'Applications, newest first',
        columns: [
          waiting.length > 0 && {
            label: selectLabel,
            cell: (row) => row.status === 'waiting' && <SelectRow id={row.id} label={row.name} />,
          },
          { label: 'Applied', phone: 'plain', cell: ({ applied_at: at }) => <Day at={at} /> },
          {
            label: 'Name',
            phone: 'title',
            cell: ({ id, name, email }) => (
              <div class="name-with-note">
                <a href={`${address}/${id}`}>
                  <strong>
                    <bdi>{name}</bdi>
                  </strong>
                </a>
                {seesEmail && email !== null && <span class="muted small">{email}</span>}
              </div>
            ),
          },
          { label: 'State', phone: 'plain', cell: (row) => <StateBadge states={states} status={row.status} /> },
          manages && { cell: (row) => row.status === 'waiting' && <Approve application={row} address={address} /> },
        ],
        empty: {
          title: 'No applications yet',
          text: 'Set up and open your join page, then link to it from your site.',
        },
      }
    },
    file: () => `applications-${programId}`,
    csv: (applications) =>
      csvOf(applications, {
        id: ({ id }) => id,
        applied: (application) => application.applied_at,
        name: ({ name }) => name,
        email: ({ email }) => (seesEmail ? email : null),
        state: (application) => application.status,
        terms_version: (application) => application.terms_version,
        partner_id: (application) => application.partner_id,
        decided: (application) => application.decided_at,
        answers: ({ answers }) => answers.map(({ question, answer }) => `${question}: ${answer}`).join('\n'),
      }),
  }
})

function Approve({ application: { id, name }, address }: { application: Application; address: string }) {
  return <PostButton action={`${address}/${id}/approve`} class="compact" label={`Approve ${name}`} text="Approve" />
}

const missing = 'This program has no such application.'

pages.get('/applications/:applicationId', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const manages = may(program.roles, 'partner:manage')
  const [application, [waiting, groups]] = await Promise.all([
    readApplication(c.get('db'), program.id, idInPath(c, 'applicationId', missing)),
    c
      .get('db')
      .batch([
        applicationsStatement(program.id, { limit: queueLength, status: 'waiting' }),
        groupNamesStatement(program.id),
      ]),
  ])
  const list = addressIn(program.id)
  const address = `${list}/${application.id}`
  const next = waiting.find(({ id }) => id < application.id)
  return c.render(
    <ProgramPage
      title={`Application of ${application.name}`}
      current="/applications"
      heading={application.name}
      lead={
        <>
          Applied <Time at={application.applied_at} />
          {application.source === 'api' && ', through your own form'}.{' '}
          <StateBadge states={states} status={application.status} />
        </>
      }
    >
      <div class="split" data-visits>
        <Queue waiting={waiting} current={application.id} next={next?.id} list={list} />
        <div class="stack">
          <Sent application={application} program={program} />
          {application.status === 'waiting' && manages && (
            <Review
              address={address}
              next={next?.id}
              groups={groups.map(({ id, name }) => [String(id), name] as const)}
            />
          )}
          {(application.status === 'rejected' || application.status === 'unverified') && manages && (
            <Card title="Delete">
              <p>
                The name, the address and the answers are deleted
                {application.status === 'rejected' ? ' a year after the rejection' : ' a week after they were sent'}, or
                now. The person can then apply again immediately.
              </p>
              <PostButton
                action={`${address}/delete`}
                class="danger"
                confirm={`Delete the application of ${application.name}?`}
                text="Delete the application"
              />
            </Card>
          )}
        </div>
      </div>
    </ProgramPage>,
  )
})

/** The newest waiting applications, next to the open one. */
const queueLength = 30

interface QueueProps {
  waiting: Application[]
  current: number
  next: number | undefined
  list: string
}

/** Lists the waiting applications. The keys j and k open the next and the previous one. */
function Queue({ waiting, current, next, list }: QueueProps) {
  const previous = waiting.findLast(({ id }) => id > current)
  const keyOf = (id: number) => (id === next ? 'j' : id === previous?.id ? 'k' : undefined)
  return (
    <nav aria-label="Waiting applications" class="queue">
      <h2>Waiting</h2>
      {waiting.length === 0 && <p class="muted small">Nobody is waiting.</p>}
      <ul>
        {waiting.map(({ id, name, applied_at: at }) => (
          <li>
            <a href={`${list}/${id}`} aria-current={id === current ? 'page' : undefined} data-key={keyOf(id)}>
              <bdi>{name}</bdi>
              <span class="muted small">
                <Day at={at} />
              </span>
            </a>
          </li>
        ))}
      </ul>
      <p class="muted tiny">
        Keys: <kbd>j</kbd> next, <kbd>k</kbd> previous, <kbd>a</kbd> approve, <kbd>r</kbd> reject
      </p>
    </nav>
  )
}

interface SentProps {
  application: Awaited<ReturnType<typeof readApplication>>
  program: ViewerProgram
}

function Sent({ application, program }: SentProps) {
  const { answers, terms, terms_version: version, decided_at: decidedAt } = application
  const facts = {
    'E-mail': may(program.roles, 'payout-address:read') ? application.email : null,
    Account: application.has_account ? 'They applied with their account.' : null,
    Note: application.note,
  }
  return (
    <>
      <Card title="Application">
        <Facts facts={facts} />
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

interface ReviewProps {
  address: string
  /** The application that the page shows after the decision. */
  next: number | undefined
  groups: (readonly [string, string])[]
}

function Review({ address, next, groups }: ReviewProps) {
  const following = <Hidden fields={{ next: next?.toString() }} />
  return (
    <Card title="Approve or reject">
      <Form action={`${address}/approve`} submit="Approve" layout="inline" primary shortcut="a">
        {following}
        {groups.length > 0 && <Field name="group" label="Group" options={[['', 'None'], ...groups]} />}
      </Form>
      <details class="more">
        <summary data-key="r">Reject</summary>
        <Form action={`${address}/reject`} submit="Reject application">
          {following}
          <Field name="note" label="Note" hint="Only your workspace sees it." maxlength={1000} />
          <label class="row">
            <input type="checkbox" name="notify" value="yes" />
            <span>Notify the applicant by e-mail</span>
          </label>
          <p class="muted small">They can apply again after 30 days.</p>
        </Form>
      </details>
    </Card>
  )
}

/** Returns the page after a decision: the next application, or the list. */
function afterDecision(c: ProgramContext, next: string): string {
  const list = addressIn(c.get('program').id)
  const id = positiveInteger(next)
  return id === undefined ? backTo(c, list) : `${list}/${id}`
}

const someFields = z.looseObject({
  which: z.enum(['chosen', 'shown'], 'Select which applications to approve.'),
  shown: shownField,
})

pages.post('/applications/approve', requireProgram('partner:manage'), form(someFields), async (c) => {
  const { id: programId } = c.get('program')
  const ids = idsOf(c.req.valid('form'))
  if (ids.length === 0)
    return await refuseForm(c, addressIn(programId), { problem: 'Select at least one application first.' })
  const count = await approveAndMail(c, ids, null)
  const left = ids.length - count
  const others = left === 0 ? '' : ` ${left} had already been approved, rejected or withdrawn.`
  const text = `${count} approved: they get an e-mail about their links.${others}`
  return redirectWith(c, backTo(c, addressIn(programId)), text, left > 0 ? 'warn' : 'good')
})

const approveFields = z.object({ group: optionalText, next: optionalText })

pages.post('/applications/:applicationId/approve', requireProgram('partner:manage'), form(approveFields), async (c) => {
  const { id: programId } = c.get('program')
  const { group, next } = c.req.valid('form')
  const applicationId = idInPath(c, 'applicationId', missing)
  const groupId = positiveInteger(group) ?? null
  const approved = await approveApplication(c.get('db'), programId, applicationId, groupId)
  c.executionCtx.waitUntil(mailApprovals(openDatabase(c.env), c.env, [approved]))
  c.executionCtx.waitUntil(sendSoon(c.env, approved.outbox))
  const { name } = approved.application
  const text = approved.isFirst
    ? `${name} is now a partner, and gets an e-mail about their link.`
    : `${name} was already approved.`
  return redirectWith(c, afterDecision(c, next), text)
})

const rejectFields = z.object({ note: optionalText.check(shortText(1000)), notify: optionalText, next: optionalText })

pages.post('/applications/:applicationId/reject', requireProgram('partner:manage'), form(rejectFields), async (c) => {
  const { id: programId } = c.get('program')
  const { note, notify, next } = c.req.valid('form')
  const applicationId = idInPath(c, 'applicationId', missing)
  const { application, isFirst } = await rejectApplication(c.get('db'), programId, applicationId, note || null)
  const notifies = notify === 'yes' && isFirst
  if (notifies) c.executionCtx.waitUntil(mailRejection(openDatabase(c.env), c.env, application))
  const text = `The application of ${application.name} was rejected${notifies ? ', and the applicant gets an e-mail' : ''}.`
  return redirectWith(c, afterDecision(c, next), text)
})

pages.post('/applications/:applicationId/delete', requireProgram('partner:manage'), async (c) => {
  const { id: programId } = c.get('program')
  await deleteApplication(c.get('db'), programId, idInPath(c, 'applicationId', missing))
  return redirectWith(c, addressIn(programId), 'The application was deleted.')
})
