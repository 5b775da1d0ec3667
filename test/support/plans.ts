import type pg from 'pg'

/** A node of a query plan with the counts of its run. Conditions have Postgres' names. */
export interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  Alias?: string
  'Index Cond'?: string
  'Recheck Cond'?: string
  Filter?: string
  'Join Filter'?: string
  'Hash Cond'?: string
  'Merge Cond'?: string
  'Actual Rows'?: number
  'Actual Loops'?: number
  'Rows Removed by Filter'?: number
  'Rows Removed by Join Filter'?: number
  'Rows Removed by Index Recheck'?: number
  Plans?: PlanNode[]
}

/**
 * Collects the plans of a connection's statements and their functions while `auto_explain.log_min_duration` is 0.
 */
export async function collectPlans(client: pg.Client): Promise<PlanNode[]> {
  const plans: PlanNode[] = []
  client.on('notice', ({ message = '' }) => {
    const json = message.slice(message.indexOf('{'))
    if (json.startsWith('{')) plans.push((JSON.parse(json) as { Plan: PlanNode }).Plan)
  })
  await client.query(`load 'auto_explain'; set auto_explain.log_nested_statements = on;
    set auto_explain.log_analyze = on; set auto_explain.log_level = notice; set auto_explain.log_format = json`)
  return plans
}

/** Returns the number of rows that a plan's scans read, from all tables or from those that `isOf` matches. */
export function rowsRead(node: PlanNode, isOf: (relation: string) => boolean = () => true): number {
  const relation = node['Relation Name']
  const own =
    relation !== undefined && isOf(relation)
      ? (node['Actual Rows'] ?? 0) +
        (node['Rows Removed by Filter'] ?? 0) +
        (node['Rows Removed by Index Recheck'] ?? 0)
      : 0
  return (node.Plans ?? []).reduce((sum, child) => sum + rowsRead(child, isOf), own * (node['Actual Loops'] ?? 1))
}
