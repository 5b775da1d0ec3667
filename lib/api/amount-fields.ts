import * as z from 'zod/mini'
import { maxAmountCents } from '../money.ts'
import { aPositiveInteger } from './request-fields.ts'

const anIntegerFromZero = 'must be 0 or a positive integer'
const atMost = `must be at most ${maxAmountCents}`

/** An amount in the minor unit of its currency. */
export const amount = () =>
  z.int(aPositiveInteger).check(z.positive(aPositiveInteger), z.maximum(maxAmountCents, atMost))

/** An amount that can also be 0. */
export const amountOrZero = () =>
  z.int(anIntegerFromZero).check(z.nonnegative(anIntegerFromZero), z.maximum(maxAmountCents, atMost))
