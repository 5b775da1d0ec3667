import * as z from 'zod/mini'
import { commissionReason } from '../commission-reasons.ts'
import { commissionStatuses, type ListedCommission } from '../money/commission-list.ts'
import { type Payout, payoutStatuses } from '../money/payouts.ts'
import { linkAddress, type ListedLink, linkStates } from '../programs/links.ts'
import { campaignDays, partnerBreakdowns } from '../tracking/partner-campaigns.ts'
import { cents, count, currency, day, id, success, text, time } from '../response-fields.ts'
import { fromTo, fromToFields, toNotBeforeFrom, updatedSince, updatedSinceField } from './date-range.ts'
import { type FilterTexts, listParameters, listQuery, listResponse, oneOf } from './lists.ts'
import { answered, type Operation } from './operation.ts'

export const ownLinksQuery = listQuery({ status: z.optional(oneOf(linkStates)) })
export const ownCommissionsQuery = listQuery({
  status: z.optional(oneOf(commissionStatuses)),
  ...fromTo,
  ...updatedSince,
}).check(toNotBeforeFrom)
export const ownPayoutsQuery = listQuery({
  status: z.optional(oneOf(payoutStatuses)),
  ...fromTo,
  ...updatedSince,
}).check(toNotBeforeFrom)

/** The allowed numbers of days, as query strings. */
const dayTexts = ['7', '30', '90'] as const
export const ownPerformanceQuery = z.strictObject({
  days: z.pipe(
    z.prefault(oneOf(dayTexts), '30'),
    z.transform((days) => campaignDays[dayTexts.indexOf(days)] ?? 30),
  ),
  currency: z.optional(z.string().check(z.regex(/^[a-z]{3}$/, 'must be three lower-case letters, for example usd'))),
})

/** Renders a link for its partner, without the program's own ids and data. */
export function asOwnLink(link: ListedLink) {
  return {
    id: link.id,
    code: link.code,
    url: linkAddress(link.domain, link.code, link.page_url),
    page_url: link.page_url,
    status: link.is_active ? 'active' : 'inactive',
    clicks: link.clicks,
    created_at: link.created_at,
  }
}

/** Renders a commission for its partner. Nothing identifies the buyer, and the reasons for a review stay with the program. */
export function asOwnCommission(commission: ListedCommission) {
  return {
    id: commission.id,
    kind: commission.kind,
    status: commission.status,
    currency: commission.currency,
    amount_cents: commission.amount_cents,
    reversed_cents: commission.reversed_cents,
    reason: commissionReason(commission.reason),
    transaction_id: commission.transaction_id,
    sale_cents: commission.sale_cents,
    is_held: commission.held_at !== null,
    hold_until: commission.hold_until,
    payout_id: commission.payout_id,
    created_at: commission.created_at,
    updated_at: commission.updated_at,
  }
}

/** Renders a payout for its partner, without the address. */
export function asOwnPayout(payout: Payout) {
  return {
    id: payout.id,
    currency: payout.currency,
    requested_cents: payout.requested_cents,
    amount_cents: payout.amount_cents,
    status: payout.status,
    reason: payout.reason,
    reference: payout.reference,
    paid_on: payout.paid_on && payout.paid_on.toISOString().slice(0, 10),
    created_at: payout.created_at,
    updated_at: payout.updated_at,
  }
}

const link = () =>
  z.object({
    id: id(),
    code: z.string(),
    url: z.string(),
    page_url: text(),
    status: z.enum(linkStates),
    clicks: count(),
    created_at: time(),
  })
const commission = () =>
  z.object({
    id: id(),
    kind: z.enum(['sale', 'lead']),
    status: z.enum(commissionStatuses),
    currency: currency(),
    amount_cents: cents(),
    reversed_cents: cents(),
    reason: text(),
    transaction_id: text(),
    sale_cents: z.nullable(cents()),
    is_held: z.boolean(),
    hold_until: time(),
    payout_id: z.nullable(id()),
    created_at: time(),
    updated_at: time(),
  })
const payout = () =>
  z.object({
    id: id(),
    currency: currency(),
    requested_cents: cents(),
    amount_cents: cents(),
    status: z.enum(payoutStatuses),
    reason: text(),
    reference: text(),
    paid_on: z.nullable(day()),
    created_at: time(),
    updated_at: time(),
  })
