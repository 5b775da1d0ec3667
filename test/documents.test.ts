import { randomUUID } from 'node:crypto'
import { jsPDF } from 'jspdf'
import { expect, test } from 'vitest'
import documents from '../functions/documents.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import { findDifferences } from '../lib/commands/audit.ts'
import { call } from '../lib/database.ts'
import { addMember, createPerson, tiePartner } from '../lib/local/people.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { euVatNumbers, isVatNumber } from '../lib/money/document-parties.ts'
import { printDocument, printStatement, renderPdf } from '../lib/money/document-pdf.ts'
import {
  acceptTerms,
  billingForm,
  containedVat,
  documentStatement,
  issueMissingDocuments,
  listDocuments,
  payeeForm,
  readPayee,
  saveBilling,
  savePayee,
  voidDocument,
  withdrawSelfBilling,
} from '../lib/money/documents.ts'
import { erasePayee, readPayee as readErasedPayee } from '../lib/money/payees.ts'
import { createPayoutRun, payByHand, payPayoutRun, readPayoutRun, reopenPayoutRun } from '../lib/money/payout-runs.ts'
import { askPayout, payPayout, returnPayout } from '../lib/money/payouts.ts'
import {
  listYearlyPayments,
  openTaxForm,
  readTaxForm,
  saveTaxForm,
  setTaxFormLimit,
  taxFormForm,
} from '../lib/money/tax-forms.ts'
import { listStatementEntries, readStatementTotals } from '../lib/money/statements.ts'
import { saveMailChoices } from '../lib/notifications/mail-choices.ts'
import { changeJoinPage } from '../lib/programs/join-page.ts'
import { portal } from '../lib/texts/messages/portal.ts'
import { createTexts } from '../lib/texts/texts.ts'
import { fontBase64 } from '../tracker/dist/served/document-font.js'
import { createLedgerProgram, transfer } from './support/ledger.ts'
import { inNoWorker, newEmail, sessionCookieOf } from './support/people.ts'
import { openConnections, startEndpoint } from './support/stack.ts'

const { db, sql, databaseUrl, env: databaseEnv } = await startEndpoint()
const env = { ...databaseEnv, AUTH_SECRET: 'x'.repeat(32), EMAIL_HASH_KEY: 'y'.repeat(32) }

const german = { legal_name: 'Händler GmbH', address: 'Weg 1\n10115 Berlin', country: 'DE', vat_id: 'DE123456789' }
const french = { legal_name: 'Ada Lovelace', address: '1 rue X\n75001 Paris', country: 'FR', vat_id: 'FR12345678901' }

/** A program with self-billing whose `count` partners have entered their details and accepted the terms, each with 10.00 to pay. */
async function createBilling(count = 2, payee = french, vatRate = '') {
  const { programId, partnerIds } = await createLedgerProgram(sql, db)
  await changeJoinPage(db, programId, { terms: 'We issue your invoices.', self_billing: true })
  await saveBilling(db, programId, { ...german, series: 'SB', vat_rate: vatRate })
  const people = []
  for (let index = 0; index < count; index++) {
    const person = await createPerson(db, env, { name: 'Ada', email: newEmail() })
    if (index >= partnerIds.length) {
      const added = `insert into partners (program_id, name, email) values ($1, 'Ada', $2) returning id`
      const { rows } = await sql.query<{ id: string }>(added, [programId, person.email])
      partnerIds.push(Number(rows[0]?.id))
    }
    await tiePartner(db, partnerIds[index] ?? 0, person.userId)
    await savePayee(db, person.userId, payee)
    await acceptTerms(db, person.userId, programId, 1)
    people.push(person)
  }
  const credit = async (partnerId: number, amountCents = 1000) =>
    await createAdjustment(db, programId, { partnerId, amountCents, note: 'Bonus' }, randomUUID(), [])
  for (const partnerId of partnerIds.slice(0, count)) await credit(partnerId)
  const pay = async (partnerId: number, amountCents = 1000) => {
    const ask = { programId, partnerId, currency: 'usd', amountCents, requestId: randomUUID() }
    await payPayout(db, programId, await askPayout(db, ask), amountCents, transfer)
  }
  const list = async () => (await listDocuments(db, { programId }, { limit: 100 })).toReversed()
  const print = async (documentId: number) => {
    const [document] = await db.query(documentStatement({ programId }, programId, documentId))
    if (!document) throw new Error('no document')
    return printDocument(document)
  }
  return { programId, partnerIds, people, credit, pay, list, print }
}

