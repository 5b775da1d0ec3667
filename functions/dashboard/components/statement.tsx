import { csvOf } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { isCurrency, decimalAmount } from '../../../lib/money.ts'
import {
  causeTexts,
  isOpenMonth,
  listStatementEntries,
  monthRange,
  readStatementTotals,
  statementEntryTotals,
  type StatementEntry,
  type StatementOf,
  type StatementTotals,
} from '../../../lib/money/statements.ts'
import type { Database } from '../../../lib/database.ts'
import { addressOf } from './address.ts'
import { Card, LinkButton, Metric } from './blocks.tsx'
import { Day } from './format.tsx'
import { byId, type ListOf } from './list.tsx'
import { english, type PageTexts, useTexts } from './text.tsx'

interface StatementProps {
  texts?: PageTexts
  of: StatementOf
  current: string
  saleAddress: (transactionId: string) => string
}

/** The statement of a partner for one month (UTC) and currency: opening balance, each entry, closing balance. */
export function statementList(
  db: Database,
  query: Record<string, string>,
  { texts = english, of, current, saleAddress }: StatementProps,
): ListOf<StatementEntry, number, StatementTotals> {
  const { t, month: nameOf } = texts
  const thisMonth = textOf(new Date())
  const { month = thisMonth, currency: requestedCurrency = '' } = query
  const range = monthRange(month)
  if (!range) throw new ApiError('invalid_request', 'Enter a month such as 2026-01.')
  const currency = isCurrency(requestedCurrency) ? requestedCurrency : null
  const period = { ...range, currency }
  return {
    title: t('Statement of {month}', { month: nameOf(range.from) }),
    current,
    rows: (count) => t('{count} entries', { count }),
    query: { month: query['month'], currency: currency ?? undefined },
    cursor: byId,
    read: (part) => listStatementEntries(db, of, period, part),
    totals: () => statementEntryTotals(of, period),
    more: () => readStatementTotals(db, of, period),
    show: (_, totals) => ({
      actions: (
        <LinkButton
          href={addressOf(`/documents/${of.programId}/statements/${month}`, {
            currency: currency ?? undefined,
            partner: 'partnerId' in of ? String(of.partnerId) : undefined,
            language: texts.language === 'en' ? undefined : texts.language,
          })}
          text="PDF"
        />
      ),
      lead:
        totals &&
        t('{partner}, {program}. Days are UTC.', { partner: totals.partner_name, program: totals.program_name }),
      choices: [
        { name: 'month', label: t('Month'), options: months(24).map((at) => [textOf(at), nameOf(at)]) },
        {
          name: 'currency',
          label: t('Currency'),
          options: [...new Set([totals?.currency ?? '', ...(totals?.currencies ?? [])])].map((one) => [
            one,
            one.toUpperCase(),
          ]),
        },
      ],
      above: totals && <Totals totals={totals} month={nameOf(range.from)} isOpen={isOpenMonth(range, new Date())} />,
      caption: t('Balance entries, newest first'),
      columns: [
        { label: 'Posted', cell: ({ created_at: at }) => <Day at={at} />, phone: 'plain' },
        { label: 'Entry', cell: (entry) => <Entry entry={entry} saleAddress={saleAddress} />, phone: 'title' },
        {
          label: 'Amount',
          right: true,
          cell: ({ amount_cents: cents, currency: code }) => texts.money(cents, code),
          phone: 'amount',
        },
        {
          label: 'Balance',
          right: true,
          cell: ({ balance_after_cents: cents, currency: code }) => texts.money(cents, code),
        },
      ],
      empty: { title: t('No entries'), text: t("The balance didn't change in this month.") },
    }),
    file: () => `statement-${of.programId}-${month}`,
    csv: statementCsv,
  }
}

const textOf = (month: Date) => month.toISOString().slice(0, 7)

/** The starts of the newest `count` months. */
function months(count: number): Date[] {
  const now = new Date()
  return Array.from({ length: count }, (_, back) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)))
}

interface TotalsProps {
  totals: StatementTotals
  month: string
  isOpen: boolean
}

function Totals({ totals, month, isOpen }: TotalsProps) {
  const texts = useTexts()
  const { t } = texts
  const money = (cents: number) => texts.money(cents, totals.currency)
  return (
    <Card title={isOpen ? t('{month}, so far', { month }) : month}>
      <dl class="cards">
        <Metric label={t('Opening balance')} value={money(totals.opening_cents)} />
        <Metric label={t('Credits')} value={money(totals.credited_cents)} />
        <Metric label={t('Deductions and payouts')} value={money(totals.deducted_cents)} />
        <Metric label={isOpen ? t('Balance now') : t('Closing balance')} value={money(totals.closing_cents)} />
      </dl>
    </Card>
  )
}

function Entry({ entry, saleAddress }: { entry: StatementEntry; saleAddress: (transactionId: string) => string }) {
  const { cause, transaction_id: sale, payout_id: payout, reference, note } = entry
  return (
    <div>
      {useTexts().fixed(causeTexts[cause] ?? cause)} {sale !== null && <a href={saleAddress(sale)}>{sale}</a>}
      {payout !== null && payout}
      {(reference ?? note) && <div class="muted small">{reference ?? note}</div>}
    </div>
  )
}

const statementCsv = (entries: StatementEntry[]) =>
  csvOf(entries, {
    entry: ({ id }) => id,
    posted: (entry) => entry.created_at,
    cause: ({ cause }) => cause,
    commission_id: (entry) => entry.commission_id,
    transaction_id: (entry) => entry.transaction_id,
    refund_id: (entry) => entry.refund_id,
    payout_id: (entry) => entry.payout_id,
    reference: ({ reference }) => reference,
    adjustment_id: (entry) => entry.adjustment_id,
    note: ({ note }) => note,
    currency: ({ currency }) => currency,
    amount: (entry) => decimalAmount(entry.amount_cents, entry.currency),
    balance: (entry) => decimalAmount(entry.balance_after_cents, entry.currency),
  })
