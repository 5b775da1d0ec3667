import type { InferResult } from 'kysely'
import * as z from 'zod/mini'
import { countAttempts, daySeconds } from '../access/attempts.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import { asciiHost } from '../hosts.ts'
import { languageCodes } from '../languages.ts'
import { isCurrency } from '../money.ts'
import { nameField } from '../names.ts'
import { type ReviewRule, reviewRules } from '../review-rules.ts'
import { typedTerms } from './commission-terms.ts'

const hostname =
  /^(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?::\d{1,5})?$/

const noDomain = 'Enter the domain of your site, for example example.com.'

function days(minimum: number, maximum: number) {
  const message = `Enter ${minimum} to ${maximum} days.`
  return z.int(message).check(z.gte(minimum, message), z.lte(maximum, message))
}

/** The settings of a program. The table `programs` has the same limits. */
export const programSettings = z.object({
  name: nameField('Give the program a name.'),
  /** The site's host, such as `example.com`. Extracts the host from a pasted address, and converts `münchen.de` to `xn--mnchen-3ya.de`. */
  domain: z.pipe(
    z.string(),
    z.pipe(
      z.transform((text: string) => {
        const address = text
          .trim()
          .toLowerCase()
          .replace(/^https?:\/\//, '')
        const [host = ''] = address.split(/[/?#]/, 1)
        return /\P{ASCII}/u.test(host) ? asciiHost(host) : host
      }),
      z.string().check(
        z.regex(hostname, noDomain),
        // `99999999999` matches the pattern, but it can't be the host of an address.
        z.refine((host) => URL.canParse(`https://${host}`), noDomain),
      ),
    ),
  ),
  currency: z.string().check(z.refine(isCurrency, 'Choose an ISO 4217 currency.')),
  commission_bp: typedTerms.percentage(),
  lead_commission_cents: typedTerms.amount(),
  cookie_window_days: days(1, 730),
  hold_days: days(0, 365),
  /** Null if sales earn commission without a time limit. */
  commission_duration_months: z.nullable(typedTerms.months()),
  lead_auth_policy: z.enum(['server_verified', 'browser_allowed']),
  attribution_model: z.enum(['last_click', 'first_click']),
  /** Decides which partner earns if a sale has one partner's code and another partner's link referred the customer. */
  attribution_priority: z.enum(['code', 'click']),
  /** The commission base of a processor's sale: the amount without tax, optionally also without the processor's fee. */
  commission_base: z.optional(z.enum(['net', 'net_of_fees'])),
  /** If true, a payment without metadata belongs to the partner of the customer's earlier payments. */
  attribute_known_customers: z.boolean(),
  /** The language for partners who haven't chosen one. If null, partners get their browser's language. */
  language: z.optional(z.nullable(z.enum(languageCodes))),
  /** The reasons to hold commissions. `paid_ads` means that the program forbids paid ads. */
  review_rules: z.optional(z.array(z.enum(reviewRules))),
})
export type ProgramSettings = z.infer<typeof programSettings>

/** The defaults of a new program. */
export const programDefaults: Omit<ProgramSettings, 'name' | 'domain'> = {
  currency: 'usd',
  commission_bp: 2000,
  lead_commission_cents: 0,
  cookie_window_days: 30,
  hold_days: 30,
  commission_duration_months: null,
  lead_auth_policy: 'server_verified',
  attribution_model: 'last_click',
  attribution_priority: 'code',
  commission_base: 'net',
  attribute_known_customers: false,
  language: null,
  review_rules: reviewRules.filter((rule) => rule !== 'paid_ads'),
}

/** Creates a program in a workspace and returns its id. In shadow mode, the program credits nothing. */
export async function createProgram(
  db: Database,
  workspaceId: string,
  settings: ProgramSettings,
  { inShadowMode = false }: { inShadowMode?: boolean } = {},
): Promise<number> {
  const [created] = await db.query(
    kysely
      .insertInto('programs')
      .values({ workspace_id: workspaceId, ...settings, ...(inShadowMode && { shadow_since: now }) })
      .returning('id'),
  )
  if (!created) throw new Error('the database returned no program')
  return created.id
}

const mostNewPerDay = 20

/**
 * Counts the programs that a person creates, because many limits are per program or workspace. Throws `rate_limited` after 20 programs in a
 * day.
 */
export async function countNewProgram(db: Database, userId: string): Promise<void> {
  const key = `new programs of ${userId}`
  if (((await countAttempts(db, [key], daySeconds)).get(key) ?? 0) <= mostNewPerDay) return
  throw new ApiError('rate_limited', `You created ${mostNewPerDay} programs today. Continue tomorrow.`)
}

/** Changes a program's settings. Existing commissions keep their rate and hold period. */
export async function updateProgram(db: Database, programId: number, settings: ProgramSettings): Promise<void> {
  await db.query(
    kysely
      .updateTable('programs')
      .set({
        ...settings,
        domain_verified_at: (eb) =>
          eb.case().when('domain', '=', settings.domain).then(eb.ref('domain_verified_at')).end(),
        domain_proven_at: (eb) => eb.case().when('domain', '=', settings.domain).then(eb.ref('domain_proven_at')).end(),
      })
      .where('id', '=', programId),
  )
}

const apiFields = ['id', 'name', 'domain', 'currency', 'commission_base'] as const

/** Reads the settings that the program API shows. */
export async function readProgramOfKey(db: Database, programId: number) {
  const [program] = await db.query(kysely.selectFrom('programs').select(apiFields).where('id', '=', programId))
  if (!program) throw new Error(`Program ${programId} doesn't exist.`)
  return program
}

/** Changes the settings that the program API can change. A new commission base applies to later payments. */
export async function changeProgramOfKey(
  db: Database,
  programId: number,
  changes: { commission_base?: ProgramSettings['commission_base'] },
) {
  if (changes.commission_base === undefined) return await readProgramOfKey(db, programId)
  const [program] = await db.query(
    kysely.updateTable('programs').set(changes).where('id', '=', programId).returning(apiFields),
  )
  if (!program) throw new Error(`Program ${programId} doesn't exist.`)
  return program
}

/** Lists the ids of all programs. */
export async function listProgramIds(db: Database): Promise<number[]> {
  const rows = await db.query(kysely.selectFrom('programs').select('id').orderBy('id'))
  return rows.map(({ id }) => id)
}

export type StoredSettings = InferResult<ReturnType<typeof programStatement>>[number]

const settingNames = z.keyof(programSettings).options

/** Reads a program's settings, its connected processor account, its proxy keys, the parameters of its old links and its embedded portal. */
export async function readProgram(db: Database, programId: number) {
  return (await db.query(programStatement(programId)))[0]
}

/** The statement of `readProgram`. */
export function programStatement(programId: number) {
  return kysely
    .selectFrom('programs')
    .select([
      ...settingNames,
      'processor_account_id',
      'link_params',
      'embed_origins',
      'embed_hides_money',
      'proxy_key_number',
      'previous_proxy_key_until',
      'domain_verified_at',
      'domain_proven_at',
    ])
    .$narrowType<{ review_rules: ReviewRule[] }>()
    .where('id', '=', programId)
}
