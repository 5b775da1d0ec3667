import { sql } from 'kysely'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'

/** Blocks a program for some hours and returns the block's id, or undefined if there is no such program. */
export async function blockProgram(
  db: Database,
  programId: number,
  { hours, reason }: { hours: number; reason: string },
): Promise<number | undefined> {
  return await addBlock(db, { of_program_id: programId, of_network: null, hours, because: reason })
}

/** Blocks an address or a network, such as `198.51.100.0/24`, for some hours and returns the block's id. */
export async function blockNetwork(
  db: Database,
  network: string,
  { hours, reason }: { hours: number; reason: string },
): Promise<number | undefined> {
  return await addBlock(db, { of_program_id: null, of_network: network, hours, because: reason })
}

type NewBlock = { of_program_id: number | null; of_network: string | null; hours: number; because: string }

async function addBlock(db: Database, block: NewBlock): Promise<number | undefined> {
  const [row] = await db.query(call('add_block', block))
  return row?.add_block ?? undefined
}

/** Ends a block early. Returns false if no current block has this id. */
export async function endBlock(db: Database, id: number): Promise<boolean> {
  const [row] = await db.query(call('end_block', { of_id: id }))
  return row?.end_block ?? false
}

/** Returns the current blocks, the newest first. */
export async function readBlocks(db: Database) {
  return await db.query(
    kysely
      .selectFrom('blocks')
      .select(['id', 'program_id', 'reason', 'created_at', 'ends_at'])
      .select(sql<string | null>`network::text`.as('network'))
      .where('ends_at', '>', sql<Date>`now()`)
      .orderBy('id', 'desc'),
  )
}
