import { type Expression, type RawBuilder, sql } from 'kysely'
import { violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
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

/** Explains the error of a statement that left too many names. */
export function refuseBadMetadata(error: unknown): void {
  if (violatedConstraint(error) !== 'metadata_bounds') return
  throw new ApiError(
    'invalid_request',
    'These changes would leave more than 20 names. Remove some by setting them to null.',
    {
      details: [{ field: 'metadata', message: 'must have at most 20 keys' }],
    },
  )
}