test('ten concurrent payments of a run issue one document per payment, numbered without gaps', async () => {
  const { programId, list } = await createBilling(6)
  const runId = (await createPayoutRun(db, programId, randomUUID())) ?? 0
  await Promise.all(Array.from({ length: 10 }, () => payPayoutRun(db, programId, runId, transfer, 6000)))
  const issued = await list()
  expect(issued.map(({ series, number }) => `${series}-${number}`)).toEqual([1, 2, 3, 4, 5, 6].map((n) => `SB-${n}`))
  expect(new Set(issued.map(({ payout_id }) => payout_id)).size).toBe(6)
})

test("rolled back payments don't leave a gap in the numbers", async () => {
  const { programId, partnerIds, list } = await createBilling(8)
  const pool = openConnections(databaseUrl, 8)
  const pay = `select pay_by_hand($1, $2, 'usd', 1000, 'ref', (now() at time zone 'UTC')::date, gen_random_uuid())`
  await Promise.all(
    partnerIds.map(async (partnerId, index) => {
      const client = await pool.connect()
      await client.query('begin')
      await client.query(pay, [programId, partnerId])
      await client.query(index % 2 === 0 ? 'commit' : 'rollback')
      client.release()
    }),
  )
  await pool.end()
  expect((await list()).map(({ number }) => number)).toEqual([1, 2, 3, 4])
})

test('a payment without details or consent gets its document later, once it has both', async () => {
  const { programId, partnerIds, people, pay, list } = await createBilling(2)
  const [first = 0, second = 0] = partnerIds
  await sql.query('delete from accepted_terms where partner_id = $1', [first])
  await sql.query('delete from payee_details where user_id = $1', [people[1]?.userId])
  await pay(first)
  await pay(second)
  expect(await issueMissingDocuments(db, programId)).toBe(0)
  const { programs } = await readPayee(db, people[0]?.userId ?? '')
  expect(programs).toMatchObject([{ id: programId, version: 1, accepted: null }])
  await expect(acceptTerms(db, people[0]?.userId ?? '', programId, 2)).rejects.toThrow('have changed')
  await acceptTerms(db, people[0]?.userId ?? '', programId, 1)
  const counts = await Promise.all(Array.from({ length: 5 }, () => issueMissingDocuments(db, programId)))
  expect(counts.reduce((sum, count) => sum + count)).toBe(1)
  expect(await list()).toMatchObject([{ partner_id: first, kind: 'invoice', amount_cents: 1000 }])
})

test("a partner who withdrew the agreement doesn't get documents until they agree again, and the advertiser is notified", async () => {
  const { programId, partnerIds, people, credit, pay, list } = await createBilling(1)
  const [[partnerId = 0], userId = ''] = [partnerIds, people[0]?.userId]
  await sql.query('delete from accepted_terms where partner_id = $1', [partnerId])
  await sql.query(
    `insert into applications (program_id, source, name, email, status, verified_at, decided_at, partner_id, terms_version)
    values ($1, 'api', 'Ada', 'ada@example.com', 'approved', now(), now(), $2, 1)`,
    [programId, partnerId],
  )
  await changeJoinPage(db, programId, { self_billing: false })
  await pay(partnerId, 100)
  // The program no longer offers self-billing, but the agreement still applies.
  expect((await readPayee(db, userId)).programs).toMatchObject([{ id: programId, self_billing: false, accepted: 1 }])
  for (let time = 0; time < 2; time++) await withdrawSelfBilling(db, userId, programId)
  await pay(partnerId, 100)
  expect(await issueMissingDocuments(db, programId)).toBe(0)
  const notified = `select audience, partner_id::int from outbox where program_id = $1 and kind = 'self_billing_withdrawn'`
  expect((await sql.query(notified, [programId])).rows).toEqual([{ audience: 'advertiser', partner_id: partnerId }])
  expect((await readPayee(db, userId)).programs).toEqual([])
  await changeJoinPage(db, programId, { self_billing: true })
  await acceptTerms(db, userId, programId, 3)
  await credit(partnerId)
  await pay(partnerId, 300)
  expect((await list()).map(({ number, amount_cents }) => [number, amount_cents])).toEqual([
    [1, 100],
    [2, 300],
  ])
  expect(await findDifferences(sql, programId)).toEqual([])
})

