import * as z from 'zod/mini'
import { isCurrency, maxAmountCents } from '../money.ts'
import {
  type ComparedPartner,
  type Difference,
  type DifferencePosition,
  maxComparedDays,
  partnerPosition,
  type PartnerPosition,
  type Period,
  timeOf,
} from '../moving/comparison.ts'
import { differenceReasons, explainDifference } from '../moving/differences.ts'
import type { ShadowMode } from '../programs/shadow-mode.ts'
import { cents, count, currency, id, success, text, time } from '../response-fields.ts'
import { dateParameter, dateRange, toNotBeforeFrom } from './date-range.ts'
import { cursorIn, cursorOf, idIn, listParameters, listQuery, listResponse, oneOf } from './lists.ts'
import { answered, body, type Operation } from './operation.ts'

const dayMs = 24 * 60 * 60 * 1000

const defaultDays = 30
const period = { from: dateRange.dateFrom, to: dateRange.dateTo }
interface PeriodQuery {
  from?: Date | undefined
  to?: Date | undefined
}

/** Returns the period of a query, including the day `to`. The default is the last 30 days. */
export function periodOf({ from, to }: PeriodQuery): Period {
  const until = to === undefined ? new Date() : new Date(to.getTime() + 1)
  return { from: from ?? new Date(until.getTime() - defaultDays * dayMs), until }
}

const notTooLong = z.refine<PeriodQuery>(
  (query) => {
    const { from, until } = periodOf(query)
    return until.getTime() - from.getTime() <= maxComparedDays * dayMs
  },
  { path: ['to'], error: `must be at most ${maxComparedDays} days after from` },
)

const partnerCursor = cursorIn(([gap = '', partner = '', code = '', ...more]): PartnerPosition | undefined =>
  /^\d{1,15}$/.test(gap) && /^\d{1,15}$/.test(partner) && /^[a-z]{3}$/.test(code) && more.length === 0
    ? { gapCents: Number(gap), partnerId: Number(partner), currency: code }
    : undefined,
)
const differenceCursor = cursorIn(([at = '', key = '', ...more]): DifferencePosition | undefined =>
  /^\d{1,16}$/.test(at) && /^[a-z]+:\d{1,15}$/.test(key) && more.length === 0
    ? { atMicroseconds: Number(at), key }
    : undefined,
)

export const comparisonQuery = z
  .extend(listQuery(period), { cursor: z.optional(partnerCursor) })
  .check(toNotBeforeFrom, notTooLong)
export const differencesQuery = z
  .extend(listQuery({ ...period, partner_id: z.optional(idIn()), reason: z.optional(oneOf(differenceReasons)) }), {
    cursor: z.optional(differenceCursor),
  })
  .check(toNotBeforeFrom, notTooLong)

export function partnerCursorOf(row: ComparedPartner): string {
  const { gapCents, partnerId, currency: code } = partnerPosition(row)
  return cursorOf(gapCents, partnerId, code)
}

export const differenceCursorOf = ({ at_us: at, key }: Difference) => cursorOf(at, key)

const maxRows = 500
const idText = (most: number) => z.string().check(z.minLength(1), z.maxLength(most))
const aCents = `must be an integer from ${-maxAmountCents} to ${maxAmountCents}`
const someCents = (minimum: number) => z.int(aCents).check(z.gte(minimum, aCents), z.lte(maxAmountCents, aCents))

const formerCommission = z
  .strictObject({
    id: idText(200),
    partner: z.optional(idText(320)),
    partner_id: z.optional(z.int().check(z.positive())),
    customer_key: z.optional(idText(255)),
    amount_cents: someCents(-maxAmountCents),
    currency: z.string().check(z.toLowerCase(), z.refine(isCurrency, 'must be a three-letter ISO 4217 currency code')),
    status: oneOf(['pending', 'approved', 'paid', 'rejected']),
    sale_cents: z.optional(someCents(0)),
    payment_id: z.optional(idText(255)),
    earned_at: z.iso.datetime({ offset: true, error: 'must be an ISO 8601 time, for example 2026-01-31T12:00:00Z' }),
  })
  .check(
    z.refine(({ partner, partner_id: known }) => (partner === undefined) !== (known === undefined), {
      path: ['partner'],
      error: 'must be given, or else partner_id',
    }),
  )

/** Body of POST /api/v1/shadow-mode/commissions. */
export const formerCommissions = z.strictObject({
  commissions: z.array(formerCommission).check(
    z.minLength(1, 'must have at least one commission'),
    z.maxLength(maxRows, `must have at most ${maxRows} commissions`),
    z.refine((all) => new Set(all.map(({ id: one }) => one)).size === all.length, 'must have different ids'),
  ),
})

