import type { AuditEntry } from '../../../lib/access/audit-log.ts'

/** A name of the log in words. */
export const wordsOf = (name: string) => name.replaceAll(/[._]/g, ' ')

/** Who did it. */
export function actorOf({ actor, user_id: userId }: Pick<AuditEntry, 'actor' | 'user_id'>): string {
  return actor ?? (userId === null ? 'the service' : 'a deleted account')
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

/** `hold days: 30 → 14`; a pair is what it was and what it is. */
export function detailsOf({ details }: Pick<AuditEntry, 'details'>): string {
  return Object.entries(details ?? {})
    .map(([name, value]) => `${wordsOf(name)}: ${Array.isArray(value) ? value.map(textOf).join(' → ') : textOf(value)}`)
    .join(', ')
}