test('terms with a different self-billing agreement are a new version', async () => {
  const { programId } = await createBilling(0)
  expect(await changeJoinPage(db, programId, { intro: 'Hi' })).toMatchObject({ terms_version: 1, self_billing: true })
  await expect(changeJoinPage(db, programId, { terms: null, self_billing: true })).rejects.toThrow('Enter terms')
  const changed = await changeJoinPage(db, programId, { self_billing: false })
  expect(changed).toMatchObject({ terms_version: 2, self_billing: false, terms: 'We issue your invoices.' })
})

test('a returned payment gets a credit note, and the repeated payment gets another invoice', async () => {
  const { programId, partnerIds, credit, pay, list, print } = await createBilling(1)
  const [partnerId = 0] = partnerIds
  const runId = (await createPayoutRun(db, programId, randomUUID())) ?? 0
  await payPayoutRun(db, programId, runId, transfer, 1000)
  await reopenPayoutRun(db, programId, runId)
  await payPayoutRun(db, programId, runId, transfer, 1000)
  const payoutId = (await readPayoutRun(db, programId, runId)).payouts[0]?.id ?? 0
  await returnPayout(db, programId, payoutId, 'returned', 'Account closed')
  await returnPayout(db, programId, payoutId, 'returned', 'Account closed')
  const issued = await list()
  expect(issued.map(({ number, kind }) => [number, kind])).toEqual([
    [1, 'invoice'],
    [2, 'credit_note'],
    [3, 'invoice'],
    [4, 'credit_note'],
  ])
  expect(await print(issued[3]?.id ?? 0)).toMatchObject({ title: 'Credit note', total: ['Total', '-$10.00'] })
  expect((await print(issued[3]?.id ?? 0)).blocks[2]?.[1]).toContain('Corrects: SB-3')
  await expect(voidDocument(db, programId, issued[2]?.id ?? 0, 'Wrong')).rejects.toThrow('credit note')
  await expect(voidDocument(db, programId, issued[3]?.id ?? 0, 'Wrong')).rejects.toThrow('no such invoice')
  await credit(partnerId, 500)
  await pay(partnerId, 1500)
  expect((await list()).at(-1)).toMatchObject({ number: 5, kind: 'invoice', amount_cents: 1500 })
})

test('a void document keeps its number, and its replacement has current details', async () => {
  const { programId, partnerIds, people, pay, list, print } = await createBilling(1)
  await pay(partnerIds[0] ?? 0)
  const id = (await list())[0]?.id ?? 0
  await voidDocument(db, programId, id, 'Old address')
  await Promise.all(Array.from({ length: 4 }, () => voidDocument(db, programId, id, 'Again')))
  await savePayee(db, people[0]?.userId ?? '', { ...french, address: '2 rue Y' })
  expect(await issueMissingDocuments(db, programId)).toBe(1)
  const issued = await list()
  expect(issued.map(({ number, void_reason }) => [number, void_reason])).toEqual([
    [1, 'Old address'],
    [2, null],
  ])
  const printed = await Promise.all(issued.map((one) => print(one.id)))
  expect(printed.map(({ subtitle, blocks }) => [subtitle, blocks[0]?.[1][1]])).toEqual([
    ['SB-1 (VOID)', '1 rue X'],
    ['SB-2', '2 rue Y'],
  ])
  for (const change of ['amount_cents = 1', `payee = '{}'`, 'voided_at = null, void_reason = null', 'number = 9'])
    await expect(sql.query(`update documents set ${change} where program_id = $1`, [programId])).rejects.toThrow()
  await expect(sql.query('delete from documents where program_id = $1', [programId])).rejects.toThrow('stay')
})