/** Renders the state of shadow mode. */
export function asShadowMode({ shadow_since: since, shadow_ended_at: ended, ...state }: ShadowMode) {
  return { ...state, since: since && since.toISOString(), ended_at: ended && ended.toISOString() }
}

/** Renders a difference with its reasons in words. */
export function asDifference(difference: Difference) {
  const { former_external_id: formerId, former_partner_id: formerPartner, former_currency: formerCurrency } = difference
  const { currency: code, partner_id: partner, state } = difference
  return {
    at: timeOf(difference).toISOString(),
    reasons: explainDifference(difference),
    there:
      formerPartner === null || formerCurrency === null
        ? null
        : {
            id: formerId,
            partner_id: formerPartner,
            partner_name: difference.former_partner_name,
            payment_id: difference.former_payment_id,
            currency: formerCurrency,
            sale_cents: difference.former_sale_cents,
            amount_cents: difference.former_cents ?? 0,
            pays_cents: difference.former_pays_cents ?? 0,
          },
    here:
      state === null || code === null
        ? null
        : {
            state,
            transaction_id: difference.transaction_id,
            commission_id: difference.commission_id,
            partner_id: partner,
            partner_name: difference.partner_name,
            currency: code,
            sale_cents: difference.sale_cents,
            base_cents: difference.base_cents,
            amount_cents: difference.cents ?? 0,
            pays_cents: difference.pays_cents ?? 0,
          },
  }
}

const sums = () => z.array(z.object({ currency: currency(), commissions: count(), amount_cents: cents() }))
const shadowMode = () =>
  z.object({
    success: success(),
    in_shadow_mode: z.boolean(),
    since: z.nullable(time()),
    ended_at: z.nullable(time()),
    can_enter: z.boolean(),
    never_credited: sums(),
    to_credit: sums(),
  })
const partnerSums = () =>
  z.object({
    partner_id: id(),
    partner_name: z.string(),
    currency: currency(),
    former_commissions: count(),
    former_cents: z.int(),
    commissions: count(),
    cents: cents(),
    differences: count(),
  })
const side = {
  partner_name: text(),
  currency: currency(),
  sale_cents: z.nullable(cents()),
  amount_cents: z.int(),
  pays_cents: z.int(),
}
const difference = () =>
  z.object({
    at: time(),
    reasons: z.array(z.object({ code: z.enum(differenceReasons), text: z.string() })),
    there: z.nullable(z.object({ id: text(), partner_id: id(), payment_id: text(), ...side })),
    here: z.nullable(
      z.object({
        state: z.string(),
        transaction_id: text(),
        commission_id: z.nullable(id()),
        partner_id: z.nullable(id()),
        base_cents: z.nullable(cents()),
        ...side,
      }),
    ),
  })

const exampleMode = {
  in_shadow_mode: true,
  since: '2026-01-01T12:00:00.000Z',
  ended_at: null,
  can_enter: true,
  never_credited: [{ currency: 'usd', commissions: 1, amount_cents: 980 }],
  to_credit: [],
}
const exampleSums = {
  partner_id: 1,
  partner_name: 'Ada Lovelace',
  currency: 'usd',
  former_commissions: 1,
  former_cents: 1470,
  commissions: 1,
  cents: 980,
  differences: 1,
}
const exampleDifference = {
  at: '2026-01-01T12:05:00.000Z',
  reasons: [{ code: 'other_rate' as const, text: 'Another rate: 30% there, 20% here.' }],
  there: {
    id: 'api:1',
    partner_id: 1,
    partner_name: 'Ada Lovelace',
    payment_id: 'order-1001',
    currency: 'usd',
    sale_cents: 4900,
    amount_cents: 1470,
    pays_cents: 1470,
  },
  here: {
    state: 'earned',
    transaction_id: 'order-1001',
    commission_id: 1,
    partner_id: 1,
    partner_name: 'Ada Lovelace',
    currency: 'usd',
    sale_cents: 4900,
    base_cents: 4900,
    amount_cents: 980,
    pays_cents: 980,
  },
}
const exampleRow = {
  id: '1',
  partner: 'ada@example.com',
  amount_cents: 1470,
  currency: 'usd',
  status: 'approved',
  sale_cents: 4900,
  payment_id: 'order-1001',
  earned_at: '2026-01-01T12:05:00Z',
}

const path = '/api/v1/shadow-mode'
const key = { auth: 'key' as const }
const mode = {
  ...key,
  success: {
    schemas: [shadowMode()],
    description: 'The state.',
    fields: {
      can_enter: 'Whether the program can enter shadow mode: it has no payout yet.',
      never_credited: 'Shadow-mode commissions by currency, after reversals. They are never credited.',
      to_credit:
        'The other open commissions. They are credited when their hold ends, after the program has left shadow mode.',
    },
  },
}
const periodFields = {
  from: {
    description: `The first day or time of the period (ISO 8601). Default: ${defaultDays} days before \`to\`.`,
    ...dateParameter,
  },
  to: {
    description: `The last day or time, inclusive, at most ${maxComparedDays} days later. Default: now.`,
    ...dateParameter,
  },
}

