import * as z from 'zod/mini'
import { formatMoney } from '../../../lib/money.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { selfBillingClause } from '../../../lib/programs/join-page.ts'
import {
  acceptTerms,
  listDocuments,
  payeeForm,
  readPayee,
  savePayee,
  withdrawSelfBilling,
} from '../../../lib/money/documents.ts'
import { countries } from '../../../lib/money/document-parties.ts'
import { readTaxForm, saveTaxForm, taxFormForm, taxFormNames } from '../../../lib/money/tax-forms.ts'
import { checkPassword, OwnPassword } from '../account/credentials.tsx'
import { idInPath } from '../components/address.ts'
import { Badge, Card } from '../components/blocks.tsx'
import { documentColumns, PartyFields } from '../components/documents.tsx'
import { Field, Form, Hidden } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { emptyForm, form, optionalText, useFormOf } from '../components/form.ts'
import { Day } from '../components/format.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { byId, List, readPage } from '../components/list.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { PlainText } from '../join/plain-text.tsx'

/** A partner's documents, their details on them, and their agreement to self-billing. */
export const pages = createPages()

const address = '/partner/documents'
const filing = `${address}/tax-form`

type Terms = Awaited<ReturnType<typeof readPayee>>['programs'][number]

pages.get(address, requirePartner, async (c) => {
  const userId = c.get('viewer').user.id
  const [{ details, programs }, taxForm, page] = await Promise.all([
    readPayee(c.get('db'), userId),
    readTaxForm(c.get('db'), userId),
    readPage(c, byId, (part) => listDocuments(c.get('db'), { userId }, part)),
  ])
  const { number, kind, issued, payout, state, amount } = documentColumns
  return c.render(
    <PartnerPage
      title="Documents"
      current="/documents"
      lead="Invoices that programs issue in your name for their payments to you."
    >
      {taxForm.held.map(({ program_name: name, payable_cents: cents, currency }) => (
        <p class="message warn">
          {name} holds your payout of {formatMoney(cents, currency)} until you file a valid tax form below.
        </p>
      ))}
      {programs.map((terms) => (
        <SelfBilling terms={terms} />
      ))}
      <Card title="Your details on documents">
        <p class="muted">
          A program that pays you sees these details on its documents. Use Latin, Greek, Cyrillic, Hebrew or Arabic
          letters. Issued documents do not change.
        </p>
        <Form action={`${address}/details`} submit="Save details">
          <PartyFields party={details} />
        </Form>
      </Card>
      <TaxForm {...taxForm} />
      <List
        title="Your documents"
        page={page}
        caption="Your documents, newest first"
        columns={[
          number,
          kind,
          issued,
          { label: 'Program', cell: ({ program_name: name }) => name },
          payout,
          state,
          amount,
        ]}
        empty={{
          title: 'No documents yet',
          text: 'Programs that use self-billing issue a document for each payment once you have entered your details.',
        }}
      />
    </PartnerPage>,
  )
})

function SelfBilling({ terms: { id, name, version, text, self_billing: isOffered, accepted } }: { terms: Terms }) {
  return (
    <Card
      title={`Self-billing by ${name}`}
      aside={accepted !== null && <Badge tone="good">{`You accepted version ${accepted}`}</Badge>}
    >
      <p>{selfBillingClause}</p>
      <details class="more">
        <summary>Terms, version {version}</summary>
        <PlainText text={text} />
      </details>
      {isOffered && accepted !== version && (
        <Form action={`${address}/${id}/terms`} submit="Accept these terms" layout="inline">
          <Hidden fields={{ version: String(version) }} />
        </Form>
      )}
      {accepted !== null && (
        <Form action={`${address}/${id}/withdraw`} submit="Withdraw agreement" layout="inline">
          <p class="muted small">If you withdraw it, you send this program your own invoices for its next payments.</p>
        </Form>
      )}
    </Card>
  )
}

function TaxForm({ form: filed }: Awaited<ReturnType<typeof readTaxForm>>) {
  return (
    <Card
      title="US tax form"
      aside={filed && <Badge tone={filed.is_valid ? 'good' : 'bad'}>{filed.is_valid ? 'On file' : 'Expired'}</Badge>}
    >
      <p class="muted">
        {filed ? (
          <>
            {taxFormNames[filed.kind]},{' '}
            {filed.tax_id_hint === null ? 'without a number' : `number ends in ${filed.tax_id_hint}`}, signed on{' '}
            <Day at={filed.signed_on} />
            {filed.expires_on && (
              <>
                , valid until <Day at={filed.expires_on} />
              </>
            )}
            . Members of your programs who pay partners can open it.
          </>
        ) : (
          'Some programs pay larger amounts only with a form. We store it encrypted. Members of your programs who pay partners can open it.'
        )}
      </p>
      <details class="more" open={useFormOf(filing) !== emptyForm}>
        <summary>{filed ? 'File a new form' : 'File a form'}</summary>
        <Form action={filing} submit="Sign and file">
          <Field name="kind" label="Form" options={Object.entries(taxFormNames)} />
          <Field name="legal_name" id="tax-name" label="Name on the form" maxlength={200} required />
          <Field name="address" id="tax-address" label="Permanent address" rows={4} maxlength={500} required />
          <Field
            name="country"
            id="tax-country"
            label="Country of tax residence"
            options={[['', 'Choose a country'], ...countries]}
            required
          />
          <Field name="classification" label="Tax classification or chapter 3 and 4 status" maxlength={200} />
          <Field
            name="tax_id"
            label="Taxpayer number"
            autocomplete="off"
            maxlength={40}
            hint="For a W-9, your SSN or EIN."
          />
          <Field name="birth_date" label="Date of birth (W-8BEN only)" type="date" />
          <Field
            name="signature"
            label="Signature"
            hint="Type your name. You certify under penalties of perjury that the form is true, correct and complete."
            maxlength={200}
            required
          />
          <OwnPassword name="tax_password" />
        </Form>
      </details>
    </Card>
  )
}

const filingForm = z.intersection(taxFormForm, z.object({ tax_password: optionalText }))

pages.post(filing, requirePartner, form(filingForm, address), async (c) => {
  const { tax_password: password, ...filed } = c.req.valid('form')
  await checkPassword(c, 'tax_password', password)
  await saveTaxForm(c.get('db'), c.env, c.get('viewer').user.id, filed)
  return redirectWith(c, address, 'Your tax form is on file.')
})

pages.post(`${address}/details`, requirePartner, form(payeeForm, address), async (c) => {
  await savePayee(c.get('db'), c.get('viewer').user.id, c.req.valid('form'))
  return redirectWith(c, address, 'Your details were saved.')
})

const termsForm = z.object({ version: z.string().check(z.regex(/^[1-9]\d{0,8}$/)) })

pages.post(`${address}/:programId/terms`, requirePartner, form(termsForm, address), async (c) => {
  const programId = idInPath(c, 'programId', 'You are not a partner of this program.')
  await acceptTerms(c.get('db'), c.get('viewer').user.id, programId, Number(c.req.valid('form').version))
  return redirectWith(c, address, 'You accepted the terms. Documents are issued for the next payments.')
})

pages.post(`${address}/:programId/withdraw`, requirePartner, async (c) => {
  const programId = idInPath(c, 'programId', 'You are not a partner of this program.')
  await sendSoon(c.env, await withdrawSelfBilling(c.get('db'), c.get('viewer').user.id, programId))
  return redirectWith(c, address, 'You withdrew your agreement. The program was notified.')
})
