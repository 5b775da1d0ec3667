import { CompiledQuery } from 'kysely'
import type { Statement } from '../../lib/database.ts'

/**
 * Builds a statement from text, with its values as parameters. Only tests use this, because the service itself builds
 * queries or calls database functions.
 */
export function statement<Row>(parts: TemplateStringsArray, ...values: unknown[]): Statement<Row> {
  const text = parts.reduce((before, part, index) => `${before}$${index}${part}`)
  return { compile: () => CompiledQuery.raw(text, values) }
}
