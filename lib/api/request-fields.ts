import * as z from 'zod/mini'

/** Text of at most `length` characters, or null, or nothing. */
export function text(length: number) {
  return z.nullish(z.string().check(z.maxLength(length)))
}

export const url = () => text(8192)

export const aPositiveInteger = 'must be a positive integer'

export const positiveInteger = (error = aPositiveInteger) => z.int(error).check(z.positive(error))

export const programId = () => z.nullish(positiveInteger())

/** Ids of up to a hundred things to decide on together. */
export const someIds = () => z.array(positiveInteger()).check(z.minLength(1), z.maxLength(100))

/** What a person is to read: a note or a reason. */
export const noteField = () => z.string().check(z.trim(), z.minLength(1), z.maxLength(1000))

export const key = () => z.string().check(z.minLength(1), z.maxLength(255))

const maxAdditionalDataBytes = 2048
const encoder = new TextEncoder()
const isSmall = (data: object) => encoder.encode(JSON.stringify(data)).length <= maxAdditionalDataBytes

/** `additionalData` of a call that anybody may make. */
export const publicAdditionalData = () =>
  additionalData().check(
    z.refine((data) => !data || isSmall(data), `must be ${maxAdditionalDataBytes} bytes of JSON at most`),
  )

/** Free data of the integrator. `test_mode: true` makes the event a test event; `program_id` names its program. */
export const additionalData = () =>
  z.nullish(z.looseObject({ test_mode: z.nullish(z.boolean()), program_id: programId() }))