/** Describes shadow mode for the reference. */
export const shadowModeOperations = (): Operation[] => [
  {
    ...mode,
    id: 'getShadowMode',
    method: 'get',
    path,
    summary: 'Read shadow mode',
    description:
      'Whether the program runs side by side with its former service: it computes everything and credits nothing.',
    scope: 'read',
    examples: [answered('on', 'It is in shadow mode', exampleMode)],
  },
  {
    ...mode,
    id: 'enterShadowMode',
    method: 'post',
    path: `${path}/enter`,
    summary: 'Enter shadow mode',
    description:
      'From now on, commissions are computed and never credited, nothing is paid, and partners neither see it nor get notifications. Returns `conflict` if the program already has a payout. Entering again has no effect.',
    scope: 'manage',
    errors: ['conflict'],
    examples: [answered('entered', 'It is in shadow mode', exampleMode)],
  },
  {
    ...mode,
    id: 'leaveShadowMode',
    method: 'post',
    path: `${path}/leave`,
    summary: 'Leave shadow mode',
    description:
      'Commissions of later sales and leads are credited. Those of shadow mode are never credited, because the former service pays them. Leaving again changes nothing.',
    scope: 'manage',
    examples: [
      answered('left', 'The program credits again', {
        ...exampleMode,
        in_shadow_mode: false,
        ended_at: '2026-01-31T12:00:00.000Z',
      }),
    ],
  },
  {
    ...key,
    id: 'compareCommissions',
    method: 'get',
    path: `${path}/comparison`,
    summary: 'Compare commissions by partner',
    description:
      'The sums that the former service and this program would pay each partner for a period, with the largest difference first. Import the commissions of the former service first, or send them.',
    scope: 'read',
    parameters: [listParameters(comparisonQuery, periodFields)],
    success: {
      schemas: [listResponse(partnerSums())],
      description: 'A page of partners, a row for each currency.',
      fields: {
        former_cents: 'The sum that the former service would pay, without rejected commissions.',
        cents: 'The sum that this program would pay, after reversals and without held commissions.',
        differences: 'The number of sales that differ.',
      },
    },
    examples: [answered('page', 'One partner', { data: [exampleSums], next_cursor: null })],
  },
  {
    ...key,
    id: 'listDifferences',
    method: 'get',
    path: `${path}/differences`,
    summary: 'List differences',
    description: 'The sales of a period for which the two sides pay differently, newest first, with the reasons.',
    scope: 'read',
    parameters: [
      listParameters(differencesQuery, {
        ...periodFields,
        partner_id: 'Only differences for this partner, on either side.',
        reason: 'Only differences with this reason.',
      }),
    ],
    success: {
      schemas: [listResponse(difference())],
      description: 'A page of differences.',
      fields: {
        reasons: 'A stable code and a sentence for each reason.',
        there: 'The commission of the former service. Null if it has none.',
        here: 'The sale here. Null if the program has none.',
        pays_cents: 'The amount to pay: after reversals, and 0 if it is held or rejected.',
        state:
          '`earned`, `refunded`, `held`, `rejected`, `test`, `unattributed`, `click_expired`, `after_duration`, `capped` or `no_commission`.',
      },
    },
    examples: [answered('page', 'Another rate', { data: [exampleDifference], next_cursor: null })],
  },
  {
    ...key,
    id: 'storeFormerCommissions',
    method: 'post',
    path: `${path}/commissions`,
    summary: 'Send commissions of the former service',
    description:
      'Stores up to 500 commissions of the former service for the comparison, for example from its webhook. They are read-only history and count in no balance. A commission with a known `id` is replaced, so repeating is safe.',
    scope: 'manage',
    body: body(formerCommissions, {
      commissions:
        'Each with its `id` in the former service, `amount_cents`, `currency`, `status` and `earned_at`, the time of the sale. A `rejected` one pays nothing. `partner` is an `external_id`, an e-mail address or a link code. You can send `partner_id` instead. `payment_id`, the processor’s id or the transaction id, finds the sale, or else `customer_key` does. `sale_cents` is the amount that the commission was computed from.',
    }),
    success: {
      schemas: [z.object({ success: success(), stored: count() })],
      description: 'The number of stored commissions.',
    },
    errors: ['not_found'],
    examples: [answered('stored', 'One commission', { stored: 1 }, { commissions: [exampleRow] })],
  },
]
