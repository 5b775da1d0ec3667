import { csvOf } from '../../../lib/csv.ts'
import { decimalAmount } from '../../../lib/money.ts'
import { languages } from '../../../lib/languages.ts'
import { countries, type Party } from '../../../lib/money/document-parties.ts'
import { containedVat, type DocumentRow } from '../../../lib/money/documents.ts'
import { Badge } from './blocks.tsx'
import { Field } from './fields.tsx'
import { Day } from './format.tsx'
import type { Column } from './table.tsx'
import { type PageTexts, useTexts } from './text.tsx'

/** The countries as options, in the reader's language. */
export function countryOptions({ t, language }: PageTexts): [code: string, name: string][] {
  const { locale } = languages[language]
  const names = new Intl.DisplayNames(locale, { type: 'region' })
  const { compare } = new Intl.Collator(locale)
  const named = countries.map(([code]): [string, string] => [code, names.of(code) ?? code])
  return [['', t('Choose a country')], ...named.toSorted(([, a], [, b]) => compare(a, b))]
}

/** The fields of a party to a document. */
export function PartyFields({ party }: { party: Party | undefined }) {
  const texts = useTexts()
  const { t } = texts
  return (
    <>
      <Field name="legal_name" label={t('Legal name')} value={party?.legal_name ?? ''} maxlength={200} required />
      <Field name="address" label={t('Address')} rows={4} value={party?.address ?? ''} maxlength={500} required />
      <Field
        name="country"
        label={t('Country')}
        options={countryOptions(texts)}
        value={party?.country ?? ''}
        required
      />
      <Field
        name="vat_id"
        label={t('VAT number (optional)')}
        value={party?.vat_id ?? ''}
        maxlength={40}
        hint={t('With the letters of the country, for example DE123456789. We check only its format.')}
      />
    </>
  )
}

const kindTexts: Record<string, string> = { invoice: 'Self-billing invoice', credit_note: 'Credit note' }

/** Columns of documents, for program members and for partners. */
export const documentColumns: Record<
  'number' | 'kind' | 'issued' | 'payout' | 'state' | 'amount',
  Column<DocumentRow>
> = {
  number: {
    label: 'Document',
    phone: 'title',
    cell: ({ program_id: programId, id, series, number }) => (
      <a href={`/documents/${programId}/${id}`}>{`${series}-${number}`}</a>
    ),
  },
  kind: { label: 'Kind', cell: ({ kind }) => <Kind kind={kind} /> },
  issued: { label: 'Issued', cell: ({ issued_at: at }) => <Day at={at} /> },
  payout: { label: 'Payout', cell: ({ payout_id: id }) => id },
  state: {
    label: 'State',
    cell: (document) => <State document={document} />,
  },
  amount: {
    label: 'Amount',
    right: true,
    phone: 'amount',
    cell: (document) => <Amount document={document} />,
  },
}

function Kind({ kind }: Pick<DocumentRow, 'kind'>) {
  return <>{useTexts().fixed(kindTexts[kind] ?? kind)}</>
}

function State({ document }: { document: DocumentRow }) {
  const { series, voided_at: voidedAt, void_reason: reason, credit_note: creditNote } = document
  const { t } = useTexts()
  if (voidedAt !== null)
    return (
      <>
        <Badge tone="bad">{t('Void')}</Badge> <span class="muted small">{reason}</span>
      </>
    )
  return creditNote === null ? (
    <Badge tone="good">{t('Issued')}</Badge>
  ) : (
    <Badge>{t('Corrected by {document}', { document: `${series}-${creditNote}` })}</Badge>
  )
}

function Amount({ document: { kind, amount_cents: cents, currency } }: { document: DocumentRow }) {
  return <>{useTexts().money(kind === 'credit_note' ? -cents : cents, currency)}</>
}

const signed = ({ kind, currency }: DocumentRow, cents: number) =>
  decimalAmount(kind === 'credit_note' ? -cents : cents, currency)

export const documentsCsv = (documents: DocumentRow[]) =>
  csvOf(documents, {
    document: ({ series, number }) => `${series}-${number}`,
    kind: ({ kind }) => kind,
    issued: (row) => row.issued_at,
    payout_id: (row) => row.payout_id,
    partner_id: (row) => row.partner_id,
    name: (row) => row.payee_name,
    currency: ({ currency }) => currency,
    amount: (row) => signed(row, row.amount_cents),
    vat_percent: ({ vat_bp: rate }) => rate && rate / 100,
    vat: (row) => signed(row, containedVat(row.amount_cents, row.vat_bp)),
    voided: (row) => row.voided_at,
  })
