import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { formatMoney } from '../money.ts'
import { type Campaign, campaignIn } from '../tracking/campaign.ts'
import { type ListedEvent, statementOf } from '../tracking/event-list.ts'
import { flagNames } from './commission-list.ts'
import { commissionHistory, type Happening, historyOf } from './sale-history.ts'
import { entriesOf, explainedSales } from './explanation-read.ts'

/** The maximum number of clicks, leads and sales in a timeline. It shows the newest of each. */
export const timelineRows = 100

/** One event in the history of a customer. */
export interface Moment {
  at: string
  kind: Happening['kind'] | 'click' | 'bot click' | 'lead' | 'unconfirmed lead' | 'sale'
  text: string
  /** The link of a click. */
  link: { code: string; partner_id: number | null; partner_name: string | null } | null
  /** The parameters of a click's link. */
  campaign: Campaign | null
  /** The sale of the event. */
  transaction_id: string | null
  /** The change of the commission's remaining amount, in the currency's minor unit. */
  change_cents: number
  currency: string | null
}

export type Timeline = Awaited<ReturnType<typeof readTimeline>>

/**
 * Reads the history of a program's customer from their first click to the last payout for their commissions, oldest first. `name` is their
 * id or their click id. One request. Throws `not_found`.
 */
export async function readTimeline(db: Database, programId: number, name: string) {
  const by = /^[1-9]\d{0,14}$/.test(name) ? { id: Number(name) } : { click_id: name }
  const customers = kysely.selectFrom('customers as c').where('c.program_id', '=', programId)
  const found =
    by.id === undefined ? customers.where('c.click_id', '=', by.click_id) : customers.where('c.id', '=', by.id)
  const id = found.select('c.id').$asScalar()
  const choice = { programId, isTest: false, customer_id: id }
  const part = { limit: timelineRows }
  const [[customer], clicks, leads, sales, signups] = await db.batch([
    found
      .leftJoin('partners as p', (join) =>
        join.onRef('p.program_id', '=', 'c.program_id').onRef('p.id', '=', 'c.partner_id'),
      )
      .leftJoin('referral_links as l', (join) =>
        join.onRef('l.program_id', '=', 'c.program_id').onRef('l.id', '=', 'c.link_id'),
      )
      .select(['c.id', 'c.click_id', 'c.customer_key', 'c.customer_status', 'c.created_at', 'c.last_click_at'])
      .select(['c.partner_id', 'p.name as partner_name', 'l.code as link_code']),
    statementOf('click', choice, part),
    statementOf('lead', choice, part),
    explainedSales(programId)
      .where('s.customer_id', '=', id)
      .where('s.is_test', '=', sql.lit(false))
      .orderBy('s.id', 'desc')
      .limit(timelineRows),
    signupCommission(programId).where('m.customer_id', '=', id),
  ])
  if (!customer)
    throw new ApiError(
      'not_found',
      'This program has no such customer. A visitor who only clicked is deleted after the attribution window.',
    )
  const moments = [
    ...clicks.map(asMoment),
    ...leads.map(asMoment),
    ...sales.flatMap((sale) =>
      historyOf(sale).map((happening) => asMomentOf(happening, sale.currency, sale.transaction_id)),
    ),
    ...signups.flatMap((signup) =>
      commissionHistory({ ...signup, refunds: [] }).map((happening) => asMomentOf(happening, signup.currency, null)),
    ),
  ]
  return {
    customer,
    /** True if some clicks, leads or sales are missing from the timeline. */
    isCut: [clicks, leads, sales].some(({ length }) => length === timelineRows),
    moments: moments
      .map((moment, index) => ({ moment, index }))
      .toSorted((a, b) => a.moment.at.localeCompare(b.moment.at) || a.index - b.index)
      .map(({ moment }) => moment),
  }
}

/** Selects the commission for a customer's signup, with the fields of a sale's explanation. */
function signupCommission(programId: number) {
  return kysely
    .selectFrom('commissions as m')
    .leftJoin('commission_reviews as v', (join) =>
      join.onRef('v.program_id', '=', 'm.program_id').onRef('v.commission_id', '=', 'm.id'),
    )
    .leftJoin('payouts as w', (join) =>
      join.onRef('w.program_id', '=', 'm.program_id').onRef('w.id', '=', 'm.payout_id'),
    )
    .select(['m.currency', 'm.amount_cents as commission_cents', 'm.reversed_cents', 'm.reason', 'm.corrections'])
    .select(['m.review_reason', 'm.hold_until', 'm.credited_at', 'm.paid_at', 'm.rejected_at', 'm.is_shadow'])
    .select(['m.created_at as commission_created_at', 'w.id as payout_id', 'w.reference', 'w.paid_on'])
    .select(['v.flagged_at', 'v.decision', 'v.decided_at'])
    .select(flagNames)
    .select((eb) => entriesOf(eb.ref('m.program_id'), eb.ref('m.id')).as('entries'))
    .where('m.program_id', '=', programId)
    .where('m.kind', '=', 'lead')
}

function asMoment(event: ListedEvent): Moment {
  const { event_type: type, partner_id, partner_name, link_code: code } = event
  const isClick = type === 'click'
  return {
    at: event.timestamp.toISOString(),
    kind: isClick
      ? event.device_type === 'bot'
        ? 'bot click'
        : 'click'
      : event.provisional
        ? 'unconfirmed lead'
        : 'lead',
    text: [
      isClick || event.page_url ? `On ${event.page_url ?? 'an unknown page'}` : 'Signed up',
      event.referrer_url ? `, from ${event.referrer_url}` : '',
      event.provisional ? '. Only a browser reported it, not your server.' : '',
    ].join(''),
    link: isClick && code !== null ? { code, partner_id, partner_name } : null,
    campaign: campaignIn(event.campaign),
    transaction_id: null,
    change_cents: 0,
    currency: null,
  }
}

/** The sale itself already shows that it was recorded. */
function asMomentOf(
  { at, kind, text, change_cents }: Happening,
  currency: string,
  transactionId: string | null,
): Moment {
  return {
    at,
    kind: kind === 'recorded' ? 'sale' : kind,
    text: transactionId === null && kind === 'commission' ? `For the signup. ${text}` : text,
    link: null,
    campaign: null,
    transaction_id: transactionId,
    change_cents,
    currency,
  }
}

/** Describes a change to a commission in words. */
export const changeOf = ({ change_cents: change, currency }: Moment) =>
  change === 0 || currency === null ? null : `${change > 0 ? '+' : ''}${formatMoney(change, currency)}`
