import { strFromU8, strToU8, unzipSync, zipSync } from 'fflate'
import { createHash } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { createDemo } from '../lib/local/demo.ts'
import { approveDueCommissions } from '../lib/money/commissions.ts'
import { explainSale } from '../lib/money/explanation.ts'
import { createPayoutRun, payPayoutRun } from '../lib/money/payout-runs.ts'
import { returnPayout } from '../lib/money/payouts.ts'
import { accepts, schemaOfKind } from '../lib/moving/archive-fields.ts'
import { kindNames, kindOf, type KindName, referredBy } from '../lib/moving/archive-kinds.ts'
import { createExport, type Manifest, writeArchive } from '../lib/moving/exports.ts'
import {
  applyImport,
  continueImports,
  createImport,
  importFiles,
  listImports,
  storeArchivePart,
} from '../lib/moving/imports.ts'
import { bytesOfFiles, readArchive, readManifest, wholeArchive } from '../lib/moving/read-archive.ts'
import { readOverview } from '../lib/programs/overview.ts'
import { readBrand, saveBrand, saveLogo } from '../lib/programs/brand.ts'
import { changeJoinPage } from '../lib/programs/join-page.ts'
import { maxLogoBytes, readLogo } from '../lib/programs/logo-image.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { createProgram, programDefaults } from '../lib/programs/programs.ts'
import { enterShadowMode, leaveShadowMode, readShadowMode } from '../lib/programs/shadow-mode.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'
import { pngOf } from './support/images.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()
const env = { EMAIL_HASH_KEY: 'test', AUTH_SECRET: 'test' }

type Line = Record<string, unknown>
type Files = Record<string, Uint8Array>

const programId = await demoWithPayouts()

/** The demo program with a paid run, a returned payment, their documents, and an import. */
async function demoWithPayouts() {
  const demo = await createDemo(db, env)
  const files = [
    {
      name: 'partners.csv',
      content: strToU8('id,name,email,token,balance,currency\n1,Ada,ada@old.example,ada-old,12.50,USD'),
    },
    {
      name: 'commissions.csv',
      content: strToU8(
        'Commission ID,Affiliate email,Amount,Currency,Status,Created at\nc1,ada@old.example,9,USD,paid,2025-02-25',
      ),
    },
  ]
  const importId = await createImport(db, env, demo.programId, 'rewardful')
  await importFiles(db, env, demo.programId, importId, { source: 'rewardful', files, mappings: {}, seconds: 9 })
  await applyImport(db, env, demo.programId, importId, 9)
  await sql.query(
    `with billing as (insert into program_billing values ($1, 'Shop Ltd', 'Street 1', 'DE', null, 'SB', 1900)),
    limits as (insert into tax_form_limits values ($1, 'usd', 60000)),
    minimums as (insert into minimum_payouts (program_id, currency, minimum_payout_cents) values ($1, 'usd', 500)),
    at_processor as (
      insert into processor_customers (program_id, processor_customer_id, customer_id)
      select $1, 'cus_' || min(id), min(id) from customers where program_id = $1
    ),
    terms as (insert into program_terms (program_id, version, text, self_billing) values ($1, 7, 'Terms', true) returning *),
    accepted as (
      insert into accepted_terms (program_id, partner_id, version)
      select r.program_id, r.id, t.version from partners r join terms t using (program_id)
    ),
    postbacks as (
      insert into webhook_endpoints (program_id, partner_id, url, method, types)
      select program_id, id, 'https://tracker.example/?cid={sub1}', 'GET', '{lead,sale}' from partners
      where program_id = $1 order by id limit 2
    )
    insert into payee_details (user_id, legal_name, address, country)
    select distinct user_id, 'Payee', 'Street 2', 'FR' from partners where program_id = $1 and user_id is not null on conflict do nothing`,
    [demo.programId],
  )
  await saveBrand(db, demo.programId, { portal_name: 'Partners of Ann', sender_name: 'Ann', color: '#3049d8' })
  await saveLogo(db, demo.programId, readLogo(pngOf(32, 16)))
  await changeJoinPage(db, demo.programId, {
    is_open: true,
    slug: 'ann',
    headline: 'Earn with Ann',
    shows_calculator: false,
    questions: [{ label: 'Where do you publish?', type: 'long', required: true }],
    faq: [{ question: 'When am I paid?', answer: 'Every month.' }],
  })
  const runId = await createPayoutRun(db, demo.programId, crypto.randomUUID())
  const transfer = { reference: 'transfer 1', paid_on: new Date() }
  await payPayoutRun(db, demo.programId, Number(runId), transfer)
  const { rows } = await sql.query(
    `select min(d.payout_id)::int as id from documents d join payouts w on w.program_id = d.program_id and w.id = d.payout_id
    where w.payout_run_id = $1`,
    [runId],
  )
  await returnPayout(db, demo.programId, rows[0].id, 'returned', 'The account is closed.')
  return demo.programId
}

