import { auditStatement, findingsStatement, type LatestAudit, findingTotals } from '../../../lib/audit/stored-audit.ts'
import { csvOf } from '../../../lib/csv.ts'
import { counted, formatNumber, Time } from '../components/format.tsx'
import { byId, programList } from '../components/list.tsx'
import { createProgramPages } from '../components/page.ts'

/** Shows the result of the latest audit for one program. */
export const pages = createProgramPages()

programList(pages, '/books', 'payout:list', (c) => {
  const { id: programId } = c.get('program')
  const db = c.get('db')
  return {
    title: 'Books',
    heading: 'Audit of the books',
    current: '/books',
    rows: 'findings',
    cursor: byId,
    read: (part) => findingsStatement(programId, part),
    totals: () => findingTotals(programId),
    more: () => db.query(auditStatement()),
    show: (findings, [latest]: LatestAudit[] = []) => ({
      lead: latest ? (
        <>
          Last audit: <Time at={latest.started_at} />, {formatNumber(latest.rules)} rules in{' '}
          {counted(Math.ceil(latest.duration_ms / 1000), 'second', 'seconds')}. It compares sales, refunds, commissions,
          balances and payouts with each other and with the reports of your processors. It runs every night.
        </>
      ) : (
        'The audit compares sales, refunds, commissions, balances and payouts with each other and with the reports of your processors.'
      ),
      above: findings.length > 0 && (
        <p class="message bad" role="alert">
          These rows break a rule of the books. Don’t pay the named partners before you know the cause. Export the list
          and send it to the operator of this service. A corrected row leaves the list with the next audit.
        </p>
      ),
      caption: 'Rows that break a rule',
      columns: [
        { label: 'Rule', cell: ({ rule }) => rule, phone: 'title' },
        { label: 'Row', cell: ({ subject }) => subject },
        { label: 'Found', cell: ({ found }) => found ?? 'nothing' },
        { label: 'Expected', cell: ({ expected }) => expected ?? 'nothing' },
        { label: 'Broken rows', cell: ({ broken }) => formatNumber(broken), right: true },
      ],
      empty: latest
        ? { title: 'Everything agrees', text: 'No row of this program breaks a rule.' }
        : { title: 'No audit yet', text: 'The audit runs every night at 3:15 (UTC).' },
    }),
    file: () => `audit-${programId}`,
    csv: (findings) =>
      csvOf(findings, {
        rule: ({ rule }) => rule,
        row: ({ subject }) => subject,
        found: ({ found }) => found,
        expected: ({ expected }) => expected,
        broken_rows: ({ broken }) => broken,
      }),
  }
})
