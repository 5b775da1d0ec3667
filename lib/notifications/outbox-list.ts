import { type InferResult, sql } from 'kysely'
import { countedPart, countStatement, type Part, partOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'

export type OutboxNotification = InferResult<ReturnType<typeof outboxStatement>>[number]

export const outboxTotals = (programId: number) => countStatement(outboxStatement(programId, countedPart))

/** Lists a program's outbox messages with their delivery status, newest first. */
export function outboxStatement(programId: number, part: Part) {
  const query = kysely
    .selectFrom('outbox as o')
    .leftJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'o.program_id').onRef('p.id', '=', 'o.partner_id'),
    )
    .select([
      'o.id',
      'o.kind',
      'o.audience',
      'o.partner_id',
      'p.name as partner_name',
      'o.created_at',
      'o.sent_at',
      'o.delivered_at',
    ])
    .where('o.program_id', '=', programId)
  return partOf(query, sql.ref<number>('o.id'), part)
}
