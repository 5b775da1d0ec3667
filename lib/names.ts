import * as z from 'zod/mini'

const allowed = 'at most 80 characters, without line breaks or characters that change the direction of text'
const rule = `Use ${allowed}.`

/**
 * Whether a text may be the name of a workspace, a program, a person or a partner, which stand in mails to others: 1 to 80
 * characters, no control characters, line separators or marks of direction. The domain `name_text` holds the tables to the same.
 */
export function isName(text: string): boolean {
  const { length } = Array.from(text)
  return (
    length > 0 &&
    length <= 80 &&
    text.isWellFormed() &&
    !/[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/u.test(text)
  )
}

/** A name in a form, without the spaces around it. What may be none is refused, not cut; `missing` is said of an empty one. */
export function nameField(missing: string, wrong = rule) {
  return z.string(missing).check(z.trim(), z.minLength(1, missing), z.refine(isName, wrong))
}

/** The same in a call of the API, whose messages go on from the field's name. */
export function nameOf(whom: string) {
  return nameField(`must be the name of the ${whom}`, `must have ${allowed}`)
}

/** A name in a form where there may be none, which is an empty text. */
export const optionalName = z.prefault(
  z.string().check(
    z.trim(),
    z.refine((text) => text === '' || isName(text), rule),
  ),
  '',
)
