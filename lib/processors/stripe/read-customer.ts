import * as z from 'zod/mini'
import { type CustomerMetadata, type Fact, ignored } from '../facts.ts'
import { id, metadata, noMetadata } from '../payload.ts'

const customer = z.looseObject({ id, metadata })
const before = z.looseObject({ metadata })

type Named = Pick<CustomerMetadata, 'program_id' | 'click_id' | 'customer_key'>

const hasValue = (named: Named) => Object.values(named).some((value) => value !== null)

/**
 * Reads `customer.created`, `.updated` and `.deleted`: the metadata that attributes the customer's payments. `previous` contains the
 * changed fields before an update. The service stores nothing about customers if their metadata never contains a visitor.
 */
export function readCustomer(type: string, object: unknown, previous: unknown, reportedAt: string): Fact {
  const read = customer.parse(object)
  const current = read.metadata ?? noMetadata
  const previousMetadata = before.safeParse(previous).data?.metadata ?? noMetadata
  const isDeleted = type === 'customer.deleted'
  if (!isDeleted && !hasValue(current) && !hasValue(previousMetadata))
    return ignored("The customer's metadata contains no visitor.")
  return {
    kind: 'customer',
    ...current,
    processor_customer_id: read.id,
    is_deleted: isDeleted,
    reported_at: reportedAt,
  }
}
