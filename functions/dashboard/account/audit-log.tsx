import type { Context } from 'hono'
import { type AuditThing, auditThings, listAuditEntries, noteWorkspaceExport } from '../../../lib/access/audit-log.ts'
import { toCsv } from '../../../lib/csv.ts'
import { listMembers } from '../../../lib/programs/members.ts'
import { addressOf } from '../components/address.ts'
import { actorOf, detailsOf, wordsOf } from '../components/audit-entry.ts'
import { Field } from '../components/fields.tsx'
import { emptyForm } from '../components/form.ts'
import { Time } from '../components/format.tsx'
import { renderAccount } from '../components/layout.tsx'
import { idOf, ListPage, listResponse, readPageById } from '../components/list.tsx'
import { createPages, requireWorkspace } from '../components/page.ts'

/** A workspace's audit log, for its owners. */
export const auditLogPages = createPages()

const addressIn = (workspaceId: string) => `/workspaces/${workspaceId}/audit`

/** The filters in the query: kind of subject and person. */
function filtersIn(c: Context) {
  const asked = c.req.query('thing')
  return {
    thing: auditThings.find((thing) => thing === asked),
    userId: c.req.query('by') || undefined,
  }
}

auditLogPages.get('/workspaces/:workspaceId/audit', requireWorkspace('audit:list'), async (c) => {
  const workspace = c.get('workspace')
  const address = addressIn(workspace.id)
  const filters = filtersIn(c)
  const asked = { thing: filters.thing, by: filters.userId }
  const [page, { members }] = await Promise.all([
    readPageById(c, address, (part) => listAuditEntries(c.get('db'), workspace.id, { ...part, ...filters }), asked),
    listMembers(c.get('db'), workspace.id),
  ])
  return renderAccount(c, c.get('viewer'), {
    title: 'Audit log',
    children: (
      <ListPage
        title="Audit log"
        lead={`All actions in ${workspace.name}. Nobody can change an entry. Entries are kept for two years.`}
        address={address}
        rows="entries"
        csv={addressOf(`${address}.csv`, asked)}
        page={page}
        caption="Audit log, newest first"
        columns={[
          { label: 'When (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
          { label: 'Who', cell: (entry) => <span class="name">{actorOf(entry)}</span> },
          { label: 'Action', cell: ({ action }) => <span class="words">{wordsOf(action)}</span> },
          { label: 'Subject', cell: ({ subject }) => <span class="name">{subject}</span> },
          {
            label: 'Program',
            cell: ({ program_id: id }) => (
              <span class="name">{c.get('viewer').programs.find((program) => program.id === id)?.name ?? id}</span>
            ),
          },
          { label: 'Details', cell: (entry) => <span class="name">{detailsOf(entry)}</span> },
        ]}
        empty={{ title: 'No entries', text: <a href={address}>Show everything</a> }}
      >
        <form method="get" action={address} class="row end">
          <Field
            name="thing"
            label="About"
            options={[['', 'Everything'], ...auditThings.map((thing) => [thing, titles[thing]] as const)]}
            value={filters.thing ?? ''}
            form={emptyForm}
          />
          <Field
            name="by"
            label="By"
            options={[['', 'Anybody'], ...members.map(({ user_id: id, email }) => [id, email] as const)]}
            value={filters.userId ?? ''}
            form={emptyForm}
          />
          <button type="submit">Show</button>
        </form>
      </ListPage>
    ),
  })
})

const titles: Record<AuditThing, string> = {
  workspace: 'The workspace',
  member: 'Members and sign-ins',
  program: 'Programs and their rules',
  api_key: 'API keys',
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

auditLogPages.get('/workspaces/:workspaceId/audit.csv', requireWorkspace('audit:list'), async (c) => {
  const { id: workspaceId } = c.get('workspace')
  const columns = ['id', 'at', 'who', 'user_id', 'action', 'program_id', 'subject', 'details'] as const
  const response = await listResponse(c, {
    nameOf: () => 'audit-log',
    read: (part) => listAuditEntries(c.get('db'), workspaceId, { ...part, ...filtersIn(c) }),
    cursorOf: idOf,
    write: (entries) =>
      toCsv(
        columns,
        entries.map((entry) => ({
          ...entry,
          at: entry.created_at,
          who: actorOf(entry),
          details: detailsOf(entry),
        })),
      ),
  })
  await noteWorkspaceExport(c.get('db'), c.get('viewer').user.id, workspaceId, 'audit-log')
  return response
})
