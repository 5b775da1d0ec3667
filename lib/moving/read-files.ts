import { columnsOf, type Field, type Mapping, tableOf, tables, type Table } from './columns.ts'
import { codeRow, linkRow, type ReadRow, row } from './rows.ts'
import type { Service } from './sources.ts'
import { decodeTable, readTable, type TableRecord } from './table.ts'
import {
  codeOfLink,
  currencyOfAmount,
  type DateOrder,
  orderOf,
  readAmount,
  readCents,
  readDate,
  readEmail,
  readMonths,
  readName,
  readPercent,
} from './values.ts'

/** A file of an import. */
export interface ImportFile {
  name: string
  content: Uint8Array
  /** The file's table, if its name and headings don't identify it. */
  table?: Table | undefined
}

/** Headings by field, for all files or for one table. */
export type Mappings = Mapping & Partial<Record<Table, Mapping>>

/** The program settings that are needed to read a source. */
export interface ReadContext {
  service: Service
  /** The program's currency, for amounts without one. */
  currency: string
  /** Hashes a customer's e-mail address (hex), like the hashes in `customers`. */
  hash: (email: string) => Promise<{ email_hash: string | null; mailbox_hash?: string }>
}

/** Reads the rows of opened files, record by record. */
export async function* readFiles(files: readonly OpenFile[], context: ReadContext): AsyncGenerator<ReadRow> {
  // Partners who only appear in records of other tables. Each of them adds one row.
  const named = new Set<string>()
  // Partners only have the name of their group. If they came first, their groups would be created without terms.
  const { true: ofGroups = [], false: others = [] } = Object.groupBy(files, ({ table }) => `${table === 'groups'}`)
  for (const { name, text, first, table, columns } of [...ofGroups, ...others]) {
    const counted = new Map<string, number>()
    const order = await dateOrderOf(
      text,
      dateFields.flatMap((field) => columns.get(field) ?? []),
    )
    for await (const { line, cells, isUnclosed } of readTable(text)) {
      if (line === first.line) continue
      const record: TableLine = {
        origin: `${name} line ${line}`,
        order,
        cell: (field) => cells[columns.get(field) ?? -1] ?? '',
        numbered: (id) => {
          const count = (counted.get(id) ?? 0) + 1
          counted.set(id, count)
          return count === 1 ? id : `${count}: ${id}`
        },
      }
      if (isUnclosed) yield row(kinds[table], record.origin, record.origin, {}, 'quote_not_closed')
      else yield* readers[table](record, context, named)
    }
  }
}

/** A decoded file with its headings and their fields. */
export interface OpenFile {
  name: string
  text: string
  first: TableRecord
  table: Table
  columns: Map<Field, number>
}

/** Decodes files and matches their headings. Skips empty files. */
export async function openFiles(files: readonly ImportFile[], mappings: Mappings): Promise<OpenFile[]> {
  const opened: OpenFile[] = []
  for (const { name, content, table: named } of files) {
    const text = decodeTable(content).replaceAll('\0', '')
    for await (const first of readTable(text)) {
      const table = named ?? tableOf(name, first.cells)
      opened.push({ name, text, first, table, columns: columnsOf(table, first.cells, mappingOf(mappings, table)) })
      break
    }
  }
  return opened
}

/** The interpretation of a file: its table, the heading of each field, and the headings that no field uses. */
export interface FileColumns {
  name: string
  table: Table
  columns: Partial<Record<Field, string>>
  unused: string[]
}

const maxHeadings = 200

/** Returns the interpretation of an opened file. */
export function columnsOfFile({ name, first, table, columns }: OpenFile): FileColumns {
  const headings = first.cells.slice(0, maxHeadings).map((heading) => heading.slice(0, 200).toWellFormed())
  const used = new Set(columns.values())
  return {
    name: name.replaceAll('\0', ''),
    table,
    columns: Object.fromEntries(Array.from(columns, ([field, place]) => [field, headings[place] ?? ''] as const)),
    unused: headings.filter((heading, place) => heading !== '' && !used.has(place)),
  }
}

