import { type InferResult, sql } from 'kysely'
import { jsonObjectFrom } from 'kysely/helpers/postgres'
import { hashToken, newToken } from '../access/tokens.ts'
import { brandOf } from '../brand.ts'
import { refuse } from '../constraints.ts'
import { call, type Database, retryOnce, violatedConstraint } from '../database.ts'
import { ApiError, found } from '../errors.ts'
import { storeCreated, type Created } from '../idempotency.ts'
import { type Filters, type Part, partOf, totalsOf } from '../keyset.ts'
import { hasWords, kysely } from '../kysely.ts'
import { provenBounds, workspaceBounds } from '../mail-bounds.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'
import { keptSince, terms } from '../retention.ts'
import { type Answered, termsOf } from './join-page.ts'
import { randomDigits } from './links.ts'

/**
 * The statuses of an application. It counts once the sender has confirmed their address. After that, a person decides, or the program
 * approves it at once. A rejected person may apply again after thirty days.
 */
export const applicationStatuses = ['unverified', 'waiting', 'approved', 'rejected'] as const
type ApplicationStatus = (typeof applicationStatuses)[number]

export type Application = InferResult<ReturnType<typeof applicationsStatement>>[number]

interface ApplicationList extends Part {
  status?: ApplicationStatus | undefined
  /** Searches the name, and the address unless `searchesEmail` is false, ignoring case. */
  search?: string | undefined
  searchesEmail?: boolean
  email?: string | undefined
  /** Only these applications, in any status. */
  applicationIds?: number[] | undefined
}

/** Applications to a program, newest first. If `status` is missing, unconfirmed applications are excluded. */
export function applicationsStatement(programId: number, list: ApplicationList) {
  const { status, search, searchesEmail = true, email, applicationIds, ...part } = list
  let query = kysely
    .selectFrom('applications as a')
    .innerJoin('programs as g', 'g.id', 'a.program_id')
    .leftJoin('users as u', 'u.id', 'a.decided_by')
    .leftJoin('api_keys as k', 'k.id', 'a.decided_by_key')
    .leftJoin('partner_profiles as f', 'f.user_id', 'a.user_id')
    .select(['a.program_id', 'a.id', 'a.status', 'a.source', 'a.name', 'a.email', 'a.terms_version', 'a.partner_id'])
    .select(['a.note', 'a.applied_at', 'a.verified_at', 'a.decided_at', 'g.name as program_name'])
    .select((eb) => [
      sql<Answered[]>`a.answers`.as('answers'),
      eb('a.user_id', 'is not', null).$castTo<boolean>().as('has_account'),
      eb.fn.coalesce('u.name', 'k.name').as('decided_by'),
      eb.fn.coalesce('f.language', 'g.language').as('language'),
    ])
    .where('a.program_id', '=', programId)
  if (applicationIds !== undefined) query = query.where('a.id', 'in', applicationIds)
  else if (status !== undefined) query = query.where('a.status', '=', status)
  else query = query.where('a.status', '<>', 'unverified')
  if (email !== undefined) query = query.where('a.email', '=', email.toLowerCase())
  if (search !== undefined) {
    const text = searchesEmail ? sql<string>`concat_ws(' ', a.name, a.email)` : sql.ref<string>('a.name')
    query = query.where(hasWords(text, search))
  }
  return partOf(query, sql.ref<number>('a.id'), part)
}

export async function listApplications(db: Database, programId: number, list: ApplicationList): Promise<Application[]> {
  return await db.query(applicationsStatement(programId, list))
}

export const applicationTotals = (programId: number, filters: Filters<ApplicationList>) =>
  totalsOf(applicationsStatement(programId, { ...filters, limit: 0 }))

/** Reads an application with the text of its accepted terms. Throws `not_found`. */
export async function readApplication(db: Database, programId: number, applicationId: number) {
  const [application] = await db.query(
    applicationsStatement(programId, { limit: 1, applicationIds: [applicationId] }).select((eb) =>
      termsOf(eb.ref('a.program_id'), eb.ref('a.terms_version')).as('terms'),
    ),
  )
  return found(application, 'application')
}

interface NewApplication {
  programId: number
  /** The applicant's account, if its verified address is `email`. */
  userId: string | null
  email: string
  name: string
  answers: Answered[]
  /** The version of the page that the applicant saw, or of the terms on the program's own form. */
  seen: { version: number } | { terms: number | null }
  /** The applicant's network, if the page knows it. */
  network?: string | undefined
  /** Whether the browser sent a proof of work. */
  isProven?: boolean
}

