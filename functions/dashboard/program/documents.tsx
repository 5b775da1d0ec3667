import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import { csvOf } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { decimalAmount, formatMoney, isCurrency, majorUnits } from '../../../lib/money.ts'
import {
  billingForm,
  issueMissingDocuments,
  documentTotals,
  readBilling,
  saveBilling,
  voidDocument,
  documentListStatement,
} from '../../../lib/money/documents.ts'
import {
  listYearlyPayments,
  openTaxForm,
  readPartnerTaxForm,
  readTaxFormLimits,
  setTaxFormLimit,
  type TaxFormLimit,
  taxFormNames,
} from '../../../lib/money/tax-forms.ts'
import { checkPassword, OwnPassword } from '../account/credentials.tsx'
import { idInPath } from '../components/address.ts'
import { Card, Facts, LinkButton } from '../components/blocks.tsx'
import { documentColumns, documentsCsv, PartyFields } from '../components/documents.tsx'
import { Field, Form, PostButton, ReasonMenu } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { counted, formatDate, isolated } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { byId, exportCsv, programList, readListQuery } from '../components/list.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { smallestUnits } from '../components/typed-number.ts'
import { partnerAddress, partnerIn } from './partner-columns.tsx'
import { PayoutViews } from './payout-files.tsx'

/** The self-billing documents of a program, and its details on them. */
export const pages = createProgramPages()

const addressIn = (programId: number) => `/programs/${programId}/documents`
const page = (c: ProgramContext) => addressIn(c.get('program').id)
const detailsPage = (c: ProgramContext) => `${page(c)}/details`

programList(pages, '/documents', 'payout:list', (c) => {
  const { id: programId, roles } = c.get('program')
  const { search } = readListQuery(c, { newest: 'Newest first' })
  const address = addressIn(programId)
  return {
    title: 'Documents',
    current: '/payouts',
    rows: 'documents',
    query: { q: search },
    cursor: byId,
    read: (part) => documentListStatement({ programId }, { ...part, search }),
    totals: () => documentTotals({ programId }, { search }),
    show: () => ({
      lead: 'Self-billing invoices of payments, and credit notes for returned payments. An accountant has to check them.',
      what: 'Name or number',
      views: <PayoutViews programId={programId} current="documents" />,
      actions: (
        <>
          {may(roles, 'program:update') && <LinkButton href={`${address}/details`} text="Billing details" />}
          {may(roles, 'payout:pay') && <PostButton action={`${address}/missing`} text="Issue missing" />}
        </>
      ),
      above: <YearlyPayments address={address} />,
      caption: 'Documents, newest first',
      columns: [
        documentColumns.number,
        documentColumns.kind,
        documentColumns.issued,
        {
          label: 'Partner',
          cell: ({ partner_id: id, payee_name: name }) => (
            <a href={partnerAddress(programId, id)}>{name ?? 'Erased'}</a>
          ),
        },
        documentColumns.payout,
        documentColumns.state,
        documentColumns.amount,
        may(roles, 'payout:pay') && {
          cell: ({ id, series, number, kind, voided_at: voidedAt, credit_note: creditNote }) =>
            kind === 'invoice' &&
            voidedAt === null &&
            creditNote === null && (
              <ReasonMenu
                action={`${address}/${id}/void`}
                id={id}
                verb="Void"
                subject={`document ${series}-${number}`}
                label="Reason"
                submit="Void this document"
              />
            ),
        },
      ],
      empty: {
        title: 'No documents yet',
        text: 'A payment gets a document if you entered your billing details, and if the partner entered theirs and accepted terms with self-billing.',
      },
    }),
    file: () => `documents-${programId}`,
    csv: documentsCsv,
  }
})

