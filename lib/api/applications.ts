import * as z from 'zod/mini'
import type { Created } from '../idempotency.ts'
import { nameOf } from '../names.ts'
import { type Application, applicationStatuses } from '../programs/applications.ts'
import { addressOfPage, joinPageChanges, type JoinPage, maxQuestions, questionTypes } from '../programs/join-page.ts'
import { filterText, idIn, idParameter, listQuery, oneOf } from './lists.ts'
import { answered, answeredCreated, body, type Operation, refused } from './operation.ts'
import { noteField } from './request-fields.ts'
import { resource } from './resource.ts'
import { count, id, text, time } from '../response-fields.ts'

const email = z.string().check(z.trim(), z.toLowerCase(), z.maxLength(320), z.email('must be an e-mail address'))

export const applicationsQuery = listQuery({
  status: z.optional(oneOf(applicationStatuses)),
  email: filterText(),
})

export const applicationPath = z.object({ application_id: idIn() })

/** Body of POST /api/v1/applications. */
export const newApplication = z.strictObject({
  name: nameOf('applicant'),
  email,
  answers: z.optional(
    z
      .array(
        z.strictObject({
          question: z.string().check(z.maxLength(200)),
          answer: z.string().check(z.trim(), z.maxLength(3000)),
        }),
      )
      .check(
        z.maxLength(maxQuestions),
        z.refine(
          (answers) => new Set(answers.map(({ question }) => question)).size === answers.length,
          'must answer each question once',
        ),
      ),
  ),
  terms_version: z.optional(z.nullable(z.int().check(z.positive()))),
})

/** Body of PATCH /api/v1/applications/{application_id}. */
export const applicationDecision = z
  .strictObject({
    status: oneOf(['approved', 'rejected']),
    group_id: z.optional(z.nullable(z.int().check(z.positive()))),
    note: z.optional(noteField()),
    notify: z.optional(z.boolean()),
  })
  .check(
    z.refine(({ status, group_id: group }) => status === 'approved' || group === undefined, {
      path: ['group_id'],
      error: 'must only be given to approve',
    }),
    z.refine(({ status, note }) => status === 'rejected' || note === undefined, {
      path: ['note'],
      error: 'must only be given to reject',
    }),
    z.refine(({ status, notify }) => status === 'rejected' || notify === undefined, {
      path: ['notify'],
      error: 'must only be given to reject: an approved applicant is always notified',
    }),
  )

const timeOf = (at: Date | string | null) => at && new Date(at).toISOString()

/** Renders an application: a new row, or the stored result of a repeated request. */
export const asApplication = (application: Application | Created<Application>) => ({
  id: application.id,
  status: application.status,
  source: application.source,
  name: application.name,
  email: application.email,
  answers: application.answers,
  terms_version: application.terms_version,
  partner_id: application.partner_id,
  note: application.note,
  applied_at: new Date(application.applied_at).toISOString(),
  verified_at: timeOf(application.verified_at),
  decided_at: timeOf(application.decided_at),
  decided_by: application.decided_by,
})

/** Renders a join page. */
export function asJoinPage(page: JoinPage, baseUrl: string) {
  const {
    slug,
    is_open,
    approves_at_once,
    shows_numbers,
    headline,
    intro,
    shows_terms,
    shows_calculator,
    faq,
    questions,
    terms,
    terms_version,
    terms_since,
    self_billing,
  } = page
  return {
    slug,
    url: addressOfPage(page, baseUrl),
    is_open,
    approves_at_once,
    shows_numbers,
    headline,
    intro,
    shows_terms,
    shows_calculator,
    faq,
    questions,
    terms,
    terms_version,
    terms_since: timeOf(terms_since),
    self_billing,
  }
}

/** Body of PATCH /api/v1/join-page. */
export { joinPageChanges }

const application = () =>
  z.object({
    id: id(),
    status: z.enum(applicationStatuses),
    source: z.enum(['page', 'api']),
    name: z.string(),
    email: text(),
    answers: z.array(z.object({ question: z.string(), answer: z.string() })),
    terms_version: z.nullable(count()),
    partner_id: z.nullable(id()),
    note: text(),
    applied_at: time(),
    verified_at: z.nullable(time()),
    decided_at: z.nullable(time()),
    decided_by: text(),
  })

