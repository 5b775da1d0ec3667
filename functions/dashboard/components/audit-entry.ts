import type { AuditEntry } from '../../../lib/access/audit-log.ts'
import { formatTime } from './format.tsx'

/** What people read in the place of names that the log and the tables have. */
const words: [name: RegExp, word: string][] = [
  [/payout/g, 'payout'],
  [/\bmade\b/g, 'created'],
  [/\bretired\b/g, 'revoked'],
  [/\bturned on\b/g, 'enabled'],
  [/\bturned off\b/g, 'disabled'],
]

/** A name of the log, or a kind of notification, in words. */
export function wordsOf(name: string): string {
  return words.reduce((text, [old, word]) => text.replace(old, word), name.replaceAll(/[._]/g, ' '))
}

/** Who did it. */
export function actorOf({ actor, user_id: userId }: Pick<AuditEntry, 'actor' | 'user_id'>): string {
  return actor ?? (userId === null ? 'the service' : 'a deleted account')
}

/** A moment as the database writes one into JSON. */
const isTime = (value: string) => /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value)

/** A value of the log as people read it. */
export function textOf(value: unknown): string {
  if (value === null) return 'none'
  if (typeof value !== 'string') return JSON.stringify(value)
  return isTime(value) ? formatTime(new Date(value)) : value
}

/** `hold days: 30 → 14`; a pair is what it was and what it is. */
export function detailsOf({ details }: Pick<AuditEntry, 'details'>): string {
  return Object.entries(details ?? {})
    .map(([name, value]) => `${wordsOf(name)}: ${Array.isArray(value) ? value.map(textOf).join(' → ') : textOf(value)}`)
    .join(', ')
}
