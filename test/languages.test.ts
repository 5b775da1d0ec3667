import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseAst } from 'vite'
import { describe, expect, test } from 'vitest'
import { commissionStates } from '../functions/dashboard/components/commission.tsx'
import { payoutStates } from '../functions/dashboard/components/payout.tsx'
import { style } from '../functions/dashboard/components/style.ts'
import { textsIn } from '../functions/dashboard/components/text.tsx'
import { amountProblem, smallestUnits } from '../functions/dashboard/components/typed-number.ts'
import dashboard from '../functions/dashboard.tsx'
import { chooseLanguage, languageCodes, languages } from '../lib/languages.ts'
import { maxBodyBytes } from '../lib/api/app.ts'
import { createPerson, tiePartner } from '../lib/local/people.ts'
import { createPartnerKey } from '../lib/access/partner-keys.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { approveDueCommissions } from '../lib/money/commissions.ts'
import { payeeForm, saveBilling } from '../lib/money/documents.ts'
import { taxFormForm } from '../lib/money/tax-forms.ts'
import { askPayout, payPayout } from '../lib/money/payouts.ts'
import { refusalOfTemplate } from '../lib/notifications/postbacks.ts'
import { createEndpoint, maxPostbacks, testEndpoint } from '../lib/notifications/webhook-endpoints.ts'
import { failingDays } from '../lib/notifications/failing-days.ts'
import { mailTopics, topicWords, unsubscribeToken } from '../lib/notifications/mail-choices.ts'
import { mails } from '../lib/texts/messages/mails.ts'
import { portal } from '../lib/texts/messages/portal.ts'
import { createTexts, type Messages } from '../lib/texts/texts.ts'
import { changeJoinPage } from '../lib/programs/join-page.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'
import { launchBrowser } from './support/browser.ts'
import { openJoinPages } from './support/join-pages.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { inNoWorker, password, sessionCookieOf } from './support/people.ts'
import { startEndpoint } from './support/stack.ts'

const table: Messages = { ...portal, ...mails }
const isKey = (text: string) => Object.hasOwn(table, text)

interface Node {
  type: string
  [key: string]: unknown
}
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'type' in value

const nameOf = (node: unknown) => (isNode(node) && isNode(node['name']) ? node['name']['name'] : undefined)

/** Finds the texts for readers in a code file: page texts, and string literals that look like a sentence or a label. */
function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf)
  if (!isNode(value) || value.type === 'ImportDeclaration') return []
  if (value.type === 'JSXAttribute' && ['class', 'autocomplete'].includes(String(nameOf(value)))) return []
  const text = value.type === 'JSXText' || value.type === 'Literal' ? value['value'] : undefined
  if (typeof text === 'string') {
    const line = text.replaceAll(/\s+/g, ' ').trim()
    const isText = value.type === 'JSXText' ? /\p{L}/u.test(line) : /^[A-Z][a-z]|[a-z,] [a-z]/.test(line)
    return isText ? [line] : []
  }
  if (value.type === 'TemplateLiteral' && Array.isArray(value['quasis'])) {
    const words = value['quasis'].map((quasi: { value: { cooked: string } }) => quasi.value.cooked).join('{}')
    return [...(/^[A-Z][a-z]+ |[a-z] [a-z{]/.test(words) ? [words] : []), ...textsOf(value['expressions'])]
  }
  return Object.values(value).flatMap(textsOf)
}

const partnerFiles = [
  ...globSync('functions/dashboard/{partner,join}/*.{ts,tsx}'),
  ...globSync('functions/dashboard/account/{account,credentials,erasure,invitations,mail,password}.tsx'),
  ...globSync('functions/dashboard/account/{session-list,sign-in,sign-up,two-factor,verification}.tsx'),
  'functions/embed/portal.tsx',
]

