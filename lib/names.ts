import * as z from 'zod/mini'

const allowed = 'at most 80 characters, without line breaks or characters that change the direction of text'
const rule = `Use ${allowed}.`

/**
 * Returns whether a text can be the name of a workspace, program, person or partner. Such names appear in mails to others: 1 to 80
 * characters without control characters, line separators or direction marks. The domain `name_text` enforces the same rule in tables.
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

/** A name in a form, trimmed. An invalid name is refused instead of cut. `missing` is the message for an empty name. */
export function nameField(missing: string, wrong = rule) {
  return z.string(missing).check(z.trim(), z.minLength(1, missing), z.refine(isName, wrong))
}

/** A name in an API call, with messages that follow the field's name. */
export function nameOf(whom: string) {
  return nameField(`must be the name of the ${whom}`, `must have ${allowed}`)
}

/** An optional name in a form. Empty text means none. */
export const optionalName = z.prefault(
  z.string().check(
    z.trim(),
    z.refine((text) => text === '' || isName(text), rule),
  ),
  '',
)
