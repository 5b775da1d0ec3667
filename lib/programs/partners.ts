import { type Expression, type InferResult, sql } from 'kysely'
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/postgres'
import { storeCreated, type Created } from '../idempotency.ts'
import { refuse } from '../constraints.ts'
import { call, type Database, violatedConstraint } from '../database.ts'
import { ApiError, found } from '../errors.ts'
import { type Filters, type Order, type Part, partOf, totalsOf } from '../keyset.ts'
import { containing, hasWords, kysely, lower, now } from '../kysely.ts'
import { clicksOfLink, linksFollow, linksOf, partnerOfCode, suggestCode } from './links.ts'
import { mergedMetadata, type Metadata, type MetadataChanges } from './metadata.ts'
import { rulesOf } from './commission-rules.ts'
import { type CommissionRule } from './commission-terms.ts'
import { openInvitationOf } from './partner-invitations.ts'
import { queuedInvitationOf } from './queued-invitations.ts'

/** The program's data about a partner, without the name. */
interface Details {
  email?: string | null | undefined
  external_id?: string | null | undefined
  /** Null if the partner has no address. */
  group_id?: number | null | undefined
}

/**
 * Adds a partner with a referral link to a program. Other programs may have partners with the same address. If `code` is null, one is
 * generated, a digit longer after each collision. Throws `conflict` for a taken code, address or `external_id`, and `not_found` for an
 * unknown group.
 */
export async function addPartner(
  db: Database,
  partner: Details & { programId: number; name: string; code: string | null; metadata?: Metadata | undefined },
): Promise<{ partnerId: number; code: string; partner: Created<PartnerOfProgram> }> {
  const { programId, name, email, external_id, group_id, metadata = {} } = partner
  const values = { program_id: programId, name, email, external_id, group_id, metadata: JSON.stringify(metadata) }
  for (let digits = 4; ; digits++) {
    const code = partner.code ?? suggestCode(name, digits)
    try {
      const [, [added]] = await db.batch([
        kysely
          .with('created', (cte) => cte.insertInto('partners').values(values).returning(['program_id', 'id']))
          .insertInto('referral_links')
          .columns(['code', 'program_id', 'partner_id'])
          .expression((eb) => eb.selectFrom('created').select([eb.val(code).as('code'), 'program_id', 'id'])),
        storeCreated(partnersStatement(programId, { limit: 1, code })),
      ])
      if (!added?.created) throw new Error('the database returned no partner')
      return { partnerId: added.created.id, code, partner: added.created }
    } catch (error) {
      if (violatedConstraint(error) === 'referral_links_code_key' && partner.code === null && digits < 9) continue
      return refuse(error)
    }
  }
}

interface PartnerChanges extends Details {
  name?: string | undefined
  /** Also enables or disables all their links. Clicks on disabled links are refused. */
  is_active?: boolean | undefined
  /** Their payout address. If null, payouts go to their e-mail address. */
  payout_email?: string | null | undefined
  /** The program's private note about them, up to 2,000 characters, or null. */
  note?: string | null | undefined
  metadata?: MetadataChanges
  /** Replaces all their custom rules from now on. */
  rules?: CommissionRule[] | undefined
}

/**
 * Changes the given fields of a partner and returns them. An ended partner without an account can be activated again. An ended partner with
 * an account needs a new invitation. People with an account change their name and addresses themselves. If the address changes, an open
 * invitation to the previous address ends. Throws `conflict`, and `not_found` for an unknown partner.
 */
export async function updatePartner(
  db: Database,
  programId: number,
  partnerId: number,
  { name, email, payout_email, note, external_id, group_id, is_active, metadata, rules }: PartnerChanges,
): Promise<PartnerOfProgram> {
  const isTheirs = name !== undefined || email !== undefined || payout_email !== undefined
  const [changed, , , [partner]] = await db
    .batch([
      kysely
        .with('changed', (cte) =>
          cte
            .updateTable('partners')
            .set({
              ...(name !== undefined && { name }),
              ...(email !== undefined && { email }),
              ...(payout_email !== undefined && { payout_email }),
              ...(note !== undefined && { note }),
              ...(external_id !== undefined && { external_id }),
              ...(group_id !== undefined && { group_id }),
              ...(is_active !== undefined && { is_active }),
              ...(is_active && { ended_at: null, ended_by: null }),
              metadata: (eb) => mergedMetadata(eb.ref('metadata'), metadata),
            })
            .where('program_id', '=', programId)
            .where('id', '=', partnerId)
            .where((eb) => eb.or([eb('closed_at', 'is', null), eb.lit(!is_active)]))
            .where((eb) => eb.or([eb('ended_at', 'is', null), eb('user_id', 'is', null), eb.lit(!is_active)]))
            .where((eb) => eb.or([eb('user_id', 'is', null), eb.lit(!isTheirs)]))
            .returning(['program_id', 'id']),
        )
        .selectFrom('changed')
        .select('id')
        .$if(rules !== undefined, (query) =>
          query.select(sql`save_rules(program_id, null, id, ${JSON.stringify(rules)})`.as('saved')),
        ),
      linksFollow({ programId, partnerIds: is_active === undefined ? [] : [partnerId] }),
      // No partner has the id 0, so this updates no row if the address is unchanged.
      endMisaddressed(programId, email === undefined ? 0 : partnerId),
      partnersStatement(programId, { limit: 1, partnerId }),
    ])
    .catch(refuse)
  const known = found(partner, 'partner')
  if (changed.length > 0) return known
  if (is_active && (known.ended_at || !isTheirs)) {
    throw new ApiError('conflict', 'This partnership ended. Invite the partner again: it continues when they accept.')
  }
  throw new ApiError('conflict', 'This partner has an account. Only they can change their name and addresses.')
}

