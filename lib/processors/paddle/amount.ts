import * as z from 'zod/mini'

/** An amount in Paddle's format: a text with an integer in the currency's smallest unit. Prorated items can be negative. */
export const paddleAmount = z.pipe(
  z.string().check(z.regex(/^-?\d{1,15}$/)),
  z.transform((text) => Number(text)),
)