const dateFields = ['signup_date', 'first_purchase_date', 'earned_at'] as const

function mappingOf(mappings: Mappings, table: Table): Mapping {
  const flat = Object.fromEntries(
    Object.entries(mappings).filter(([field, heading]) => typeof heading === 'string' && isFieldOf(table, field)),
  )
  return { ...flat, ...mappings[table] }
}

const isFieldOf = (table: Table, field: string) => (tables[table] as readonly string[]).includes(field)

/** Finds the order of day and month in a file's dates. If all dates fit both orders, the day comes first. */
async function dateOrderOf(text: string, columns: number[]): Promise<DateOrder> {
  if (columns.length === 0) return 'day first'
  for await (const { cells } of readTable(text)) {
    const order = columns.map((column) => orderOf(cells[column] ?? '')).find(Boolean)
    if (order) return order
  }
  return 'day first'
}

/** The kind of the main row of each table. */
const kinds: Record<Table, ReadRow['kind']> = {
  groups: 'group',
  partners: 'partner',
  links: 'link',
  codes: 'code',
  customers: 'customer',
  balances: 'balance',
  commissions: 'commission',
}

interface TableLine {
  origin: string
  order: DateOrder
  cell: (field: Field) => string
  /** Adds a number to an id that an earlier record of the file has. The same file results in the same ids. */
  numbered: (id: string) => string
}

type Reader = (
  record: TableLine,
  context: ReadContext,
  named: Set<string>,
) => Iterable<ReadRow> | AsyncIterable<ReadRow>

