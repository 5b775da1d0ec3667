import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, describe, expect, test, vi } from 'vitest'
import dashboard from '../functions/dashboard.tsx'
import writeDaily from '../functions/write-daily-notifications.ts'
import { mailBounds } from '../lib/mail-bounds.ts'
import { approveDueCommissions } from '../lib/money/commissions.ts'
import { askPayout, payPayout } from '../lib/money/payouts.ts'
import { approveApplication, listApplications, rejectApplication } from '../lib/programs/applications.ts'
import { saveLogo } from '../lib/programs/brand.ts'
import { saveRules } from '../lib/programs/commission-rules.ts'
import { findProgramOfHost, programHost, readHost } from '../lib/programs/hosts.ts'
import { changeJoinPage, readJoinPage } from '../lib/programs/join-page.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { readLogo } from '../lib/programs/logo-image.ts'
import { needsStatement } from '../lib/programs/needs-attention.ts'
import { pngOf } from './support/images.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { newEmail, openJoinPages } from './support/join-pages.ts'
import { inNoWorker, sessionCookieOf } from './support/people.ts'
import { startEndpoint } from './support/stack.ts'
const { db, sql, env: databaseEnv } = await startEndpoint()
const env = { ...databaseEnv, AUTH_SECRET: 'a test secret that is long enough' }
const { person, joinable } = openJoinPages(db, env)

const baseUrl = 'https://api.example.com'
const pageEnv = {
  ...env,
  BASE_URL: baseUrl,
  MAIL_INBOX: 'mails',
  RELAY: { fetch: () => Promise.resolve(new Response()) },
}

/** Sends a request to the pages, and waits for the work that continues after the response. */
async function visit(path: string, init: RequestInit = {}, more: object = {}) {
  const address = path.startsWith('/') ? baseUrl + path : path
  const after: Promise<unknown>[] = []
  const worker = { ...inNoWorker, waitUntil: (work: Promise<unknown>) => void after.push(work) }
  const response = await dashboard.request(address, init, { ...pageEnv, ...more }, worker)
  await Promise.all(after)
  const { status, headers } = response
  return { status, headers, location: headers.get('location'), text: await response.text() }
}

async function submit(
  path: string,
  fields: Record<string, string>,
  more: { token?: string; env?: object; headers?: object } = {},
) {
  const headers = { origin: baseUrl, ...(more.token && sessionCookieOf(more.token)), ...more.headers }
  return await visit(path, { method: 'POST', headers, body: new URLSearchParams(fields) }, more.env)
}

const mailsTo = async (recipient: string) =>
  (await sql.query<{ body: string }>('select body from mails where recipient = $1 order by id', [recipient])).rows.map(
    ({ body }) => body,
  )

/** The path of the latest mailed link to this page. */
async function linkTo(page: string, recipient: string) {
  const link = new RegExp(`${baseUrl}(/${page}\\?token=\\S+)`).exec((await mailsTo(recipient)).at(-1) ?? '')?.[1]
  if (link === undefined) throw new Error(`no link to ${page} was mailed to ${recipient}`)
  return link
}

const solves = (proof: string) => createHash('sha256').update(proof).digest().readUInt16BE() === 0

const applicant = (email: string, more: object = {}) => ({ name: 'Grace', email, version: '1', ...more })

