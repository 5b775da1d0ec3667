import type { AuditEntry } from '../../../lib/access/audit-log.ts'
import { formatMoney } from '../../../lib/money.ts'
import { formatTime } from './format.tsx'

/** Display names that replace names from the log and from tables. */
const words: [name: RegExp, word: string][] = [
  [/payout/g, 'payout'],
  [/\bmade\b/g, 'created'],
  [/\bretired\b/g, 'revoked'],
  [/\bturned on\b/g, 'enabled'],
  [/\bturned off\b/g, 'disabled'],
]

/** Formats a name from the log, or a notification kind, for display. */
export function wordsOf(name: string): string {
  return words.reduce((text, [old, word]) => text.replace(old, word), name.replaceAll(/[._]/g, ' '))
}

/** Returns the actor's display name. */
export function actorOf({ actor, user_id: userId }: Pick<AuditEntry, 'actor' | 'user_id'>): string {
  return actor ?? (userId === null ? 'the service' : 'a deleted account')
}

/** A time in the format that the database writes into JSON. */
const isTime = (value: string) => /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value)

/** Formats a value from the log for display. */
export function textOf(value: unknown): string {
  if (value === null) return 'none'
  if (typeof value !== 'string') return JSON.stringify(value)
  return isTime(value) ? formatTime(new Date(value)) : value
}

/**
 * Formats the details, for example `hold days: 30 → 14`. A pair contains the old and the new value. The details or their names contain the
 * currency of amounts. Otherwise, amounts are in `ofProgram`.
 */
export function detailsOf({ details }: Pick<AuditEntry, 'details'>, ofProgram?: string): string {
  const entries = Object.entries(details ?? {})
  const named = entries.find(([name]) => name === 'currency')?.[1]
  const inDetails = typeof named === 'string' ? named : ofProgram
  return entries
    .map(([name, value]) => {
      const [, amount, currency = inDetails] = /^(.+)_cents(?: ([a-z]{3}))?$/.exec(name) ?? []
      const [, rate] = /^(.+)_bp$/.exec(name) ?? []
      const format = (one: unknown) => {
        if (typeof one === 'number' && amount && currency) return formatMoney(one, currency)
        return typeof one === 'number' && rate ? `${one / 100}%` : textOf(one)
      }
      const text = Array.isArray(value) ? value.map(format).join(' → ') : format(value)
      return `${wordsOf(amount ?? rate ?? name)}: ${text}`
    })
    .join(', ')
}
