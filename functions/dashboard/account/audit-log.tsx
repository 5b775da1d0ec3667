import {
  type AuditEntry,
  type AuditThing,
  auditThings,
  auditTotals,
  auditEntriesStatement,
} from '../../../lib/access/audit-log.ts'
import { csvOf } from '../../../lib/csv.ts'
import { listMembers, type Member } from '../../../lib/programs/members.ts'
import { actorOf, detailsOf, wordsOf } from '../components/audit-entry.ts'
import { Time } from '../components/format.tsx'
import { byId, workspaceList } from '../components/list.tsx'
import { createPages } from '../components/page.ts'

/** A workspace's audit log, for its owners. */
export const pages = createPages()

const titles: Record<AuditThing, string> = {
  workspace: 'The workspace',
  member: 'Members and sign-ins',
  program: 'Programs and their rules',
  api_key: 'API keys',
  agent: 'Agents',
  partner: 'Partners',
  join_page: 'Join page',
  application: 'Applications',
  code: 'Codes of partners',
  group: 'Groups',
  commission_rule: 'Commission rules',
  commission: 'Commissions',
  payout: 'Payouts',
  payout_run: 'Payout runs',
  processor: 'Payment processor',
  customer: 'Erased customers',
  webhook: 'Webhooks',
  data: 'Exports and test data',
}

workspaceList(pages, '/workspaces/:workspaceId/audit', 'audit:list', (c) => {
  const { id: workspaceId, name } = c.get('workspace')
  const thing = auditThings.find((known) => known === c.req.query('thing'))
  const userId = c.req.query('by') || undefined
  const programOf = (entry: AuditEntry) => c.get('viewer').programs.find(({ id }) => id === entry.program_id)
  const detailsIn = (entry: AuditEntry) => detailsOf(entry, programOf(entry)?.currency)
  return {
    title: 'Audit log',
    current: '',
    rows: 'entries',
    query: { thing, by: userId },
    cursor: byId,
    read: (part) => auditEntriesStatement(workspaceId, { ...part, thing, userId }),
    totals: () => auditTotals(workspaceId, { thing, userId }),
    more: async () => (await listMembers(c.get('db'), workspaceId)).members,
    show: (_, members: Member[] = []) => ({
      lead: `All actions in ${name}. Nobody can change an entry. Entries are kept for two years.`,
      choices: [
        { name: 'thing', label: 'About', options: [['', 'Everything'], ...Object.entries(titles)] },
        {
          name: 'by',
          label: 'By',
          options: [['', 'Anybody'], ...members.map(({ user_id: id, email }) => [id, email] as const)],
        },
      ],
      caption: 'Audit log, newest first',
      columns: [
        { label: 'When (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
        { label: 'Who', cell: (entry) => <span class="name">{actorOf(entry)}</span> },
        { label: 'Action', cell: ({ action }) => <span class="words">{wordsOf(action)}</span> },
        { label: 'Subject', cell: ({ subject }) => <span class="name">{subject}</span> },
        {
          label: 'Program',
          cell: (entry) => <span class="name">{programOf(entry)?.name ?? entry.program_id}</span>,
        },
        { label: 'Details', cell: (entry) => <span class="name">{detailsIn(entry)}</span> },
      ],
      empty: { title: 'No entries', text: 'Every action in the workspace appears here.' },
    }),
    file: () => 'audit-log',
    csv: (entries) =>
      csvOf(entries, {
        id: ({ id }) => id,
        at: (entry) => entry.created_at,
        who: actorOf,
        user_id: (entry) => entry.user_id,
        action: ({ action }) => action,
        program_id: (entry) => entry.program_id,
        subject: ({ subject }) => subject,
        details: detailsIn,
      }),
  }
})