/** Deactivates the active partners among the given ones, with their links, and returns their number. */
export async function deactivatePartners(db: Database, programId: number, partnerIds: number[]): Promise<number> {
  const [row] = await db.query(call('deactivate_partners', { of_program_id: programId, partner_ids: partnerIds }))
  return row?.deactivate_partners ?? 0
}

/**
 * Sets the commission rate of partners from now on, in basis points. Doesn't change their other terms. Returns the number of changed
 * partners.
 */
export async function ratePartners(db: Database, programId: number, partnerIds: number[], rate_bp: number) {
  const [row] = await db
    .query(call('rate_partners', { of_program_id: programId, partner_ids: partnerIds, to_bp: rate_bp }))
    .catch(refuse)
  return row?.rate_partners ?? 0
}

/** Revokes a partner's open invitation if it was sent to a different address. */
function endMisaddressed(programId: number, partnerId: number) {
  return kysely
    .updateTable('partner_invitations as i')
    .from('partners as p')
    .set({ revoked_at: now })
    .where('i.program_id', '=', programId)
    .where('i.partner_id', '=', partnerId)
    .whereRef('p.program_id', '=', 'i.program_id')
    .whereRef('p.id', '=', 'i.partner_id')
    .where((eb) => eb(eb.fn('lower', ['p.email']), 'is distinct from', eb.ref('i.email')))
    .where('i.accepted_at', 'is', null)
    .where('i.declined_at', 'is', null)
    .where('i.revoked_at', 'is', null)
}

export type PartnerOfProgram = InferResult<ReturnType<typeof partnersStatement>>[number]
export const partnerStates = ['active', 'inactive', 'ended'] as const

export const partnerSorts = ['newest', 'oldest', 'name', 'clicks', 'sales', 'balance'] as const

interface PartnerList extends Part {
  /** Newest first by default. Other orders: most clicks, sales or balance in the program's currency first, or by name. */
  sort?: (typeof partnerSorts)[number] | undefined
  /** Searches the name, the e-mail address and the codes, ignoring case. */
  search?: string | undefined
  /** False for roles that must not see addresses. */
  searchesEmail?: boolean
  status?: (typeof partnerStates)[number] | undefined
  email?: string | undefined
  external_id?: string | undefined
  /** Only partners of this group. */
  group_id?: number | undefined
  /** Only the partner whose link has this code. */
  code?: string | undefined
  partnerId?: number | undefined
  /** Only partners who can be invited: they have an address, no account, and no open or queued invitation. */
  isUninvited?: boolean | undefined
  /** Only partners who have an account and whose partnership has not ended. */
  hasAccount?: boolean | undefined
}

/**
 * Lists partners of a program with their figures. `has_account` is true once a person has signed in as the partner. `invited` is true
 * while an invitation is open. `sales` counts all paid sales in any currency.
 */
export async function listPartners(db: Database, programId: number, list: PartnerList): Promise<PartnerOfProgram[]> {
  return await db.query(partnersStatement(programId, list))
}

export type PartnerWithCodes = Awaited<ReturnType<typeof listPartnersWithCodes>>[number]

/**
 * Lists partners with the clicks and the codes of all their links, and their {@link earningsOf}. Codes are separated by
 * spaces, oldest first. The partner whose link has exactly the searched code comes first.
 */
