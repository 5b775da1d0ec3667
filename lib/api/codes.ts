import * as z from 'zod/mini'
import type { Created } from '../idempotency.ts'
import { maxAmountCents } from '../money.ts'
import { codeText, type PartnerCode } from '../programs/codes.ts'
import { filterText, idIn, idParameter, listQuery, oneOf } from './lists.ts'
import { answered, answeredCreated, body, type Operation } from './operation.ts'
import { positiveInteger } from './request-fields.ts'
import { resource } from './resource.ts'
import { id, text, time } from '../response-fields.ts'

const states = ['active', 'revoked'] as const

export const codesQuery = listQuery({
  partner_id: z.optional(idIn()),
  code: filterText(),
  status: z.optional(oneOf(states)),
})
export const codePath = z.object({ code_id: idIn() })

const whole = (minimum: number, maximum: number, message: string) =>
  z.int(message).check(z.gte(minimum, message), z.lte(maximum, message))

const discount = z.strictObject({
  percent_off: z.optional(z.number().check(z.gt(0, 'must be above 0'), z.lte(100, 'must be at most 100'))),
  amount_off_cents: z.optional(whole(1, maxAmountCents, `must be an integer from 1 to ${maxAmountCents}`)),
  duration: oneOf(['once', 'repeating', 'forever']),
  duration_in_months: z.optional(whole(1, 1200, 'must be 1 to 1200 months')),
})

const stripe = z.union([
  z.strictObject({
    promotion_code_id: z.string().check(z.regex(/^promo_\w{1,250}$/, 'must be the id of a promotion code, promo_…')),
  }),
  z.strictObject({ coupon_id: z.string().check(z.regex(/^[\w-]{1,200}$/, 'must be the id of a coupon')) }),
  discount.check(
    z.refine(
      ({ percent_off: percent, amount_off_cents: amount }) => (percent === undefined) !== (amount === undefined),
      {
        path: ['percent_off'],
        error: 'or amount_off_cents must be given, but not both',
      },
    ),
    z.refine(({ duration, duration_in_months: months }) => (duration === 'repeating') === (months !== undefined), {
      path: ['duration_in_months'],
      error: 'must be given with the duration `repeating`, and only then',
    }),
  ),
])

/** Body of POST /api/v1/codes. */
export const newCode = z
  .strictObject({
    partner_id: positiveInteger('must be the id of a partner'),
    code: z.optional(codeText),
    stripe: z.optional(stripe),
  })
  .check(
    z.refine(({ code, stripe: of }) => (code === undefined) === (of !== undefined && 'promotion_code_id' in of), {
      path: ['code'],
      error: 'must be given, unless promotion_code_id is',
    }),
    z.refine(({ code, stripe: of }) => code === undefined || of === undefined || /^[A-Za-z0-9-]+$/.test(code), {
      path: ['code'],
      error: "must only have letters, digits and -, because Stripe doesn't accept other characters",
    }),
  )

/** Renders a code: a new row, or the stored result of a repeated request. */
export function asCode(code: PartnerCode | Created<PartnerCode>) {
  return {
    id: code.id,
    code: code.code,
    partner_id: code.partner_id,
    status: code.revoked_at === null ? ('active' as const) : ('revoked' as const),
    promotion_code_id: code.promotion_code_id,
    created_at: new Date(code.created_at).toISOString(),
    revoked_at: code.revoked_at === null ? null : new Date(code.revoked_at).toISOString(),
  }
}

const code = () =>
  z.object({
    id: id(),
    code: z.string(),
    partner_id: id(),
    status: z.enum(states),
    promotion_code_id: text(),
    created_at: time(),
    revoked_at: z.nullable(time()),
  })

const example = {
  id: 1,
  code: 'JANE20',
  partner_id: 1,
  status: 'active',
  promotion_code_id: null,
  created_at: '2026-01-01T12:00:00.000Z',
  revoked_at: null,
}
const fields = {
  promotion_code_id: 'The promotion code in Stripe, or null if the code is not in Stripe.',
  status: 'A `revoked` code does not attribute any later sales.',
}

/** Describes partners' codes for the reference. */
export function codeOperations(): Operation[] {
  const { create, list, get, change } = resource({
    path: '/api/v1/codes',
    name: 'code',
    plural: 'codes',
    item: code(),
    fields,
    example,
    inPath: idParameter('code_id', 'Id of the code.'),
  })
  return [
    create({
      id: 'createCode',
      summary: 'Add a code',
      description:
        'Gives a partner a code. The partner gets every sale with this `coupon`, and every Stripe payment with its promotion code. A code stays with its partner forever, so the response is `conflict` if another partner has or had it. Adding a partner’s own revoked code again makes it active. `not_found` if the program has no such partner. `stripe` also creates the code in Stripe, if the connection allows it. Otherwise the response is `conflict`, with Stripe’s reason.',
      body: body(newCode, {
        partner_id: 'The partner.',
        code: '1 to 64 characters without spaces; case does not matter. Omit it if you send `promotion_code_id`.',
        stripe:
          "Omit it if the code is not in Stripe. Otherwise one of: `promotion_code_id` of an existing promotion code in the connected account; `coupon_id` of an existing coupon; or a new coupon, by `percent_off` or `amount_off_cents` in the program's currency. For subscriptions its `duration` says which payments get the discount: `once` the first, `repeating` those within `duration_in_months`, `forever` all.",
      }),
      errors: ['not_found', 'conflict'],
      examples: [answeredCreated('created', 'Your own code', { code: example }, { partner_id: 1, code: 'JANE20' })],
    }),
    list({
      id: 'listCodes',
      summary: 'List codes',
      description: 'The codes of the program’s partners, newest first.',
      query: codesQuery,
      filters: {
        partner_id: 'Only codes of this partner.',
        code: 'Only this code; case does not matter.',
        status: 'Only codes in this state.',
      },
    }),
    get({ id: 'getCode', summary: 'Read a code', description: 'One code.' }),
    change({
      id: 'revokeCode',
      method: 'delete',
      summary: 'Revoke a code',
      description:
        'Revokes a code and deactivates its promotion code in Stripe. Its earlier sales stay with the partner, and so do later sales to the same customers. Repeating the call has no effect.',
      errors: ['conflict'],
      examples: [
        answered('revoked', 'It was revoked', {
          code: { ...example, status: 'revoked', revoked_at: '2026-02-01T12:00:00.000Z' },
        }),
      ],
    }),
  ]
}
