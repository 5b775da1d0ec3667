import { type InferResult, sql } from 'kysely'
import { refuse } from '../constraints.ts'
import { call, type Database } from '../database.ts'
import { found } from '../errors.ts'
import { storeCreated, type Created } from '../idempotency.ts'
import { type Part, partOf, totalsOf } from '../keyset.ts'
import { kysely, lower } from '../kysely.ts'
import { rulesOf } from './commission-rules.ts'
import { type CommissionRule } from './commission-terms.ts'

export type PartnerGroup = InferResult<ReturnType<typeof groupsStatement>>[number]

/** Lists the groups of a program, newest first, with the number of their partners and their current rules. */
export function groupsStatement(programId: number, list: Part & { groupId?: number | undefined; name?: string }) {
  const { groupId, name, ...part } = list
  let query = kysely
    .selectFrom('partner_groups as g')
    .select((eb) => [
      'g.id',
      'g.name',
      'g.created_at',
      eb
        .selectFrom('partners as p')
        .select((partner) => partner.fn.countAll<number>().as('partners'))
        .whereRef('p.program_id', '=', 'g.program_id')
        .whereRef('p.group_id', '=', 'g.id')
        .where('p.ended_at', 'is', null)
        .$asScalar()
        .$notNull()
        .as('partners'),
      rulesOf(programId, 'c.group_id', eb.ref('g.id')).as('rules'),
    ])
    .where('g.program_id', '=', programId)
    .where('g.removed_at', 'is', null)
  if (groupId !== undefined) query = query.where('g.id', '=', groupId)
  if (name !== undefined) query = query.where((eb) => eb(eb.fn('lower', ['g.name']), '=', lower(name)))
  return partOf(query, sql.ref<number>('g.id'), part)
}

/** Lists all groups of a program by name. */
export function groupNamesStatement(programId: number) {
  return kysely
    .selectFrom('partner_groups')
    .select(['id', 'name'])
    .where('program_id', '=', programId)
    .where('removed_at', 'is', null)
    .orderBy((eb) => eb.fn('lower', ['name']))
}

export async function listGroups(db: Database, programId: number, part: Part): Promise<PartnerGroup[]> {
  return await db.query(groupsStatement(programId, part))
}

export const groupTotals = (programId: number) => totalsOf(groupsStatement(programId, { limit: 0 }))

/** Reads a group. Throws `not_found`. */
export async function readGroup(db: Database, programId: number, groupId: number): Promise<PartnerGroup> {
  return found((await db.query(groupsStatement(programId, { limit: 1, groupId })))[0], 'group')
}

/** Creates a group with its rules. Throws `conflict` if another group of the program has the name. */
export async function createGroup(
  db: Database,
  programId: number,
  group: { name: string; rules: CommissionRule[] },
): Promise<Created<PartnerGroup>> {
  const [, [created]] = await db
    .batch([
      call('make_group', { of_program_id: programId, group_name: group.name, rules: JSON.stringify(group.rules) }),
      storeCreated(groupsStatement(programId, { limit: 1, name: group.name })),
    ])
    .catch(refuse)
  return found(created?.created, 'group')
}

/**
 * Changes the given fields of a group and returns it. `rules` replaces all rules of the group from now on. Throws `not_found`, and `conflict` if
 * another group has the name.
 */
export async function changeGroup(
  db: Database,
  programId: number,
  groupId: number,
  changes: { name?: string | undefined; rules?: CommissionRule[] | undefined },
): Promise<PartnerGroup> {
  const [, [group]] = await db
    .batch([
      call('change_group', {
        of_program_id: programId,
        of_group_id: groupId,
        group_name: changes.name ?? null,
        rules: changes.rules === undefined ? null : JSON.stringify(changes.rules),
      }),
      groupsStatement(programId, { limit: 1, groupId }),
    ])
    .catch(refuse)
  return found(group, 'group')
}

/** Removes a group. Its rules end and its partners leave it. Returns the number of these partners. Throws `not_found`. */
export async function removeGroup(db: Database, programId: number, groupId: number): Promise<number> {
  const [removed] = await db.query(call('remove_group', { of_program_id: programId, of_group_id: groupId }))
  return found(removed?.remove_group, 'group')
}

/** Moves partners into a group or out of all groups. Returns how many of them the program has. Throws `not_found` for an unknown group. */
export async function movePartners(
  db: Database,
  programId: number,
  partnerIds: number[],
  groupId: number | null,
): Promise<number> {
  const [moved] = await db
    .query(call('move_partners', { of_program_id: programId, partner_ids: partnerIds, to_group_id: groupId }))
    .catch(refuse)
  return moved?.move_partners ?? 0
}
