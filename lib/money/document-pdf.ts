import bidiFactory from 'bidi-js'
import { jsPDF } from 'jspdf'
import { widenSpaces } from '../languages.ts'
import { formatMoney } from '../money.ts'
import { countryName, type Party, unprintable } from './document-parties.ts'
import { containedVat, type DocumentLine, type StoredDocument } from './documents.ts'
import type { portal } from '../texts/messages/portal.ts'
import type { Texts } from '../texts/texts.ts'
import {
  causeTexts,
  isOpenMonth,
  type StatementEntry,
  type StatementPeriod,
  type StatementTotals,
} from './statements.ts'

/** A document as text, in the order in which a PDF prints it. */
export interface PrintedDocument {
  title: string
  subtitle: string
  /** Blocks side by side, each with a heading and its lines. */
  blocks: [heading: string, lines: string[]][]
  columns: [left: string, right: string]
  rows: [text: string, amount: string][]
  total: [text: string, amount: string]
  /** The parts of the total. */
  parts: [text: string, amount: string][]
  notes: string[]
  /** The page number at the end of each page. */
  pageOf: (page: number, pages: number) => string
  createdAt: Date
}

const day = (date: Date) => date.toISOString().slice(0, 10)

/** The text for each cause of a line. */
const lineWords: Record<string, string> = {
  commission_credited: 'Commission',
  commission_corrected: 'Correction of commission',
  commission_reversed: 'Reversal of commission',
  reversal_returned: 'Reversal returned, commission',
  adjusted: 'Adjustment',
  opening_balance: 'Opening balance, adjustment',
}

function describe({ cause, commission_id, adjustment_id, posted_on, entries }: DocumentLine, payoutId: number): string {
  if (entries !== undefined) return `${entries} commissions and adjustments, listed in the export of payout ${payoutId}`
  return `${lineWords[cause] ?? cause} ${commission_id ?? adjustment_id ?? ''}, ${posted_on ?? ''}`
}

const party = ({ legal_name: name, address, country, vat_id: vatId }: Party): string[] =>
  name === undefined
    ? ['Erased after the legal term']
    : [name, ...address.split('\n'), countryName(country), ...(vatId === null ? [] : [`VAT number: ${vatId}`])]

/** Writes an invoice or a credit note from its stored facts. */
export function printDocument(document: StoredDocument): PrintedDocument {
  const { kind, series, number, currency, payout_id: payoutId, corrects, voided_at: voidedAt } = document
  const isCredit = kind === 'credit_note'
  const { vat_bp: vatBp } = document
  const vatCents = containedVat(document.amount_cents, vatBp)
  const money = (cents: number) => formatMoney(isCredit ? -cents : cents, currency)
  return {
    title: isCredit ? 'Credit note' : 'Self-billing invoice',
    subtitle: `${series}-${number}${voidedAt === null ? '' : ' (VOID)'}`,
    blocks: [
      ['Supplier', party(document.payee)],
      ['Customer, who issues this document', party(document.issuer)],
      [
        'Details',
        [
          `Date of issue: ${day(document.issued_at)}`,
          `Date of payment: ${day(document.paid_on)}`,
          `Payout: ${payoutId}`,
          `Reference: ${document.reference}`,
          ...(corrects === null ? [] : [`Corrects: ${corrects}`]),
        ],
      ],
    ],
    columns: ['Commissions for referred customers', `Amount (${currency.toUpperCase()})`],
    rows: document.lines.map((line) => [describe(line, payoutId), money(line.amount_cents)]),
    total: ['Total', money(document.amount_cents)],
    parts:
      vatBp === null
        ? []
        : [
            ['Net amount', money(document.amount_cents - vatCents)],
            [`VAT (${vatBp / 100}%)`, money(vatCents)],
          ],
    notes: [
      `Self-billing: the customer issues this document for the supplier, by version ${document.terms_version} of the agreed terms.`,
      ...(document.is_reverse_charge
        ? ['Reverse charge: the customer owes the VAT.']
        : [vatBp === null ? 'This document shows no VAT.' : 'The total contains the VAT.']),
      ...(isCredit ? ['The payment was returned. The amount is payable again.'] : []),
      ...(voidedAt === null ? [] : [`VOID since ${day(voidedAt)}: ${document.void_reason ?? ''}`]),
    ],
    pageOf: (page, pages) => `page ${page} of ${pages}`,
    createdAt: document.issued_at,
  }
}

const bidi = bidiFactory()
/** The margins of an A4 page, in points. */
const [left, right, top, bottom] = [50, 545, 60, 780]