test('a document shows both parties, its lines, the word self-billing and the reverse charge', async () => {
  const { partnerIds, pay, list, print } = await createBilling(1)
  await pay(partnerIds[0] ?? 0)
  const id = (await list())[0]?.id ?? 0
  const { rows, ...printed } = await print(id)
  expect(rows).toEqual([[expect.stringMatching(/^Adjustment \d+, \d{4}-\d\d-\d\d$/), '$10.00']])
  expect(printed).toMatchObject({
    title: 'Self-billing invoice',
    subtitle: 'SB-1',
    blocks: [
      ['Supplier', ['Ada Lovelace', '1 rue X', '75001 Paris', 'France', 'VAT number: FR12345678901']],
      [
        'Customer, who issues this document',
        ['Händler GmbH', 'Weg 1', '10115 Berlin', 'Germany', 'VAT number: DE123456789'],
      ],
      ['Details', expect.arrayContaining([`Reference: ${transfer.reference}`])],
    ],
    total: ['Total', '$10.00'],
  })
  expect(printed.notes).toEqual([expect.stringContaining('Self-billing'), 'Reverse charge: the customer owes the VAT.'])
})

test.each([
  ['the same country', { ...german, legal_name: 'Ada' }],
  ['outside the European Union', { ...french, country: 'US', vat_id: '123456789' }],
  ['no VAT number', { ...french, vat_id: '' }],
])("a partner with %s doesn't get a reverse charge", async (_what, payee) => {
  const { partnerIds, pay, list, print } = await createBilling(1, payee)
  await pay(partnerIds[0] ?? 0)
  const id = (await list())[0]?.id ?? 0
  expect((await print(id)).notes).toContain('This document shows no VAT.')
})

test("a document for a partner in the program's country shows the VAT that its amount contains, and other documents don't show VAT", async () => {
  const ada = { ...german, legal_name: 'Ada' }
  const { programId, partnerIds, credit, pay, list, print } = await createBilling(1, ada, ' 19,5 ')
  const [partnerId = 0] = partnerIds
  await credit(partnerId)
  await pay(partnerId, 1999)
  const id = (await list())[0]?.id ?? 0
  const parts = [
    ['Net amount', '$16.73'],
    ['VAT (19.5%)', '$3.26'],
  ]
  expect(await print(id)).toMatchObject({ total: ['Total', '$19.99'], parts })
  await saveBilling(db, programId, { ...german, series: 'SB' })
  expect(await print(id)).toMatchObject({ parts })
  for (const payee of [french, { ...ada, vat_id: '' }]) {
    const other = await createBilling(1, payee, '19')
    await other.pay(other.partnerIds[0] ?? 0)
    expect((await other.print((await other.list())[0]?.id ?? 0)).parts).toEqual([])
  }
  expect([containedVat(9_999_999_999_999, 1900), containedVat(119, 1900), containedVat(119, null)]).toEqual([
    1_596_638_655_462, 19, 0,
  ])
  expect(billingForm.safeParse({ ...german, series: 'SB', vat_rate: '51' }).success).toBe(false)
  expect(billingForm.safeParse({ ...german, series: 'SB', vat_rate: '19' }).success).toBe(true)
})

test('a payment with more than 100 entries has one line, and its PDF has the same bytes each time', async () => {
  const { programId, partnerIds, list, print } = await createBilling(1)
  const [partnerId = 0] = partnerIds
  const add = `create_adjustment($1, $2, 'usd', 1, 'Bonus', null, null, gen_random_uuid())`
  await sql.query(`select ${add} from generate_series(1, 100)`, [programId, partnerId])
  const payment = { programId, partnerId, currency: 'usd', amountCents: 1100, requestId: randomUUID() }
  await payByHand(db, payment, transfer)
  const id = (await list())[0]?.id ?? 0
  const printed = await print(id)
  expect(printed.rows).toEqual([[expect.stringContaining('101 commissions and adjustments'), '$11.00']])
  const long = {
    ...printed,
    rows: Array.from({ length: 50 }, () => ['דוד כהן 12 (a) '.repeat(8), '$1.00'] as [string, string]),
  }
  const [once, again] = [renderPdf(long, fontBase64), renderPdf(long, fontBase64)].map((bytes) => Buffer.from(bytes))
  expect(once?.subarray(0, 5).toString()).toBe('%PDF-')
  expect(once?.toString('latin1').match(/\/Type \/Page\b/g)?.length).toBeGreaterThan(1)
  expect(once?.equals(again ?? Buffer.alloc(0))).toBe(true)
})