/** Texts in these files that partners never read in another language. */
const english = new Set([
  // The invitation to a workspace is for members.
  'You are invited as',
  ', with the address',
  'Join {}',
  // Only members have workspaces.
  'As a member of a workspace',
  '{} requires two-factor codes. Set them up to open it.',
  // Names of companies, a response header, and an error that is never shown.
  'GitHub',
  'Google',
  'Set-Cookie',
  'better-auth enabled a method other than TOTP',
  // A request that no page sends.
  "This sign-in method isn't set up here.",
  // The key of a counter.
  'application from {}',
  // Names of parameters.
  '&sub1=',
  '&sub2=',
  '&sub3=',
  '&sub1=newsletter',
  'utm_source, utm_medium, utm_campaign, utm_term, utm_content',
  // The rules for the addresses of endpoints are messages of their own.
  'The address {}.',
  // A response header.
  'Content-Location',
  'Welcome! You are now a member.',
  // The size of the embedded portal on phones.
  'width=device-width, initial-scale=1',
])

/** Messages that the code composes. */
const composed = new Set([
  'Use at most 80 characters, without line breaks or characters that change the direction of text.',
  '{title} by day',
  'Day',
  'Use 300 characters at most.',
  'Use 3000 characters at most.',
  'The address must be a public address.',
  'The address must have a public host.',
  'The address must begin with https://.',
  'The address must not contain a password.',
  'The address must have its placeholders after the question mark.',
  'The address must not contain a #, because nothing after it is sent.',
  'The address must be an address such as https://example.com/webhooks.',
  'The address contains a single brace.',
  'The address must have at most 2000 characters.',
  'The address must have at most 30 placeholders.',
  `You can have at most ${maxPostbacks} postbacks per program. Delete one first.`,
  `Your postbacks to an address were disabled after ${failingDays} days of failures.`,
  `The body can have at most ${maxBodyBytes / 1024} KiB. Send a smaller one.`,
  'The database did not respond. Send the same request again. Request {id}.',
  'Something went wrong on our side. Send support this request id: {id}.',
  'Use at most 200 characters.',
  'Use at most 500 characters.',
])

const parts = (text: string) => [...new Set(text.replace('{count}', '').match(/\{\w+\}|<\/?\w+>/g))].toSorted()