export async function listPartnersWithCodes(db: Database, programId: number, list: PartnerList) {
  const statement = (part: PartnerList) =>
    partnersStatement(programId, part).select([allClicks, allCodes, ...earningsOf, lastSale])
  const { search, before, after, limit } = list
  if (search === undefined) return await db.query(statement(list))
  const others = statement(list).where('p.id', 'is distinct from', partnerOfCode(programId, search))
  if ((before ?? after) !== undefined) return await db.query(others)
  const named = statement({ ...list, limit: 1, search: undefined, code: search })
  const [first, rest] = await db.batch([named, others])
  return [...first, ...rest].slice(0, limit)
}

export const partnerTotals = (programId: number, filters: Filters<PartnerList>) =>
  totalsOf(partnersStatement(programId, { ...filters, limit: 0 }))

/** Reads a partner. Throws `not_found`. */
export async function readPartner(db: Database, programId: number, partnerId: number): Promise<PartnerOfProgram> {
  return found((await listPartners(db, programId, { limit: 1, partnerId }))[0], 'partner')
}

export function partnersStatement(programId: number, list: PartnerList) {
  const {
    search,
    searchesEmail = true,
    status,
    email,
    external_id,
    group_id,
    code,
    partnerId,
    isUninvited,
    hasAccount,
    sort = 'newest',
    ...part
  } = list
  let query = kysely
    .selectFrom('partners as p')
    .select((eb) => [
      'p.id',
      'p.name',
      'p.email',
      'p.is_active',
      'p.ended_at',
      'p.ended_by',
      eb('p.user_id', 'is not', null).$castTo<boolean>().as('has_account'),
      openInvitationOf(eb.ref('p.program_id'), eb.ref('p.id')).as('invited'),
      'p.external_id',
      'p.group_id',
      groupNameOf(eb.ref('p.program_id'), eb.ref('p.group_id')).as('group_name'),
      rulesOf(programId, 'c.partner_id', eb.ref('p.id')).as('rules'),
      eb.ref('p.metadata').$castTo<Metadata>().as('metadata'),
      'p.created_at',
      linksOf(eb.ref('p.program_id'), eb.ref('p.id')).as('links'),
      salesOf(eb.ref('p.program_id'), eb.ref('p.id')).as('sales'),
      jsonArrayFrom(
        eb
          .selectFrom('balances as b')
          .select(['b.currency', 'b.balance_cents'])
          .whereRef('b.program_id', '=', 'p.program_id')
          .whereRef('b.partner_id', '=', 'p.id')
          .orderBy('b.currency'),
      ).as('balances'),
    ])
    .where('p.program_id', '=', programId)
  if (partnerId !== undefined) query = query.where('p.id', '=', partnerId)
  if (external_id !== undefined) query = query.where('p.external_id', '=', external_id)
  if (group_id !== undefined) query = query.where('p.group_id', '=', group_id)
  if (email !== undefined) query = query.where((eb) => eb(eb.fn('lower', ['p.email']), '=', lower(email)))
  if (code !== undefined) query = query.where('p.id', '=', partnerOfCode(programId, code))
  if (hasAccount) query = query.where('p.user_id', 'is not', null).where('p.ended_at', 'is', null)
  if (isUninvited) {
    query = query
      .where('p.email', 'is not', null)
      .where('p.user_id', 'is', null)
      .where('p.ended_at', 'is', null)
      .where((eb) => eb.not(openInvitationOf(eb.ref('p.program_id'), eb.ref('p.id'))))
      .where((eb) => eb.not(queuedInvitationOf(eb.ref('p.program_id'), eb.ref('p.id'))))
  }
  if (status === 'ended') query = query.where('p.ended_at', 'is not', null)
  else if (status !== undefined) {
    query = query.where('p.is_active', '=', status === 'active').where('p.ended_at', 'is', null)
  }
  if (search !== undefined) {
    const text = searchesEmail ? sql<string>`concat_ws(' ', p.name, p.email)` : sql.ref<string>('p.name')
    query = query.where((eb) =>
      eb.or([
        hasWords(text, search),
        eb.exists(
          eb
            .selectFrom('referral_links as l')
            .whereRef('l.program_id', '=', 'p.program_id')
            .whereRef('l.partner_id', '=', 'p.id')
            .where('l.code', 'ilike', containing(search)),
        ),
      ]),
    )
  }
  return partOf(query, sql.ref<number>('p.id'), part, orderBy(sort, programId))
}

/** Column: the name of a partner's group, or null. */
function groupNameOf(programId: Expression<number>, groupId: Expression<number | null>) {
  return kysely
    .selectFrom('partner_groups as g')
    .select('g.name')
    .where('g.program_id', '=', programId)
    .where('g.id', '=', groupId)
    .$asScalar()
}

