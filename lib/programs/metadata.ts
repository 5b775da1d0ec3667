import { type Expression, type RawBuilder, sql } from 'kysely'
import { violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import type { Json } from '../schema.ts'

/** Texts of the integrator's own, by names of their own. */
export type Metadata = Record<string, string>

/** What of it changes: null takes a name away, and null for the whole all of them. */
export type MetadataChanges = Record<string, string | null> | null | undefined

/** Column: what is there, changed as JSON Merge Patch (RFC 7396) says. */
export function mergedMetadata(there: Expression<Json>, changes: MetadataChanges): RawBuilder<Json> {
  if (changes === null) return sql`'{}'::jsonb`
  return sql`jsonb_strip_nulls(${there} || ${JSON.stringify(changes ?? {})}::jsonb)`
}

/** Says what a statement broke that left too much of it. */
export function refuseBadMetadata(error: unknown): void {
  if (violatedConstraint(error) !== 'metadata_bounds') return
  throw new ApiError(
    'invalid_request',
    'With these changes it would have more than 20 names. Take some away by null.',
    {
      details: [{ field: 'metadata', message: 'must have at most 20 keys' }],
    },
  )
}