describe('the message table', () => {
  test('has every text of the pages for partners', () => {
    const missing = partnerFiles.flatMap((file) => {
      const lang = path.extname(file) === '.ts' ? 'ts' : 'tsx'
      const texts = textsOf(parseAst(readFileSync(file, 'utf8'), { lang }))
      return texts.filter((text) => !isKey(text) && !english.has(text)).map((text) => `${file}: ${text}`)
    })
    expect(partnerFiles.length).toBeGreaterThan(12)
    expect(missing).toEqual([])
  })

  test('has no message that the code does not use', () => {
    const code = globSync(['functions/**/*.{ts,tsx}', 'lib/**/*.ts'], { exclude: (name) => name === 'messages' })
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n')
      .replaceAll(/\n\s*/g, ' ')
      .replaceAll("\\'", "'")
    const byStart = Map.groupBy(Object.keys(table), (key) => key.slice(0, 2))
    const used = Array.from(code.matchAll(/['"`]/g)).flatMap(({ index, 0: mark }) =>
      (byStart.get(code.slice(index + 1, index + 3)) ?? []).filter((key) => code.startsWith(key + mark, index + 1)),
    )
    const found = new Set([...used, ...composed])
    const unused = Object.keys(table).filter((key) => !found.has(key))
    expect(unused).toEqual([])
  })

  test('keeps the values and elements of each message in every language', () => {
    const wrong = Object.entries(table).flatMap(([key, message]) =>
      languageCodes
        .flatMap((language) => message[language] ?? [])
        .flatMap((forms) => (typeof forms === 'string' ? [forms] : [forms.one, forms.other]))
        .filter((text) => text.trim() === '' || parts(text).join() !== parts(key).join()),
    )
    expect(wrong).toEqual([])
  })

  test('has a singular for each number of days or months that can be 1', () => {
    const plurals = Object.entries(table).flatMap(([key, { en }]) => (en === undefined ? [key] : []))
    expect(plurals.filter((key) => /\{\w+\} (minute|hour|day|week|month|year|sale|click)s/.test(key))).toEqual([
      'Earned in the last {days} days',
      '{days} days',
      'Disabled because every attempt failed for {count} days.',
      'Your postbacks to an address have failed for {count} days, so they were disabled. Once the address responds again, enable them under Postbacks and send the missed ones again.',
      'Somebody, probably you, applied to become a partner of {name} with this address. Check the application and confirm it within {days} days:',
      'Accept within {days} days:',
    ])
  })
})

test.each([
  [[], '', 'en'],
  [[], '*', 'en'],
  [[], 'xx, pt-BR;q=0.8, de;q=0.9', 'de'],
  [[], 'de;q=0, fr;q=0.1', 'fr'],
  [[null, 'es'], 'de', 'es'],
  [['pt', 'es'], 'de', 'pt'],
  [['constructor', undefined], '__proto__, fr-CA', 'fr'],
])('the choices %j and the header %j lead to %s', (choices, header, language) => {
  expect(chooseLanguage(choices, header)).toBe(language)
})

test('refusals of an amount and of a postback address are in the language of the page', () => {
  const french = textsIn('fr')
  expect(amountProblem('1.234', 'usd', french)).toBe('Les montants en USD ont au plus 2 décimales.')
  expect(amountProblem('1 234,567', 'usd', french)).toBe('Les montants en USD ont au plus 2 décimales.')
  const grouped = ['1 234 567,8', '1\u00A0234', '12 34', '1 2345', '1.234,50'].map((typed) =>
    smallestUnits(typed, 'usd'),
  )
  expect(grouped).toEqual([123_456_780, 123_400, Number.NaN, Number.NaN, Number.NaN])
  expect(amountProblem('-1', 'usd', french)).toBe('Saisissez un montant supérieur à zéro, sans signe moins.')
  const addresses = ['http://example.com', 'https://localhost', 'https://10.0.0.1', 'https://a:b@example.com']
  const places = ['https://example.com/{sub1}', 'https://example.com/?a={sub1}#b', 'https://example.com/?a={sub1', 'a']
  const long = [`https://example.com/?${'a'.repeat(2000)}`, `https://example.com/?${'{sub1}'.repeat(31)}`]
  const templates = [...addresses, ...places, ...long]
  const refusals = templates.map((template) => `The address ${refusalOfTemplate(template, { WEBHOOK_LOOPBACK: '' })}.`)
  expect(refusals.filter((text) => french.fixed(text) === text)).toEqual([])
  expect(new Set(refusals).size).toBe(templates.length)
})

test('refusals of the details on documents and of a tax form are in the language of the page', () => {
  const details = { legal_name: 'Ada', address: 'Berlin', country: 'DE', vat_id: '' }
  const filed = { ...details, kind: 'w8ben', classification: '', tax_id: '', birth_date: '', signature: 'Ada' }
  const long = 'a'.repeat(501)
  const wrong = [
    { legal_name: ' ' },
    { legal_name: '名' },
    { legal_name: long },
    { address: long },
    { country: '' },
    { vat_id: '1'.repeat(21) },
    { vat_id: 'FR1' },
    { kind: 'w7' },
    { kind: 'w9' },
    { kind: 'w9', country: 'US', tax_id: '12345' },
    { classification: long },
    { tax_id: '1'.repeat(41) },
    { tax_id: '123' },
    { birth_date: 'soon' },
    { signature: '' },
  ]
  const refusals = wrong.flatMap((fields) =>
    [payeeForm.safeParse({ ...details, ...fields }), taxFormForm.safeParse({ ...filed, ...fields })].flatMap(
      ({ error }) => error?.issues.map(({ message }) => message) ?? [],
    ),
  )
  const french = textsIn('fr')
  expect(refusals.filter((text) => french.fixed(text) === text)).toEqual([])
  expect(new Set(refusals).size).toBeGreaterThan(12)
})

test('the name of a state agrees with its noun', () => {
  const paid = [commissionStates.paid.name, payoutStates.paid.name]
  const words = languageCodes.map((code) => paid.map((name) => textsIn(code).fixed(name)).join(' '))
  expect(words).toEqual(['Paid Paid', 'Bezahlt Bezahlt', 'Payée Payé', 'Pagada Pagado', 'Paga Pago'])
})

test('the layout follows the direction of the language', () => {
  expect(style.match(/[^-](left|right): |(margin|padding|border)-(left|right)|text-align: (left|right)/g)).toBeNull()
})

test('counts, numbers, amounts and days follow the language', () => {
  const messages = {
    '{count} clicks': {
      en: { one: '{count} click', other: '{count} clicks' },
      de: { one: '{count} Klick', other: '{count} Klicks' },
      fr: { one: '{count} clic', other: '{count} clics' },
      es: { one: '{count} clic', other: '{count} clics' },
      pt: { one: '{count} clique', other: '{count} cliques' },
    },
  } satisfies Messages
  const written = languageCodes.map((language) => {
    const { t, money, day } = createTexts(messages, language)
    const counts = [0, 1, 1234].map((count) => t('{count} clicks', { count }))
    return [...counts, money(123_456, 'eur'), day('2026-03-09T23:30:00Z')].join(' | ').replaceAll('\u00A0', ' ')
  })
  expect(written).toEqual([
    '0 clicks | 1 click | 1,234 clicks | €1,234.56 | Mar 9, 2026',
    '0 Klicks | 1 Klick | 1.234 Klicks | 1.234,56 € | 09.03.2026',
    '0 clic | 1 clic | 1 234 clics | 1 234,56 € | 9 mars 2026',
    '0 clics | 1 clic | 1234 clics | 1234,56 € | 9 mar 2026',
    '0 clique | 1 clique | 1.234 cliques | € 1.234,56 | 9 de mar. de 2026',
  ])
})

const { db, sql, env: databaseEnv } = await startEndpoint()
const secrets = { AUTH_SECRET: 'a test secret that is long enough', WEBHOOK_SECRET: 'another secret of the tests' }
const pageEnv = { ...databaseEnv, ...secrets, BASE_URL: 'https://api.example.com', MAIL_INBOX: 'mails' }

const accented: Record<string, string> = {
  ...Object.fromEntries(
    Array.from('ÀƁÇÐÉƑĜĤÎĴĶĻṀÑÖÞǪŔŠŢÛṼŴẊÝŽ', (letter, index) => [String.fromCodePoint(65 + index), letter]),
  ),
  ':': '：',
  ';': '；',
  '?': '？',
  '!': '！',
}

/** Returns a text with accents and wide signs that is 40% longer. Values and elements don't change. */
const pseudo = (text: string) =>
  text.replaceAll(/(\{\w+\}|<\/?\w+>)|[a-z:;?!]/gi, (letter, part?: string) =>
    part === undefined ? (accented[letter.toUpperCase()] ?? letter) : part,
  ) + '~'.repeat(Math.ceil(text.length * 0.4))

/** Texts that aren't in the message table: code, names, addresses and abbreviations. */
const data =
  /<(script|style|template|code|pre|bdi)\b[^>]*>.*?<\/\1>|<option value="(en|de|fr|es|pt)".*?<\/option>|[\w.-]+@[\w.-]+|https?:\/\/[^\s<"]+|[0-9a-f]{8}-[\w-]+|…\w{4}\b|\b(GET|POST|UTC|PDF|USD|US|Partner Tracking|CODE-0|lead|evt_\d+|status=lost|utm_source)\b|&(amp|#39|quot|lt|gt);/gs

/** Finds the words and signs of a page that didn't come from the message table, in the page's text and in attributes that people read. */
function wordsOf(html: string): string[] {
  const page = html.replaceAll(data, ' ')
  const attributes = page.matchAll(/\b(?:aria-label|placeholder|alt|data-confirm|data-copied|data-label)="([^"]*)"/g)
  const texts = [page.replaceAll(/<[^>]*>/g, '\n'), ...Array.from(attributes, ([, text = '']) => text)]
  return texts.flatMap((text) => text.match(/.*(?:[A-Za-z]{2,}|[:;?!](?=\s|$)).*/gm) ?? []).map((text) => text.trim())
}

interface Reader {
  headers: Record<string, string>
}

interface Form {
  action: string
  fields: Record<string, string>
}

const unescaped = (text: string) => text.replaceAll('&amp;', '&').replaceAll('&quot;', '"').replaceAll('&#39;', "'")

/** The pages that a page links to, without documents, files and assets. */
const linksOf = (html: string) =>
  Array.from(html.matchAll(/<a\b[^>]* href="(\/[^"#]*)/g), ([, href = '']) => unescaped(href)).filter(
    (href) => !/^\/(docs|api|assets|documents)\b|\.csv\b/.test(href),
  )

/** The forms of a page, with their hidden fields and without other values. */
function formsOf(html: string): Form[] {
  return Array.from(
    html.matchAll(/<form method="post"[^>]* action="([^"]*)"[^>]*>(.*?)<\/form>/gs),
    ([, action = '', inside = '']) => {
      const names = Array.from(
        inside.matchAll(/<(?:input|textarea|select)\b[^>]* name="([^"]*)"/g),
        ([, name = '']) => [name, ''],
      )
      const hidden = Array.from(
        inside.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g),
        ([, name = '', value = '']) => [name, unescaped(value)],
      )
      return { action: unescaped(action), fields: Object.fromEntries([...names, ...hidden]) }
    },
  )
}