describe('the join page', () => {
  test('answers the same for every address, and sends the details by mail', async () => {
    const program = await joinable()
    const [fresh, account, partner, waits, rejected, flooded] = [
      newEmail(),
      (await person()).email,
      await person(),
      newEmail(),
      newEmail(),
      newEmail(),
    ]
    await program.send(partner.email, partner.userId)
    const [first] = await listApplications(db, program.programId, { limit: 1 })
    await approveApplication(program.acting, program.programId, first?.id ?? 0, null)
    await program.waiting(waits)
    await rejectApplication(program.acting, program.programId, await program.waiting(rejected), null)
    for (let n = 0; n < 3; n++) await program.send(flooded)
    const reported = []
    const answers = new Set<string>()
    for (const email of [fresh, account, partner.email.toUpperCase(), waits, rejected, flooded]) {
      const { status, location, headers, text } = await submit(`/join/${program.slug}`, applicant(email))
      answers.add(JSON.stringify([status, location, headers.get('set-cookie'), text]))
      reported.push((await mailsTo(email.toLowerCase())).map((body) => body.split('\n\n')[1]))
    }
    expect([...answers]).toEqual([JSON.stringify([303, `/join/${program.slug}/sent`, null, ''])])
    expect(reported).toEqual([
      [expect.stringContaining('/application?token=')],
      [expect.stringContaining('/application?token=')],
      [expect.stringMatching(/^You are already a partner of Engine/)],
      [expect.stringMatching(/^Your earlier application to Engine is waiting/)],
      [
        expect.stringMatching(
          /did not accept your earlier application. You can apply again from \w{3} \d+, 20\d\d on\./,
        ),
      ],
      [],
    ])
    expect((await visit(`/join/${program.slug}/sent`)).text).toContain('Check your e-mail')
  })

  test('shows how fast the program pays and how much is reversed, without revealing single sales', async () => {
    const ledger = await createLedgerProgram(sql, db, { holdDays: 0 })
    const { programId, partnerIds } = ledger
    for (const name of ['c', 'd', 'e']) {
      const code = `${name}-${programId}`
      ledger.add(await addPartner(db, { programId, name, email: null, code }))
    }
    const { slug } = await changeJoinPage(db, programId, {})
    await sql.query('update join_pages set is_open = true where program_id = $1', [programId])
    await changeJoinPage(db, programId, { shows_numbers: true, shows_terms: false })
    const figures = async (language = 'en') => {
      const { text } = await visit(`/join/${slug}`, { headers: { 'accept-language': language } })
      return Array.from(text.matchAll(/<dt[^>]*>([^<]*)<\/dt><dd><bdi>([^<]*)</g), ([, name, value]) => [name, value])
    }
    const pay = async () => {
      await approveDueCommissions(db, 100)
      const { rows } = await sql.query(
        'select partner_id::integer as id, balance_cents::integer as cents from balances where program_id = $1 and balance_cents > 0',
        [programId],
      )
      for (const { id: partnerId, cents: amountCents } of rows) {
        const ask = { programId, partnerId, currency: 'usd', amountCents, requestId: crypto.randomUUID() }
        await payPayout(db, programId, await askPayout(db, ask), amountCents, { reference: '1', paid_on: new Date() })
      }
    }
    const moveToLastMonths = async () => {
      await sql.query(
        `update commissions set created_at = created_at - interval '52 days 5 hours', paid_at = paid_at - interval '40 days'
        where program_id = $1 and created_at > now() - interval '1 day'`,
        [programId],
      )
      await sql.query(`update refunds set created_at = created_at - interval '40 days' where program_id = $1`, [
        programId,
      ])
    }
    const sales = []
    for (let count = 0; count < 30; count++) sales.push(await ledger.soldBy(count % 4, 10_000))
    await pay()
    for (const { id } of sales.slice(0, 3)) await ledger.refund(id, 4000)
    await moveToLastMonths()
    expect(await figures()).toEqual([])
    await ledger.soldBy(partnerIds.length - 1, 10_000)
    await pay()
    expect(await figures()).toEqual([])
    await moveToLastMonths()
    const shown = [
      ['Median time from a sale to its payout', '12 days'],
      ['Commissions reversed completely or in part', '10%'],
    ]
    expect(await figures()).toEqual(shown)
    for (const { id } of sales.slice(3, 9)) await ledger.refund(id, 4000)
    expect(await figures()).toEqual(shown)
    expect(await figures('de')).toEqual([
      ['Mittlere Zeit (Median) vom Verkauf bis zur Auszahlung', '12 Tage'],
      ['Ganz oder teilweise stornierte Provisionen', '10\u00a0%'],
    ])
    await changeJoinPage(db, programId, { shows_numbers: false })
    expect(await figures()).toEqual([])
  })

  test('leads to the invitation from the mailed link, which works once even if a scanner opens it', async () => {
    const [program, email] = [await joinable({ approves_at_once: true, terms: 'Be <b>true</b>.' }), newEmail()]
    const fields = applicant(email, { version: '2', terms: 'accepted' })
    await submit(`/join/${program.slug}`, fields)
    const link = await linkTo('application', email)
    const shown = await visit(link)
    expect(shown.text).toContain('Yes, I apply')
    expect(shown.text).toContain('Be &lt;b&gt;true&lt;/b&gt;.')
    expect(shown.headers.get('referrer-policy')).toBe('same-origin')
    expect(await program.states()).toEqual([])
    const confirmed = await submit(link, {})
    expect([confirmed.status, confirmed.location]).toEqual([303, await linkTo('partner-invitation', email)])
    const mails = (await mailsTo(email)).length
    expect((await submit(link, {})).location).toBe(link)
    expect((await submit(link.replace('application', 'application/withdraw'), {})).status).toBe(303)
    expect([await program.states(), (await mailsTo(email)).length]).toEqual([['approved'], mails])
    expect((await visit(confirmed.location ?? '')).text).toContain('Become a partner of Engine')
    expect((await visit('/application?token=none')).text).toContain('This link no longer works')
  })

  test('accepts applicants with a matching account without a mail, and all others by mail', async () => {
    const [program, grace, unproven] = [await joinable(), await person(), await person()]
    const page = await visit(`/join/${program.slug}`, { headers: sessionCookieOf(grace.token) })
    expect(page.text).toContain(`You are applying with your account, ${grace.email}`)
    expect(page.text).not.toContain('name="email"')
    const sent = await submit(`/join/${program.slug}`, applicant('other@example.com'), { token: grace.token })
    expect([sent.location, await mailsTo(grace.email)]).toEqual(['/partner/applications', []])
    const own = await visit('/partner/applications', { headers: sessionCookieOf(grace.token) })
    expect(own.text).toContain('Waiting')
    await sql.query('update users set email_verified = false where id = $1', [unproven.userId])
    await submit(`/join/${program.slug}`, applicant(unproven.email), { token: unproven.token })
    expect(await mailsTo(unproven.email)).toHaveLength(1)
    expect(await listApplications(db, program.programId, { limit: 5 })).toMatchObject([{ email: grace.email }])
  })

  test('keeps the language in which a partner joined, unless the program or the partner chose one', async () => {
    const [french, german] = [{ 'accept-language': 'fr' }, { 'accept-language': 'de' }]
    const languageOf = async (userId: string) =>
      (await sql.query('select language from partner_profiles where user_id = $1', [userId])).rows[0]?.language ?? null
    const [invited, applying, bound] = [await person(), await person(), await person()]
    const program = await joinable({ approves_at_once: true })
    await submit(`/join/${program.slug}`, applicant(invited.email), { headers: french })
    await submit(await linkTo('application', invited.email), {}, { headers: french })
    const invitation = await linkTo('partner-invitation', invited.email)
    await submit(invitation, {}, { token: invited.token, headers: french })
    expect(await languageOf(invited.userId)).toBe('fr')
    for (const headers of [german, french])
      await submit(`/join/${program.slug}`, applicant(applying.email), { token: applying.token, headers })
    expect(await languageOf(applying.userId)).toBe('de')
    const spanish = await joinable({ approves_at_once: true })
    await sql.query(`update programs set language = 'es' where id = $1`, [spanish.programId])
    for (const { slug } of [spanish, program])
      await submit(`/join/${slug}`, applicant(bound.email), { token: bound.token, headers: german })
    expect(await languageOf(bound.userId)).toBe(null)
  })

  test('escapes typed text', async () => {
    const hostile = `<script>alert(1)</script><img src=x onerror=alert(2)> "' javascript:alert(3)`
    const program = await joinable({
      intro: hostile,
      terms: `- ${hostile}\n- b`,
      headline: hostile,
      faq: [{ question: hostile, answer: hostile }],
      questions: [{ label: hostile, type: 'long', required: false }],
    })
    await sql.query('update programs set name = $2 where id = $1', [program.programId, `Engine <script>alert(4)`])
    const { text, headers } = await visit(`/join/${program.slug}`)
    const [head = ''] = text.split('<body>').slice(1)
    expect(head).toContain('&lt;script&gt;alert(1)')
    expect(head).not.toMatch(/<script>|<img src=x|onerror=alert\(2\)>(?!.*&gt;)/)
    expect(text.match(/<script/g)).toHaveLength(1)
    expect(text).not.toContain('<img ')
    const policy = headers.get('content-security-policy') ?? ''
    expect(policy).toContain("img-src 'self';")
    expect(policy).toContain("script-src 'self';")
    expect(policy).toContain("frame-src 'none'")
    const email = newEmail()
    await submit(`/join/${program.slug}`, applicant(email, { version: '2', terms: 'accepted', answer_0: hostile }))
    const own = await visit(await linkTo('application', email))
    expect(own.text.match(/<script/g)).toHaveLength(1)
    expect(own.text).not.toContain('<img')
    const [mail = ''] = await mailsTo(email)
    expect(mail).not.toContain('alert(1)')
  })

  test('shows the commission, its rules and what a number of sales earns', async () => {
    const program = await joinable({ faq: [{ question: 'When?', answer: 'Monthly.' }] })
    const page = `/join/${program.slug}`
    const shown = await visit(page)
    for (const text of ['20% of each sale', '30 days', 'Monthly.', '$100.00 a month'])
      expect(shown.text).toContain(text)
    expect((await visit(`${page}?sales=7&sale=19,99`)).text).toContain('$28.00 a month')
    expect((await visit(`${page}?sales=-1&sale=x`)).text).toContain('Enter a number of sales')
    await changeJoinPage(db, program.programId, { shows_terms: false, shows_calculator: false })
    expect((await visit(page)).text).not.toMatch(/of each sale|a month/)
  })

  test('the calculator says for which sales it is exact', async () => {
    const program = await joinable()
    const calculator = async () => (await visit(`/join/${program.slug}`)).text
    expect(await calculator()).not.toMatch(/each customer buys once|different commission/)
    await sql.query('update programs set commission_duration_months = 12 where id = $1', [program.programId])
    const ofType = { sale_type: 'subscription', commission_bp: 3000, lifetime_cap_cents: 700 }
    await saveRules(db, program.programId, 'everybody', [ofType])
    for (const text of ['$1,200.00 a year, if each customer buys once', 'earn a different commission'])
      expect(await calculator()).toContain(text)
  })

  test('has the name, the color and the logo of the program, and names the service only at its end', async () => {
    const program = await joinable()
    const owner = { token: program.owner.token }
    const settings = `/programs/${program.programId}/settings`
    const brand = { portal_name: 'Engine partners', sender_name: 'Engine team', color: '#FFCC00' }
    const tab = await visit(`${settings}?tab=brand`, { headers: sessionCookieOf(program.owner.token) })
    expect(tab.text).toContain('Name of the partner pages')
    expect((await submit(`${settings}/brand`, brand, owner)).status).toBe(303)
    await saveLogo(db, program.programId, readLogo(pngOf(20, 20)))
    const { text } = await visit(`/join/${program.slug}`)
    const [head = '', ...rest] = text.split('<main')
    for (const part of [
      '<title>Become a partner of Engine · Engine partners',
      '/assets/brand-ffcc00.css',
      '<bdi>Engine partners</bdi>',
    ])
      expect(head).toContain(part)
    expect(head).not.toContain('Partner Tracking')
    expect(rest.join('')).toContain('Tracked and paid with Partner Tracking')
    const [logo = ''] = /\/assets\/logo-[^"]+/.exec(head) ?? []
    const image = await visit(logo)
    expect([image.status, image.headers.get('content-type')]).toEqual([200, 'image/png'])
    expect(image.headers.get('content-security-policy')).toBe("default-src 'none'; sandbox")
    expect(image.headers.get('x-content-type-options')).toBe('nosniff')
    expect(image.headers.get('cache-control')).toContain('immutable')
    for (const other of [
      logo.replace('.png', '.jpeg'),
      logo.replace(/-[0-9a-f]{64}/, `-${'0'.repeat(64)}`),
      '/assets/logo-1.png',
    ])
      expect((await visit(other)).status).toBe(404)
    expect((await visit('/assets/brand-ffcc00.css')).text).toContain('--on-button:light-dark(#000000,#000000)')
    const refused = await submit(`${settings}/brand`, { ...brand, color: 'red;}' }, owner)
    expect(decodeURIComponent(refused.headers.get('set-cookie') ?? '')).toContain('Enter a color such as #3049d8')
    const email = newEmail()
    await submit(`/join/${program.slug}`, applicant(email))
    const own = await visit(await linkTo('application', email))
    expect(own.text).toContain('<bdi>Engine partners</bdi>')
    const { rows } = await sql.query<{ html: string }>('select html from mails where recipient = $1', [email])
    expect(rows[0]?.html).toContain('<p class="sender">Engine team</p>')
    expect(rows[0]?.html).toContain('background: #ffcc00; color: #000000')
  })

  test('asks for missing answers again and keeps the typed values', async () => {
    const questions = [
      { label: 'Where?', type: 'short' as const, required: true },
      { label: 'Why?', type: 'long' as const, required: false },
    ]
    const program = await joinable({ terms: 'Be true.', questions })
    const path = `/join/${program.slug}`
    const full = applicant(newEmail(), { version: '2', terms: 'accepted', answer_0: 'Here' })
    for (const [change, said] of [
      [{ answer_0: ' ' }, 'This needs an answer.'],
      [{ answer_0: 'x'.repeat(301) }, 'Use 300 characters at most.'],
      [{ answer_1: 'a\u202Eb' }, 'Use plain text'],
      [{ terms: '' }, 'Accept the terms to apply.'],
      [{ email: 'nobody' }, 'Enter your e-mail address.'],
      [{ name: ' ' }, 'Enter your name.'],
      [{ version: '1' }, 'have changed'],
    ] as const) {
      const refused = await submit(path, { ...full, ...change })
      expect([change, refused.status, refused.location]).toEqual([change, 303, path])
      const cookie = /__Secure-svc_form=[^;]*/.exec(refused.headers.get('set-cookie') ?? '')?.[0] ?? ''
      expect((await visit(path, { headers: { cookie } })).text).toContain(said)
      const german = (await visit(path, { headers: { cookie, 'accept-language': 'de-AT, en;q=0.5' } })).text
      expect(german).toMatch(/<html lang="de" dir="ltr">.*Werden Sie Partner von/s)
      expect(german).not.toContain(said)
    }
    // The program's language comes before the browser's.
    await sql.query(`update programs set language = 'fr' where id = $1`, [program.programId])
    expect((await visit(path, { headers: { 'accept-language': 'de' } })).text).toMatch(
      /lang="fr".*Devenez partenaire de/s,
    )
    expect((await submit(path, full)).location).toBe(`${path}/sent`)
    expect(await mailsTo(full.email)).toEqual([expect.stringContaining('devenir partenaire de Engine')])
  })

  test('is a 404 while it is disabled, and redirects from a former address', async () => {
    const program = await joinable()
    await changeJoinPage(db, program.programId, { slug: `${program.slug}-new` })
    expect((await visit(`/join/${program.slug}`)).location).toBe(`/join/${program.slug}-new`)
    await changeJoinPage(db, program.programId, { is_open: false })
    for (const path of [program.slug, `${program.slug}-new`, 'nobody', `${program.slug}/sent`])
      expect([path, (await visit(`/join/${path}`)).status]).toEqual([path, 404])
    expect((await submit(`/join/${program.slug}`, applicant(newEmail()))).status).toBe(404)
  })

  test('redirects back from any unknown address', async () => {
    for (const slug of ['nobody', 'a%3Bb', 'a;b', '%22%3B%20path%3D%2F', 'a%0D%0AX-Injected:%201', '%C3%BC']) {
      const { status, location } = await submit(`/join/${slug}`, { name: 'No version' })
      expect([slug, status]).toEqual([slug, 303])
      expect(new URL(location ?? '', baseUrl).pathname).toBe(`/join/${encodeURIComponent(decodeURIComponent(slug))}`)
      const back = await visit(location ?? '', { headers: { cookie: '__Secure-svc_form=%7B%7D' } })
      expect([slug, back.status]).toEqual([slug, 404])
    }
  })

  test('refuses forms from other sites, and accepts twenty from one address in a quarter of an hour', async () => {
    const program = await joinable()
    const path = `/join/${program.slug}`
    for (const headers of [{ origin: 'https://evil.example' }, { origin: 'null' }]) {
      expect((await submit(path, applicant(newEmail()), { headers })).status).toBe(403)
    }
    const grace = await person()
    const forged = await submit(path, applicant(grace.email), {
      token: grace.token,
      headers: { origin: 'https://evil.example' },
    })
    expect(forged.status).toBe(403)
    const headers = { 'cf-connecting-ip': `2001:db8:${Math.floor(Math.random() * 60_000).toString(16)}::1` }
    const statuses = []
    for (let n = 0; n < 22; n++) statuses.push((await submit(path, applicant('nobody'), { headers })).status)
    expect(statuses).toEqual([...Array.from({ length: 20 }, () => 303), 429, 429])
    const { rows } = await sql.query('select id from applications where program_id = $1', [program.programId])
    expect(rows).toEqual([])
  })

  test('asks for a proof of work above its daily budget, and accepts each proof once, from its network and for its program', async () => {
    const [program, other] = [await joinable(), await joinable()]
    const path = `/join/${program.slug}`
    const day = `select 'page of workspace ' || $1 as counted, (now() at time zone 'UTC')::date as day`
    const use = async (mails: number) =>
      await sql.query(
        `insert into mail_counts (counted, day, mails) select counted, day, $2 from (${day}) d
        on conflict (counted, day) do update set mails = excluded.mails`,
        [program.workspaceId, mails],
      )
    const home = { headers: { 'cf-connecting-ip': '203.0.113.9' } }
    const elsewhere = { headers: { 'cf-connecting-ip': '198.51.100.9' } }
    const sendTo = async (to: string, proof: string, visitor = home) => {
      const { status, location, headers } = await submit(to, applicant(newEmail(), { proof }), visitor)
      return { status, location, cookie: /__Secure-svc_form=[^;]*/.exec(headers.get('set-cookie') ?? '')?.[0] ?? '' }
    }
    expect((await visit(path, home)).text).not.toContain('data-task')
    await use(mailBounds.application.perSource)
    const refused = await sendTo(path, '')
    expect(refused.location).toBe(path)
    const page = await visit(path, { headers: { ...home.headers, cookie: refused.cookie } })
    expect(page.text).toContain('Your browser solves a small task')
    expect(page.text).toContain('sign in to apply with your account')
    const task = /data-task="([^"]+)" data-bits="16"/.exec(page.text)?.[1] ?? ''
    const first = (isRight: (proof: string) => boolean) => {
      for (let number = 0; ; number++) if (isRight(`${task}.${number}`)) return `${task}.${number}`
    }
    const proof = first(solves)
    const wrong = [first((one) => !solves(one)), proof.replace(/^\d/, (digit) => String((Number(digit) + 1) % 10))]
    expect(await Promise.all(wrong.map(async (one) => (await sendTo(path, one)).location))).toEqual([path, path])
    expect((await sendTo(path, proof, elsewhere)).location).toBe(path)
    await sql.query(
      `update mail_counts set counted = 'page of workspace ' || $2 where counted = 'page of workspace ' || $1`,
      [program.workspaceId, other.workspaceId],
    )
    expect((await sendTo(`/join/${other.slug}`, proof)).location).toBe(`/join/${other.slug}`)
    await use(mailBounds.application.perSource)
    // The mail doesn't count toward the workspace's invitations.
    expect([(await sendTo(path, proof)).location, (await sendTo(path, proof)).location]).toEqual([`${path}/sent`, path])
    const counted = await sql.query('select mails from mail_counts where counted = $1', [
      `workspace ${program.workspaceId}`,
    ])
    expect(counted.rows).toEqual([])
  })

  test('with Turnstile keys accepts visitors who passed the challenge, and calls Cloudflare once', async () => {
    const program = await joinable()
    const path = `/join/${program.slug}`
    const keys = { TURNSTILE_SITE_KEY: 'site-key', TURNSTILE_SECRET_KEY: 'secret-key' }
    const asked: { secret: string; response: string }[] = []
    const { fetch: real } = globalThis
    const edge = vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
      const url = input instanceof Request ? input.url : input.toString()
      if (!url.startsWith('https://challenges.cloudflare.com/turnstile/v0/siteverify')) return await real(input, init)
      const body: { secret: string; response: string } = await new Response(init?.body ?? null).json()
      asked.push(body)
      if (body.response === 'down') throw new TypeError('unreachable')
      return Response.json({ success: body.response === 'passed', 'error-codes': [] })
    })
    try {
      const page = await visit(path, {}, keys)
      expect(page.text).toContain('data-sitekey="site-key"')
      expect(page.text).toContain('Enable JavaScript to apply')
      expect(page.text).not.toContain('secret-key')
      const policy = page.headers.get('content-security-policy') ?? ''
      expect(policy).toContain("script-src 'self' https://challenges.cloudflare.com;")
      expect(policy).toContain('frame-src https://challenges.cloudflare.com;')
      const outcomes = []
      for (const response of ['', 'x'.repeat(2049), 'failed', 'down', 'passed']) {
        const sent = await submit(path, applicant(newEmail(), { 'cf-turnstile-response': response }), { env: keys })
        outcomes.push([sent.status, sent.location])
      }
      expect(outcomes).toEqual([
        [303, path],
        [303, path],
        [303, path],
        [503, null],
        [303, `${path}/sent`],
      ])
      expect(asked.map(({ secret, response }) => [secret, response])).toEqual([
        ['secret-key', 'failed'],
        ['secret-key', 'down'],
        ['secret-key', 'passed'],
      ])
      const { rows } = await sql.query('select id from applications where program_id = $1', [program.programId])
      expect(rows).toHaveLength(1)
    } finally {
      edge.mockRestore()
    }
  })

  test('can be set up and previewed by the workspace, which approves all applicants together', async () => {
    const program = await joinable({ is_open: false })
    const owner = { token: program.owner.token }
    const settings = `/programs/${program.programId}/join-page`
    const fields = { is_open: 'yes', approves_at_once: 'no', slug: program.slug, intro: 'Hi', terms: 'T' }
    const rows = {
      question_0: '',
      question_3: 'Where?',
      question_3_kind: 'long required',
      faq_1: 'When?',
      faq_1_answer: 'Monthly.',
    }
    const preview = await submit(settings, { ...fields, ...rows, headline: 'Earn with us', preview: 'yes' }, owner)
    expect(preview.text).toContain('<h1 dir="auto">Earn with us</h1>')
    expect(await readJoinPage(db, program.programId)).toMatchObject({ is_open: false, headline: null })
    expect((await submit(settings, { ...fields, ...rows }, owner)).status).toBe(303)
    expect(await readJoinPage(db, program.programId)).toMatchObject({
      is_open: true,
      intro: 'Hi',
      terms_version: 1,
      questions: [{ label: 'Where?', type: 'long', required: true }],
      faq: [{ question: 'When?', answer: 'Monthly.' }],
    })
    const shown = { headers: sessionCookieOf(program.owner.token) }
    for (const [change, said] of [
      [{ slug: 'A B' }, 'lowercase letters'],
      [{ faq_0: 'Why?', faq_0_answer: '' }, 'Answer the question'],
      [{ question_1: 'a', question_2: 'a' }, 'label of its own'],
    ] as const) {
      const refused = await submit(settings, { ...fields, ...change }, owner)
      const cookie = /__Secure-svc_form=[^;]*/.exec(refused.headers.get('set-cookie') ?? '')?.[0] ?? ''
      const cookies = `${sessionCookieOf(program.owner.token).cookie}; ${cookie}`
      expect((await visit(settings, { headers: { cookie: cookies } })).text).toContain(said)
    }
    const [one, two] = [await program.waiting(), await program.waiting()]
    expect(await db.query(needsStatement(program.programId))).toMatchObject([{ applications_waiting: 2 }])
    const list = `/programs/${program.programId}/applications`
    expect((await visit(list, shown)).text).toContain('Approve all 2 on this page')
    const page = await visit(`${list}/${one}`, shown)
    expect(page.text).toContain('On my site')
    await submit(`${list}/${one}/reject`, { note: 'x', notify: 'yes' }, owner)
    await submit(`${list}/approve`, { which: 'shown', shown: `${two} ${one}` }, owner)
    expect(await program.states()).toEqual(['approved', 'rejected'])
    const three = await program.waiting()
    await submit(`${list}/${three}/reject`, {}, owner)
    expect((await visit(`${list}/${three}`, shown)).text).toContain('Delete the application')
    await submit(`${list}/${three}/delete`, {}, owner)
    expect((await visit(`${list}/${three}`, shown)).status).toBe(404)
    const { rows: reported } = await sql.query<{ subject: string }>(
      `select m.subject from mails m join applications a on a.email = m.recipient where a.program_id = $1 order by m.id`,
      [program.programId],
    )
    expect(reported.map(({ subject }) => subject)).toEqual([
      'Your application to Engine',
      'You are a partner of Engine',
    ])
  })
})

