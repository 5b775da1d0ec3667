import { sql } from 'kysely'
import { newClickIdPrefix } from './clicks.ts'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import type { JsonValue } from '../schema.ts'

/** The person to erase: the integrator's user id, or the click id in the visitor's cookie. */
type KnownBy = { customer_key: string } | { click_id: string }

/**
 * Erases the personal data of a program's customer: their key, email hash and processor ids, the visitor's details of their clicks and
 * leads, and free text in payments and webhooks. Replaces the click id, so that the cookie becomes unknown. Amounts, days, partners,
 * statuses and each sale's `transaction_id` are kept, so sums don't change and repeats are still recognized. Live events that the
 * service couldn't read stay encrypted, and are deleted after 30 days. Throws `not_found` if the program doesn't know the person.
 * Returns the number of erased customers. The number is 0 if there were only test events, unattributed sales, clicks of an expired
 * visitor, or unattributed events and customers from processors.
 */
export async function eraseCustomer(db: Database, programId: number, knownBy: KnownBy): Promise<number> {
  // With the new click id, a repeated call finds the erased customer after a lost response.
  const newClickId = `${newClickIdPrefix(db.now())}${programId}`
  const known = customerOf(programId, knownBy, newClickId)
  const statements = [
    call('lock_exports', { program_ids: [programId] }),
    known.forUpdate(),
    call('erase_events', {
      of_program_id: programId,
      of_customer_key: 'customer_key' in knownBy ? knownBy.customer_key : null,
      of_click_id: 'click_id' in knownBy ? knownBy.click_id : null,
      new_click_id: newClickId,
    }),
    eraseLeads(programId, known, knownBy),
    eraseWebhookEvents(programId, known),
    eraseMetadata(programId, known, knownBy),
    // The country and the device describe many people, so they are kept.
    kysely
      .updateTable('customer_origins')
      .set({
        origin: sql<JsonValue>`jsonb_strip_nulls(jsonb_build_object('country', origin->'country', 'device', origin->'device', 'browser', origin->'browser'))`,
      })
      .where('program_id', '=', programId)
      .where('customer_id', 'in', known.select('id')),
    // The copy of a program in an export contains the person too.
    kysely.deleteFrom('export_rows').where('program_id', '=', programId),
    kysely
      .deleteFrom('processor_customers')
      .where('program_id', '=', programId)
      .where('customer_id', 'in', known.select('id')),
    kysely
      .deleteFrom('processor_sessions')
      .where('program_id', '=', programId)
      .where('customer_id', 'in', known.select('id')),
    kysely
      .updateTable('customers')
      .set({
        customer_key: null,
        key_unverified_since: null,
        email_hash: null,
        mailbox_hash: null,
        email_unverified_since: null,
        click_id: newClickId,
        updated_at: (eb) => eb.fn<Date>('now'),
      })
      .where('program_id', '=', programId)
      .where('id', 'in', known.select('id'))
      .returning('id'),
  ] as const
  const [, , [other], , , metadata, , , , , customers] = await retryOnce(() => db.batch(statements))
  if (customers.length + metadata.length === 0 && !other?.leftovers && !other?.sales) {
    throw new ApiError('not_found', 'This program has no such customer. Check the id and the program.')
  }
  return customers.length
}

type Known = ReturnType<typeof customerOf>

/** Selects the requested customer, or the customer who already has the new click id. */
function customerOf(programId: number, knownBy: KnownBy, newClickId: string) {
  return kysely
    .selectFrom('customers')
    .where('program_id', '=', programId)
    .where((eb) => eb.or([eb.and(knownBy), eb('click_id', '=', newClickId)]))
}

/** Test events have the customer key but no customer, and are deleted with the customer's own rows. */
function keysOf(known: Known, knownBy: KnownBy) {
  const keys = known.select('customer_key as key')
  return 'customer_key' in knownBy
    ? keys.unionAll(kysely.selectNoFrom((eb) => eb.cast<string | null>(eb.val(knownBy.customer_key), 'text').as('key')))
    : keys
}

function eraseLeads(programId: number, known: Known, knownBy: KnownBy) {
  return kysely
    .updateTable('affiliate_lead_events')
    .set({ customer_key: null, session_id: null, page_url: null, additional_data: null })
    .where('program_id', '=', programId)
    .where((eb) =>
      eb.or([eb('customer_id', 'in', known.select('id')), eb('customer_key', 'in', keysOf(known, knownBy))]),
    )
}

/**
 * The log keeps the facts of each webhook event. Without these details, a replay is still possible and changes nothing.
 */
function eraseWebhookEvents(programId: number, known: Known) {
  const unknown = JSON.stringify({
    customer_key: null,
    click_id: null,
    email_hash: null,
    mailbox_hash: null,
    processor_customer_id: null,
  })
  return kysely
    .updateTable('processor_events as e')
    .from(known.select(['id', 'customer_key', 'click_id', 'email_hash']).as('k'))
    .set({ fact: (eb) => sql<JsonValue>`${eb.ref('e.fact')} || ${unknown}::jsonb`, payload: null, awaits: null })
    .where('e.program_id', '=', programId)
    .where((eb) => {
      const fact = (field: string) => sql<string | null>`${eb.ref('e.fact')}->>${sql.lit(field)}`
      return eb.or([
        eb(fact('customer_key'), '=', eb.ref('k.customer_key')),
        eb(fact('click_id'), '=', eb.ref('k.click_id')),
        eb(fact('email_hash'), '=', sql<string | null>`encode(${eb.ref('k.email_hash')}, 'hex')`),
        eb(
          sql<
            string | null
          >`coalesce(${fact('processor_customer_id')}, ${eb.ref('e.fact')}#>>'{unread,processor_customer_id}')`,
          'in',
          eb
            .selectFrom('processor_customers as p')
            .select('p.processor_customer_id')
            .where('p.program_id', '=', programId)
            .whereRef('p.customer_id', '=', 'k.id'),
        ),
      ])
    })
}

/** Deletes the metadata of the person's processor customers, even if they never became a customer here. */
function eraseMetadata(programId: number, known: Known, knownBy: KnownBy) {
  return kysely
    .deleteFrom('processor_customer_metadata as m')
    .where('m.account_id', 'in', (eb) =>
      eb
        .selectFrom('programs as p')
        .where('p.id', '=', programId)
        .select(sql<string>`unnest(last_accounts_of(p))`.as('id')),
    )
    .where((eb) => eb.or([eb('m.program_id', '=', programId), eb('m.program_id', 'is', null)]))
    .where((eb) =>
      eb.or([
        eb('m.customer_key', 'in', known.select('customer_key')),
        eb('m.click_id', 'in', known.select('click_id')),
        'click_id' in knownBy
          ? eb('m.click_id', '=', knownBy.click_id)
          : eb('m.customer_key', '=', knownBy.customer_key),
        eb(
          'm.processor_customer_id',
          'in',
          eb
            .selectFrom('processor_customers as p')
            .select('p.processor_customer_id')
            .where('p.program_id', '=', programId)
            .where('p.customer_id', 'in', known.select('id')),
        ),
      ]),
    )
    .returning('processor_customer_id')
}