async function exported(ofProgramId: number): Promise<Uint8Array> {
  const created = await createExport(db, ofProgramId)
  const chunks: Uint8Array[] = []
  for await (const chunk of writeArchive(db, env.EMAIL_HASH_KEY, ofProgramId, created)) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const newProgram = async () => {
  const created = await sql.query(`insert into workspaces (name) values ('Another') returning id`)
  return await createProgram(db, created.rows[0].id, {
    ...programDefaults,
    name: 'Demo program',
    domain: 'shop.example.com',
  })
}

async function importedInto(ofProgramId: number, content: Uint8Array) {
  const importId = await createImport(db, env, ofProgramId, 'archive')
  const files = [{ name: 'program.zip', content }]
  const planned = await importFiles(db, env, ofProgramId, importId, {
    source: 'archive',
    files,
    mappings: {},
    seconds: 9,
  })
  return planned.state === 'planned' ? await applyImport(db, env, ofProgramId, importId, 9) : planned
}

const linesOf = (files: Files, name: string): Line[] =>
  strFromU8(files[`data/${name}.jsonl`] ?? new Uint8Array())
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))

/** The rows of an archive. The id of each row is replaced by its position in the file, and the program's ids are omitted. */
function normalized(archive: Uint8Array): Record<string, Line[]> {
  const files = unzipSync(archive)
  const places = new Map<string, number>()
  for (const name of kindNames) {
    for (const [place, { id }] of linesOf(files, name).entries()) places.set(`${name} ${String(id)}`, place)
  }
  const withPlace = (kind: string, id: unknown) =>
    typeof id === 'number' ? `${kind} ${places.get(`${kind} ${id}`)}` : id
  return Object.fromEntries(
    kindNames.map((name) => [
      name,
      linesOf(files, name).map((line) =>
        Object.fromEntries(
          Object.entries(line).map(([field, value]) => {
            const type = kindOf(name).fields[field] ?? ''
            if (name === 'program' && /id/.test(field)) return [field, 'an id']
            if (type === 'id') return [field, withPlace(name, value)]
            const referred = referredBy(type)
            if (referred) return [field, withPlace(referred, value)]
            return [field, nested(value, withPlace)]
          }),
        ),
      ),
    ]),
  )
}

function nested(value: unknown, withPlace: (kind: string, id: unknown) => unknown): unknown {
  return JSON.parse(JSON.stringify(value), (key, inner: unknown) =>
    key === 'link_id'
      ? withPlace('links', inner)
      : key === 'rule_id'
        ? withPlace('rules', inner)
        : key === 'group_id'
          ? withPlace('groups', inner)
          : key === 'commission_id'
            ? withPlace('commissions', inner)
            : key === 'adjustment_id'
              ? withPlace('adjustments', inner)
              : inner,
  )
}

const archive = await exported(programId)
const filesOfArchive = unzipSync(archive)
const target = await newProgram()