const party = (legal_name: string) => payeeForm.safeParse({ ...french, legal_name })

test('documents have a glyph for each accepted character, and other characters are refused', () => {
  const pdf = new jsPDF()
  pdf.addFileToVFS('font.ttf', fontBase64)
  pdf.addFont('font.ttf', 'font', 'normal')
  pdf.setFont('font')
  const font = pdf.getFont() as unknown as { metadata: { characterToGlyph(code: number): number } }
  const accepted = Array.from({ length: 0x3000 }, (_, code) => code).filter(
    (code) => code > 32 && party(`a${String.fromCodePoint(code)}a`).success,
  )
  expect(accepted.length).toBeGreaterThan(1200)
  expect(accepted.filter((code) => font.metadata.characterToGlyph(code) === 0)).toEqual([])
  for (const name of ['株式会社', '😀', 'a\u202Eb', 'a\u0000', '\u200F', ' ', 'x'.repeat(201), 'x'.repeat(10_000)])
    expect([name.slice(0, 10), party(name).success]).toEqual([name.slice(0, 10), false])
  for (const name of ['שלום בע"מ', 'شركة النور', '<script>alert(1)</script>', '(x) Tj \\) endobj'])
    expect([name, party(name).success]).toEqual([name, true])
})

test('a VAT number has the format of its country', async () => {
  const { rows } = await sql.query<{ code: string }>(
    `select chr(a) || chr(b) as code from generate_series(65, 90) a, generate_series(65, 90) b where is_in_eu(chr(a) || chr(b)) order by 1`,
  )
  expect(rows.map(({ code }) => code)).toEqual(Object.keys(euVatNumbers).toSorted())
  const valid = billingForm.parse({ ...german, vat_id: ' de 123.456-789 ', series: 'sb' })
  expect(valid).toMatchObject({ vat_id: 'DE123456789', series: 'SB' })
  expect(isVatNumber('GR', 'EL123456789')).toBe(true)
  for (const [country = '', number = ''] of [
    ['DE', 'FR12345678901'],
    ['GR', 'GR123456789'],
    ['NL', 'NL123456789C01'],
  ])
    expect(isVatNumber(country, number)).toBe(false)
})

