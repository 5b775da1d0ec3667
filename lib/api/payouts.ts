import * as z from 'zod/mini'
import type { PayoutLine } from '../money/payout-lines.ts'
import { transferDay, type Payout, payoutSorts, payoutStatuses } from '../money/payouts.ts'
import { fromTo, fromToFields, toNotBeforeFrom, updatedSince, updatedSinceField } from './date-range.ts'
import { idIn, idParameter, listQuery, oneOf } from './lists.ts'
import { answered, body, type Operation } from './operation.ts'
import { noteField } from './request-fields.ts'
import { resource } from './resource.ts'
import { cents, currency, day, id, text, time } from '../response-fields.ts'

export const payoutsQuery = listQuery({
  status: z.optional(oneOf(payoutStatuses)),
  partner_id: z.optional(idIn()),
  payout_run_id: z.optional(idIn()),
  sort: z.optional(oneOf(payoutSorts)),
  ...fromTo,
  ...updatedSince,
}).check(toNotBeforeFrom)

export const payoutLinesQuery = listQuery({})

export const payoutPath = z.object({ payout_id: idIn() })

const aDay = 'must be a day, such as 2026-01-31'
const needed = 'must be given with this status, and only then'

/** Body of PATCH /api/v1/payouts/{payout_id}. */
export const payoutDecision = z
  .strictObject({
    status: oneOf(['paid', 'refused', 'returned', 'failed']),
    amount_cents: z.optional(z.int().check(z.positive())),
    reference: z.optional(z.string().check(z.trim(), z.minLength(1), z.maxLength(200))),
    paid_on: z.optional(
      z.iso
        .date(aDay)
        .check(z.refine((typed) => transferDay(typed) !== null, 'must be a day that has begun, from 2000 on')),
    ),
    reason: z.optional(noteField()),
  })
  .check((context) => {
    const { status, reason, ...transfer } = context.value
    const wanted = {
      ...transfer,
      amount_cents: transfer.amount_cents,
      reference: transfer.reference,
      paid_on: transfer.paid_on,
    }
    for (const [name, value] of Object.entries({ ...wanted, reason })) {
      if ((value !== undefined) !== (name === 'reason' ? status !== 'paid' : status === 'paid')) {
        context.issues.push({ code: 'custom', path: [name], message: needed, input: value })
      }
    }
  })

/** Returns the transfer or the reason in an accepted body. */
export function asDecision({ status, amount_cents, reference, paid_on, reason }: z.output<typeof payoutDecision>) {
  if (reason !== undefined && status !== 'paid') return { status, reason }
  if (amount_cents === undefined || reference === undefined || paid_on === undefined) throw new Error(needed)
  return { amount_cents, transfer: { reference, paid_on: new Date(`${paid_on}T00:00:00Z`) } }
}

/** Renders a payout. */
export function asPayout(payout: Payout) {
  const { program_id: _, program_name: _program, partner_name: _partner, payout_email: address, ...rest } = payout
  const {
    payout_address,
    paid_on,
    provider_outcome: _outcome,
    provider_reason: _reason,
    claim_until: _day,
    ...shown
  } = rest
  return { ...shown, payout_address: payout_address ?? address, paid_on: paid_on && paid_on.toISOString().slice(0, 10) }
}

/** Renders a line of a payout. */
export function asPayoutLine(line: PayoutLine) {
  const { program_id: _, payout_id: _payout, payout_run_id: _run, partner_id: _partner, ...rest } = line
  const { partner_name: _name, currency: _currency, ...shown } = rest
  return shown
}

const payoutLine = () =>
  z.object({
    id: id(),
    cause: z.string(),
    commission_id: z.nullable(id()),
    transaction_id: text(),
    refund_id: z.nullable(id()),
    adjustment_id: z.nullable(id()),
    note: text(),
    amount_cents: z.int(),
    entry_cents: z.int(),
    is_returned: z.boolean(),
    created_at: time(),
  })

const payout = () =>
  z.object({
    id: id(),
    partner_id: id(),
    currency: currency(),
    requested_cents: cents(),
    amount_cents: cents(),
    status: z.enum(payoutStatuses),
    reason: text(),
    payout_run_id: z.nullable(id()),
    payout_address: text(),
    payout_waits_until: z.nullable(time()),
    reference: text(),
    paid_on: z.nullable(day()),
    created_at: time(),
    updated_at: time(),
    decided_at: z.nullable(time()),
  })

