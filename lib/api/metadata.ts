import * as z from 'zod/mini'

const maxKeys = 20
const maxKeyLength = 40
const maxLength = 500

const key = () => z.string().check(z.minLength(1), z.maxLength(maxKeyLength))
const value = () => z.string().check(z.maxLength(maxLength))
const fewKeys = z.refine<object>((data) => Object.keys(data).length <= maxKeys, `must have at most ${maxKeys} keys`)

/** Texts of the integrator's own by names of their own, for something that is made. */
export const metadata = () => z.optional(z.record(key(), value()).check(fewKeys))

/** The same for something that changes: null takes a name away, and null for the whole all of them. */
export const metadataChanges = () => z.nullish(z.record(key(), z.nullable(value())).check(fewKeys))

export const externalId = () => z.nullish(z.string().check(z.minLength(1), z.maxLength(255)))

export const metadataText = `Texts of your own by names of your own: ${maxKeys} at most, of ${maxLength} characters, with names of ${maxKeyLength}.`
export const metadataChangesText = `${metadataText} What is named changes, and null takes a name away; the others stay.`
export const externalIdText = 'Your own id, unique in the program.'
