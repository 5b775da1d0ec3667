import * as z from 'zod/mini'
import { id } from '../response-fields.ts'

const error = z.object({
  code: z.string(),
  message: z.string(),
  details: z.optional(z.array(z.object({ field: z.string(), message: z.string() }))),
  sale_id: z.optional(id()),
  same_payload: z.optional(z.boolean()),
  attributed: z.optional(z.boolean()),
  commission_id: z.optional(z.nullable(id())),
})

/** The platform envelope. */
export const errorEnvelope = z.object({ success: z.literal(false), error })

/** The typed envelope (RFC 9457) of revoked API keys and rate limits. */
export const problemEnvelope = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  success: z.literal(false),
  error,
})
