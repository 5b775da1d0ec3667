import { type Expression, type InferResult, sql } from 'kysely'
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/postgres'
import * as z from 'zod/mini'
import { refuse } from '../constraints.ts'
import { brandOf } from '../brand.ts'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { rulesForEverybody } from './commission-rules.ts'

/** The public page of a program for applications, /join/<slug>: its text and its questions. */

export const maxQuestions = 10
/** The maximum number of questions that the page answers. */
export const maxAnswers = 20
export const questionTypes = ['short', 'long'] as const

/** The maximum number of characters of an answer, by the type of its question. */
export const answerLengths: Record<(typeof questionTypes)[number], number> = { short: 300, long: 3000 }

const marksOfDirection = /[\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/u

/** Checks that a text has no control characters except line breaks, and no characters that change the direction of text. */
function isPlainText(text: string): boolean {
  return text.isWellFormed() && !marksOfDirection.test(text) && !/\p{Cc}/u.test(text.replaceAll(/[\n\t]/g, ''))
}

const plainRule = 'must be plain text, without control characters or characters that change the direction of text'

/** A trimmed text of several lines and up to `length` characters, with uniform line breaks. */
function plainText(length: number) {
  return z.string().check(
    z.overwrite((text) => text.replaceAll(/\r\n?/g, '\n').trim()),
    z.maxLength(length),
    z.refine(isPlainText, plainRule),
  )
}

/** A trimmed text of a single line. */
function plainLine(length: number) {
  return plainText(length).check(z.refine((text) => !/[\n\t]/.test(text), 'must be one line'))
}

const slugRule = 'must be 3 to 60 lowercase letters and digits, with single hyphens between them'

const joinQuestion = z.strictObject({
  label: plainLine(200).check(z.minLength(1)),
  type: z.prefault(z.enum(questionTypes), 'short'),
  required: z.prefault(z.boolean(), false),
})
type JoinQuestion = z.output<typeof joinQuestion>

/** A question that the page answers. */
const joinAnswer = z.strictObject({
  question: plainLine(200).check(z.minLength(1)),
  answer: plainText(2000).check(z.minLength(1)),
})
type JoinAnswer = z.output<typeof joinAnswer>

/** The settings of the page. Missing settings don't change. */
export const joinPageChanges = z.strictObject({
  slug: z.optional(z.string().check(z.regex(/^(?=.{3,60}$)[a-z0-9]+(-[a-z0-9]+)*$/, slugRule))),
  is_open: z.optional(z.boolean()),
  approves_at_once: z.optional(z.boolean()),
  /** Whether the page shows the program's figures. */
  shows_numbers: z.optional(z.boolean()),
  headline: z.optional(z.nullable(plainLine(120).check(z.minLength(1)))),
  intro: z.optional(z.nullable(plainText(5000))),
  /** Whether the page shows the commission for everybody, the attribution window, the hold period and the smallest payout. */
  shows_terms: z.optional(z.boolean()),
  shows_calculator: z.optional(z.boolean()),
  faq: z.optional(z.array(joinAnswer).check(z.maxLength(maxAnswers))),
  questions: z.optional(
    z.array(joinQuestion).check(
      z.maxLength(maxQuestions),
      z.refine(
        (questions) => new Set(questions.map(({ label }) => label)).size === questions.length,
        'must each have a label of its own',
      ),
    ),
  ),
  terms: z.optional(z.nullable(plainText(30_000))),
  /** Whether the terms contain the agreement that the program issues the partner's invoices. */
  self_billing: z.optional(z.boolean()),
})
export type JoinPageChanges = z.output<typeof joinPageChanges>

/** The figures of a program, if the page shows them. Null if there are too few commissions. */
interface ProgramNumbers {
  /** The median time from a sale to its payout. */
  days_to_payout: number | null
  /** The share of commissions that were reversed completely or in part. */
  reversed_bp: number | null
}

export type JoinPage = InferResult<ReturnType<typeof pageStatement>>[number]

function pagesStatement() {
  return kysely
    .selectFrom('programs as g')
    .leftJoin('join_pages as j', 'j.program_id', 'g.id')
    .leftJoin('program_terms as t', (join) =>
      join.onRef('t.program_id', '=', 'j.program_id').onRef('t.version', '=', 'j.terms_version'),
    )
    .leftJoin('program_hosts as h', (join) =>
      join.onRef('h.program_id', '=', 'g.id').on('h.verified_at', 'is not', null),
    )
    .select(['g.id as program_id', 'g.name as program_name', 'g.language', 'j.slug', 'j.headline', 'j.intro', 'h.host'])
    .select(['g.currency', 'g.commission_bp', 'g.commission_duration_months', 'g.lead_commission_cents'])
    .select(['g.cookie_window_days', 'g.hold_days'])
    .select(['j.terms_version', 't.text as terms', 't.created_at as terms_since'])
    .select((eb) => [
      eb.fn.coalesce('j.is_open', eb.lit(false)).as('is_open'),
      eb.fn.coalesce('j.approves_at_once', eb.lit(false)).as('approves_at_once'),
      eb.fn.coalesce('j.shows_numbers', eb.lit(false)).as('shows_numbers'),
      eb.fn.coalesce('j.shows_terms', eb.lit(true)).as('shows_terms'),
      eb.fn.coalesce('j.shows_calculator', eb.lit(true)).as('shows_calculator'),
      sql<JoinAnswer[]>`coalesce(j.faq, '[]')`.as('faq'),
      jsonObjectFrom(brandOf(eb.ref('g.id')))
        .$notNull()
        .as('brand'),
      jsonArrayFrom(rulesForEverybody(eb.ref('g.id'))).as('rules'),
      eb
        .selectFrom('minimum_payouts as m')
        .select('m.minimum_payout_cents')
        .whereRef('m.program_id', '=', 'g.id')
        .whereRef('m.currency', '=', 'g.currency')
        .as('minimum_payout_cents'),
      eb.fn.coalesce('j.version', eb.lit(0)).as('version'),
      sql<JoinQuestion[]>`coalesce(j.questions, '[]')`.as('questions'),
      eb.fn.coalesce('t.self_billing', eb.lit(false)).as('self_billing'),
      sql<ProgramNumbers | null>`case when j.shows_numbers then (select to_jsonb(n) from program_numbers(g.id) n) end`.as(
        'numbers',
      ),
    ])
    .where('g.deleted_at', 'is', null)
}

function pageStatement(programId: number) {
  return pagesStatement().where('g.id', '=', programId)
}

/** Reads a program's page. `slug` is null before it is first saved. */
export async function readJoinPage(db: Database, programId: number): Promise<JoinPage> {
  const [page] = await db.query(pageStatement(programId))
  if (!page) throw new ApiError('not_found', 'There is no such program.')
  return page
}

/** Returns the public address of a page, which is `/` on the program's own host. Returns null before the page is first saved. */
export function addressOfPage({ host, slug }: Pick<JoinPage, 'host' | 'slug'>, baseUrl: string): string | null {
  if (slug === null) return null
  return host === null ? `${baseUrl}/join/${slug}` : `https://${host}/`
}

/** Finds an open page by its current address or by a former one. */
export async function findJoinPage(db: Database, slug: string): Promise<(JoinPage & { slug: string }) | undefined> {
  const [page] = await db.query(
    pagesStatement()
      .innerJoin('join_slugs as s', 's.program_id', 'g.id')
      .where('s.slug', '=', slug)
      .where('j.is_open', '=', true)
      .where(sql<boolean>`not is_blocked(g.id)`),
  )
  return page && page.slug !== null ? { ...page, slug: page.slug } : undefined
}

/** Changes the given settings of a program's page and returns it. Throws `conflict` if another program has the address, and `forbidden` if the page would open while no owner of the workspace has a confirmed address. */
export async function changeJoinPage(db: Database, programId: number, changes: JoinPageChanges): Promise<JoinPage> {
  const { intro, terms, ...rest } = changes
  const [, [page]] = await db
    .batch([
      call('save_join_page', {
        of_program_id: programId,
        changes: JSON.stringify({
          ...rest,
          ...(intro !== undefined && { intro: intro ?? '' }),
          ...(terms !== undefined && { terms: terms ?? '' }),
        }),
      }),
      pageStatement(programId),
    ])
    .catch(refuse)
  if (!page) throw new ApiError('not_found', 'There is no such program.')
  return page
}

/** The agreement to self-billing. People accept it together with the text of the terms. */
export const selfBillingClause =
  'Self-billing: the program issues the invoices for your commissions in your name. You do not issue invoices for them yourself.'

/** Column: a version of a program's terms with the agreement to self-billing if they contain it, or null. */
export function termsOf(programId: Expression<number>, version: Expression<number | null>) {
  return kysely
    .selectFrom('program_terms as v')
    .select((eb) =>
      eb
        .case()
        .when('v.self_billing', '=', true)
        .then(sql<string>`concat(v.text, ${`\n\n${selfBillingClause}`}::text)`)
        .else(eb.ref('v.text'))
        .end()
        .as('text'),
    )
    .where('v.program_id', '=', programId)
    .where('v.version', '=', version)
    .$asScalar()
}

/** An applicant's answer to a question. Empty if they skipped it. */
export interface Answered {
  question: string
  answer: string
}

/** Returns the answers that aren't empty. `errors` lists missing, too long and invalid answers by the index of their question. */
export function checkAnswers(questions: JoinQuestion[], answerOf: (question: JoinQuestion, index: number) => string) {
  const answers: Answered[] = []
  const errors: { index: number; message: string }[] = []
  for (const [index, question] of questions.entries()) {
    const answer = answerOf(question, index).replaceAll(/\r\n?/g, '\n').trim()
    const most = answerLengths[question.type]
    if (answer.length > most) errors.push({ index, message: `Use ${most} characters at most.` })
    else if (!isPlainText(answer) || (question.type === 'short' && /[\n\t]/.test(answer)))
      errors.push({ index, message: 'Use plain text, without characters that change the direction of text.' })
    else if (answer === '' && question.required) errors.push({ index, message: 'This needs an answer.' })
    else if (answer !== '') answers.push({ question: question.label, answer })
  }
  return { answers, errors }
}
