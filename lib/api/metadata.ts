import * as z from 'zod/mini'

const maxKeys = 20
const maxKeyLength = 40
const maxLength = 500

const key = () => z.string().check(z.minLength(1), z.maxLength(maxKeyLength))
const value = () => z.string().check(z.maxLength(maxLength))
const fewKeys = z.refine<object>((data) => Object.keys(data).length <= maxKeys, `must have at most ${maxKeys} keys`)

/** The integrator's own key-value texts, in a request that creates something. */
export const metadata = () => z.optional(z.record(key(), value()).check(fewKeys))

/** The same texts in an update. A null value removes its key, and null instead of the object removes all keys. */
export const metadataChanges = () => z.nullish(z.record(key(), z.nullable(value())).check(fewKeys))

export const externalId = () => z.nullish(z.string().check(z.minLength(1), z.maxLength(255)))

export const metadataText = `Your own key-value data: up to ${maxKeys} keys of ${maxKeyLength} characters, with values of ${maxLength} characters.`
export const metadataChangesText = `${metadataText} Only the keys that you send are changed. Null removes a key.`
export const externalIdText = 'Your own id, unique in the program.'