test('only the payer and the partner get the PDF of a document or a statement', async () => {
  const { programId, partnerIds, people, pay, list } = await createBilling(2)
  await pay(partnerIds[0] ?? 0)
  const id = (await list())[0]?.id ?? 0
  const stranger = await createPerson(db, env, { name: 'Eve', email: newEmail() })
  const other = await createBilling(1)
  const { rows } = await sql.query<{ workspace_id: string }>('select workspace_id from programs where id = $1', [
    programId,
  ])
  const staff = async (role: 'billing' | 'member') => {
    const person = await createPerson(db, env, { name: role, email: newEmail() })
    await addMember(db, rows[0]?.workspace_id ?? '', person.userId, role)
    return person
  }
  const readers = [people[0], await staff('billing'), people[1], stranger, other.people[0], await staff('member')]
  const get = async (path: string, token?: string) =>
    await documents.request(path, { headers: token === undefined ? {} : sessionCookieOf(token) }, env, inNoWorker)
  const statuses = async (path: string) =>
    await Promise.all(
      [...readers.map((reader) => reader?.token), undefined].map(async (as) => (await get(path, as)).status),
    )
  const document = `/documents/${programId}/${id}`
  expect(await statuses(document)).toEqual([200, 200, 404, 404, 404, 404, 401])
  const statement = `/documents/${programId}/statements/${new Date().toISOString().slice(0, 7)}`
  expect(await statuses(`${statement}?partner=${partnerIds[0]}`)).toEqual([200, 200, 200, 404, 404, 404, 401])
  expect(await statuses(`/documents/${other.programId}/${id}`)).toEqual([404, 404, 404, 404, 404, 404, 401])
  expect(await statuses('/documents/1.5/1')).toEqual([404, 404, 404, 404, 404, 404, 401])
  expect((await get(`/documents/${programId}/1e999`, people[0]?.token)).status).toBe(404)
  expect((await get(`/documents/${programId}/statements/2026-13`, people[0]?.token)).status).toBe(404)
  const [inEnglish, inGerman, inUnknown] = await Promise.all(
    ['', '?language=de', '?language=xx'].map(
      async (query) => await (await get(statement + query, people[0]?.token)).text(),
    ),
  )
  expect([inEnglish === inUnknown, inEnglish === inGerman]).toEqual([true, false])
  const of = { programId, partnerId: partnerIds[0] ?? 0 }
  const period = { from: new Date('2020-01-01'), to: new Date('2100-01-01'), currency: null }
  const totals = await readStatementTotals(db, of, period)
  const entries = await listStatementEntries(db, of, period, { limit: 1 })
  const march = { from: new Date('2026-03-01'), to: new Date('2026-04-01') }
  const printAt = (now: string) => printStatement(march, new Date(now), totals, entries, createTexts(portal, 'de'))
  const open = printAt('2026-04-01T00:59:00Z')
  expect([open.subtitle, open.total[0]]).toEqual(['März 2026, bisher', 'Aktueller Saldo'])
  const printed = printAt('2026-04-01T01:00:00Z')
  expect(printed).toMatchObject({ title: 'Kontoauszug', subtitle: 'März 2026', columns: ['Buchung', 'Betrag (USD)'] })
  expect(printed.total[0]).toBe('Endsaldo')
  expect(printed.rows).toEqual([[expect.stringMatching(/^\d\d\.\d\d\.\d{4} · Auszahlung · /), '-10,00\u00A0$']])
  expect(printed.pageOf(1, 2)).toBe('Seite 1 von 2')
  const { headers } = await get(document, people[0]?.token)
  expect(Object.fromEntries(headers)).toMatchObject({
    'content-type': 'application/pdf',
    'content-disposition': 'attachment; filename="SB-1.pdf"',
    'x-content-type-options': 'nosniff',
    'cache-control': 'private, no-store',
  })
})

test('an erased partner stays on documents for the legal retention period', async () => {
  const { programId, partnerIds, pay, list, print } = await createBilling(1)
  await pay(partnerIds[0] ?? 0)
  const id = (await list())[0]?.id ?? 0
  await sql.query('update partners set user_id = null where id = $1', [partnerIds[0]])
  await deleteExpired(db)
  expect((await print(id)).blocks[0]?.[1][0]).toBe('Ada Lovelace')
  await sql.query('alter table documents disable trigger documents_stay')
  await sql.query(`update documents set issued_at = now() - interval '11 years' where program_id = $1`, [programId])
  await sql.query('alter table documents enable trigger documents_stay')
  await deleteExpired(db)
  expect((await print(id)).blocks[0]?.[1]).toEqual(['Erased after the legal term'])
})

const w8 = taxFormForm.parse({
  kind: 'w8ben',
  legal_name: 'Ada Lovelace',
  address: '1 rue X',
  country: 'FR',
  classification: '',
  tax_id: '12-34 567890',
  birth_date: '1990-01-01',
  signature: 'Ada Lovelace',
})