/**
 * The outcome of an application: `applied` if it must be confirmed with the mailed `token`, or else `waiting` or `approved` for applicants
 * with an account. Refusals are `closed`, `changed` since the applicant saw the page, `partner`, `waiting`, and `rejected` until `againAt`.
 * `recipient` and `program` mean that the daily mail limit of the recipient or the program is reached.
 */
export interface Applied {
  outcome: string
  applicationId: number | null
  token: string
  againAt: Date | null
  outbox: RelayMessage[]
}

/** Records an application. Sends no mail. */
export async function apply(db: Database, application: NewApplication): Promise<Applied> {
  const token = newToken()
  const tokenHash = application.userId === null ? await hashToken(token) : null
  const [[row], [written]] = await withCode((digits) =>
    db.batch([applyStatement(application, tokenHash, digits), writtenMessages()]),
  )
  return {
    outcome: row?.outcome ?? 'closed',
    applicationId: row?.application_id ?? null,
    token,
    againAt: row?.again_at ?? null,
    outbox: messagesAbout({ program_id: application.programId, ...written }),
  }
}

function applyStatement(application: NewApplication, tokenHash: Uint8Array | null, digits: string) {
  const { programId, userId, email, name, answers, seen, network = null, isProven = false } = application
  return call('apply_to_program', {
    of_program_id: programId,
    of_source: 'version' in seen ? 'page' : 'api',
    seen_version: 'version' in seen ? seen.version : null,
    seen_terms: 'terms' in seen ? seen.terms : null,
    of_user_id: userId,
    of_email: email,
    of_name: name,
    of_answers: JSON.stringify(answers),
    of_token_hash: tokenHash,
    code_digits: digits,
    of_network: network,
    bounds: isProven ? provenBounds : workspaceBounds,
  })
}

/** After each collision, tries again with one more random digit at the end of the code. */
async function withCode<Result>(act: (digits: string) => Promise<Result>): Promise<Result> {
  for (let length = 4; ; length++) {
    try {
      return await act(randomDigits(length))
    } catch (error) {
      if (violatedConstraint(error) !== 'referral_links_code_key' || length >= 9) throw error
    }
  }
}

const tooManyApplications = new ApiError(
  'rate_limited',
  'The API has sent the maximum number of e-mails to applicants for today. Continue tomorrow.',
)

const refusals: Record<string, ApiError> = {
  closed: new ApiError('conflict', 'This program has no join page yet. Set it up first.'),
  changed: new ApiError(
    'conflict',
    'The terms have changed. Read the join page, show the current terms and send their version.',
    {
      details: [{ field: 'terms_version', message: 'must be the version of the current terms, or null without terms' }],
    },
  ),
  partner: new ApiError('conflict', 'This person is already a partner of the program.', {
    details: [{ field: 'email', message: 'must not belong to a partner of the program' }],
  }),
  waiting: new ApiError('conflict', 'This person already has an application under review.', {
    details: [{ field: 'email', message: 'must not belong to an applicant under review' }],
  }),
  recipient: new ApiError(
    'rate_limited',
    'This address has received the maximum number of e-mails for today. Try again tomorrow.',
  ),
  source: tooManyApplications,
  workspace: tooManyApplications,
  unverified: new ApiError(
    'forbidden',
    'No owner of this workspace has a confirmed e-mail address. Confirm an address first, because the service does not send e-mail until then.',
  ),
}

/**
 * Records an application from the program's own form, sent with the program's API key. `token` confirms the application. Returns the
 * application and the hash of its token, which isn't the hash of `token` if the request is a repeat. Throws `conflict`,
 * `invalid_request` or `rate_limited`.
 */
export async function applyByKey(
  db: Database,
  application: Omit<NewApplication, 'userId' | 'seen'> & { seen: { terms: number | null } },
  token: string,
): Promise<Created<Application & { token_hash: string }>> {
  const tokenHash = await hashToken(token)
  const { programId } = application
  const created = applicationsStatement(programId, { limit: 1, status: 'unverified' })
    .where('a.token_hash', '=', tokenHash)
    .select(sql<string>`encode(a.token_hash, 'hex')`.as('token_hash'))
  const [[row], [kept]] = await db.batch([
    applyStatement({ ...application, userId: null }, tokenHash, ''),
    storeCreated(created),
  ])
  if (kept?.created) return kept.created
  if (row?.outcome === 'answers') {
    throw new ApiError('invalid_request', `The answer to "${row.wrong_question}" was not accepted.`, {
      details: [
        {
          field: 'answers',
          message: 'must answer each required question of the join page and no other questions, and use its labels',
        },
      ],
    })
  }
  if (row?.outcome === 'rejected') {
    const again = row.again_at?.toISOString()
    throw new ApiError('conflict', `This person was rejected. They may apply again from ${again}.`, {
      details: [{ field: 'email', message: 'must not belong to an applicant rejected in the last thirty days' }],
    })
  }
  throw refusals[row?.outcome ?? ''] ?? new Error(`unknown outcome of an application: ${row?.outcome}`)
}

