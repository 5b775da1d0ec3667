import * as z from 'zod/mini'
import type { Made } from '../idempotency.ts'
import { nameOf } from '../names.ts'
import { type Application, applicationStatuses } from '../programs/applications.ts'
import { joinPageChanges, type JoinPage, maxQuestions, questionTypes } from '../programs/join-page.ts'
import { idIn, idParameter, listParameters, listQuery, listResponse, oneOf } from './lists.ts'
import { answered, body, type Operation, refused } from './operation.ts'
import { noteField } from './request-fields.ts'
import { count, id, success, text, time } from '../response-fields.ts'

const email = z.string().check(z.trim(), z.toLowerCase(), z.maxLength(320), z.email('must be an e-mail address'))

export const applicationsQuery = listQuery({
  status: z.optional(oneOf(applicationStatuses)),
  email: z.optional(z.string()),
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
      error: 'must be given to approve alone',
    }),
    z.refine(({ status, note }) => status === 'rejected' || note === undefined, {
      path: ['note'],
      error: 'must be given to reject alone',
    }),
    z.refine(({ status, notify }) => status === 'rejected' || notify === undefined, {
      path: ['notify'],
      error: 'must be given to reject alone: who is approved is always told',
    }),
  )

const timeOf = (at: Date | string | null) => at && new Date(at).toISOString()

