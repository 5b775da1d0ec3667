import * as z from 'zod/mini'
import type { Operation } from './operation.ts'

/** The path of the dashboard's read endpoints. No program id exceeds the largest safe integer. */
export const programPath = z.object({
  programId: z.pipe(
    z.string().check(z.regex(/^0*[1-9]\d*$/, 'must be a positive integer')),
    z.transform((digits: string) => Math.min(Number(digits), Number.MAX_SAFE_INTEGER)),
  ),
})

/** Describes the id in the path for the reference. */
export const programParameter = () =>
  ({
    in: 'path',
    schema: programPath,
    fields: {
      programId: {
        description: 'Id of the program.',
        example: 1,
        values: { type: 'integer', minimum: 1 },
      },
    },
  }) satisfies NonNullable<Operation['parameters']>[number]
