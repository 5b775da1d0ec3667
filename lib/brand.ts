import { type Expression, sql } from 'kysely'
import type { Database } from './database.ts'
import { kysely } from './kysely.ts'

/** How a program appears to its partners. */
export interface Brand {
  /** The name above the pages. */
  name: string
  /** `#rrggbb`, or null for the colors of the service. */
  color: string | null
  /** The path of the logo. */
  logo: string | null
}

/** SQL for the path of the logo in `program_brands b`. The path changes with the image. */
export const logoPath = sql<string | null>`case when b.logo is not null then
  concat('/assets/logo-', b.program_id, '-', b.logo_hash, '.', b.logo_type) end`

/** Column: the brand of a program. */
export function brandOf(programId: Expression<number>) {
  return kysely
    .selectFrom('programs as o')
    .leftJoin('program_brands as b', 'b.program_id', 'o.id')
    .select((eb) => [eb.fn.coalesce('b.portal_name', 'o.name').as('name'), 'b.color', logoPath.as('logo')])
    .where('o.id', '=', programId)
}

/** The sender of mails to partners, and the color of their buttons. */
export interface Sender {
  name: string
  color: string | null
}

/** Reads the sender of mails to the partners of a program. */
export async function readSender(db: Database, programId: number): Promise<Sender | undefined> {
  const [sender] = await db.query(
    kysely
      .selectFrom('programs as o')
      .leftJoin('program_brands as b', 'b.program_id', 'o.id')
      .select((eb) => [eb.fn.coalesce('b.sender_name', 'o.name').as('name'), 'b.color'])
      .where('o.id', '=', programId),
  )
  return sender
}
