import { CompiledQuery } from 'kysely'
import type { Statement } from '../../lib/database.ts'

/** A statement written as text, its values as parameters. The service has none: it builds queries and calls database functions. */
export function statement<Row>(parts: TemplateStringsArray, ...values: unknown[]): Statement<Row> {
  const text = parts.reduce((before, part, index) => `${before}$${index}${part}`)
  return { compile: () => CompiledQuery.raw(text, values) }
}