const readers: Record<Table, Reader> = {
  *groups({ origin, cell }, { currency }, named) {
    const name = readName(cell('name'))
    const [percent, amount, months] = [
      cell('commission_percent'),
      cell('commission_amount'),
      readMonths(cell('duration_months')),
    ]
    const of = currencyOfAmount(cell('currency'), amount, currency)
    const isOther = of !== currency && amount !== ''
    const terms = {
      commission_bp: readPercent(percent),
      commission_fixed_cents: isOther ? undefined : readAmount(amount, currency),
    }
    const isUnreadable =
      months === undefined ||
      (percent !== '' && terms.commission_bp === undefined) ||
      (amount !== '' && !isOther && !((terms.commission_fixed_cents ?? -1) >= 0))
    for (const one of [cell('id'), name]) named.add(`group ${(one ?? '').toLowerCase()}`)
    const read = groupRow(origin, cell('id') || cell('name'), name, terms, months, isOther)
    yield isUnreadable ? { ...read, fields: { ...read.fields, rules: [], note: 'terms_not_accepted' } } : read
  },

  *partners(record, context, named) {
    const { origin, cell } = record
    const email = readEmail(cell('email'))
    const name =
      readName(cell('name') || `${cell('first_name')} ${cell('last_name')}`) ?? readName(email?.split('@')[0] ?? '')
    const codes = splitCodes(cell('link')).map((link) => codeOfLink(link, context.service.params))
    const id = cell('id') || email || codes[0] || name || ''
    const group = cell('group')
    // Links and balances of another partner must not go to the partner with this id. Spreadsheets round long ids, for example.
    const isOther = email !== undefined && named.has(`id ${id}`) && !named.has(`id ${id} ${email}`)
    const problem = isOther ? 'same_id' : undefined
    if (email !== undefined) named.add(`id ${id}`).add(`id ${id} ${email}`)
    const noted = (one: ReadRow): ReadRow => (problem === undefined ? one : { ...one, problem })
    yield* groupOfPartner(origin, group, named)
    yield row(
      'partner',
      id,
      origin,
      {
        name,
        email,
        payout_email: payoutAddress(cell('payout_email'), email),
        group,
        status: isInactive(cell('status')) ? 'inactive' : undefined,
        note: cell('email') !== '' && email === undefined ? 'email_not_accepted' : undefined,
      },
      problem ?? (name === undefined ? 'nobody_named' : undefined),
    )
    for (const code of codes) yield noted(linkRow(origin, { partner: id, code }))
    for (const code of splitCodes(cell('code'))) yield noted(codeRow(origin, { partner: id, code }))
    if (cell('balance') !== '') for (const one of balanceRows(record, id, context)) yield noted(one)
  },

  *links({ origin, cell }, { service }) {
    const code = codeOfLink(cell('link'), service.params)
    const page = cell('page_url')
    yield withPartner(
      linkRow(origin, {
        id: cell('id') || undefined,
        partner: cell('partner'),
        code,
        page_url: URL.canParse(page) ? page : undefined,
      }),
    )
  },

  *codes({ origin, cell }) {
    yield withPartner(codeRow(origin, { id: cell('id') || undefined, partner: cell('partner'), code: cell('code') }))
  },

  async *customers(record, context, named) {
    const { origin, order, cell } = record
    const link = cell('link') && codeOfLink(cell('link'), context.service.params)
    const partnerEmail = readEmail(cell('partner_email'))
    const partner = cell('partner') || partnerEmail || link
    if (cell('partner') === '' && partnerEmail !== undefined && !named.has(`partner ${partnerEmail}`)) {
      named.add(`partner ${partnerEmail}`)
      const name = readName(`${cell('partner_first_name')} ${cell('partner_last_name')}`) ?? partnerEmail.split('@')[0]
      yield row('partner', partnerEmail, origin, {
        name,
        email: partnerEmail,
        payout_email: payoutAddress(cell('partner_payout_email'), partnerEmail),
      })
    }
    if (cell('partner') === '' && partner && link && !named.has(`link ${link.toLowerCase()}`)) {
      named.add(`link ${link.toLowerCase()}`)
      if (partnerEmail !== undefined) yield linkRow(origin, { partner, code: link })
    }
    const ids = {
      processor_customer_id: cell('processor_customer_id').slice(0, 255),
      customer_key: cell('customer_key').slice(0, 255),
    }
    const email = readEmail(cell('email'))
    const hashes = email === undefined ? { email_hash: null } : await context.hash(email)
    const [signup, purchase] = [cell('signup_date'), cell('first_purchase_date')]
    const dates = {
      signup_date: signup && readDate(signup, order),
      first_purchase_date: purchase && readDate(purchase, order),
    }
    const hasId = ids.processor_customer_id || ids.customer_key || email
    const problem = !hasId
      ? 'no_customer_id'
      : Object.values(dates).includes(undefined)
        ? 'date_not_accepted'
        : undefined
    const id = cell('id') || ids.processor_customer_id || ids.customer_key || hashes.email_hash || ''
    yield withPartner(row('customer', id, origin, { partner, link, ...ids, ...hashes, ...dates }, problem))
  },

  *balances(record, context) {
    yield* balanceRows(record, record.cell('partner'), context)
  },

  async *commissions({ origin, order, cell, numbered }, { currency, hash }) {
    const of = currencyOfAmount(cell('currency'), cell('amount'), currency)
    const amount = of && (cell('amount_cents') ? readCents(cell('amount_cents')) : readAmount(cell('amount'), of))
    const earned = cell('earned_at') && readDate(cell('earned_at'), order)
    // A customer's e-mail address is not stored. Its hash becomes the customer's id.
    const email = readEmail(cell('customer'))
    const customer = email === undefined ? cell('customer') : (await hash(email)).email_hash
    const problem =
      of === undefined
        ? 'currency_not_accepted'
        : amount === undefined
          ? 'amount_not_accepted'
          : earned === undefined
            ? 'date_not_accepted'
            : undefined
    const fields = {
      partner: cell('partner'),
      customer,
      amount_cents: amount,
      currency: of,
      status: commissionStatus(cell('status')),
      sale_cents: of && cell('sale_amount') && Math.max(readAmount(cell('sale_amount'), of) ?? 0, 0),
      payment_id: cell('payment_id').slice(0, 255),
      earned_at: earned,
    }
    // Without ids, two equal lines are two commissions.
    const id =
      cell('id') || numbered([fields.partner, customer, cell('payment_id'), cell('earned_at'), amount].join(' '))
    yield withPartner(row('commission', id, origin, fields, problem))
  },
}