/** Renders a document on A4 pages with a TrueType font in base64. The same document always results in the same bytes. */
export function renderPdf(document: PrintedDocument, fontBase64: string): ArrayBuffer {
  const pdf = new jsPDF({ unit: 'pt', format: 'a4', compress: true })
  pdf.setCreationDate(document.createdAt)
  pdf.setFileId('0'.repeat(32))
  pdf.setProperties({ title: `${document.title} ${document.subtitle}` })
  pdf.addFileToVFS('font.ttf', fontBase64)
  pdf.addFont('font.ttf', 'font', 'normal')
  pdf.setFont('font')
  let y = top

  /** Moves down, or to the next page if `height` doesn't fit. */
  const advance = (height: number) => {
    y += height
    if (y <= bottom) return
    pdf.addPage()
    y = top
  }
  /** Prints a line in either direction. jsPDF joins Arabic letters, but its own order of digits in right-to-left text is wrong. */
  const print = (text: string, x: number, at: number, align: 'left' | 'right' = 'left') => {
    const shaped = pdf.processArabic(widenSpaces(text).replaceAll(new RegExp(unprintable, 'gu'), '□'))
    const visual = bidi.getReorderedString(shaped, bidi.getEmbeddingLevels(shaped))
    pdf.text(visual, x, at, { align, isInputVisual: false, isOutputVisual: false })
  }
  const wrap = (text: string, width: number): string[] => pdf.splitTextToSize(text, width)

  pdf.setFontSize(18)
  print(document.title, left, y)
  pdf.setFontSize(12)
  print(document.subtitle, right, y, 'right')
  pdf.setFontSize(9)
  for (const [heading, lines] of document.blocks) {
    advance(26)
    pdf.setTextColor(110)
    print(heading, left, y)
    pdf.setTextColor(0)
    for (const line of lines.flatMap((one) => wrap(one, right - left))) {
      advance(13)
      print(line, left, y)
    }
  }
  const rule = () => pdf.line(left, y + 5, right, y + 5)
  advance(30)
  pdf.setTextColor(110)
  print(document.columns[0], left, y)
  print(document.columns[1], right, y, 'right')
  pdf.setTextColor(0)
  rule()
  for (const [text, amount] of document.rows) {
    const lines = wrap(text, 380)
    advance(16)
    print(amount, right, y, 'right')
    for (const [index, line] of lines.entries()) {
      if (index > 0) advance(12)
      print(line, left, y)
    }
  }
  rule()
  advance(6)
  for (const [text, amount] of document.parts) {
    advance(14)
    print(text, left, y)
    print(amount, right, y, 'right')
  }
  advance(document.parts.length > 0 ? 18 : 14)
  pdf.setFontSize(11)
  print(document.total[0], left, y)
  print(document.total[1], right, y, 'right')
  pdf.setFontSize(9)
  advance(14)
  for (const line of document.notes.flatMap((note) => wrap(note, right - left))) {
    advance(13)
    print(line, left, y)
  }
  const pages = pdf.getNumberOfPages()
  pdf.setFontSize(8)
  for (let page = 1; page <= pages; page++) {
    pdf.setPage(page)
    print(`${document.subtitle}, ${document.pageOf(page, pages)}`, right, 815, 'right')
  }
  return pdf.output('arraybuffer')
}

/** The maximum number of entries that a statement prints. */
export const maxStatementEntries = 1000

/** Writes a partner's statement of one month in the reader's language, oldest entry first. `now` decides whether the month is closed. */
export function printStatement(
  period: Pick<StatementPeriod, 'from' | 'to'>,
  now: Date,
  totals: StatementTotals,
  entries: StatementEntry[],
  { t, fixed, money: format, day: dayOf, month }: Texts<typeof portal>,
): PrintedDocument {
  const money = (cents: number) => format(cents, totals.currency)
  const isOpen = isOpenMonth(period, now)
  const printed = entries.slice(0, maxStatementEntries).toReversed()
  return {
    title: t('Statement'),
    subtitle: isOpen ? t('{month}, so far', { month: month(period.from) }) : month(period.from),
    blocks: [
      [t('Partner'), [totals.partner_name]],
      [t('Program'), [totals.program_name]],
      [t('Opening balance'), [money(totals.opening_cents)]],
    ],
    columns: [t('Entry'), `${t('Amount')} (${totals.currency.toUpperCase()})`],
    rows: printed.map((entry) => [
      [
        dayOf(entry.created_at),
        fixed(causeTexts[entry.cause] ?? entry.cause),
        entry.transaction_id ?? entry.payout_id,
        entry.reference ?? entry.note,
      ]
        .filter((part) => part !== null)
        .join(' · '),
      money(entry.amount_cents),
    ]),
    total: [isOpen ? t('Balance now') : t('Closing balance'), money(totals.closing_cents)],
    parts: [],
    notes: [
      t('Days are in UTC.'),
      ...(entries.length > printed.length
        ? [t('Only the last {entries} entries are printed. The CSV file has all.', { entries: maxStatementEntries })]
        : []),
    ],
    pageOf: (page, pages) => t('page {page} of {pages}', { page, pages }),
    // The same statement always results in the same file.
    createdAt: period.from,
  }
}
