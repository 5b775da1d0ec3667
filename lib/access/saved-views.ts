import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'

/** A person's view of a list: its filters, order and hidden columns as a URL query. */
export interface SavedView {
  list: string
  name: string
  query: string
}

/** Counts all lists of a program, because each page loads them. */
const maxViews = 50

/**
 * Saves a person's view. Replaces their view of the list with the same name. Throws `conflict` if they already have 50 other views in this
 * program.
 */
export async function saveView(db: Database, programId: number, userId: string, view: SavedView): Promise<void> {
  const { list, name, query } = view
  const others = kysely
    .selectFrom('saved_views')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('program_id', '=', programId)
    .where('user_id', '=', userId)
    .where((eb) => eb.or([eb('list', '<>', list), eb('name', '<>', name)]))
  const [saved] = await db.query(
    kysely
      .insertInto('saved_views')
      .columns(['program_id', 'user_id', 'list', 'name', 'query'])
      .expression(
        kysely
          .selectNoFrom([
            sql<number>`${programId}::bigint`.as('program_id'),
            sql<string>`${userId}`.as('user_id'),
            sql<string>`${list}`.as('list'),
            sql<string>`${name}`.as('name'),
            sql<string>`${query}`.as('query'),
          ])
          .where(others.$asScalar(), '<', maxViews),
      )
      .onConflict((oc) => oc.columns(['program_id', 'user_id', 'list', 'name']).doUpdateSet({ query }))
      .returning('name'),
  )
  if (!saved) throw new ApiError('conflict', `You have ${maxViews} views in this program. Delete one first.`)
}

/** Deletes a person's view of a list, if it exists. */
export async function deleteView(
  db: Database,
  programId: number,
  userId: string,
  { list, name }: Omit<SavedView, 'query'>,
): Promise<void> {
  await db.query(
    kysely
      .deleteFrom('saved_views')
      .where('program_id', '=', programId)
      .where('user_id', '=', userId)
      .where('list', '=', list)
      .where('name', '=', name),
  )
}