pages.get('/documents/details', requireProgram('program:update'), async (c) => {
  const { id: programId, currency } = c.get('program')
  const [billing, limits] = await Promise.all([
    readBilling(c.get('db'), programId),
    readTaxFormLimits(c.get('db'), programId),
  ])
  return c.render(
    <ProgramPage
      title="Billing details"
      current="/payouts"
      lead="The details on your self-billing documents. Issued documents do not change."
    >
      <Card title="Your details">
        <p class="muted">
          Documents also need the agreement of each partner: include self-billing in the terms of your{' '}
          <a href={`/programs/${programId}/join-page`}>join page</a>.
        </p>
        <Form action={detailsPage(c)} submit="Save">
          <PartyFields party={billing} />
          <Field
            name="series"
            label="Series"
            value={billing?.series ?? 'SB'}
            maxlength={10}
            hint="Numbers count up without gaps within a series: SB-1, SB-2."
            required
          />
          <Field
            name="vat_rate"
            label="VAT rate in percent (optional)"
            value={billing?.vat_bp ? String(billing.vat_bp / 100) : ''}
            inputmode="decimal"
            maxlength={5}
            hint="For partners in your country with a VAT number. Their documents show the VAT that the payout contains. This doesn't change the payout."
          />
        </Form>
      </Card>
      <TaxFormLimits address={`${detailsPage(c)}/tax-forms`} currency={currency} limits={limits} />
    </ProgramPage>,
  )
})

interface TaxFormLimitsProps {
  address: string
  currency: string
  limits: TaxFormLimit[]
}

function TaxFormLimits({ address, currency, limits }: TaxFormLimitsProps) {
  const own = limits.find((limit) => limit.currency === currency)
  return (
    <Card title="Hold payouts without a tax form">
      <p class="muted">
        {limits.length === 0
          ? 'No payout waits for a tax form.'
          : `A payout waits for a W-9 or W-8 if it brings a partner above ${new Intl.ListFormat('en').format(
              limits.map((limit) => formatMoney(limit.above_cents, limit.currency)),
            )} in a calendar year (UTC). Runs exclude such partners, and they are notified.`}
      </p>
      <Form action={address} submit="Save" layout="inline">
        <Field name="currency" label="Currency" value={currency.toUpperCase()} required />
        <Field
          name="above"
          label="Above"
          inputmode="decimal"
          value={own ? String(majorUnits(own.above_cents, currency)) : ''}
          hint="Leave empty to hold no payouts."
        />
      </Form>
    </Card>
  )
}

/** CSV files with the payments to each partner, for the last five years. */
function YearlyPayments({ address }: { address: string }) {
  const year = new Date().getUTCFullYear()
  return (
    <p class="muted small">
      Payments per partner with country and tax form:
      {Array.from({ length: 5 }, (_, back) => (
        <>
          {' '}
          <a href={`${address}/payments.csv?year=${year - back}`}>{year - back}</a>
        </>
      ))}
    </p>
  )
}

pages.get('/documents/payments.csv', requireProgram('payout:list'), async (c) => {
  const year = c.req.query('year') ?? String(new Date().getUTCFullYear())
  if (!/^20\d\d$/.test(year)) throw new ApiError('invalid_request', 'Enter a year, such as 2026.')
  const { id: programId } = c.get('program')
  const payments = await listYearlyPayments(c.get('db'), programId, Number(year))
  const text = csvOf(payments, {
    partner_id: (row) => row.partner_id,
    partner: (row) => row.partner_name,
    legal_name: (row) => row.legal_name,
    country: ({ country }) => country,
    vat_id: (row) => row.vat_id,
    tax_form: (row) => row.tax_form,
    tax_id_last_four: (row) => row.tax_id_hint,
    tax_form_expires: (row) => row.expires_on,
    payments: (row) => row.payments,
    currency: ({ currency }) => currency,
    paid: (row) => decimalAmount(row.paid_cents, row.currency),
  })
  return await exportCsv(c, `payments-${programId}-${year}`, text)
})

const limitForm = z.object({
  currency: z.string().check(z.trim(), z.toLowerCase(), z.refine(isCurrency, 'Enter the code of a currency.')),
  above: optionalText.check(z.trim()),
})

