import { type Expression, type RawBuilder, sql } from 'kysely'
import type { Json } from '../schema.ts'

/** The integrator's own texts by name. */
export type Metadata = Record<string, string>

/** Changes to metadata: null removes a name, and null as a whole removes all names. */
export type MetadataChanges = Record<string, string | null> | null | undefined

/** Column: the current metadata, changed as in JSON Merge Patch (RFC 7396). */
export function mergedMetadata(current: Expression<Json>, changes: MetadataChanges): RawBuilder<Json> {
  if (changes === null) return sql`'{}'::jsonb`
  return sql`jsonb_strip_nulls(${current} || ${JSON.stringify(changes ?? {})}::jsonb)`
}