const joinPage = () =>
  z.object({
    slug: text(),
    url: text(),
    is_open: z.boolean(),
    approves_at_once: z.boolean(),
    shows_numbers: z.boolean(),
    headline: text(),
    intro: text(),
    shows_terms: z.boolean(),
    shows_calculator: z.boolean(),
    faq: z.array(z.object({ question: z.string(), answer: z.string() })),
    questions: z.array(z.object({ label: z.string(), type: z.enum(questionTypes), required: z.boolean() })),
    terms: text(),
    terms_version: z.nullable(count()),
    terms_since: z.nullable(time()),
    self_billing: z.boolean(),
  })

const pageExample = {
  slug: 'example',
  url: 'https://api.example.com/join/example',
  is_open: true,
  approves_at_once: false,
  shows_numbers: false,
  headline: null,
  intro: 'Recommend us and earn 20%.',
  shows_terms: true,
  shows_calculator: true,
  faq: [{ question: 'When am I paid?', answer: 'At the start of each month.' }],
  questions: [{ label: 'Where do you publish?', type: 'short', required: true }],
  terms: 'Be honest.',
  terms_version: 1,
  terms_since: '2026-01-01T12:00:00.000Z',
  self_billing: false,
}

const example = {
  id: 1,
  status: 'unverified',
  source: 'api',
  name: 'Grace Hopper',
  email: 'grace@example.com',
  answers: [{ question: 'Where do you publish?', answer: 'On my site' }],
  terms_version: 1,
  partner_id: null,
  note: null,
  applied_at: '2026-01-01T12:00:00.000Z',
  verified_at: null,
  decided_at: null,
  decided_by: null,
}

const fields = {
  status:
    '`unverified` until the applicant opens the link in the e-mail, then `waiting` until somebody decides, then `approved` or `rejected`. Unverified applications are deleted after 7 days, rejected ones after a year.',
  source: '`page` for the public page, `api` for your own form (`POST /api/v1/applications`).',
  email: 'Null if the partner has erased their account.',
  answers: 'The questions with their original wording, and the answers.',
  terms_version: 'The version of the accepted terms; null if there were none.',
  partner_id: 'The partner, after approval.',
  note: 'The reason for rejection; the applicant does not see it.',
  decided_by: 'The member or the API key that decided. Null if the program approves automatically.',
}

const pageFields = {
  slug: 'The page’s address is `/join/<slug>`. Up to five earlier slugs redirect to the current one and stay reserved for the program. Null until the page is first changed.',
  url: "The full address, on the program's own domain if it has one.",
  is_open: 'Whether the page is public. Your own form works even if it is not.',
  approves_at_once:
    'Whether applicants become partners as soon as they confirm their address. If the program rejected a person before, or ended their partnership, somebody still has to decide.',
  shows_numbers:
    'Whether the page shows the median time from a sale to its payout and the share of reversed commissions, up to the end of the last month. Each figure needs 30 commissions of 5 partners.',
  headline: 'Replaces “Become a partner of …”. At most 120 characters.',
  intro: 'Plain text. An empty line starts a paragraph, and `- ` at the start of a line makes a list item.',
  shows_terms:
    'Whether the page shows the commission for everybody, the attribution window, the hold period and the smallest payout.',
  shows_calculator: 'Whether the page computes what a number of sales earns.',
  faq: 'At most twenty questions that the page answers.',
  questions:
    'At most ten questions in addition to name and address. `short` answers have up to 300 characters, `long` ones up to 3,000.',
  terms:
    'The terms that applicants accept. If the text changes, it gets the next `terms_version`. Each application keeps the version that the applicant accepted.',
  terms_version: 'Null if there are no terms.',
  terms_since: 'When this version of the terms was set.',
  self_billing:
    'Whether applicants also agree that the program issues the invoices for their commissions. A change is a new version of the terms. Show it on your own form.',
}

const inPath = (shown = 1) => idParameter('application_id', 'Id of the application.', shown)

