import type { Child } from 'hono/jsx'
import * as z from 'zod/mini'
import type { Action } from '../../../lib/access/roles.ts'
import type { Statement } from '../../../lib/database.ts'
import type { Part, Totals } from '../../../lib/keyset.ts'
import { addressOf } from './address.ts'
import { Card, LinkButton } from './blocks.tsx'
import { Form, Hidden } from './fields.tsx'
import { redirectWith } from './flash.tsx'
import { form } from './form.ts'
import { formatNumber } from './format.tsx'
import { ProgramPage } from './layout.tsx'
import { type Query, refuseUnknownFilters } from './list.tsx'
import { type createProgramPages, type ProgramContext, requireProgram } from './page.ts'

/** An action on all rows of a list that match its filters. */
interface Job {
  /** The button's text, such as `Approve`. */
  verb: string
  /** The state of the rows afterwards, such as `approved`. */
  done: string
  /** The plural of a row's name, such as `applications`. */
  rows: string
  /** The address of the list, and the path of its navigation entry. */
  list: string
  current: string
  /** The address parameters of this page: the filters of the list and others. */
  query: Query
  totals: Statement<Totals>
  /** Reads the next rows, newest first. */
  next: (part: Part) => Promise<{ id: number }[]>
  /** Acts on rows, and returns the number of changed rows. */
  act: (ids: number[], typed: Record<string, string>) => Promise<number>
  /** Rows per request. */
  partSize: number
  /** Describes the action's effect to the reader. */
  text: Child
  /** More fields of the form, by name. */
  fields?: Record<string, Child>
}

const count = z.string().check(z.regex(/^\d{1,15}$/, 'Start again from the list.'))
const progressFields = z.looseObject({ before: count, done: count, of: count })

/**
 * Adds the page that acts on all matching rows. It shows their number first. Each request acts on some of the rows and returns a form for
 * the rest. The script sends this form immediately. Rows that arrive in the meantime stay unchanged.
 */
export function bulkPages(
  pages: ReturnType<typeof createProgramPages>,
  path: string,
  action: Action,
  jobIn: (c: ProgramContext) => Job | Promise<Job>,
): void {
  const readJob = async (c: ProgramContext) => {
    const job = await jobIn(c)
    refuseUnknownFilters(c, job.query)
    return job
  }
  pages.get(path, requireProgram(action), async (c) => {
    const job = await readJob(c)
    const [[newest], totals] = await Promise.all([job.next({ limit: 1 }), c.get('db').query(job.totals)])
    const all = totals.reduce((sum, { rows }) => sum + rows, 0)
    return c.render(
      <BulkPage job={job} title={`${job.verb} ${formatNumber(all)} ${job.rows}`}>
        <p>{newest ? job.text : `No ${job.rows} match anymore.`}</p>
        {newest && (
          <Form
            action={addressOf(c.req.path, job.query)}
            submit={`${job.verb} all ${formatNumber(all)}`}
            cancel={job.list}
          >
            <Hidden fields={{ before: String(newest.id + 1), done: '0', of: String(all) }} />
            {Object.values(job.fields ?? {})}
          </Form>
        )}
      </BulkPage>,
    )
  })
  pages.post(path, requireProgram(action), form(progressFields), async (c) => {
    const job = await readJob(c)
    const { before, done, of, ...sent } = c.req.valid('form')
    const typed = Object.fromEntries(Object.keys(job.fields ?? {}).map((name) => [name, textOf(sent[name])]))
    const ids = (await job.next({ limit: job.partSize, before: Number(before) })).map(({ id }) => id)
    const changed = Number(done) + (ids.length > 0 ? await job.act(ids, typed) : 0)
    const [all, last] = [Number(of), ids.at(-1)]
    const text = `${formatNumber(changed)} of ${formatNumber(all)} ${job.rows} are ${job.done}.`
    if (last === undefined || ids.length < job.partSize) return redirectWith(c, job.list, text)
    return c.render(
      <BulkPage job={job} title={`${job.verb} ${formatNumber(all)} ${job.rows}`}>
        <progress max={all} value={changed} aria-label={text} />
        <p>{text} Leave this page to stop.</p>
        <form method="post" action={addressOf(c.req.path, job.query)} data-continue>
          <Hidden fields={{ ...typed, before: String(last), done: String(changed), of: String(all) }} />
          <div class="row">
            <button type="submit" class="primary">
              Continue
            </button>
            <LinkButton href={job.list} text="Stop" />
          </div>
        </form>
      </BulkPage>,
    )
  })
}

const textOf = (value: unknown) => (typeof value === 'string' ? value.trim() : '')

function BulkPage({ job, title, children }: { job: Job; title: string; children?: Child }) {
  return (
    <ProgramPage title={title} current={job.current}>
      <Card>{children}</Card>
    </ProgramPage>
  )
}