/** Column: a partner's number of paid sales, in any currency, with or without a commission. */
function salesOf(programId: Expression<number>, partnerId: Expression<number>) {
  return kysely
    .selectFrom('sales as s')
    .select((eb) => eb.fn.countAll<number>().as('sales'))
    .where('s.program_id', '=', programId)
    .where('s.partner_id', '=', partnerId)
    .where((eb) => eb.not('s.is_test'))
    .where('s.payment_status', '=', sql.lit('paid'))
    .$asScalar()
    .$notNull()
}

function orderBy(sort: (typeof partnerSorts)[number], programId: number): Order {
  const valueOf = {
    name: (id: Expression<number>) =>
      kysely
        .selectFrom('partners as n')
        .select((eb) => eb.fn<string>('lower', ['n.name']).as('name'))
        .where('n.program_id', '=', programId)
        .where('n.id', '=', id),
    clicks: (id: Expression<number>) => sql`coalesce(${clicksOf(programId, id)}, 0)`,
    sales: (id: Expression<number>) => salesOf(sql.val(programId), id),
    balance: (id: Expression<number>) => {
      const currency = kysely.selectFrom('programs').select('currency').where('id', '=', programId)
      const balance = kysely
        .selectFrom('balances as b')
        .select('b.balance_cents')
        .where('b.program_id', '=', programId)
        .where('b.partner_id', '=', id)
        .where('b.currency', '=', currency)
      return sql`coalesce(${balance}, 0)`
    },
  }
  if (sort === 'newest' || sort === 'oldest') return { ascending: sort === 'oldest' }
  const value = { by: valueOf[sort](sql.ref('p.id')), of: (id: number) => valueOf[sort](sql.val(id)) }
  return { ascending: sort === 'name', value }
}

/** The clicks on all of a partner's links. */
function clicksOf(programId: number, partnerId: Expression<number>) {
  return clickedLinks(sql.val(programId), partnerId).select((eb) => eb.fn.sum('k.clicks').as('clicks'))
}

function clickedLinks(programId: Expression<number>, partnerId: Expression<number>) {
  return kysely
    .selectFrom('referral_links as l')
    .innerJoinLateral(clicksOfLink, (join) => join.onTrue())
    .where('l.program_id', '=', programId)
    .where('l.partner_id', '=', partnerId)
}

const ofPartner = [sql.ref<number>('p.program_id'), sql.ref<number>('p.id')] as const

/** Column: the clicks on all links of the partner `p`, with bots counted separately. */
const allClicks = jsonObjectFrom(
  clickedLinks(...ofPartner).select((eb) =>
    (['clicks', 'bot_clicks'] as const).map((counter) =>
      eb.cast<number>(eb.fn.coalesce(eb.fn.sum(`k.${counter}`), eb.lit(0)), 'bigint').as(counter),
    ),
  ),
)
  .$notNull()
  .as('all_links')

/** Column: the codes of all links of the partner `p`. */
const allCodes = kysely
  .selectFrom('referral_links as l')
  .select(sql<string>`string_agg(l.code, ' ' order by l.id)`.as('codes'))
  .where('l.program_id', '=', ofPartner[0])
  .where('l.partner_id', '=', ofPartner[1])
  .as('codes')

/** The number of days in the sparkline of a partner. */
export const daysOfLine = 30

const ofTotals = sql`grouped_totals t where t.program_id = p.program_id and t.grouping_name = 'partner' and t.value = p.id::text
  and t.currency = (select g.currency from programs g where g.id = p.program_id)`

/**
 * Columns: the revenue and the commission of the partner `p` in the program's currency, and the revenue of each of the
 * last 30 days, oldest first. These totals are up to a minute old.
 */
const earningsOf = [
  ...(['revenue_cents', 'commission_cents'] as const).map((metric) =>
    sql<number>`(select coalesce(sum(t.${sql.ref(metric)}), 0)::bigint from ${ofTotals} and t.span = 'month')`.as(
      metric,
    ),
  ),
  sql<number[]>`array(
    select coalesce((select t.revenue_cents from ${ofTotals} and t.span = 'day' and t.starts = d.day), 0)
    from (select utc_day(now()) - n as day from generate_series(${sql.lit(daysOfLine - 1)}, 0, -1) n) d
  )`.as('revenue_by_day'),
] as const

/** Column: the time of the last sale of the partner `p`. */
const lastSale = kysely
  .selectFrom('sales as s')
  .select((eb) => eb.fn.max('s.sale_date').as('last_sale_at'))
  .where('s.program_id', '=', ofPartner[0])
  .where('s.partner_id', '=', ofPartner[1])
  .where((eb) => eb.not('s.is_test'))
  .as('last_sale_at')