test('an archive restores every row in an empty program of another workspace, and exporting that program results in the same archive', async () => {
  expect(kindNames.filter((name) => linesOf(filesOfArchive, name).length === 0)).toEqual([])
  expect(await importedInto(target, archive)).toMatchObject({ state: 'applied', problem: null })
  expect(normalized(await exported(target))).toEqual(normalized(archive))
  expect(await findDifferences(sql)).toEqual([])
  expect(await figuresOf(target)).toEqual(await figuresOf(programId))
  while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
  expect(await findDifferences(sql)).toEqual([])
  expect(await figuresOf(target)).toEqual(await figuresOf(programId))
  const totals = `select grouping_name, span, starts, currency, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions,
      sum(sales) as sales, sum(revenue_cents) as revenue, sum(commission_cents) as commission, sum(refunded_cents) as refunded
    from grouped_totals where program_id = $1 group by 1, 2, 3, 4 order by 1, 2, 3, 4`
  expect((await sql.query(totals, [target])).rows).toEqual((await sql.query(totals, [programId])).rows)
  const postbacks = await sql.query(
    `select method, disabled_because, count(*)::int from webhook_endpoints where program_id = $1 group by 1, 2`,
    [target],
  )
  expect(postbacks.rows).toEqual([{ method: 'GET', disabled_because: 'owner', count: 2 }])
  const log = await sql.query(
    `select action from audit_log where program_id = $1 and action <> 'program.created' order by id`,
    [target],
  )
  expect(log.rows).toEqual([{ action: 'import.applied' }, { action: 'program.exported' }])
  const silent =
    'select (select count(*) from outbox where program_id = $1) as outbox, (select count(*) from webhook_messages where program_id = $1) as webhooks'
  expect((await sql.query(silent, [target])).rows).toEqual([{ outbox: '0', webhooks: '0' }])
})

/** Returns the figures of a program's overview for all time, except its number of new partners. */
async function figuresOf(id: number) {
  const { rows } = await sql.query(
    'select id::int, currency, program_began(id, created_at) as "createdAt" from programs where id = $1',
    [id],
  )
  const { performance, overview } = await readOverview(db, rows[0], {
    period: 'all',
    currency: rows[0].currency,
    filters: {},
  })
  const { totalPartners: _, partnersTrend: _trend, ...metrics } = performance.metrics
  return { metrics, total: overview.total }
}

test('the archive of a program in shadow mode fills a program in shadow mode, whose commissions stay uncredited', async () => {
  const program = await createLedgerProgram(sql, db, { holdDays: 0, leadCommissionCents: 100 })
  await program.soldBy(0, 5000)
  await approveDueCommissions(db, 100)
  await enterShadowMode(db, program.programId)
  await program.soldBy(0, 3000)
  await leaveShadowMode(db, program.programId)
  await enterShadowMode(db, program.programId)
  await program.refund((await program.soldBy(1, 2000)).id, 500)
  await program.lead('signup', await program.click(1))
  while ((await countClicks(db, 1000)) + (await countFigures(db, 1000)) > 0);
  const moving = await exported(program.programId)
  const moved = await newProgram()
  expect(await importedInto(moved, moving)).toMatchObject({ state: 'applied', problem: null })
  await sql.query(`update programs set name = 'Ledger' where id = $1`, [moved])
  expect(normalized(await exported(moved))).toEqual(normalized(moving))
  expect(await readShadowMode(db, moved)).toEqual(await readShadowMode(db, program.programId))
  expect(await approveDueCommissions(db, 100)).toMatchObject({ credited: 0 })
  await leaveShadowMode(db, moved)
  expect(await approveDueCommissions(db, 100)).toMatchObject({ credited: 0 })
  expect(await findDifferences(sql)).toEqual([])
})

test('the explanation of each imported sale is the same', async () => {
  const { rows } = await sql.query(
    'select transaction_id from sales where program_id = $1 and not is_test order by id',
    [programId],
  )
  expect(rows.length).toBeGreaterThan(30)
  const explained = async (ofProgramId: number) =>
    await Promise.all(
      rows.map(async ({ transaction_id }) => {
        const all = await explainSale(db, { programId: ofProgramId, transaction_id, test: false, withCustomer: true })
        return JSON.parse(JSON.stringify(all), (key, value: unknown) =>
          /(^|_)id$/.test(key) && typeof value === 'number'
            ? 'id'
            : typeof value === 'string'
              ? value.replace(/payout \d+/, 'payout')
              : value,
        )
      }),
    )
  expect(await explained(target)).toEqual(await explained(programId))
})

