import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { listPartnersWithCodes } from './partners.ts'

/** The kinds of results that the reader is allowed to see. */
interface Kinds {
  partners: boolean
  /** Whether the search also finds partners by their e-mail address. */
  emails: boolean
  customers: boolean
  sales: boolean
}

const maxPartners = 8

/**
 * Finds partners by name, e-mail address or code, a customer by key or click id, and a sale by transaction id. Keys and
 * ids must match exactly.
 */
export async function searchProgram(db: Database, programId: number, text: string, kinds: Kinds) {
  const [partners, [customers, sales]] = await Promise.all([
    kinds.partners
      ? listPartnersWithCodes(db, programId, { limit: maxPartners, search: text, searchesEmail: kinds.emails })
      : [],
    db.batch([
      kysely
        .selectFrom('customers')
        .select(['id', 'customer_key', 'click_id'])
        .where('program_id', '=', programId)
        .where((eb) => eb.or([eb('customer_key', '=', text), eb('click_id', '=', text)]))
        .where((eb) => eb.lit(kinds.customers)),
      kysely
        .selectFrom('sales')
        .select(['transaction_id', 'is_test'])
        .where('program_id', '=', programId)
        .where('transaction_id', '=', text)
        .where((eb) => eb.lit(kinds.sales)),
    ]),
  ])
  return { partners, customers, sales }
}