pages.post(
  '/documents/details/tax-forms',
  requireProgram('program:update'),
  form(limitForm, detailsPage),
  async (c) => {
    const { currency, above } = c.req.valid('form')
    const cents = above === '' ? null : smallestUnits(above, currency)
    if (Number.isNaN(cents)) throw new FormRefusal({ above: 'Enter an amount, for example 600.' })
    await setTaxFormLimit(c.get('db'), c.get('program').id, currency, cents)
    return redirectWith(c, detailsPage(c), 'Saved. It applies to the next payout run.')
  },
)

const taxFormAddress = (c: ProgramContext) => `${partnerAddress(c.get('program').id, partnerIn(c))}/tax-form`

pages.get('/partners/:partnerId/tax-form', requireProgram('payout:pay'), async (c) => {
  const filed = await readPartnerTaxForm(c.get('db'), c.get('program').id, partnerIn(c))
  return c.render(
    <ProgramPage
      title="Tax form"
      current="/partners"
      lead={`Tax form of ${isolated(filed.name)}. The audit log records each time that somebody opens it.`}
    >
      {filed.kind === null ? (
        <p class="muted">The partner hasn't filed a tax form.</p>
      ) : (
        <Card title={taxFormNames[filed.kind]}>
          <Facts
            facts={{
              'Taxpayer number': filed.tax_id_hint && `ends in ${filed.tax_id_hint}`,
              'Signed on': filed.signed_on && formatDate(filed.signed_on),
              'Valid until': filed.expires_on && formatDate(filed.expires_on),
            }}
          />
          <Form action={taxFormAddress(c)} submit="Open the form" layout="inline">
            <OwnPassword name="own_password" />
          </Form>
        </Card>
      )}
    </ProgramPage>,
  )
})

const openForm = z.object({ own_password: optionalText })

pages.post('/partners/:partnerId/tax-form', requireProgram('payout:pay'), form(openForm, taxFormAddress), async (c) => {
  await checkPassword(c, 'own_password', c.req.valid('form').own_password)
  const reader = { userId: c.get('viewer').user.id, programId: c.get('program').id }
  const filed = await openTaxForm(c.get('db'), c.env, reader, partnerIn(c))
  return c.render(
    <ProgramPage title="Tax form" current="/partners">
      <Card title={taxFormNames[filed.kind]}>
        <Facts
          facts={{
            Name: filed.legal_name,
            Address: filed.address.replaceAll('\n', ', '),
            Country: filed.country,
            'Classification or status': filed.classification || null,
            'Taxpayer number': filed.tax_id || null,
            'Date of birth': filed.birth_date || null,
            Signature: filed.signature,
          }}
        />
      </Card>
    </ProgramPage>,
  )
})

pages.post('/documents/details', requireProgram('program:update'), form(billingForm, detailsPage), async (c) => {
  await saveBilling(c.get('db'), c.get('program').id, c.req.valid('form'))
  return redirectWith(c, page(c), 'Saved. Payments get documents from now on.')
})

pages.post('/documents/missing', requireProgram('payout:pay'), async (c) => {
  const issued = await issueMissingDocuments(c.get('db'), c.get('program').id)
  return redirectWith(c, page(c), `${counted(issued, 'document was', 'documents were')} issued.`)
})

const voidForm = z.object({
  reason: z.string().check(z.trim(), z.minLength(1, 'Enter a reason.'), z.maxLength(1000)),
})

pages.post('/documents/:documentId/void', requireProgram('payout:pay'), form(voidForm, page), async (c) => {
  const documentId = idInPath(c, 'documentId', 'This program has no such invoice.')
  await voidDocument(c.get('db'), c.get('program').id, documentId, c.req.valid('form').reason)
  return redirectWith(c, page(c), 'The document is void. It keeps its number. Issue missing documents to replace it.')
})