test('an archive contains each column of its tables or lists it as omitted, and its schemas describe its rows', async () => {
  const files = filesOfArchive
  expect(linesOf(files, 'documents').map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(['invoice', 'credit_note']),
  )
  for (const name of kindNames) {
    const { table, fields, extra = {}, omitted } = kindOf(name)
    const columns = await sql.query(
      `select array_agg(attname::text) as names from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped`,
      [table],
    )
    const own = Object.keys(fields).filter((field) => !(field in extra))
    const implied = name === 'program' ? [] : ['program_id']
    expect([name, ...[...own, ...omitted, ...implied].toSorted()]).toEqual([name, ...columns.rows[0].names.toSorted()])
    const schema = JSON.parse(JSON.stringify(schemaOfKind(name, 'https://api.example.com')))
    const rows = linesOf(files, name)
    const csv = strFromU8(files[`csv/${name}.csv`] ?? new Uint8Array())
    expect(csv.split('\r\n')[0]).toBe(Object.keys(fields).join(','))
    for (const row of rows) {
      expect(Object.keys(row)).toEqual(schema.required)
      for (const field of Object.keys(fields))
        expect([field, accepts(kindOf(name), field, row[field])]).toEqual([field, true])
    }
  }
  const text = Object.values(files)
    .map((file) => strFromU8(file))
    .join('')
  for (const secret of ['password', 'token_hash', 'svc_live_', 'ip_address', 'secret'])
    expect(text).not.toContain(`"${secret}`)
})

test('subscriptions with the former id of a moved program still count for it, and it can move again', async () => {
  const third = await newProgram()
  const content = Buffer.from(await exported(target))
  const ends = [0, 20_000, content.length - 10, content.length]
  const importId = await createImport(db, env, third, 'archive', undefined, ends.length - 1)
  const send = async (part: number) => {
    const content_base64 = content.subarray(ends[part - 1], ends[part]).toString('base64')
    return await storeArchivePart(db, env, third, importId, { part, content_base64 })
  }
  expect([await send(3), await send(3), await send(1), await send(2)].map(({ state }) => state)).toEqual([
    'reading',
    'reading',
    'reading',
    'planned',
  ])
  await expect(send(2)).rejects.toMatchObject({ code: 'conflict' })
  expect((await sql.query('select from archive_parts')).rows).toEqual([])
  expect(await applyImport(db, env, third, importId, 9)).toMatchObject({ state: 'applied' })
  expect(normalized(await exported(third))).toEqual(normalized(archive))
  await sql.query(`update programs set processor_account_id = 'acct_moved' where id = $1`, [third])
  const found = `select (program_of_purchase('acct_moved', jsonb_build_object('program_id', $1::bigint))).id::int as id`
  for (const id of [programId, target, third]) expect((await sql.query(found, [id])).rows).toEqual([{ id: third }])
  expect((await sql.query(found, [third + 1000])).rows).toEqual([{ id: null }])
  expect(await importedInto(third, archive)).toMatchObject({
    state: 'failed',
    problem: expect.stringContaining('already has partners'),
  })
})

test('the waiting archive parts of all programs of a workspace have a maximum size', async () => {
  const [one, other] = [await newProgram(), await newProgram()]
  await sql.query(
    'update programs set workspace_id = (select workspace_id from programs where id = $1) where id = $2',
    [one, other],
  )
  const most = 10
  const store = async (program: number, importId: number, part: number) =>
    (
      await sql.query(`select outcome from store_waiting_part($1, $2, $3, encode('six by', 'base64'), $4)`, [
        program,
        importId,
        part,
        most,
      ])
    ).rows[0].outcome
  const [first, second] = [
    await createImport(db, env, one, 'archive', undefined, 2),
    await createImport(db, env, other, 'archive', undefined, 2),
  ]
  // A repeated part replaces the stored one.
  expect([await store(one, first, 1), await store(one, first, 1)]).toEqual(['stored', 'stored'])
  expect([await store(one, first, 2), await store(other, second, 1)]).toEqual(['full', 'full'])
  // Another import of the same program replaces the parts.
  const third = await createImport(db, env, one, 'archive', undefined, 2)
  expect(await store(one, third, 1)).toBe('stored')
})

