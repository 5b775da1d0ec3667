import * as z from 'zod/mini'
import type { Created } from '../idempotency.ts'
import { type PayoutRun, payoutRunSorts, type readPayoutRun } from '../money/payout-runs.ts'
import { payoutStatuses } from '../money/payouts.ts'
import { idIn, idParameter, listQuery, oneOf } from './lists.ts'
import { answered, answeredCreated, type Operation, refused } from './operation.ts'
import { answerOf, resource } from './resource.ts'
import { cents, count, currency, day, id, text, time } from '../response-fields.ts'

export const payoutRunsQuery = listQuery({ sort: z.optional(oneOf(payoutRunSorts)) })
export const payoutRunPath = z.object({ payout_run_id: idIn() })

export const nobodyDue = 'No payouts are due: no partner’s payable amount reaches the program’s minimum payout.'

/** Renders a payout run: a new row, or the stored result of a repeated request. */
export function asPayoutRun({
  id: runId,
  reference,
  paid_on: paidOn,
  paid_at: paidAt,
  created_at,
  payment_count,
}: PayoutRun | Created<PayoutRun>) {
  return {
    id: runId,
    status: paidAt === null ? 'open' : 'paid',
    payouts: payment_count,
    reference,
    paid_on: paidOn && new Date(paidOn).toISOString().slice(0, 10),
    created_at: new Date(created_at).toISOString(),
  }
}

function unnamed<Row extends { partner_name: string }>(row: Row): Omit<Row, 'partner_name'> {
  const { partner_name: _, ...rest } = row
  return rest
}

/** Renders a payout run with its payouts and the excluded partners. */
export function asWholePayoutRun({ payouts, excluded, ...run }: Awaited<ReturnType<typeof readPayoutRun>>) {
  return {
    ...asPayoutRun({ ...run, payment_count: payouts.length }),
    payout_list: payouts.map(unnamed),
    excluded: excluded.map(unnamed),
  }
}

const run = () => ({
  id: id(),
  status: z.enum(['open', 'paid']),
  payouts: count(),
  reference: text(),
  paid_on: z.nullable(day()),
  created_at: time(),
})
const whole = () =>
  z.object({
    ...run(),
    payout_list: z.array(
      z.object({
        id: id(),
        partner_id: id(),
        payout_address: text(),
        amount_cents: cents(),
        requested_cents: cents(),
        currency: currency(),
        status: z.enum(payoutStatuses),
      }),
    ),
    excluded: z.array(
      z.object({
        partner_id: id(),
        currency: currency(),
        payable_cents: cents(),
        reason: z.enum(['below_minimum', 'no_payout_address', 'payout_address_changed', 'no_tax_form']),
      }),
    ),
  })

const example = {
  id: 1,
  status: 'open',
  payouts: 1,
  reference: null,
  paid_on: null,
  created_at: '2026-01-31T12:00:00.000Z',
}
const fields = {
  payouts: 'The number of payouts in the run.',
  excluded: 'Partners with a payable amount who were excluded from the run, with the reason.',
}

/** Describes payout runs for the reference. */
export function payoutRunOperations(): Operation[] {
  const { create, list, get } = resource({
    path: '/api/v1/payout-runs',
    name: 'payout_run',
    plural: 'payout runs',
    item: z.object(run()),
    fields,
    example,
    inPath: idParameter('payout_run_id', 'Id of the payout run.'),
  })
  return [
    create({
      id: 'createPayoutRun',
      summary: 'Create a payout run',
      description:
        'Creates one payout for each partner and currency with a payable amount of at least the program’s minimum. The program’s settings decide who is due, so the call has no fields. If nobody is due, it returns `conflict` and does not create a run.',
      errors: ['conflict'],
      examples: [
        answeredCreated('created', 'A run for all partners with a payout due', { payout_run: example }),
        refused('conflict', 'No payouts are due', { code: 'conflict', message: nobodyDue }),
      ],
    }),
    list({
      id: 'listPayoutRuns',
      summary: 'List payout runs',
      description: 'The payout runs of the program, newest first.',
      query: payoutRunsQuery,
      filters: { sort: '`newest` first (default), or most `payments` first.' },
    }),
    get({
      id: 'getPayoutRun',
      summary: 'Read a payout run',
      description: 'One payout run with its payouts and the excluded partners. Record each payout as paid separately.',
      success: { schemas: [answerOf('payout_run', whole())], description: 'The payout run.', fields },
      examples: [
        answered('run', 'A run with one payout', {
          payout_run: {
            ...example,
            payout_list: [
              {
                id: 1,
                partner_id: 1,
                payout_address: 'nora@example.com',
                amount_cents: 580,
                requested_cents: 580,
                currency: 'usd',
                status: 'in_run',
              },
            ],
            excluded: [],
          },
        }),
      ],
    }),
  ]
}
