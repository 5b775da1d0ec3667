import * as z from 'zod/mini'
import { currency, id } from '../response-fields.ts'
import { answered, body, type Operation } from './operation.ts'
import { resource } from './resource.ts'

const commissionBase = () => z.enum(['net', 'net_of_fees'], 'must be net or net_of_fees')

/** Body of PATCH /api/v1/program. */
export const programChanges = z.strictObject({ commission_base: z.optional(commissionBase()) })

const program = () =>
  z.object({
    id: id(),
    name: z.string(),
    domain: z.string(),
    currency: currency(),
    commission_base: commissionBase(),
  })

const baseText =
  'The amount on which commissions for processor payments are based. `net` is the paid amount without tax. `net_of_fees` also excludes the processor’s fee, if the processor reports it. A change applies to future payments.'

/** Describes the key's program for the reference. */
export function programOperations(): Operation[] {
  const { get, change } = resource({
    path: '/api/v1/program',
    name: 'program',
    plural: 'programs',
    item: program(),
    fields: { currency: 'The currency of amounts that have no currency field.', commission_base: baseText },
    example: { id: 1, name: 'Shop', domain: 'shop.example.com', currency: 'usd', commission_base: 'net' },
  })
  return [
    get({ id: 'getProgram', summary: 'Read the program', description: 'The program that the key belongs to.' }),
    change({
      id: 'updateProgram',
      summary: 'Change the program',
      description: 'Changes the fields that you send (JSON Merge Patch).',
      body: body(programChanges, { commission_base: baseText }),
      examples: [
        answered(
          'changed',
          'Exclude the processor’s fee from commissions',
          {
            program: {
              id: 1,
              name: 'Shop',
              domain: 'shop.example.com',
              currency: 'usd',
              commission_base: 'net_of_fees',
            },
          },
          { commission_base: 'net_of_fees' },
        ),
      ],
    }),
  ]
}