const figures = () => ({ clicks: count(), leads: count(), sales: count(), commission_cents: z.int() })
const performance = () =>
  z.object({
    success: success(),
    days: z.int(),
    currency: currency(),
    total: z.object(figures()),
    data: z.array(
      z.object({
        group_by: z.enum(partnerBreakdowns),
        values: z.array(z.object({ value: text(), label: text(), ...figures() })),
      }),
    ),
  })

const at = '2026-01-01T12:05:00.000Z'
const figuresExample = { clicks: 120, leads: 12, sales: 3, commission_cents: 2940 }

interface OwnList {
  id: string
  noun: string
  item: z.ZodMiniType
  example: object
  query: z.ZodMiniType
  filters: FilterTexts
  fields?: Record<string, string>
}

const list = ({ id: name, noun, item, example, query, filters, fields = {} }: OwnList): Operation => ({
  id: name,
  method: 'get',
  path: `/api/v1/partner/${noun}`,
  auth: 'partner key',
  summary: `List your own ${noun}`,
  description: `For partners: your ${noun} in the program of the key, newest first. You create the key in the portal under **Postbacks**.`,
  parameters: [listParameters(query, filters)],
  success: { schemas: [listResponse(item)], description: `A page of ${noun}.`, fields },
  examples: [answered('page', `Your newest ${noun}`, { data: [example], next_cursor: null })],
})

/** Describes a partner's read operations for the API reference. */
export function partnerDataOperations(): Operation[] {
  return [
    list({
      id: 'listOwnLinks',
      noun: 'links',
      item: link(),
      query: ownLinksQuery,
      filters: { status: 'Only links in this state.' },
      fields: { clicks: 'Updated within a minute, without test clicks and bots.' },
      example: {
        id: 2,
        code: 'nora',
        url: 'https://shop.example.com/?aff=nora',
        page_url: null,
        status: 'active',
        clicks: 120,
        created_at: at,
      },
    }),
    {
      id: 'ownPerformance',
      method: 'get',
      path: '/api/v1/partner/performance',
      auth: 'partner key',
      summary: 'Read your own performance',
      description:
        'For partners: your figures for the last `days` days (UTC), in total and by link, sub-id and campaign. Each group has up to 20 values, largest commission first.',
      parameters: [
        {
          in: 'query',
          schema: ownPerformanceQuery,
          fields: {
            days: {
              description: 'The number of days including today.',
              values: { type: 'integer', enum: [7, 30, 90], default: 30 },
            },
            currency: {
              description: 'The currency of the commission. Default: the program’s currency.',
              values: { type: 'string' },
            },
          },
        },
      ],
      success: {
        schemas: [performance()],
        description: 'The figures.',
        fields: {
          value: 'The id of a link as text, or the value of a parameter. Null for clicks without a value.',
          commission_cents: 'Commissions after reversals.',
        },
      },
      examples: [
        answered('links', 'A month by link', {
          days: 30,
          currency: 'usd',
          total: figuresExample,
          data: [{ group_by: 'link', values: [{ value: '2', label: 'nora', ...figuresExample }] }],
        }),
      ],
    },
    list({
      id: 'listOwnCommissions',
      noun: 'commissions',
      item: commission(),
      query: ownCommissionsQuery,
      filters: {
        status: 'Only commissions in this state.',
        ...fromToFields('commissions'),
        ...updatedSinceField('commissions'),
      },
      fields: { is_held: 'Whether the program reviews it first.' },
      example: {
        id: 1,
        kind: 'sale',
        status: 'pending',
        currency: 'usd',
        amount_cents: 980,
        reversed_cents: 0,
        reason: null,
        transaction_id: 'order-1001',
        sale_cents: 4900,
        is_held: false,
        hold_until: '2026-01-31T12:05:00.000Z',
        payout_id: null,
        created_at: at,
        updated_at: at,
      },
    }),
    list({
      id: 'listOwnPayouts',
      noun: 'payouts',
      item: payout(),
      query: ownPayoutsQuery,
      filters: { status: 'Only payouts in this state.', ...fromToFields('payouts'), ...updatedSinceField('payouts') },
      example: {
        id: 1,
        currency: 'usd',
        requested_cents: 980,
        amount_cents: 980,
        status: 'paid',
        reason: null,
        reference: 'SEPA 2026-02',
        paid_on: '2026-02-01',
        created_at: at,
        updated_at: at,
      },
    }),
  ]
}