test('the archives of a workspace store up to 1 GiB of rows in a day, and none for a program that is in use', async () => {
  const other = await newProgram()
  await createImport(db, env, programId, 'archive')
  await sql.query(
    `update programs set workspace_id = (select workspace_id from programs where id = $1) where id = $2`,
    [programId, other],
  )
  const stored = async () =>
    (await sql.query('select from archive_rows where program_id in ($1, $2)', [programId, other])).rowCount
  const before = await stored()
  expect(await importedInto(programId, archive)).toMatchObject({ problem: expect.stringContaining('already has') })
  await sql.query('update imports set archive_bytes = $2 where program_id = $1', [programId, 2 ** 30])
  expect(await importedInto(other, archive)).toMatchObject({ problem: expect.stringContaining('a day') })
  expect(await stored()).toBe(before)
})

test('other requests get their turn while a large file is unpacked, and its size counts', async () => {
  const large = new Uint8Array(48 * 1024 * 1024)
  for (let at = 0; at < large.length; at += 64) large[at] = (at * at) % 251
  const content = withFile(filesOfArchive, 'csv/groups.csv', large, 0)
  const parts = wholeArchive(content)
  const manifest = await readManifest(parts)
  let turns = 0
  const waiting = setInterval(() => (turns += 1), 0)
  for await (const page of readArchive(parts, manifest)) expect(page).not.toEqual([])
  clearInterval(waiting)
  expect(turns).toBeGreaterThan(5)
  expect(bytesOfFiles(manifest)).toBeGreaterThan(48 * 1024 * 1024)
})

test('a planned archive is not applied to a program that has been used since', async () => {
  const other = await newProgram()
  const importId = await createImport(db, env, other, 'archive')
  const files = [{ name: 'program.zip', content: archive }]
  await importFiles(db, env, other, importId, { source: 'archive', files, mappings: {}, seconds: 9 })
  await addPartner(db, { programId: other, name: 'Early', email: 'early@example.com', code: 'early' })
  expect(await applyImport(db, env, other, importId, 9)).toMatchObject({
    state: 'failed',
    problem: expect.stringMatching(/^This program already has partners.* import it there\.$/),
  })
})

test('an instance with a different key for e-mail addresses drops their hashes and reports it', async () => {
  const other = await newProgram()
  const importId = await createImport(db, env, other, 'archive')
  const files = [{ name: 'program.zip', content: archive }]
  const reading = { source: 'archive', files, mappings: {}, seconds: 9 } as const
  expect(await importFiles(db, { ...env, EMAIL_HASH_KEY: 'other' }, other, importId, reading)).toMatchObject({
    state: 'planned',
    problem: expect.stringContaining('EMAIL_HASH_KEY'),
  })
  expect(await applyImport(db, env, other, importId, 9)).toMatchObject({ state: 'applied' })
  const hashes = await sql.query(
    'select count(email_hash)::int as hashes, count(*)::int as customers from customers where program_id = $1',
    [other],
  )
  expect(hashes.rows).toEqual([{ hashes: 0, customers: linesOf(filesOfArchive, 'customers').length }])
  expect(await findDifferences(sql, other)).toEqual([])
})

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** Changes the rows of a kind, and writes a matching manifest. */
function forged(kind: KindName, change: (rows: Line[]) => unknown[], settings: Partial<Manifest> = {}): Uint8Array {
  const files = filesOfArchive
  const rows = change(linesOf(files, kind))
  const lines = rows.map((row) => (typeof row === 'string' ? row : JSON.stringify(row)))
  return withFile(
    files,
    `data/${kind}.jsonl`,
    strToU8(lines.map((line) => `${line}\n`).join('')),
    rows.length,
    settings,
  )
}

/** Uses the lightest compression, because compressing takes longer than importing these rows. */
const zipped = (files: Files) => zipSync(files, { level: 1 })

function withFile(files: Files, name: string, content: Uint8Array, rows: number, settings: Partial<Manifest> = {}) {
  const manifest: Manifest = JSON.parse(strFromU8(files['manifest.json'] ?? new Uint8Array()))
  const others = manifest.files.filter((file) => file.name !== name)
  const file = { name, rows, bytes: content.length, sha256: sha256(content) }
  const changed = { ...manifest, files: [...others, file], ...settings }
  return zipped({ ...files, [name]: content, 'manifest.json': strToU8(JSON.stringify(changed)) })
}

