import { sql } from 'kysely'
import { newClickIdPrefix } from './clicks.ts'
import { call, type Database, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import type { JsonValue } from '../schema.ts'

/** Who is to be erased: the integrator's user id, or the click id in the visitor's cookie. */
type KnownBy = { customer_key: string } | { click_id: string }

/**
 * Removes what identifies a customer of a program: their key, e-mail hash, processor ids, and of their clicks and leads the
 * addresses, session, user agent, place and free data; of their sales and refunds what was said in words, and the ids of refunds, also in
 * webhooks, with what was answered to these (migrations/functions/upkeep/erasure.sql). Their click id is replaced, so that a cookie leads nowhere. Amounts, days, partners, statuses and
 * the `transaction_id` of a sale stay, and with them every sum and what a repeat is known by. Live events that could not be read are
 * kept encrypted and go after 30 days. Refuses with `not_found` where the program does not know them.
 * Returns how many customers were erased: 0 where there were only test events, sales without attribution, clicks of a visitor who ended with
 * the cookie window, or events and customers of Stripe that were nobody's.
 */
export async function eraseCustomer(db: Database, programId: number, knownBy: KnownBy): Promise<number> {
  // By its new click id a try finds what one before it erased, whose answer was lost.
  const newClickId = `${newClickIdPrefix(Date.now())}${programId}`
  const known = customerOf(programId, knownBy, newClickId)
  const statements = [
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
    // Of where they came from there stays what is of many.
    kysely
      .updateTable('customer_origins')
      .set({
        origin: sql<JsonValue>`jsonb_strip_nulls(jsonb_build_object('country', origin->'country', 'device', origin->'device', 'browser', origin->'browser'))`,
      })
      .where('program_id', '=', programId)
      .where('customer_id', 'in', known.select('id')),
    kysely
      .deleteFrom('processor_customers')
      .where('program_id', '=', programId)
      .where('customer_id', 'in', known.select('id')),
    kysely
      .deleteFrom('processor_sessions')
      .where('program_id', '=', programId)
      .where('customer_id', 'in', known.select('id')),
    eraseSales(programId, known, knownBy),
    kysely
      .updateTable('customers')
      .set({
        customer_key: null,
        key_unverified_since: null,
        email_hash: null,
        mailbox_hash: null,
        email_unverified_since: null,
        click_id: newClickId,
      })
      .where('program_id', '=', programId)
      .where('id', 'in', known.select('id'))
      .returning('id'),
  ] as const
  const [, [other], , , metadata, , , , sales, customers] = await retryOnce(() => db.batch(statements))
  if (customers.length + sales.length + metadata.length === 0 && !other?.leftovers) {
    throw new ApiError('not_found', 'This program knows no such customer. Check the id, and whose program it is.')
  }
  return customers.length
}

type Known = ReturnType<typeof customerOf>

/** The customer, to select of: whom the caller named, or who got the new click id already. */
function customerOf(programId: number, knownBy: KnownBy, newClickId: string) {
  return kysely
    .selectFrom('customers')
    .where('program_id', '=', programId)
    .where((eb) => eb.or([eb.and(knownBy), eb('click_id', '=', newClickId)]))
}

/** Rows with the customer's key and without a customer, as test events have it, go with the customer's own. */
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

/** The log of webhook events keeps what was read of each; without these it can still be replayed, and changes nothing. */
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

/** What the metadata of the processor's customers says of them, also where nobody has come of it yet. */
function eraseMetadata(programId: number, known: Known, knownBy: KnownBy) {
  return kysely
    .deleteFrom('processor_customer_metadata as m')
    .where('m.account_id', 'in', (eb) =>
      eb
        .selectFrom('programs as p')
        .where('p.id', '=', programId)
        .select(sql<string>`last_account_of(p)`.as('id')),
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

function eraseSales(programId: number, known: Known, knownBy: KnownBy) {
  return kysely
    .updateTable('sales')
    .set({ customer_key: null, subscription_id: null, processor_customer_id: null, additional_data: null })
    .where('program_id', '=', programId)
    .where((eb) =>
      eb.or([eb('customer_id', 'in', known.select('id')), eb('customer_key', 'in', keysOf(known, knownBy))]),
    )
    .returning('id')
}