const siteAddress = 'https://api.example.com'

/** Opens a page and the pages to which it redirects. Sends `form`, if there is one. Keeps the cookies in between. */
async function open(address: string, { headers }: Reader, form?: Form): Promise<{ address: string; html: string }> {
  const url = new URL(address, siteAddress)
  const sent = form && { method: 'POST', body: new URLSearchParams(form.fields) }
  const response = await dashboard.request(
    url.href,
    { headers: { ...headers, ...(form && { origin: siteAddress }) }, ...sent },
    pageEnv,
    inNoWorker,
  )
  const location = response.headers.get('location')
  if (location === null) return { address: url.pathname + url.search, html: await response.text() }
  const set = response.headers.getSetCookie().map((cookie) => cookie.split(';')[0])
  const cookie = [headers['cookie'], ...set].filter(Boolean).join('; ')
  return await open(location, { headers: { ...headers, cookie } })
}

/**
 * Follows all links from these pages, and sends each form, first empty and then with nonsense. Returns the visited paths, the sent forms
 * and the shown pages. `untranslated` are texts that aren't in the message table.
 */
async function walk(starts: string[], reader: Reader) {
  const visited = new Set<string>()
  const forms = new Map<string, Form>()
  const untranslated: string[] = []
  const read = (address: string, html: string) => {
    if (!html.includes('<html lang="de" dir="rtl">')) untranslated.push(`${address}: the page is not in the language`)
    untranslated.push(...wordsOf(html).map((words) => `${address}: ${words}`))
  }
  let next = starts
  const shown = new Map<string, string>()
  while (next.length > 0) {
    const pages = await Promise.all(next.map(async (address) => await open(address, reader)))
    for (const { address, html } of pages) {
      read(address, html)
      shown.set(address, html)
      for (const form of formsOf(html)) forms.set(form.action, form)
    }
    for (const address of next) visited.add(address.split('?')[0] ?? '')
    const found = new Map(pages.flatMap(({ html }) => linksOf(html)).map((href) => [href.split('?')[0] ?? '', href]))
    next = Array.from(found).flatMap(([known, href]) => (visited.has(known) ? [] : [href]))
  }
  const ends = ({ action }: Form) => Number(/leave|delete|cancel|revoke/.test(action))
  const sendable = Array.from(forms.values())
    // These end the session.
    .filter(({ action }) => !/sign-out|sessions/.test(action))
    .toSorted((a, b) => ends(a) - ends(b))
  for (const { action, fields } of sendable) {
    const typed = Object.entries(fields).map(([name, value]) => [name, value || 'x'])
    const filled = { ...Object.fromEntries(typed), form_token: crypto.randomUUID() }
    for (const sent of ends({ action, fields }) ? [fields] : [fields, filled])
      read(`${action}, sent`, (await open(action, reader, { action, fields: sent })).html)
  }
  return { visited, sent: sendable.map(({ action }) => action), untranslated, shown }
}

