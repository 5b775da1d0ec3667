import { sql } from 'kysely'
import * as z from 'zod/mini'
import type { Database } from '../database.ts'
import { ApiError, notOfProgram } from '../errors.ts'
import { kysely, lower } from '../kysely.ts'
import { commissionsStatement } from '../money/commission-list.ts'
import { addPartner } from './partners.ts'
import { partnershipsStatement } from './partnerships.ts'

/** The portal inside a program's own product: its settings, its partner and its contents. */

const originRule = 'Enter one origin per line, such as https://app.example.com.'
const plainOrigin = /^(https:\/\/[a-z0-9.-]+|http:\/\/(localhost|127\.0\.0\.1))(:\d{1,5})?$/
const maxOrigins = 20

/** The origins of the pages that may show the portal, from lines of text. Each address is reduced to its origin. */
export const embedOrigins = z.pipe(
  z.transform((text: string) => [
    ...new Set(text.split(/\s+/).flatMap((line) => (line === '' ? [] : (URL.parse(line)?.origin ?? line)))),
  ]),
  z
    .array(z.string().check(z.regex(plainOrigin, originRule)))
    .check(z.maxLength(maxOrigins, `Enter at most ${maxOrigins} origins.`)),
)

/** Saves the settings of the embedded portal. Open frames on removed origins stop working at their next request. */
export async function saveEmbedding(
  db: Database,
  programId: number,
  settings: { embed_origins: string[]; embed_hides_money: boolean },
): Promise<void> {
  await db.query(kysely.updateTable('programs').set(settings).where('id', '=', programId))
}

/** Reads the origins and the color of a program. An unknown, deleted or blocked program has no origins. */
export async function readEmbedFrame(
  db: Database,
  programId: number,
): Promise<{ origins: string[]; color: string | null }> {
  const [program] = await db.query(
    kysely
      .selectFrom('programs as g')
      .leftJoin('program_brands as b', 'b.program_id', 'g.id')
      .select(['g.embed_origins as origins', 'b.color'])
      .where('g.id', '=', programId)
      .where('g.deleted_at', 'is', null)
      .where(sql<boolean>`not is_blocked(g.id)`),
  )
  return program ?? { origins: [], color: null }
}

/** A partner's id, or the description of a partner, who is created if they don't exist. */
export interface NamedPartner {
  partner_id?: number | undefined
  external_id?: string | undefined
  partner?:
    | {
        name: string
        email?: string | null | undefined
        external_id?: string | null | undefined
        group_id?: number | null | undefined
      }
    | undefined
}

/**
 * Finds the partner for an embedded portal and returns their id. Creates a described partner if they don't exist. Throws `not_found`
 * for an unknown partner, and `conflict` if the program has no origins.
 */
export async function findOrAddPartner(db: Database, programId: number, named: NamedPartner): Promise<number> {
  const known = await findPartner(db, programId, named)
  if (known !== undefined) return known
  if (!named.partner) throw notOfProgram(named.partner_id === undefined ? 'external_id' : 'partner_id', 'partner')
  try {
    return (await addPartner(db, { ...named.partner, programId, code: null })).partnerId
  } catch (error) {
    // Another request may have added the partner in the meantime.
    const isTaken = error instanceof ApiError && error.code === 'conflict'
    const added = isTaken ? await findPartner(db, programId, named) : undefined
    if (added === undefined) throw error
    return added
  }
}

/**
 * Finds a partner by `external_id`, or else by the address. Refuses the address of a partner with another `external_id`, because
 * somebody else would see that person's portal.
 */
async function findPartner(db: Database, programId: number, named: NamedPartner): Promise<number | undefined> {
  const externalId = named.external_id ?? named.partner?.external_id ?? null
  const [row] = await db.query(
    kysely
      .selectFrom('programs as g')
      .leftJoin('partners as p', (join) =>
        join
          .onRef('p.program_id', '=', 'g.id')
          .on((eb) =>
            eb.or([
              eb('p.id', '=', named.partner_id ?? 0),
              eb('p.external_id', '=', externalId ?? ''),
              eb(eb.fn('lower', ['p.email']), '=', lower(named.partner?.email ?? '')),
            ]),
          ),
      )
      .select(['g.embed_origins', 'p.id', 'p.external_id'])
      .where('g.id', '=', programId)
      .orderBy((eb) => eb('p.external_id', 'is not distinct from', externalId), 'desc')
      .limit(1),
  )
  if (!row?.embed_origins.length) {
    throw new ApiError(
      'conflict',
      "No page may show the embedded portal yet. Add the origins of your pages in the program's settings.",
    )
  }
  if (row.id !== null && externalId !== null && row.external_id !== null && row.external_id !== externalId) {
    throw new ApiError('conflict', 'The partner with this address has another external_id.', {
      details: [{ field: 'partner.email', message: 'must not belong to a partner with another external_id' }],
    })
  }
  return row.id ?? undefined
}

/** Everything that the embedded portal shows about a partner. */
export type EmbeddedPortal = NonNullable<Awaited<ReturnType<typeof readEmbeddedPortal>>>

const commissionsShown = 20

/**
 * Reads the embedded portal of a partner, with the newest commissions or those before an id. Returns undefined for an unknown partner, and
 * for a blocked program.
 */
export async function readEmbeddedPortal(db: Database, programId: number, partnerId: number, before?: number) {
  const [[portal], commissions] = await db.batch([
    partnershipsStatement()
      .select(['g.language', 'g.embed_origins', 'g.embed_hides_money'])
      .where('p.program_id', '=', programId)
      .where('p.id', '=', partnerId)
      .where('g.deleted_at', 'is', null)
      .where(sql<boolean>`not is_blocked(g.id)`),
    commissionsStatement({ programId, partnerId }, { limit: commissionsShown + 1, before }),
  ])
  return (
    portal && {
      ...portal,
      commissions: commissions.slice(0, commissionsShown),
      hasOlder: commissions.length > commissionsShown,
    }
  )
}