test('payouts above the yearly limit wait for a valid tax form, and the partner is notified once', async () => {
  const { programId, partnerIds, people, credit, pay } = await createBilling(1)
  const [partnerId = 0] = partnerIds
  const userId = people[0]?.userId ?? ''
  await setTaxFormLimit(db, programId, 'usd', 1500)
  await pay(partnerId)
  await credit(partnerId, 501)
  await expect(pay(partnerId, 501)).rejects.toThrow('tax form')
  expect(await createPayoutRun(db, programId, randomUUID())).toBeNull()
  expect(await createPayoutRun(db, programId, randomUUID())).toBeNull()
  const { rows } = await sql.query(
    `select payload->>'amount_cents' as cents from outbox where kind = 'tax_form_needed' and program_id = $1`,
    [programId],
  )
  expect(rows).toEqual([{ cents: '501' }])
  expect(await readTaxForm(db, userId)).toMatchObject({
    form: undefined,
    held: [{ payable_cents: 501, currency: 'usd' }],
  })

  await saveTaxForm(db, env, userId, w8)
  await sql.query(
    `update tax_forms set signed_on = make_date(extract(year from now())::integer - 4, 6, 1) where user_id = $1`,
    [userId],
  )
  expect((await readTaxForm(db, userId)).form).toMatchObject({ is_valid: false })
  expect(await createPayoutRun(db, programId, randomUUID())).toBeNull()
  await saveTaxForm(db, env, userId, w8)
  const year = new Date().getUTCFullYear()
  expect((await readTaxForm(db, userId)).form).toMatchObject({
    kind: 'w8ben',
    tax_id_hint: '7890',
    is_valid: true,
    expires_on: new Date(`${year + 3}-12-31T00:00:00Z`),
  })
  expect(await createPayoutRun(db, programId, randomUUID())).not.toBeNull()
  expect(await listYearlyPayments(db, programId, Number(transfer.paid_on.toISOString().slice(0, 4)))).toMatchObject([
    { partner_id: partnerId, country: 'FR', tax_form: 'w8ben', tax_id_hint: '7890', payments: 1, paid_cents: 1000 },
  ])
  await setTaxFormLimit(db, programId, 'usd', null)
  const changes = `select details from audit_log where program_id = $1 and action = 'program.changed' and details ?| $2 order by id`
  const names = ['billing_details', 'no_tax_form_above_cents usd']
  expect((await sql.query(changes, [programId, names])).rows.map(({ details }) => details)).toEqual([
    { billing_details: [null, 'Händler GmbH, DE, DE123456789, SB'] },
    { 'no_tax_form_above_cents usd': [null, 1500] },
    { 'no_tax_form_above_cents usd': [1500, null] },
  ])
})

test('a tax form is stored encrypted, the audit log records each opening, and erasing the account keeps the form for the books', async () => {
  const { programId, partnerIds, people, pay } = await createBilling(1)
  const userId = people[0]?.userId ?? ''
  await saveTaxForm(db, env, userId, w8)
  const { rows } = await sql.query<{ fields: Buffer }>('select fields from tax_forms where user_id = $1', [userId])
  expect(rows[0]?.fields.includes('Lovelace')).toBe(false)
  const reader = { userId, programId }
  expect(await openTaxForm(db, env, reader, partnerIds[0] ?? 0)).toEqual({ ...w8, tax_id: '1234567890' })
  await expect(openTaxForm(db, env, reader, partnerIds[1] ?? 0)).rejects.toThrow('no readable tax form')
  await expect(openTaxForm(db, { EMAIL_HASH_KEY: 'z'.repeat(32) }, reader, partnerIds[0] ?? 0)).rejects.toThrow(
    'readable',
  )
  const logged = `select count(*)::int as count from audit_log where program_id = $1 and action = 'payout.tax_form_opened'`
  expect((await sql.query(logged, [programId])).rows).toEqual([{ count: 1 }])
  expect(taxFormForm.safeParse({ ...w8, kind: 'w9' }).success).toBe(false)
  await pay(partnerIds[0] ?? 0)
  await erasePayee(db, env.EMAIL_HASH_KEY, userId)
  expect((await sql.query('select from tax_forms where user_id = $1', [userId])).rows).toEqual([])
  const erased = JSON.parse(await readErasedPayee(db, env.EMAIL_HASH_KEY, programId, partnerIds[0] ?? 0))
  expect(erased.tax_form).toMatchObject({ kind: 'w8ben', tax_id: '1234567890' })
  expect(taxFormForm.safeParse({ ...w8, kind: 'w9', country: 'US', tax_id: '123-45-6789' }).success).toBe(true)
})

test('partners who want mail about statements are notified once a month', async () => {
  const { programId, people } = await createBilling(2)
  await saveMailChoices(db, people[0]?.userId ?? '', { statement: 'at_once' })
  const now = new Date()
  const next = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 2))
  for (let time = 0; time < 2; time++)
    await db.query(call('write_daily_notifications', { moment: next, of_program_id: null }))
  const written = `select payload->>'month' as month from outbox where program_id = $1 and kind = 'statement_ready'`
  expect((await sql.query(written, [programId])).rows).toEqual([{ month: now.toISOString().slice(0, 7) }])
})