/** The pages of the test below by their addresses, for the last test. */
const rightToLeft = new Map<string, string>()

// This test changes the German messages of this process, so it comes after the others.
test('every page, form and refusal that a partner reaches comes from the table, in a right-to-left language', async () => {
  const program = await createLedgerProgram(sql, db, { holdDays: 0 })
  const { programId, partnerIds } = program
  const partnerId = partnerIds[0] ?? 0
  const person = await createPerson(db, pageEnv, { name: 'Ада', email: 'ada@example.com', password })
  await tiePartner(db, partnerId, person.userId)
  await sql.query(`update programs set name = 'Аналитика' where id = $1`, [programId])
  await sql.query(`update partners set name = 'Ада' where program_id = $1`, [programId])
  const refunded = await program.soldBy(0, 10_000)
  await program.refund(refunded.id, 4000)
  await sql.query(`update refunds set reason_text = '1' where program_id = $1`, [programId])
  await program.soldBy(0, 50_000)
  await countClicks(db, 100)
  await countFigures(db, 100)
  await approveDueCommissions(db, 100)
  await program.soldBy(0, 20_000)
  for (const amountCents of [3000, -1000])
    await createAdjustment(db, programId, { partnerId, amountCents, note: '1' }, crypto.randomUUID(), [])
  const request = { programId, partnerId, currency: 'usd', amountCents: 2000 }
  const payoutId = await askPayout(db, { ...request, requestId: crypto.randomUUID() })
  await payPayout(db, programId, payoutId, 2000, { reference: '77', paid_on: new Date() })
  await askPayout(db, { ...request, requestId: crypto.randomUUID() })
  const settings = { url: 'https://example.com/p?x={sub1}', method: 'GET', types: ['lead'], description: '' } as const
  const endpoint = await createEndpoint(db, pageEnv, { programId, partnerId }, { ...settings, types: ['lead'] })
  const messageId = await testEndpoint(db, { programId, partnerId }, endpoint.id)
  await createPartnerKey(db, { programId, userId: person.userId })
  await sql.query(`update partner_keys set hint = '1234'`)
  await sql.query(
    `select write_notifications(array_agg(program_id), array_agg(id), '{}') from outbox where program_id = $1 and audience = 'partner'`,
    [programId],
  )
  const { joinable } = openJoinPages(db, pageEnv)
  const { slug, send } = await joinable({ questions: [{ label: '1', type: 'short', required: false }], terms: '1' })
  await send(person.email, person.userId)
  const party = { legal_name: '1', address: '1', country: 'DE', vat_id: '' }
  await saveBilling(db, programId, { ...party, series: '1', vat_rate: undefined })
  await changeJoinPage(db, programId, { slug: 'self-billing', terms: '1', self_billing: true })
  await sql.query(`update programs set name = 'Машина' where name = 'Engine'`)
  await sql.query(`update applications set answers = '[]'`)

  Object.assign(languages.de, { locale: 'ar-EG', dir: 'rtl' })
  for (const messages of [portal, mails])
    for (const [key, message] of Object.entries(messages)) Object.assign(message, { de: pseudo(key) })
  const byBrowser = { headers: { 'accept-language': 'de' } }
  const signedIn = { headers: { ...byBrowser.headers, ...sessionCookieOf(person.token) } }
  const ofMembers = await open('/sign-in', byBrowser)
  expect(ofMembers.html).toContain('<html lang="en"')
  // This is refused before the person is known.
  const fromOtherSite = { method: 'POST', headers: byBrowser.headers }
  const refused = await dashboard.request(`${siteAddress}/partner/name`, fromOtherSite, pageEnv, inNoWorker)
  expect([refused.status, wordsOf(await refused.text())]).toEqual([403, []])
  const stopped = {
    userId: person.userId,
    topics: mailTopics.filter((topic) => topicWords[topic].reader === 'partner'),
  }
  const unsubscribe = `/mail/unsubscribe?token=${await unsubscribeToken(pageEnv, { ...stopped, language: 'de' })}`
  const ofPayee = `/mail/unsubscribe?token=${await unsubscribeToken(pageEnv, { email: person.email, language: 'de' })}`
  const signIn = ['sign-in', 'sign-up', 'two-factor', 'forgot-password', 'reset-password', 'verify-email']
  const atSignIn = await walk(signIn.map((page) => `/${page}?next=%2Fpartner`).concat(unsubscribe, ofPayee), byBrowser)
  const unlinked = [
    '/nothing',
    '/partner/nothing',
    '/partner/commissions?status=lost',
    '/application?token=x',
    `/join/${slug}/sent`,
  ]
  const starts = ['/partner', `/join/${slug}`, '/account/two-factor/confirm', '/verify-email?token=x', unsubscribe]
  const inPortal = await walk(
    [...starts, ...unlinked, `/partner/postbacks/${programId}/${endpoint.id}/${messageId}`],
    signedIn,
  )
  await open('/account/email', signedIn, {
    action: '/account/email',
    fields: { email: 'new@example.com', email_password: password },
  })
  // An account with codes, an unconfirmed address, and mails that came back.
  await sql.query(`update users set two_factor_enabled = true, email_verified = false where id = $1`, [person.userId])
  await sql.query(`insert into refused_addresses (email, reason) values ($1, 'bounced')`, [person.email])
  const withCodes = await walk(['/account/two-factor', '/account/mail'], signedIn)
  const { rows: sentMails } = await sql.query<{ recipient: string; subject: string; body: string }>(
    'select recipient, subject, body from mails',
  )
  const inMails = sentMails.flatMap(({ subject, body }) => wordsOf(`${subject}\n${body}`))
  for (const { shown } of [atSignIn, inPortal, withCodes])
    for (const [address, html] of shown) rightToLeft.set(address, html)
  expect(new Set(sentMails.map(({ recipient }) => recipient))).toEqual(new Set([person.email, 'new@example.com']))
  expect([...inMails, ...atSignIn.untranslated, ...inPortal.untranslated, ...withCodes.untranslated]).toEqual([])
  const account = ['', '/mail', '/sessions', '/two-factor', '/erase'].map((page) => `/account${page}`)
  expect(inPortal.sent).toContain(`/partner/documents/${programId}/terms`)
  const portalPages = [`/partner/sales/${programId}/${refunded.id}`, `/partner/payouts/${payoutId}/lines`]
  expect([...inPortal.visited]).toEqual(expect.arrayContaining([...account, ...portalPages]))
  const sent = ['/account/email', '/account/password', `/partner/postbacks/${programId}`, '/partner/documents/tax-form']
  expect(inPortal.sent).toEqual(expect.arrayContaining(sent))
})