const first = (change: Line) => (rows: Line[]) => rows.map((row, place) => (place === 0 ? { ...row, ...change } : row))
const manifestWith = (change: (manifest: Manifest) => unknown) => {
  const files = filesOfArchive
  const manifest: Manifest = JSON.parse(strFromU8(files['manifest.json'] ?? new Uint8Array()))
  change(manifest)
  return zipped({ ...files, 'manifest.json': strToU8(JSON.stringify(manifest)) })
}
const firstFile =
  (change: object) =>
  ({ files }: Manifest) =>
    Object.assign(files[0] ?? {}, change)
const flipped = (at: number) => archive.map((byte, place) => (place === at ? byte ^ 0xff : byte))
const bomb = new Uint8Array(8 * 1024 * 1024)
/** An empty file in a ZIP archive: 30 bytes of header and 13 of its name. */
const entryOf = (name: string) => zipSync({ [name]: new Uint8Array() }, { level: 0 }).subarray(0, 30 + name.length)
const past = '2019-12-31T00:00:00+00:00'
const termsOfLine = { commission_bp: 1, commission_months: null, fixed_cents: null, cap_cents: null, weight: 1 }
const step = ['customer_key', 'found']
const longText = 'x'.repeat(401)
const data = (value: unknown): Line => ({ additional_data: value })

// The jobs of all programs read these fields.
const misshapen: [kind: KindName, change: Line][] = [
  ['clicks', { campaign: { bogus: 'x' } }],
  ['clicks', { campaign: { utm_source: longText } }],
  ['clicks', { campaign: { utm_source: 1 } }],
  ['clicks', { campaign: ['x'] }],
  ['clicks', { device_type: longText }],
  ['clicks', { id: -1 }],
  ['clicks', data(['x'])],
  ['clicks', data({ text: 'x'.repeat(70_000) })],
  ['customers', { origin: { bogus: 'x' } }],
  ['customers', { origin: { page: longText } }],
  ['sales', { resolution: { steps: [step], clicked_at: 'not-a-time' } }],
  ['sales', { resolution: { steps: [step], at: '2026-99-01T00:00:00Z' } }],
  ['sales', { resolution: { steps: [step], link_id: 'x' } }],
  ['sales', { resolution: { steps: [['x']] } }],
  ['sales', { resolution: { clicked_at: null } }],
  ['sales', { resolution: { steps: [step], bogus: 1 } }],
  ['sales', { terms_among: { rules_version: 'x' } }],
  ['sales', { lines: [{ product_ids: 'x', weight: 1 }] }],
  ['sales', { terms_by_line: [{ ...termsOfLine, rule_id: 0.5 }] }],
  ['sales', { api_payload: [1, 2] }],
  ['commissions', { corrections: [{}] }],
  ['commission_reviews', { flags: [{ rule: 'bogus' }] }],
  ['documents', { issuer: { legal_name: 'x' } }],
  ['documents', { payee: { user_id: 'x' } }],
  ['documents', { lines: [{ cause: 'x', amount_cents: 'x' }] }],
  ['partners', { metadata: { key: 1 } }],
  ['links', { metadata: ['x'] }],
  ['join_page', { faq: [{}] }],
  ['join_page', { questions: {} }],
]