/** Returns the SHA-256 of a token in hexadecimal. */
export async function hexHash(token: string): Promise<string> {
  return [...(await hashToken(token))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Reads the application for a mailed link. Returns undefined if the link is too old or used up. */
export async function findApplication(db: Database, token: string) {
  const [application] = await db.query(
    kysely
      .selectFrom('applications as a')
      .innerJoin('programs as g', 'g.id', 'a.program_id')
      .select(['a.program_id', 'a.id', 'a.status', 'a.name', 'a.email', 'a.terms_version', 'a.applied_at'])
      .select(['a.decided_at', 'g.name as program_name', 'g.language'])
      .select((eb) => [
        jsonObjectFrom(brandOf(eb.ref('g.id')))
          .$notNull()
          .as('brand'),
        sql<Answered[]>`a.answers`.as('answers'),
        termsOf(eb.ref('a.program_id'), eb.ref('a.terms_version')).as('terms'),
      ])
      .where('a.token_hash', '=', await hashToken(token))
      .where('g.deleted_at', 'is', null)
      .where((eb) =>
        eb.or([eb('a.status', '<>', 'unverified'), eb('a.applied_at', '>', keptSince('unconfirmed_applications'))]),
      ),
  )
  return application
}
export type ConfirmableApplication = NonNullable<Awaited<ReturnType<typeof findApplication>>>

/**
 * Confirms an application through its mailed link. `invitation` is the token of an invitation if the program approves at once. Confirming
 * again changes nothing. `isFirst` is true for the first confirmation.
 */
export async function confirmApplication(db: Database, { program_id: programId, id }: ConfirmableApplication) {
  const invitation = newToken()
  const invitationHash = await hashToken(invitation)
  const [[row], [written]] = await withCode((digits) =>
    db.batch([
      call('confirm_application', {
        of_program_id: programId,
        of_application_id: id,
        unconfirmed_kept: terms.unconfirmed_applications,
        code_digits: digits,
        invitation_hash: invitationHash,
      }),
      writtenMessages(),
    ]),
  )
  return {
    outcome: row?.outcome ?? null,
    isFirst: row?.is_first ?? false,
    invitation: row?.invited ? invitation : undefined,
    outbox: messagesAbout({ program_id: programId, ...written }),
  }
}

/** Withdraws an undecided application through its mailed link, and deletes it. */
export async function withdrawApplication(db: Database, token: string): Promise<void> {
  await db.query(
    kysely
      .deleteFrom('applications')
      .where('token_hash', '=', await hashToken(token))
      .where('status', 'in', ['unverified', 'waiting']),
  )
}

export interface Approved {
  application: Application
  /** True if this call approved the application. */
  isFirst: boolean
  /** The token of the invitation, if the person has to accept one. */
  invitation: string | undefined
}

/**
 * Approves applications of a program, optionally into a group, either all of them or none. Doesn't change decided applications. Throws
 * `conflict` for an unknown group, or if an applicant's address belongs to a partner with another account. Returns the applications and the
 * messages to send. Sends no mail.
 */
export async function approveApplications(
  db: Database,
  programId: number,
  applicationIds: number[],
  groupId: number | null,
): Promise<{ approved: Approved[]; outbox: RelayMessage[] }> {
  const tokens = new Map(applicationIds.map((id) => [id, newToken()]))
  const hashes = new Map(await Promise.all([...tokens].map(async ([id, token]) => [id, await hexHash(token)] as const)))
  const [outcomes, applications, [written]] = await withCode((digits) => {
    const approvals = applicationIds.map((id) => ({
      id,
      code_digits: randomDigits(digits.length),
      invitation_hash: hashes.get(id),
    }))
    return retryOnce(() =>
      db.batch([
        call('approve_applications', {
          of_program_id: programId,
          in_group_id: groupId,
          given: JSON.stringify(approvals),
        }),
        applicationsStatement(programId, { limit: applicationIds.length, applicationIds }),
        writtenMessages(),
      ]),
    )
  }).catch(refuse)
  const approved = applications.map((application) => {
    const outcome = outcomes.find(({ application_id: id }) => id === application.id)
    return {
      application,
      isFirst: outcome?.is_first ?? false,
      invitation: outcome?.invited ? tokens.get(application.id) : undefined,
    }
  })
  return { approved, outbox: messagesAbout({ program_id: programId, ...written }) }
}

/** Approves one application. Throws `not_found`, and `conflict` if it was rejected or is not confirmed. */
export async function approveApplication(
  db: Database,
  programId: number,
  applicationId: number,
  groupId: number | null,
): Promise<Approved & { outbox: RelayMessage[] }> {
  const { approved, outbox } = await approveApplications(db, programId, [applicationId], groupId)
  const one = found(approved[0], 'application')
  refuseDecided(one.application, 'approved')
  return { ...one, outbox }
}

/**
 * Rejects a waiting application with a note that only the program sees, and returns it. Rejecting it again changes nothing. Throws `not_found`, and
 * `conflict` if it was approved or is not confirmed. Sends no mail.
 */
export async function rejectApplication(
  db: Database,
  programId: number,
  applicationId: number,
  note: string | null,
): Promise<{ application: Application; isFirst: boolean }> {
  const [[row], [read]] = await retryOnce(() =>
    db.batch([
      call('reject_application', { of_program_id: programId, of_application_id: applicationId, because: note }),
      applicationsStatement(programId, { limit: 1, applicationIds: [applicationId] }),
    ]),
  )
  const application = found(read, 'application')
  refuseDecided(application, 'rejected')
  return { application, isFirst: row?.is_first ?? false }
}

/** Rejects the waiting applications among the given ones, and returns their number. Sends no mail. */
export async function rejectApplications(
  db: Database,
  programId: number,
  applicationIds: number[],
  note: string | null,
): Promise<number> {
  const ids = applicationIds.toSorted((one, other) => one - other)
  const rejections = await retryOnce(() =>
    db.batch(
      ids.map((id) => call('reject_application', { of_program_id: programId, of_application_id: id, because: note })),
    ),
  )
  return rejections.filter(([row]) => row?.is_first).length
}

/**
 * Deletes a rejected or unconfirmed application with all its data. Its sender may apply again at once. Throws `not_found`, and `conflict` if it is
 * waiting or became a partner.
 */
export async function deleteApplication(db: Database, programId: number, applicationId: number): Promise<void> {
  const [row] = await db.query(
    call('delete_application', { of_program_id: programId, of_application_id: applicationId }),
  )
  const status = found(row?.status_was, 'application')
  if (status === 'waiting')
    throw new ApiError('conflict', 'This application is waiting for a decision. Reject it first.')
  if (status === 'approved') {
    throw new ApiError(
      'conflict',
      'This applicant is already a partner. The application stays until they erase their account.',
    )
  }
}

function refuseDecided({ status }: Application, wanted: ApplicationStatus): void {
  if (status === wanted) return
  if (status === 'unverified') {
    throw new ApiError('conflict', 'The applicant has not confirmed their address yet. Wait until they do.')
  }
  throw new ApiError('conflict', `This application was already ${status}.`)
}

/** Lists a person's applications, sent with their account or their verified address, newest first. `of` selects one. */
export async function listApplicationsOf(db: Database, person: Applicant, list: OwnApplications) {
  return await db.query(ownApplicationsStatement(person, list))
}

export const ownApplicationTotals = (person: Applicant) => totalsOf(ownApplicationsStatement(person, { limit: 0 }))

interface Applicant {
  id: string
  email: string
  emailVerified: boolean
}

type OwnApplications = Part & { of?: { programId: number; applicationId: number } }

function ownApplicationsStatement(person: Applicant, { of, ...part }: OwnApplications) {
  let query = kysely
    .selectFrom('applications as a')
    .innerJoin('programs as g', 'g.id', 'a.program_id')
    .select(['a.program_id', 'a.id', 'a.status', 'a.terms_version', 'a.applied_at', 'a.decided_at'])
    .select(['g.name as program_name'])
    .select((eb) => [
      sql<Answered[]>`a.answers`.as('answers'),
      termsOf(eb.ref('a.program_id'), eb.ref('a.terms_version')).as('terms'),
    ])
    .where((eb) =>
      eb.or([eb('a.user_id', '=', person.id), ...(person.emailVerified ? [eb('a.email', '=', person.email)] : [])]),
    )
    .where('a.status', '<>', 'unverified')
  if (of !== undefined) query = query.where('a.program_id', '=', of.programId).where('a.id', '=', of.applicationId)
  return partOf(query, sql.ref<number>('a.id'), part)
}
export type OwnApplication = Awaited<ReturnType<typeof listApplicationsOf>>[number]

/** Deletes up to `limit` old unconfirmed and rejected applications and returns their number. */
export async function deleteOldApplications(db: Database, limit: number): Promise<number> {
  const [row] = await db.query(
    call('expire_applications', {
      max_rows: limit,
      unconfirmed_kept: terms.unconfirmed_applications,
      rejected_kept: terms.rejected_applications,
    }),
  )
  return row?.expire_applications ?? 0
}
