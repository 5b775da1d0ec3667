import * as z from 'zod/mini'

/** Optional text of at most `length` characters. */
export function text(length: number) {
  return z.nullish(z.string().check(z.maxLength(length)))
}

export const url = () => text(8192)

export const aPositiveInteger = 'must be a positive integer'

export const positiveInteger = (error = aPositiveInteger) => z.int(error).check(z.positive(error))

export const programId = () => z.nullish(positiveInteger())

/** The ids of the 1 to 100 items that a decision covers. */
export const someIds = () => z.array(positiveInteger()).check(z.minLength(1), z.maxLength(100))

/** A note or a reason that a person reads. */
export const noteField = () => z.string().check(z.trim(), z.minLength(1), z.maxLength(1000))

export const key = () => z.string().check(z.minLength(1), z.maxLength(255))

const maxAdditionalDataBytes = 2048
const encoder = new TextEncoder()
const isSmall = (data: object) => encoder.encode(JSON.stringify(data)).length <= maxAdditionalDataBytes

/** The integrator's own data. `test_mode: true` marks it as a test event. `program_id` is its program. */
export const additionalData = () =>
  z
    .nullish(z.looseObject({ test_mode: z.nullish(z.boolean()), program_id: programId() }))
    .check(z.refine((data) => !data || isSmall(data), `must be at most ${maxAdditionalDataBytes} bytes of JSON`))