describe("a program's own domain", async () => {
  /** The TXT records by name. While this is undefined, the name service is down. */
  let records: Record<string, string> | undefined = {}
  const nameService = createServer((request, response) => {
    const name = new URL(request.url ?? '', baseUrl).searchParams.get('name') ?? ''
    if (!records) response.writeHead(503)
    const data = records?.[name]
    response.end(JSON.stringify({ Answer: data === undefined ? [] : [{ type: 16, data: `"${data}"` }] }))
  }).listen(0, '127.0.0.1')
  await once(nameService, 'listening')
  afterAll(() => nameService.close())
  const dns = {
    PROGRAM_HOSTS: 'on',
    DNS_OVER_HTTPS_URL: `http://127.0.0.1:${(nameService.address() as AddressInfo).port}/`,
  }

  const checkDaily = () => writeDaily.scheduled({}, { ...env, ...dns })

  type Program = Awaited<ReturnType<typeof joinable>>
  async function set(program: Program, action: string, fields: Record<string, string> = {}) {
    const path = `/programs/${program.programId}/join-page${action}`
    const referer = `${baseUrl}/programs/${program.programId}/join-page`
    const sent = await submit(path, fields, { token: program.owner.token, env: dns, headers: { referer } })
    const cookie = (sent.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
    const session = sessionCookieOf(program.owner.token).cookie
    return (await visit(sent.location ?? path, { headers: { cookie: `${session}; ${cookie}` } }, dns)).text
  }
  async function publish(program: Program, host: string) {
    records = { ...records, [`_svc.${host}`]: `svc-program-id=${program.programId}` }
    await set(program, '/host', { host })
    return await set(program, '/host/check')
  }
  const onHost = (host: string, path: string, init: RequestInit = {}) => visit(`https://${host}${path}`, init, dns)

  test('shows only the join page, without a session, and leads to the service for everything else', async () => {
    const [program, other, host, email] = [await joinable(), await joinable(), 'partners.acme.example', newEmail()]
    expect(await set(program, '/host', { host: 'https://Partners.ACME.example/join' })).toContain(
      '_svc.partners.acme.example',
    )
    expect((await onHost(host, '/sign-in')).status).toBe(404)
    // A local stack behind a tunnel doesn't serve programs' own domains.
    expect((await visit(`https://${host}/sign-in`)).status).toBe(200)
    expect(await set(program, '/host/check')).toContain('The TXT record was not found')
    expect(await publish(program, host)).toContain('the domain is verified')
    expect(await set(program, '')).toContain('https://partners.acme.example/')

    const headers = sessionCookieOf(program.owner.token)
    const page = await onHost(host, '/', { headers })
    expect(page.text).toContain(`action="/join/${program.slug}"`)
    expect(page.text).not.toContain(program.owner.email)
    expect(page.headers.get('strict-transport-security')).toBe('max-age=15552000')
    expect((await onHost(host, `/join/${program.slug}`)).status).toBe(200)
    expect((await onHost(host, '/', { headers: { host: 'api.example.com' } })).status).toBe(200)
    for (const path of [
      '/programs/new',
      `/programs/${program.programId}`,
      '/account',
      '/api/v1/partners',
      `/join/${other.slug}`,
      '//evil.example',
      '/invitation',
    ])
      expect([path, (await onHost(host, path, { headers })).status]).toEqual([path, 404])
    for (const path of [
      '/partner',
      '/sign-in?next=/partner',
      '/sign-up',
      '/forgot-password',
      '/partner-invitation?token=x',
    ])
      expect((await onHost(host, path, { headers })).location).toBe(baseUrl + path)
    const origin = { origin: `https://${host}` }
    for (const path of ['/sign-in', '/partner/payouts', `/programs/${program.programId}/join-page`])
      expect((await onHost(host, path, { method: 'POST', headers: { ...headers, ...origin } })).status).toBe(404)

    const body = () => new URLSearchParams(applicant(email))
    const sent = { method: 'POST', headers: origin, body: body() }
    expect((await onHost(host, `/join/${program.slug}`, { ...sent, headers: { origin: baseUrl } })).status).toBe(403)
    expect((await onHost(host, `/join/${program.slug}`, sent)).location).toBe(`/join/${program.slug}/sent`)
    // The link proves who reads the mailbox. The owner of a domain could read it there, so it only works at the service.
    const [, origins, token] = /(\S+)\/application\?token=(\S+)/.exec((await mailsTo(email)).at(-1) ?? '') ?? []
    expect(origins).toBe(baseUrl)
    expect((await onHost(host, `/application?token=${token}`)).location).toBe(`${baseUrl}/application?token=${token}`)
    for (const action of ['', '/withdraw']) {
      const there = await onHost(host, `/application${action}?token=${token}`, { method: 'POST', headers: origin })
      expect(there.status).toBe(404)
    }
    expect(await program.states()).toEqual([])
    await visit(`${baseUrl}/application?token=${token}`, { method: 'POST', headers: { origin: baseUrl } })
    expect(await program.states()).toEqual(['waiting'])
  })

  test('belongs to the first program that verifies it, until that program removes it', async () => {
    const [owner, thief, host] = [await joinable(), await joinable(), 'join.taken.example']
    await publish(owner, host)
    await set(thief, '/host', { host })
    expect(await set(thief, '/host/check')).toContain('The TXT record was not found')
    expect(await publish(thief, host)).toContain('Another program uses this domain')
    expect(await findProgramOfHost(db, host)).toMatchObject({ program_id: owner.programId })
    await set(owner, '/host', { host: 'join.new.example' })
    expect(await findProgramOfHost(db, host)).toBeUndefined()
    expect(await set(thief, '/host/check')).toContain('the domain is verified')
    await set(thief, '/host', { host: '' })
    expect(await findProgramOfHost(db, host)).toBeUndefined()
    for (const near of ['api.example.com', 'x.api.example.com', 'example.com'])
      expect(await set(owner, '/host', { host: near })).toContain('belongs to the service')
    const invalid = [
      '127.0.0.1',
      '0x7f.1',
      '[::1]',
      'localhost',
      'acme.example:8080',
      'acme.example.',
      'a_b.example',
      'a@b.example',
    ]
    expect(invalid.filter((typed) => programHost.safeParse(typed).success)).toEqual([])
  })

  test('can be changed ten times a day, because each domain gets a certificate', async () => {
    const program = await joinable()
    for (let n = 1; n <= 10; n++)
      expect(await set(program, '/host', { host: `a${n}.many.example` })).toContain('Create the DNS records')
    const path = `/programs/${program.programId}/join-page/host`
    const refused = await submit(path, { host: 'a11.many.example' }, { token: program.owner.token, env: dns })
    expect([refused.status, refused.text.includes('10 domains a day')]).toEqual([429, true])
    expect((await readHost(db, program.programId))?.host).toBe('a10.many.example')
  })

  test('is disabled after four daily checks without its record, and the program is notified', async () => {
    const [program, host] = [await joinable(), 'join.dangling.example']
    await publish(program, host)
    const later = () =>
      sql.query("update program_hosts set missing_since = missing_since - interval '1 day' where host = $1", [host])
    const [whole, { [`_svc.${host}`]: _, ...rest }] = [records, { ...records }]
    records = undefined
    await checkDaily()
    records = rest
    for (let day = 0; day < 3; day++) {
      await checkDaily()
      await later()
    }
    expect((await onHost(host, '/')).status).toBe(200)
    records = whole
    await checkDaily()
    records = rest
    for (let day = 0; day < 3; day++) {
      await checkDaily()
      await later()
    }
    expect(await set(program, '')).toContain('The TXT record has been missing since')
    await checkDaily()
    expect((await onHost(host, '/')).status).toBe(404)
    const { rows } = await sql.query('select kind, payload from outbox where program_id = $1', [program.programId])
    expect(rows).toEqual([{ kind: 'host_disabled', payload: { host } }])
    const { rows: log } = await sql.query(
      'select details from audit_log where program_id = $1 and subject = $2 order by id',
      [program.programId, host],
    )
    expect(log.map(({ details }) => details)).toEqual([
      { host: [null, host], verified: [false, false] },
      { host: [host, host], verified: [false, true] },
      { host: [host, host], verified: [true, false] },
    ])
  })
})
