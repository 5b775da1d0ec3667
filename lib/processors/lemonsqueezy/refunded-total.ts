import * as z from 'zod/mini'
import { amount } from '../payload.ts'

/** The fields of an order or an invoice that report its refunds. */
export const refundFields = {
  total: amount,
  status: z.nullish(z.string()),
  refunded: z.nullish(z.boolean()),
  refunded_amount: z.nullish(amount),
}

interface Refunded {
  total: number
  status?: string | null | undefined
  refunded?: boolean | null | undefined
  refunded_amount?: number | null | undefined
}

/** Returns the total of all refunds. Older payloads only say that everything was refunded. A fraudulent order counts as fully refunded. */
export function refundedTotalOf({ total, status, refunded, refunded_amount: sum }: Refunded): number {
  if (status === 'fraudulent') return total
  return sum || (refunded === true ? total : 0)
}