/** Creates the row of a group with its terms. `isOther` is true if the fixed amount is in another currency. */
export function groupRow(
  origin: string,
  id: string,
  name: string | undefined,
  terms: { commission_bp?: number | undefined; commission_fixed_cents?: number | undefined },
  months: number | undefined,
  isOther = false,
  note?: 'first_sale_as_one_month',
): ReadRow {
  const hasTerms = terms.commission_bp !== undefined || terms.commission_fixed_cents !== undefined
  const rule = {
    ...terms,
    commission_duration_months: months !== undefined && months > 0 ? Math.min(Math.round(months), 1200) : undefined,
  }
  return row(
    'group',
    id,
    origin,
    {
      name,
      rules: hasTerms ? [rule] : [],
      note: isOther ? 'terms_in_other_currency' : hasTerms ? note : 'terms_not_imported',
    },
    name === undefined ? 'nobody_named' : undefined,
  )
}

/** A group that appears only in partner records. It is added once, without terms. */
export function* groupOfPartner(origin: string, group: string, named: Set<string>): Generator<ReadRow> {
  const name = readName(group)
  if (name === undefined || named.has(`group ${name.toLowerCase()}`)) return
  named.add(`group ${name.toLowerCase()}`)
  yield groupRow(origin, group, name, {}, undefined)
}

function* balanceRows(
  { origin, cell }: TableLine,
  partner: string,
  { currency, service }: ReadContext,
): Generator<ReadRow> {
  const of = currencyOfAmount(cell('currency'), cell('balance'), currency)
  const cents = of === undefined ? undefined : readAmount(cell('balance'), of)
  const problem = of === undefined ? 'currency_not_accepted' : cents === undefined ? 'amount_not_accepted' : undefined
  if (cents === 0) return
  yield withPartner(balanceRow(origin, partner, of ?? cell('currency'), cents, service, problem))
}

/** Creates the row of an opening balance. */
export function balanceRow(
  origin: string,
  partner: string,
  currency: string,
  cents: number | undefined,
  service: Service,
  problem?: ReadRow['problem'],
): ReadRow {
  const note = `Opening balance from ${service.title}`
  return row('balance', `${partner}:${currency}`, origin, { partner, currency, amount_cents: cents, note }, problem)
}

/** Returns a row for a partner's name, or an error row. */
export function withPartner(read: ReadRow): ReadRow {
  if (read.problem !== undefined || read.fields['partner'] !== undefined) return read
  return { ...read, problem: 'no_partner_named' }
}

/** Blanks in a code are kept. Tolt's codes can contain them, but links here can't. */
const splitCodes = (text: string) =>
  text
    .split(/[,;|\n]/)
    .map((code) => code.trim())
    .filter(Boolean)

const payoutAddress = (text: string, email: string | undefined) => {
  const address = readEmail(text)
  return address === email ? undefined : address
}

/** The services' words for partners whose links no longer count. */
export const isInactive = (status: string) =>
  /^(inactive|disabled|rejected|blocked|banned|declined|archived|suspended|terminated|deactivated|ended)$/i.test(
    status.trim(),
  )

/**
 * Converts a service's state of a commission. Without a state, it is unknown whether the commission has been paid, so it doesn't add
 * to the debt.
 */
export function commissionStatus(status: string): 'pending' | 'approved' | 'paid' | 'rejected' | undefined {
  const word = status.trim().toLowerCase()
  if (word === '') return undefined
  if (/^(paid|processed|completed|sent)$/.test(word)) return 'paid'
  if (/^(approved|due|unpaid|payable|true|ready|scheduled)$/.test(word)) return 'approved'
  if (/^(void|voided|rejected|denied|declined|refunded|canceled|cancelled|reversed|fraud|false|duplicate)$/.test(word))
    return 'rejected'
  return 'pending'
}
