import type { AuditEntry } from '../../../lib/access/audit-log.ts'
import { formatTime } from './format.tsx'

/** A name of the log in words. */
export const wordsOf = (name: string) => name.replaceAll(/[._]/g, ' ')

/** Who did it. */
export function actorOf({ actor, user_id: userId }: Pick<AuditEntry, 'actor' | 'user_id'>): string {
  return actor ?? (userId === null ? 'the service' : 'a deleted account')
}

/** A moment as the database writes one into JSON. */
const isTime = (value: string) => /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value)

function textOf(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value)
  return isTime(value) ? formatTime(new Date(value)) : value
}

/** `hold days: 30 → 14`; a pair is what it was and what it is. */
export function detailsOf({ details }: Pick<AuditEntry, 'details'>): string {
  return Object.entries(details ?? {})
    .map(([name, value]) => `${wordsOf(name)}: ${Array.isArray(value) ? value.map(textOf).join(' → ') : textOf(value)}`)
    .join(', ')
}