test.each<[what: string, hostile: () => Uint8Array, problem: string]>([
  ['is cut off', () => archive.subarray(0, archive.length - 300), 'not a complete ZIP'],
  ['is not an archive', () => strToU8('name,email\nAda,ada@example.com'), 'not a complete ZIP'],
  ['has a damaged file', () => flipped(300), 'is damaged'],
  ['has no manifest', () => zipSync({ 'data/partners.jsonl': strToU8('{}') }), 'no readable manifest'],
  ['has a compression bomb as its manifest', () => zipSync({ 'manifest.json': bomb }), 'no readable manifest'],
  ['has another version', () => manifestWith((manifest) => (manifest.version = 99)), 'has version 99'],
  ['has another hash', () => manifestWith(firstFile({ sha256: 'a'.repeat(64) })), 'differs from the manifest'],
  ['has other rows', () => manifestWith(firstFile({ rows: 7 })), 'differs from the manifest'],
  [
    'lacks a file',
    () => manifestWith((manifest) => (manifest.files = manifest.files.slice(1))),
    'has no file data/program',
  ],
  ['has too many rows', () => manifestWith(firstFile({ rows: 1_000_001 })), 'more than 1,000,000 rows'],
  ['declares too many bytes', () => manifestWith(firstFile({ bytes: 2 ** 31 })), 'more than 1 GiB'],
  ['unpacks to more than it declares', () => zipped({ ...filesOfArchive, 'data/partners.jsonl': bomb }), 'is damaged'],
  [
    'expands to many times its size',
    () => withFile(filesOfArchive, 'csv/program.csv', new Uint8Array(64 * 1024 * 1024), 0),
    'more than a hundred times',
  ],
  ['has one endless line', () => withFile(filesOfArchive, 'data/partners.jsonl', bomb, 0), 'is damaged'],
  ['contains a file with a path', () => withFile(filesOfArchive, '../../etc/passwd', strToU8('x'), 0), 'unknown file'],
  [
    'repeats its manifest thousands of times',
    () => Buffer.concat([...Array.from({ length: 3000 }, () => entryOf('manifest.json')), archive]),
    'does not list: "manifest.json"',
  ],
  [
    'has no manifest at its end',
    () => Buffer.concat([...Array.from({ length: 5000 }, () => entryOf('manifest.jsoX')), archive.subarray(-22)]),
    'no readable manifest',
  ],
  ['hides a file', () => zipped({ ...filesOfArchive, '../evil.jsonl': strToU8('x') }), 'does not list'],
  ['has a line without JSON', () => forged('partners', (rows) => [...rows, '{"id": 1']), 'is not JSON'],
  ['has a column of the database', () => forged('partners', first({ user_id: 'user_1' })), 'unknown field'],
  ['has a zero byte', () => forged('partners', first({ name: 'A\0' })), 'not valid'],
  ['has a link of another program', () => forged('links', first({ partner_id: 1_000_000 })), 'does not have'],
  [
    'has a rule of another program',
    () => forged('sales', first({ terms_by_line: [{ ...termsOfLine, rule_id: 99_999 }] })),
    'does not have',
  ],
  ['repeats an id', () => forged('partners', (rows) => [...rows, rows[0]]), 'archive_rows_old_id_key'],
  [
    'has a click in the future',
    () => forged('clicks', first({ click_timestamp: '2999-01-01T00:00:00+00:00' })),
    'no valid click_timestamp',
  ],
  [
    'has an endless time',
    () => forged('partners', first({ payout_waits_until: 'infinity' })),
    'no valid payout_waits_until',
  ],
  [
    'has a time before 1970',
    () => forged('partners', first({ created_at: '0001-01-01T00:00:00+15:59' })),
    'no valid created_at',
  ],
  [
    'has an old lead',
    () =>
      forged('customers', (rows) =>
        rows.map((row) => (row['signup_date'] && !row['imported_at'] ? { ...row, signup_date: past } : row)),
      ),
    'older than 2020',
  ],
  ['gives a partner a balance', () => forged('balances', first({ balance_cents: 99_999_900 })), 'balances'],
  [
    'has entries that do not add up',
    () => forged('balance_entries', first({ amount_cents: 99_999_900 })),
    'balance_entries',
  ],
  ['omits an entry', () => forged('balance_entries', (rows) => rows.slice(1)), 'balance'],
  [
    'pays an entry twice',
    () =>
      forged('payout_lines', (rows) => [
        ...rows,
        { ...rows.findLast((row) => !row['is_returned']), id: 999, payment_number: 9 },
      ]),
    'do not add up',
  ],
  ['pays nothing', () => forged('payout_lines', () => []), 'is paid when a payment pays its last part'],
  [
    'raises a commission',
    () =>
      forged('commissions', (rows) =>
        rows.map((row) =>
          row['credited_at'] === null && row['reversal'] === 'none' && row['kind'] === 'sale'
            ? { ...row, amount_cents: Number(row['amount_cents']) * 50 }
            : row,
        ),
      ),
    'follows from its rate',
  ],
  [
    'changes a refund',
    () => forged('refunds', first({ applied_cents: 1 })),
    'a commission is reversed by floor(commission * refunded part of its sale)',
  ],
  [
    'has a wrong customer',
    () => forged('customers', (rows) => rows.map((row) => ({ ...row, partner_id: rows[0]?.['partner_id'] }))),
    'has the partner of their link',
  ],
  [
    'nests lists too deeply',
    () =>
      forged('sales', (rows) => [
        JSON.stringify({ ...rows[0], additional_data: 0 }).replace(
          '"additional_data":0',
          `"additional_data":{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
        ),
      ]),
    'no valid additional_data',
  ],
])('an archive that %s is refused, and nothing stays', async (_what, hostile, problem) => {
  const victim = await newProgram()
  const { state, problem: why, ...others } = await importedInto(victim, hostile())
  expect([state, why]).toEqual(['failed', expect.stringContaining(problem)])
  expect(others).toMatchObject({ done: 0 })
  const left = kindNames
    .filter((name) => name !== 'program')
    .map((name) => `select from ${kindOf(name).table} where program_id = $1`)
  expect(
    (await sql.query([...left, 'select from archive_rows where program_id = $1'].join(' union all '), [victim])).rows,
  ).toEqual([])
})

test('rows with fields of another shape are refused with their line and field', async () => {
  for (const [kind, change] of misshapen) {
    const [[field] = []] = Object.entries(change)
    const rows = linesOf(filesOfArchive, kind)
    const content = wholeArchive(forged(kind, () => [...rows, { ...rows[0], ...change }]))
    const read = async () => {
      for await (const _ of readArchive(content, await readManifest(content)));
    }
    await expect(read(), JSON.stringify([kind, change])).rejects.toThrow(
      `Line ${rows.length + 1} of data/${kind}.jsonl has no valid ${field}.`,
    )
  }
})

test('an archive with the largest logo can be imported', async () => {
  const [from, to] = [await newProgram(), await newProgram()]
  const small = Buffer.from(readLogo(pngOf(32, 16)).bytes)
  const pixels = Buffer.alloc(maxLogoBytes - small.length)
  pixels.writeUInt32BE(pixels.length - 12)
  pixels.write('IDAT', 4)
  const largest = Buffer.concat([small.subarray(0, -12), pixels, small.subarray(-12)])
  await saveLogo(db, from, readLogo(largest))
  expect(await importedInto(to, await exported(from))).toMatchObject({ state: 'applied' })
  const { rows } = await sql.query('select logo from program_brands where program_id = $1', [to])
  expect(largest.equals(rows[0]?.logo)).toBe(true)
})

test('an archive without a brand keeps the brand of the new program', async () => {
  const [from, to] = [await newProgram(), await newProgram()]
  await saveBrand(db, to, { portal_name: 'Partners of Eve', sender_name: '', color: '' })
  expect((await importedInto(to, await exported(from))).state).toBe('applied')
  expect(await readBrand(db, to)).toMatchObject({ portal_name: 'Partners of Eve' })
})

test.each([
  ['an unknown reason', 'XX000'],
  ['too little memory', '53200'],
])('an archive that the database refuses for %s fails after five attempts, and changes nothing', async (_why, code) => {
  const refusing = await newProgram()
  await sql.query(`
    create function refuse_planted() returns trigger language plpgsql as 'begin raise exception $$planted$$ using errcode = $$${code}$$; end';
    create trigger planted before insert on partners for each row when (new.program_id = ${refusing}) execute function refuse_planted()`)
  onTestFinished(async () => void (await sql.query('drop function refuse_planted() cascade')))
  await expect(importedInto(refusing, archive)).rejects.toThrow('planted')
  for (let run = 0; run < 5; run++) await expect(continueImports(db, env, 9)).rejects.toThrow('1 of 1 imports failed')
  expect(await continueImports(db, env, 9)).toBe(0)
  expect(await listImports(db, refusing, { limit: 1 })).toMatchObject([
    { state: 'failed', problem: expect.stringContaining('nothing has changed') },
  ])
  expect((await sql.query('select from partners where program_id = $1', [refusing])).rows).toEqual([])
})