/** An application as the API answers it, read just now or as it was made. */
export const asApplication = (application: Application | Made<Application>) => ({
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

/** A join page as the API answers it. */
export function asJoinPage(page: JoinPage, baseUrl: string) {
  const { slug, is_open, approves_at_once, intro, logo_url, questions, terms, terms_version, terms_since } = page
  return {
    slug,
    url: slug === null ? null : `${baseUrl}/join/${slug}`,
    is_open,
    approves_at_once,
    intro,
    logo_url,
    questions,
    terms,
    terms_version,
    terms_since: timeOf(terms_since),
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
    intro: text(),
    logo_url: text(),
    questions: z.array(z.object({ label: z.string(), type: z.enum(questionTypes), required: z.boolean() })),
    terms: text(),
    terms_version: z.nullable(count()),
    terms_since: z.nullable(time()),
  })

const pageExample = {
  slug: 'example',
  url: 'https://api.example.com/join/example',
  is_open: true,
  approves_at_once: false,
  intro: 'Recommend us and earn 20 %.',
  logo_url: null,
  questions: [{ label: 'Where do you publish?', type: 'short', required: true }],
  terms: 'Tell the truth.',
  terms_version: 1,
  terms_since: '2026-01-01T12:00:00.000Z',
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
    '`unverified` until the applicant opened the mailed link, then `waiting`, until it is `approved` or `rejected`. Unconfirmed ones are deleted after 7 days, rejected ones after a year.',
  source: 'The public page, or your own form by `POST /api/v1/applications`.',
  email: 'Null once the partner erased their account.',
  answers: 'What was asked then, in its words.',
  terms_version: 'The terms that they accepted; null where there were none.',
  partner_id: 'The partner that it became.',
  note: 'Why it was rejected; the applicant does not see it.',
  decided_by: 'The member or the API key that decided; null where the program approves at once.',
}

const pageFields = {
  slug: 'Its address is `/join/` and this. A former one leads to the present one, and no other program gets it; five at most. Null before the first change.',
  url: 'The whole address.',
  is_open: 'Whether the page is there. Your own form works without it.',
  approves_at_once:
    'Whether who confirmed their address is a partner at once. Somebody whom the program rejected or ended before waits for a person all the same.',
  intro: 'Plain text: an empty line begins a paragraph, a line that begins with `- ` is of a list.',
  logo_url: 'The `https://` address of an image, which visitors load from there.',
  questions:
    'What is asked beside name and address, ten at most. `short` answers have 300 characters at most, `long` ones 3,000.',
  terms:
    'What applicants accept. Another text is the next `terms_version`, and applications keep the one that was accepted.',
  terms_version: 'Null where there are no terms.',
  terms_since: 'When this version of the terms was set.',
}

const path = '/api/v1/applications'
const pagePath = '/api/v1/join-page'
const pathParameter = (shown = 1) => idParameter('application_id', 'Id of the application.', shown)
const common = {
  auth: 'key' as const,
  success: {
    schemas: [z.object({ success: success(), application: application() })],
    description: 'The application.',
    fields,
  },
}
const commonPage = {
  auth: 'key' as const,
  success: {
    schemas: [z.object({ success: success(), join_page: joinPage() })],
    description: 'The join page.',
    fields: pageFields,
  },
}

/** Joining as the reference shows it. */
export const applicationOperations = (): Operation[] => [
  {
    ...commonPage,
    id: 'updateJoinPage',
    method: 'patch',
    path: pagePath,
    summary: 'Change the join page',
    description:
      'Changes the fields that are sent, as JSON Merge Patch does, and leaves the others: the address of the public page, whether it is there, what it says and asks, and the terms. `conflict` where another program has the address.',
    scope: 'manage',
    body: body(joinPageChanges, {
      slug: '3 to 60 lower-case letters, digits and hyphens.',
      is_open: pageFields.is_open,
      approves_at_once: pageFields.approves_at_once,
      intro: pageFields.intro,
      logo_url: pageFields.logo_url,
      questions: pageFields.questions,
      terms: pageFields.terms,
    }),
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
  },
  {
    ...commonPage,
    id: 'getJoinPage',
    method: 'get',
    path: pagePath,
    summary: 'Read the join page',
    description: 'What the page says and asks, for your own form too: its questions, and the terms with their version.',
    scope: 'read',
    examples: [answered('page', 'The page', { join_page: pageExample })],
  },
  {
    ...common,
    id: 'createApplication',
    method: 'post',
    path,
    summary: 'Apply by your own form',
    description:
      'Sends an application from a form on your own site. The applicant is mailed a link, and the application waits for your review once they open it. `conflict` where they are a partner, wait already or were rejected in the last thirty days: tell your visitor the same as after a success, or strangers learn who your partners are. `rate_limited` from the fourth mail to an address on a day on, and after 300 in all.',
    scope: 'manage',
    idempotent: true,
    body: body(newApplication, {
      name: '1 to 80 characters.',
      email: 'Where the link is mailed.',
      answers: 'An answer to each required question, and to no others, each by its label.',
      terms_version: 'The version of the terms that the applicant accepted, which has to be the present one.',
    }),
    errors: ['conflict', 'idempotency_mismatch'],
    examples: [
      answered(
        'applied',
        'Waits for its confirmation',
        { application: example },
        {
          name: 'Grace Hopper',
          email: 'grace@example.com',
          answers: example.answers,
          terms_version: 1,
        },
      ),
      refused(
        'terms',
        'Terms that are not the present ones',
        {
          code: 'conflict',
          message: 'The terms are of another version. Read the join page, show them and send their version.',
          details: [
            { field: 'terms_version', message: 'must be that of the present terms, and null where there are none' },
          ],
        },
        { name: 'Alan Turing', email: 'alan@example.com', terms_version: 9 },
      ),
    ],
  },
  {
    ...common,
    id: 'listApplications',
    method: 'get',
    path,
    summary: 'List applications',
    description:
      'The applications to the program, the newest first. Without a `status`, unconfirmed ones are left out.',
    scope: 'read',
    parameters: [
      listParameters(applicationsQuery, {
        status: { description: 'Only those in this state.' },
        email: { description: 'Only those with this address.', example: 'grace@example.com' },
      }),
    ],
    success: { schemas: [listResponse(application())], description: 'A page of applications.', fields },
    examples: [answered('page', 'None yet', { data: [], next_cursor: null })],
  },
  {
    ...common,
    id: 'getApplication',
    method: 'get',
    path: `${path}/{application_id}`,
    summary: 'Read an application',
    description: 'One application.',
    scope: 'read',
    parameters: [pathParameter()],
    errors: ['not_found'],
    examples: [answered('application', 'An application', { application: example })],
  },
  {
    ...common,
    id: 'decideApplication',
    method: 'patch',
    path: `${path}/{application_id}`,
    summary: 'Approve or reject an application',
    description:
      'Approving adds the partner with a link, into a group if one is given, and mails them: with an invitation to accept, unless they applied with their account. One that was decided so before is answered as it is; `conflict` where it was decided otherwise or is not confirmed. Somebody rejected may apply again after thirty days.',
    scope: 'manage',
    parameters: [pathParameter(7)],
    body: body(applicationDecision, {
      status: '`approved` or `rejected`.',
      group_id: 'The group that the partner comes into.',
      note: 'Why it is rejected, for yourself.',
      notify: 'Whether who is rejected is told by mail. Not unless it is true.',
    }),
    errors: ['not_found', 'conflict'],
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
        'One that was approved before',
        { code: 'conflict', message: 'This application was approved already.' },
        { status: 'rejected' },
      ),
    ],
  },
  {
    ...common,
    id: 'deleteApplication',
    method: 'delete',
    path: `${path}/{application_id}`,
    summary: 'Delete an application',
    description:
      'Deletes one that was rejected or is not confirmed, with the name, the address and the answers that were sent; the person may apply again at once. `conflict` where it waits, or became a partner.',
    scope: 'manage',
    parameters: [pathParameter(8)],
    success: {
      schemas: [z.object({ success: success(), deleted_id: id() })],
      description: 'It is gone.',
      fields: { deleted_id: 'Id of the application.' },
    },
    errors: ['not_found', 'conflict'],
    examples: [
      answered('deleted', 'It is gone', { deleted_id: 8 }),
      refused('gone', 'One that is not there', { code: 'not_found', message: 'This program has no such application.' }),
    ],
  },
]