/** Describes joining for the reference. */
export function applicationOperations(): Operation[] {
  const page = resource({
    path: '/api/v1/join-page',
    name: 'join_page',
    plural: 'join pages',
    item: joinPage(),
    fields: pageFields,
    example: pageExample,
  })
  const { create, list, get, change, remove } = resource({
    path: '/api/v1/applications',
    name: 'application',
    plural: 'applications',
    item: application(),
    fields,
    example,
    inPath: inPath(),
  })
  return [
    page.change({
      id: 'updateJoinPage',
      summary: 'Change the join page',
      description:
        'Changes the fields that you send (JSON Merge Patch). You can change the address of the public page, whether it is public, its text, its questions and the terms. Returns `conflict` if another program uses the address.',
      body: body(joinPageChanges, { ...pageFields, slug: '3 to 60 lower-case letters, digits and hyphens.' }),
      errors: ['conflict'],
      examples: [
        answered(
          'open',
          'A page with a question and terms',
          { join_page: pageExample },
          {
            slug: 'example',
            is_open: true,
            intro: pageExample.intro,
            questions: pageExample.questions,
            terms: pageExample.terms,
          },
        ),
      ],
    }),
    page.get({
      id: 'getJoinPage',
      summary: 'Read the join page',
      description:
        'The content for the page or for your own form: the text, the questions, and the terms with their version.',
    }),
    create({
      id: 'createApplication',
      summary: 'Apply through your own form',
      description:
        'Sends an application from a form on your own site. The applicant gets a link by e-mail. When they open it, the application waits for your review. Returns `conflict` if they are a partner, have already applied, or were rejected in the last thirty days. Show your visitor the same page as after a success, or strangers learn who your partners are. `rate_limited` after three mails a day to one address, and after 300 mails a day in total.',
      body: body(newApplication, {
        name: '1 to 80 characters.',
        email: 'The link is mailed to this address.',
        answers:
          'The answers, with the labels of their questions. Required questions need an answer, and unknown questions are refused.',
        terms_version: 'The version of the terms that the applicant accepted. It must be the current one.',
      }),
      errors: ['conflict'],
      examples: [
        answeredCreated(
          'applied',
          'Waiting for confirmation',
          { application: example },
          { name: example.name, email: example.email, answers: example.answers, terms_version: 1 },
        ),
        refused(
          'terms',
          'Outdated terms',
          {
            code: 'conflict',
            message: 'The terms have changed. Read the join page, show the current terms and send their version.',
            details: [
              { field: 'terms_version', message: 'must be the version of the current terms, or null without terms' },
            ],
          },
          { name: 'Alan Turing', email: 'alan@example.com', terms_version: 9 },
        ),
      ],
    }),
    list({
      id: 'listApplications',
      summary: 'List applications',
      description:
        'The applications to the program, newest first. Unverified ones are only listed with `status=unverified`.',
      query: applicationsQuery,
      filters: {
        status: 'Only applications in this state.',
        email: { description: 'Only applications with this address.', example: 'grace@example.com' },
      },
      examples: [answered('page', 'None yet', { data: [], next_cursor: null })],
    }),
    get({ id: 'getApplication', summary: 'Read an application', description: 'One application.' }),
    change({
      id: 'decideApplication',
      summary: 'Approve or reject an application',
      description:
        'Approving adds the partner with a link, to the group `group_id` if you send it. The partner gets an e-mail, which includes an invitation unless they applied while signed in. Repeating a decision has no effect. Returns `conflict` if the application is unconfirmed or was already decided differently. A rejected person can apply again after thirty days.',
      parameters: [inPath(7)],
      body: body(applicationDecision, {
        status: '`approved` or `rejected`.',
        group_id: 'The partner’s group.',
        note: 'The reason for rejection, for your team.',
        notify: 'Whether to send the rejected applicant an e-mail. Default `false`.',
      }),
      errors: ['conflict'],
      examples: [
        answered(
          'approved',
          'Approved',
          {
            application: {
              ...example,
              id: 7,
              status: 'approved',
              partner_id: 2,
              verified_at: '2026-01-01T12:01:00.000Z',
              decided_at: '2026-01-02T09:00:00.000Z',
              decided_by: 'server',
            },
          },
          { status: 'approved' },
        ),
        refused(
          'otherwise',
          'An application that was already approved',
          { code: 'conflict', message: 'This application was already approved.' },
          { status: 'rejected' },
        ),
      ],
    }),
    remove({
      id: 'deleteApplication',
      summary: 'Delete an application',
      description:
        'Deletes a rejected or unconfirmed application with its name, address and answers. The person can apply again immediately. Returns `conflict` if the application is waiting for a decision or was approved.',
      parameters: [inPath(8)],
      errors: ['conflict'],
      examples: [
        answered('deleted', 'It was deleted', { deleted_id: 8 }),
        refused('gone', 'An unknown application', {
          code: 'not_found',
          message: 'This program has no such application.',
        }),
      ],
    }),
  ]
}