const example = {
  id: 1,
  partner_id: 1,
  currency: 'usd',
  requested_cents: 580,
  amount_cents: 580,
  status: 'in_run',
  reason: null,
  payout_run_id: 1,
  payout_address: 'nora@example.com',
  payout_waits_until: null,
  reference: null,
  paid_on: null,
  created_at: '2026-01-31T12:00:00.000Z',
  updated_at: '2026-01-31T12:00:00.000Z',
  decided_at: null,
}
const fields = {
  status:
    '`requested` by the partner, or `in_run`; `sent` once it is in a payment file or with a provider, after which its amount and address are fixed. `unclaimed` while a provider waits for the partner to claim it.',
  amount_cents: 'The current amount. Reversals can reduce it below `requested_cents`.',
  payout_run_id: 'The run of the payout; null if the partner requested it.',
  payout_waits_until: 'The partner changed the payout address, and no run uses it before this time.',
}

const inPath = idParameter('payout_id', 'Id of the payout.')

const lines = resource({
  path: '/api/v1/payouts/{payout_id}/lines',
  name: 'line',
  plural: 'lines',
  item: payoutLine(),
  fields: {
    cause: 'The kind of the balance entry, such as `commission_credited`, `commission_reversed` or `adjusted`.',
    amount_cents: 'The part of the entry that this payout pays. Negative for a deduction.',
    entry_cents: 'The whole entry.',
    is_returned: 'Whether this payment was returned. If so, another payout pays the entry.',
    created_at: 'When the entry was posted to the balance.',
  },
  example: {
    id: 1,
    cause: 'commission_credited',
    commission_id: 1,
    transaction_id: 'order-1001',
    refund_id: null,
    adjustment_id: null,
    note: null,
    amount_cents: 580,
    entry_cents: 580,
    is_returned: false,
    created_at: '2026-01-31T11:00:00.000Z',
  },
})

/** Describes payouts for the reference. */
export function payoutOperations(): Operation[] {
  const today = new Date().toISOString().slice(0, 10)
  const { list, get, change } = resource({
    path: '/api/v1/payouts',
    name: 'payout',
    plural: 'payouts',
    item: payout(),
    fields,
    example,
    inPath,
  })
  return [
    list({
      id: 'listPayouts',
      summary: 'List payouts',
      description: 'Payouts that partners requested or payout runs created, newest first.',
      query: payoutsQuery,
      filters: {
        status: 'Only payouts in this state.',
        partner_id: 'Only payouts to this partner.',
        payout_run_id: 'Only payouts of this run.',
        sort: '`newest` first (default), or largest `amount` first.',
        ...fromToFields('payouts'),
        ...updatedSinceField('payouts'),
      },
    }),
    get({ id: 'getPayout', summary: 'Read a payout', description: 'One payout of the program.' }),
    lines.list({
      id: 'listPayoutLines',
      summary: 'List the lines of a payout',
      description:
        'The commissions, reversals and manual adjustments that a paid payout pays, newest first. Their amounts add up to the payout’s amount. A commission can be paid in parts by several payouts.',
      query: payoutLinesQuery,
      parameters: [inPath],
      errors: ['not_found'],
    }),
    change({
      id: 'decidePayout',
      summary: 'Record a payout as paid, refused, returned or failed',
      description:
        '`paid` deducts the payout from the partner’s balance and notifies them. `refused` makes the amount of an unsent payout payable again, even in a run. `returned` and `failed` do the same for a sent or paid payout. If it was paid, a new entry adds the amount back to the balance. Each of the three notifies the partner with the reason. Repeating a decision changes nothing. Returns `conflict` if it was decided differently, or if its amount is not the transferred amount.',
      body: body(payoutDecision, {
        status: 'The decision: `paid`, `refused`, `returned` or `failed`.',
        amount_cents: 'With `paid`: the transferred amount. It must match the amount of the payout.',
        reference: 'With `paid`: the bank’s or PayPal’s reference for the transfer.',
        paid_on: 'With `paid`: the day of the transfer, not before the month in which the payout was created.',
        reason: 'With `refused`, `returned` and `failed`: the reason. The partner sees it.',
      }),
      errors: ['conflict'],
      examples: [
        answered(
          'paid',
          'A completed transfer',
          {
            payout: {
              ...example,
              status: 'paid',
              reference: 'transfer 17',
              paid_on: today,
              decided_at: '2026-01-31T13:00:00.000Z',
            },
          },
          { status: 'paid', amount_cents: 580, reference: 'transfer 17', paid_on: today },
        ),
      ],
    }),
  ]
}
