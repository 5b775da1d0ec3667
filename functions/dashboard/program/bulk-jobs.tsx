import type { Child } from 'hono/jsx'
import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import { csvOf } from '../../../lib/csv.ts'
import {
  advanceBulkJob,
  type BulkJob,
  bulkKinds,
  listBulkJobs,
  readBulkJob,
  startBulkJob,
  undoBulkJob,
  bulkJobTotals,
} from '../../../lib/programs/bulk-jobs.ts'
import { addressOf, idInPath } from '../components/address.ts'
import { Card, LinkButton } from '../components/blocks.tsx'
import { Form, Hidden, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form } from '../components/form.ts'
import { counted, formatNumber, Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { byId, programList, refuseUnknownFilters } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { bulkActions } from './bulk-kinds.tsx'

/** Jobs that act on all rows of a list that match its filters, with a preview, the progress and an undo. */
export const pages = createProgramPages()

const jobsPage = (c: ProgramContext) => `/programs/${c.get('program').id}/jobs`
const jobPage = (c: ProgramContext, { id }: Pick<BulkJob, 'id'>) => `${jobsPage(c)}/${id}`

/** The number of names in a preview. */
const previewed = 5

/** Reads the kind of job in the path, its filters, and the rows that match now. */
async function readPreview(c: ProgramContext) {
  const kind = bulkKinds.find((known) => known === c.req.param('kind'))
  if (kind === undefined) throw new ApiError('not_found', 'There is no such action.')
  const action = bulkActions[kind]
  const query = action.list.query(c)
  refuseUnknownFilters(c, query)
  const chosen = Object.fromEntries(
    Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
  const filters = { ...action.filters, ...chosen }
  const [rows, totals] = await Promise.all([
    action.list.next(c, filters, { limit: previewed }),
    c.get('db').query(action.list.totals(c, filters)),
  ])
  const count = totals.reduce((sum, one) => sum + one.rows, 0)
  const list = addressOf(`/programs/${c.get('program').id}/${action.list.rows}`, query)
  // The rows that the person confirms. An id is never used again, so a new row changes it.
  const seen = `${count}-${rows[0]?.id ?? 0}`
  return { kind, action, query, filters, rows, count, list, seen }
}

pages.get('/bulk/:kind', requireProgram('partner:manage'), async (c) => {
  const { kind, action, query, rows, count, list, seen } = await readPreview(c)
  const others = count - rows.length
  return c.render(
    <BulkPage title={titleOf({ kind, row_count: count })} of={action}>
      {count === 0 ? (
        <p>{`No ${action.list.rows} match anymore.`}</p>
      ) : (
        <>
          <p>{action.text}</p>
          {action.plan && <p>{await action.plan(c, count)}</p>}
          <p class="muted">
            {rows.map(({ name }) => name).join(', ')}
            {others > 0 && ` and ${formatNumber(others)} more`}
          </p>
          <Form
            action={addressOf(c.req.path, query)}
            submit={count === 1 ? titleOf({ kind, row_count: count }) : `${action.verb} all ${formatNumber(count)}`}
            cancel={list}
          >
            <Hidden fields={{ seen }} />
            {await action.fields?.(c)}
          </Form>
        </>
      )}
    </BulkPage>,
  )
})

const startForm = z.looseObject({ seen: z.optional(z.string()) })
const previewPage = (c: ProgramContext) => addressOf(c.req.path, c.req.query())

pages.post('/bulk/:kind', requireProgram('partner:manage'), form(startForm, previewPage), async (c) => {
  const { kind, action, filters, rows, count, list, seen } = await readPreview(c)
  action.check?.(c)
  const { seen: confirmed, ...fields } = c.req.valid('form')
  const settings = { ...filters, ...action.parse?.(fields) }
  const [newest] = rows
  if (!newest) return redirectWith(c, list, `No ${action.list.rows} match anymore.`, 'bad')
  if (confirmed !== seen) {
    const changed = `The list has changed, and now has ${countedRows(count, action.list)}. Check it again.`
    return redirectWith(c, previewPage(c), changed, 'bad')
  }
  const id = await startBulkJob(c.get('db'), c.get('program').id, { kind, settings, rows: count, newestId: newest.id })
  return c.redirect(jobPage(c, { id }), 303)
})

programList(pages, '/jobs', 'partner:manage', (c) => ({
  title: 'Bulk actions',
  current: '/partners',
  rows: 'bulk actions',
  cursor: byId,
  read: (part) => listBulkJobs(c.get('db'), c.get('program').id, part),
  totals: () => bulkJobTotals(c.get('program').id),
  show: () => ({
    lead: 'Actions on all partners or applications that matched. You can undo most of them for seven days.',
    caption: 'Bulk actions, newest first',
    columns: [
      { label: 'Started', cell: ({ started_at: at }) => <Time at={at} /> },
      { label: 'Action', cell: (job) => <a href={jobPage(c, job)}>{titleOf(job)}</a> },
      { label: 'By', cell: ({ started_by: name }) => name ?? 'a deleted account' },
      { label: 'State', cell: (job) => stateOf(job) },
      { cell: (job) => <Undo c={c} job={job} /> },
    ],
    empty: {
      title: 'No bulk actions yet',
      text: 'Filter the partners or the applications, then act on all that match.',
    },
  }),
  file: () => `bulk-actions-${c.get('program').id}`,
  csv: (jobs) =>
    csvOf(jobs, {
      id: ({ id }) => id,
      started: (job) => job.started_at,
      action: ({ kind }) => kind,
      matched: (job) => job.row_count,
      changed: ({ rows }) => rows.changed,
      undone: ({ rows }) => rows.undone,
      by: (job) => job.started_by,
      finished: (job) => job.finished_at,
    }),
}))

/** Counts the rows of a list: `1 partner`, `55 partners`. */
const countedRows = (count: number, { rows }: { rows: string }) => counted(count, rows.slice(0, -1), rows)

const titleOf = ({ kind, row_count: count }: Pick<BulkJob, 'kind' | 'row_count'>) => {
  const { verb, list } = bulkActions[kind]
  return `${verb} ${countedRows(count, list)}`
}

/** Says how many rows are done: `1 of 55 partners is`. */
function partOf(part: number, all: number, list: { rows: string }): string {
  return `${formatNumber(part)} of ${countedRows(all, list)} ${part === 1 || all === 1 ? 'is' : 'are'}`
}

function progressOf({ kind, rows, row_count: count, undone_at: undoneAt }: BulkJob): string {
  const { done, list } = bulkActions[kind]
  if (!undoneAt) return `${partOf(rows.changed, count, list)} ${done}.`
  return `${partOf(rows.undone, rows.changed, list)} ${rows.undone === 1 ? 'as it was' : 'as they were'} before.`
}

function stateOf(job: BulkJob): string {
  const { kind, rows, finished_at: finishedAt, undone_at: undoneAt } = job
  const { whyKept, whySkipped } = bulkActions[kind]
  const skipped = job.row_count - rows.changed
  const left = rows.changed - rows.undone - rows.kept
  const notes = undoneAt
    ? [
        rows.kept > 0 && whyKept && `Not undone, because ${whyKept}: ${formatNumber(rows.kept)}.`,
        left > 0 && `The undo stopped early, with ${formatNumber(left)} left.`,
      ]
    : [finishedAt ? skipped > 0 && `Skipped, because ${whySkipped}: ${formatNumber(skipped)}.` : 'Not finished.']
  return [progressOf(job), ...notes].filter(Boolean).join(' ')
}

const mayUndo = ({ kind, rows, is_recent: isRecent }: BulkJob) =>
  !bulkActions[kind].isFinal && isRecent && rows.changed > rows.undone + rows.kept

function Undo({ c, job }: { c: ProgramContext; job: BulkJob }) {
  if (!mayUndo(job)) return null
  const text = job.undone_at ? 'Finish undo' : 'Undo'
  return (
    <PostButton
      action={`${jobPage(c, job)}/undo`}
      class="compact"
      label={`${text}: ${titleOf(job)}`}
      confirm={`Undo this for ${countedRows(job.rows.changed, bulkActions[job.kind].list)}?`}
      text={text}
    />
  )
}

/** Returns the list of a job's rows. */
const listOf = (c: ProgramContext, { kind }: BulkJob) =>
  `/programs/${c.get('program').id}/${bulkActions[kind].list.rows}`

const jobIn = (c: ProgramContext) =>
  readBulkJob(c.get('db'), c.get('program').id, idInPath(c, 'jobId', 'This program has no such bulk action.'))

pages.get('/jobs/:jobId', requireProgram('partner:manage'), async (c) => {
  const job = await jobIn(c)
  if (!job.finished_at) return await renderProgress(c, job, jobPage(c, job))
  return c.render(
    <BulkPage title={titleOf(job)} of={bulkActions[job.kind]}>
      <p>{stateOf(job)}</p>
      <div class="row">
        <LinkButton href={listOf(c, job)} text="Open the list" />
        <Undo c={c} job={job} />
      </div>
    </BulkPage>,
  )
})

/** Shows the progress of a job. The script sends the form immediately. */
async function renderProgress(c: ProgramContext, job: BulkJob, next: string) {
  const title = job.undone_at ? `Undo: ${titleOf(job)}` : titleOf(job)
  const [all, done] = job.undone_at
    ? [job.rows.changed, job.rows.undone + job.rows.kept]
    : [job.row_count, job.rows.changed]
  return await c.render(
    <BulkPage title={title} of={bulkActions[job.kind]}>
      <progress max={all} value={done} aria-label={progressOf(job)} />
      <p>{progressOf(job)} Leave this page to stop. You can continue later under Bulk actions.</p>
      <form method="post" action={next} data-continue>
        <Hidden fields={{}} />
        <div class="row">
          <button type="submit" class="primary">
            Continue
          </button>
          <LinkButton href={jobsPage(c)} text="Stop" />
        </div>
      </form>
    </BulkPage>,
  )
}

// Each request acts on some of the rows. The changes and the position are committed in separate transactions. That is safe, because
// repeating the changes has no effect.
pages.post('/jobs/:jobId', requireProgram('partner:manage'), async (c) => {
  const job = await jobIn(c)
  const db = c.get('db')
  const { id: programId } = c.get('program')
  const { list, partSize, act } = bulkActions[job.kind]
  if (!job.finished_at) {
    const part = await list.next(c, job.settings, { limit: partSize, before: job.position })
    const ids = part.map(({ id }) => id)
    c.set('db', db.inJob(job.id))
    if (ids.length > 0) await act(c, ids, job.settings)
    await advanceBulkJob(db, programId, job.id, ids.length < partSize ? undefined : ids.at(-1))
  }
  const after = await readBulkJob(db, programId, job.id)
  if (!after.finished_at) return await renderProgress(c, after, jobPage(c, job))
  const kind = after.rows.changed < after.row_count ? 'warn' : 'good'
  return redirectWith(c, listOf(c, job), stateOf(after), kind, mayUndo(after) ? `${jobPage(c, job)}/undo` : undefined)
})

pages.post('/jobs/:jobId/undo', requireProgram('partner:manage'), async (c) => {
  const job = await jobIn(c)
  if (bulkActions[job.kind].isFinal) throw new ApiError('conflict', "The messages were sent, so they can't be undone.")
  const isLeft = await undoBulkJob(c.get('db'), c.get('program').id, job.id)
  const after = await readBulkJob(c.get('db'), c.get('program').id, job.id)
  if (isLeft) return await renderProgress(c, after, `${jobPage(c, job)}/undo`)
  return redirectWith(c, listOf(c, job), stateOf(after), after.rows.undone < after.rows.changed ? 'warn' : 'good')
})

function BulkPage({
  title,
  of: { list },
  children,
}: {
  title: string
  of: { list: { rows: string } }
  children?: Child
}) {
  return (
    <ProgramPage title={title} current={`/${list.rows}`}>
      <Card>{children}</Card>
    </ProgramPage>
  )
}
