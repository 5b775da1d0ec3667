import * as z from 'zod/mini'
import type { JsonValue } from '../schema.ts'

/** Describes how close a partner's unsettled money is to payment. */
const words = {
  open_payout: 'an open payout',
  balance: 'a balance',
  pending_commission: 'a pending commission',
}

const unsettled = z.array(
  z.object({
    partner: z.string(),
    program: z.string(),
    state: z.enum(['open_payout', 'balance', 'pending_commission']),
  }),
)

/** Reads the unsettled partners that prevent a deletion. */
export const readUnsettled = (found: JsonValue | undefined = []) =>
  unsettled.parse(found).map(({ state, ...names }) => ({ ...names, money: words[state] }))