test('no page for partners is wider than a phone, and no menu than its column, even from right to left and with longer words', async () => {
  const browser = await launchBrowser()
  const page = await browser.newPage({ viewport: { width: 390, height: 844 }, baseURL: siteAddress })
  await page.route('**', async (route) => {
    const url = new URL(route.request().url())
    const html = rightToLeft.get(url.pathname + url.search)
    if (html !== undefined) return await route.fulfill({ body: html, contentType: 'text/html; charset=utf-8' })
    const asset = await dashboard.request(url.href, {}, pageEnv, inNoWorker)
    const body = Buffer.from(await asset.arrayBuffer())
    return await route.fulfill({ status: asset.status, headers: Object.fromEntries(asset.headers), body })
  })
  await page.goto('/account')
  // All pages have one stylesheet, so only their contents change.
  const overflows = await page.evaluate((pages) => {
    const { documentElement: root, body } = document
    return pages.flatMap(([address, html]) => {
      body.innerHTML = new DOMParser().parseFromString(html, 'text/html').body.innerHTML
      const closed = root.scrollWidth
      for (const details of body.querySelectorAll('main details')) details.setAttribute('open', '')
      return Math.max(closed, root.scrollWidth) > innerWidth ? [[address, closed, root.scrollWidth]] : []
    })
  }, Array.from(rightToLeft))
  expect(await page.evaluate('[document.dir, innerWidth, document.styleSheets.length > 0]')).toEqual(['rtl', 390, true])
  expect(rightToLeft.size).toBeGreaterThan(40)
  expect(overflows).toEqual([])
  await page.setViewportSize({ width: 1280, height: 844 })
  await page.goto('/partner')
  const [menu, column] = await page.locator('aside').evaluate((aside) => {
    aside.querySelector('nav[popover] a')?.append('Benachrichtigungen')
    return [aside.scrollWidth, aside.clientWidth]
  })
  expect(menu).toBe(column)
})
