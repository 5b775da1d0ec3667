import * as z from 'zod/mini'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { selfBillingClause } from '../../../lib/programs/join-page.ts'
import {
  acceptTerms,
  documentTotals,
  listDocuments,
  payeeForm,
  readPayee,
  savePayee,
  withdrawSelfBilling,
} from '../../../lib/money/documents.ts'
import { readTaxForm, saveTaxForm, taxFormForm, taxFormNames } from '../../../lib/money/tax-forms.ts'
import { checkPassword, OwnPassword } from '../account/credentials.tsx'
import { idInPath } from '../components/address.ts'
import { Badge, Card } from '../components/blocks.tsx'
import { countryOptions, documentColumns, PartyFields } from '../components/documents.tsx'
import { Field, Form, Hidden } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { emptyForm, form, optionalText, useFormOf } from '../components/form.ts'
import { Day } from '../components/format.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { byId, List, readPage } from '../components/list.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { Text, useTexts } from '../components/text.tsx'
import { PlainText } from '../join/plain-text.tsx'

/** A partner's documents, the partner's details on them, and their agreement to self-billing. */
export const pages = createPages()

const address = '/partner/documents'
const filing = `${address}/tax-form`

type Terms = Awaited<ReturnType<typeof readPayee>>['programs'][number]

pages.get(address, requirePartner, async (c) => {
  const userId = c.get('viewer').user.id
  const [{ details, programs }, taxForm, page, totals] = await Promise.all([
    readPayee(c.get('db'), userId),
    readTaxForm(c.get('db'), userId),
    readPage(c, byId, (part) => listDocuments(c.get('db'), { userId }, part)),
    c.get('db').query(documentTotals({ userId }, {})),
  ])
  const { number, kind, issued, payout, state, amount } = documentColumns
  const { t, money } = c.get('texts')
  return c.render(
    <PartnerPage
      title={t('Documents')}
      current="/documents"
      lead={t('Invoices that programs issue in your name for their payments to you.')}
    >
      {taxForm.held.map(({ program_name: name, payable_cents: cents, currency }) => (
        <p class="message warn">
          {t('{name} holds your payout of {amount} until you file a valid tax form below.', {
            name,
            amount: money(cents, currency),
          })}
        </p>
      ))}
      {programs.map((terms) => (
        <SelfBilling terms={terms} />
      ))}
      <Card title={t('Your details on documents')}>
        <p class="muted">
          {t(
            'A program that pays you sees these details on its documents. Use Latin, Greek, Cyrillic, Hebrew or Arabic letters. Issued documents do not change.',
          )}
        </p>
        <Form action={`${address}/details`} submit={t('Save details')}>
          <PartyFields party={details} />
        </Form>
      </Card>
      <TaxForm {...taxForm} />
      <List
        title={t('Your documents')}
        page={page}
        totals={totals}
        rows={(count) => t('{count} documents', { count })}
        caption={t('Your documents, newest first')}
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
          title: t('No documents yet'),
          text: t(
            'Programs that use self-billing issue a document for each payment once you have entered your details.',
          ),
        }}
      />
    </PartnerPage>,
  )
})

function SelfBilling({ terms: { id, name, version, text, self_billing: isOffered, accepted } }: { terms: Terms }) {
  const { t, fixed } = useTexts()
  return (
    <Card
      title={t('Self-billing by {name}', { name })}
      aside={
        accepted !== null && (
          <Badge tone="good">{t('You accepted version {version}', { version: String(accepted) })}</Badge>
        )
      }
    >
      <p>{fixed(selfBillingClause)}</p>
      <details class="more">
        <summary>{t('Terms, version {version}', { version: String(version) })}</summary>
        <PlainText text={text} />
      </details>
      {isOffered && accepted !== version && (
        <Form action={`${address}/${id}/terms`} submit={t('Accept these terms')} layout="inline">
          <Hidden fields={{ version: String(version) }} />
        </Form>
      )}
      {accepted !== null && (
        <Form action={`${address}/${id}/withdraw`} submit={t('Withdraw agreement')} layout="inline">
          <p class="muted small">
            {t('If you withdraw it, you send this program your own invoices for its next payments.')}
          </p>
        </Form>
      )}
    </Card>
  )
}

function TaxForm({ form: filed }: Awaited<ReturnType<typeof readTaxForm>>) {
  const texts = useTexts()
  const { t, fixed } = texts
  return (
    <Card
      title={t('US tax form')}
      aside={
        filed && <Badge tone={filed.is_valid ? 'good' : 'bad'}>{filed.is_valid ? t('On file') : t('Expired')}</Badge>
      }
    >
      <p class="muted">
        {filed ? (
          <>
            {filed.tax_id_hint === null ? (
              <Text
                of="{form}, without a number, signed on {day}."
                form={fixed(taxFormNames[filed.kind])}
                day={<Day at={filed.signed_on} />}
              />
            ) : (
              <Text
                of="{form}, number ends in {hint}, signed on {day}."
                form={fixed(taxFormNames[filed.kind])}
                hint={filed.tax_id_hint}
                day={<Day at={filed.signed_on} />}
              />
            )}{' '}
            {filed.expires_on && <Text of="Valid until {day}." day={<Day at={filed.expires_on} />} />}{' '}
            {t('Members of your programs who pay partners can open it.')}
          </>
        ) : (
          t(
            'Some programs pay larger amounts only with a form. We store it encrypted. Members of your programs who pay partners can open it.',
          )
        )}
      </p>
      <details class="more" open={useFormOf(filing) !== emptyForm}>
        <summary>{filed ? t('File a new form') : t('File a form')}</summary>
        <Form action={filing} submit={t('Sign and file')}>
          <Field
            name="kind"
            label={t('Form')}
            options={Object.entries(taxFormNames).map(([kind, name]) => [kind, fixed(name)])}
          />
          <Field name="legal_name" id="tax-name" label={t('Name on the form')} maxlength={200} required />
          <Field name="address" id="tax-address" label={t('Permanent address')} rows={4} maxlength={500} required />
          <Field
            name="country"
            id="tax-country"
            label={t('Country of tax residence')}
            options={countryOptions(texts)}
            required
          />
          <Field name="classification" label={t('Tax classification or chapter 3 and 4 status')} maxlength={200} />
          <Field
            name="tax_id"
            label={t('Taxpayer number')}
            autocomplete="off"
            maxlength={40}
            hint={t('For a W-9, your SSN or EIN.')}
          />
          <Field name="birth_date" label={t('Date of birth (W-8BEN only)')} type="date" />
          <Field
            name="signature"
            label={t('Signature')}
            hint={t(
              'Type your name. You certify under penalties of perjury that the form is true, correct and complete.',
            )}
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
