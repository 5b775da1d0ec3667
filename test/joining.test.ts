import { describe, expect, test, vi } from 'vitest'
import dashboard from '../functions/dashboard.tsx'
import { eraseAccount } from '../lib/access/account.ts'
import { listAuditEntries } from '../lib/access/audit-log.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { createPerson, type Person } from '../lib/local/people.ts'
import {
  apply,
  approveApplication,
  approveApplications,
  confirmApplication,
  deleteApplication,
  deleteOldApplications,
  findApplication,
  listApplications,
  listApplicationsOf,
  readApplication,
  rejectApplication,
  withdrawApplication,
} from '../lib/programs/applications.ts'
import { makeGroup } from '../lib/programs/groups.ts'
import {
  changeJoinPage,
  findJoinPage,
  type JoinPageChanges,
  joinPageChanges,
  readJoinPage,
} from '../lib/programs/join-page.ts'
import { needsStatement } from '../lib/programs/needs.ts'
import { acceptPartnerInvitation, findPartnerInvitation } from '../lib/programs/partner-invitations.ts'
import { addPartner, listPartners } from '../lib/programs/partners.ts'
import { endPartnership, listProgramsOfPartner } from '../lib/programs/partnerships.ts'
import { createProgram, programDefaults } from '../lib/programs/programs.ts'
import { createWorkspace, deleteWorkspace } from '../lib/programs/workspaces.ts'
import { inNoWorker, sessionCookieOf } from './support/people.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, env: databaseEnv } = await startEndpoint()
const env = { ...databaseEnv, AUTH_SECRET: 'a secret of tests that is long enough' }

const newEmail = () => `grace-${crypto.randomUUID()}@example.com`
const person = (name = 'Grace') => createPerson(db, env, { name, email: newEmail() })

/** A program with an open page. */
async function joinable(changes: JoinPageChanges = {}) {
  const owner = await person('Owner')
  const workspaceId = await createWorkspace(db, { name: 'Analytical', ownerId: owner.userId })
  const programId = await createProgram(db, workspaceId, { ...programDefaults, name: 'Engine', domain: 'example.com' })
  const slug = `engine-${crypto.randomUUID().slice(0, 8)}`
  await changeJoinPage(db, programId, { slug, is_open: true, ...changes })
  const acting = db.actingAs(owner.userId)

  async function send(email: string, userId: string | null = null, more: { name?: string; version?: number } = {}) {
    const { version } = await readJoinPage(db, programId)
    const { name = 'Grace Hopper', version: seen = version } = more
    const answers = [{ question: 'Where?', answer: 'On my site' }]
    return await apply(db, { programId, userId, email, name, answers, seen: { version: seen } })
  }
  async function confirm(token: string) {
    const application = await findApplication(db, token)
    return application && (await confirmApplication(db, application))
  }
  /** Somebody without an account whose application waits; returns its id. */
  async function waiting(email = newEmail()) {
    const { applicationId, token } = await send(email)
    expect(await confirm(token)).toMatchObject({ outcome: 'waiting', isFirst: true })
    return applicationId ?? 0
  }
  const partners = () => listPartners(db, programId, { limit: 50 })
  const states = async () => (await listApplications(db, programId, { limit: 50 })).map(({ status }) => status)
  return { owner, workspaceId, programId, slug, acting, send, confirm, waiting, partners, states }
}

const auditOf = async (programId: number) => {
  const { rows } = await sql.query<{ action: string; user_id: string | null; details: object }>(
    `select action, user_id, details from audit_log
    where program_id = $1 and action ~ '^(application|join_page)\\.' order by id`,
    [programId],
  )
  return rows
}

describe('an application', () => {
  test('counts once its link is opened, waits, and makes a partner with a link who is invited', async () => {
    const program = await joinable()
    const email = newEmail()
    const { outcome, token, applicationId } = await program.send(email)
    expect(outcome).toBe('applied')
    expect(await program.states()).toEqual([])
    const id = applicationId ?? 0
    await expect(approveApplication(program.acting, program.programId, id, null)).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('has not confirmed'),
    })
    expect(await program.confirm(token)).toMatchObject({ outcome: 'waiting', isFirst: true, invitation: undefined })
    expect(await program.confirm(token)).toMatchObject({ outcome: 'waiting', isFirst: false })
    expect(await program.partners()).toEqual([])
    const {
      application,
      isFirst,
      invitation = '',
    } = await approveApplication(program.acting, program.programId, id, null)
    expect({ isFirst, application }).toMatchObject({
      isFirst: true,
      application: { status: 'approved', decided_by: 'Owner', answers: [{ question: 'Where?', answer: 'On my site' }] },
    })
    expect(await program.partners()).toMatchObject([
      {
        id: application.partner_id,
        name: 'Grace Hopper',
        email,
        has_account: false,
        invited: true,
        links: [{ is_active: true }],
      },
    ])
    const [partner] = await program.partners()
    expect(partner?.links[0]?.code).toMatch(/^gracehopper\d{4,}$/)
    // The invitation is the applicant's, and holds whatever becomes of who approved it.
    await sql.query('update workspace_members set removed_at = now() where user_id = $1', [program.owner.userId])
    expect(await findPartnerInvitation(db, invitation)).toEqual({ program_name: 'Engine', email })
    const grace = await createPerson(db, env, { name: 'Grace', email })
    await acceptPartnerInvitation(db, { token: invitation }, grace.userId)
    expect(await program.partners()).toMatchObject([{ has_account: true, invited: false }])
    expect((await auditOf(program.programId)).filter(({ action }) => action === 'application.approved')).toEqual([
      { action: 'application.approved', user_id: program.owner.userId, details: { partner: application.partner_id } },
    ])
  })

  test('of somebody signed in counts at once, and makes them a partner by their account', async () => {
    const [program, grace] = [await joinable(), await person()]
    const { outcome, applicationId } = await program.send(grace.email, grace.userId)
    expect(outcome).toBe('waiting')
    const approved = await approveApplication(program.acting, program.programId, applicationId ?? 0, null)
    expect(approved.invitation).toBeUndefined()
    expect(await listProgramsOfPartner(db, grace.userId, { limit: 5 })).toMatchObject([
      { id: program.programId, is_active: true, links: [{ is_active: true }] },
    ])
    expect((await program.send(grace.email, grace.userId)).outcome).toBe('partner')
  })

  test('is approved at once where the program says so, by nobody', async () => {
    const [program, grace] = [await joinable({ approves_at_once: true }), await person()]
    const { token } = await program.send(newEmail())
    const confirmed = await program.confirm(token)
    expect(confirmed).toMatchObject({ outcome: 'approved', isFirst: true, invitation: expect.any(String) })
    expect((await program.send(grace.email, grace.userId)).outcome).toBe('approved')
    expect(await listApplications(db, program.programId, { limit: 5 })).toMatchObject([
      { status: 'approved', decided_by: null },
      { status: 'approved', decided_by: null },
    ])
    const approvals = (await auditOf(program.programId)).filter(({ action }) => action === 'application.approved')
    expect(approvals).toMatchObject([
      { user_id: null, details: { at_once: true } },
      { user_id: null, details: { at_once: true } },
    ])
  })

  test('of whom the program had ended or rejected waits for a person though others are approved at once', async () => {
    const [program, ended, rejected] = [await joinable({ approves_at_once: true }), await person(), newEmail()]
    await program.send(ended.email, ended.userId)
    const [partner] = await program.partners()
    await endPartnership(db, { programId: program.programId, partnerId: partner?.id ?? 0 })
    const again = await program.send(ended.email, ended.userId)
    expect(again.outcome).toBe('waiting')
    await changeJoinPage(db, program.programId, { approves_at_once: false })
    const id = await program.waiting(rejected)
    await rejectApplication(program.acting, program.programId, id, 'coupons')
    await changeJoinPage(db, program.programId, { approves_at_once: true })
    await sql.query(`update applications set decided_at = now() - interval '31 days' where id = $1`, [id])
    const { token } = await program.send(rejected)
    expect(await program.confirm(token)).toMatchObject({ outcome: 'waiting' })
    // Approved, the ended partnership goes on: the same partner with the same link.
    await approveApplication(program.acting, program.programId, again.applicationId ?? 0, null)
    expect((await program.partners()).filter(({ email }) => email === ended.email)).toMatchObject([
      { id: partner?.id, is_active: true, ended_at: null, links: [{ is_active: true, code: partner?.links[0]?.code }] },
    ])
  })

  test('of a partner who was added by hand is tied to them', async () => {
    const [program, email] = [await joinable({ approves_at_once: true }), newEmail()]
    const { partnerId } = await addPartner(db, {
      programId: program.programId,
      name: 'Typed',
      email: email.toUpperCase(),
      code: null,
    })
    const id = await program.waiting(email)
    const { application, invitation } = await approveApplication(program.acting, program.programId, id, null)
    expect([application.partner_id, invitation]).toEqual([partnerId, expect.any(String)])
    expect(await program.partners()).toMatchObject([{ id: partnerId, name: 'Typed', invited: true, links: [{}] }])
  })

  test('may come into a group, of this program alone', async () => {
    const [program, other] = [await joinable(), await joinable()]
    const theirs = await makeGroup(db, other.programId, { name: 'Theirs', rules: [] })
    const own = await makeGroup(db, program.programId, { name: 'Own', rules: [] })
    const id = await program.waiting()
    const refused = { code: 'conflict', details: [{ field: 'group_id', message: expect.any(String) }] }
    await expect(approveApplication(program.acting, program.programId, id, theirs.id)).rejects.toMatchObject(refused)
    expect([await program.states(), await program.partners()]).toEqual([['waiting'], []])
    await approveApplication(program.acting, program.programId, id, own.id)
    expect(await program.partners()).toMatchObject([{ group_id: own.id }])
  })

  test('takes the next code where the made-up one is taken, and says so to nobody', async () => {
    const program = await joinable()
    const { partnerId } = await addPartner(db, {
      programId: program.programId,
      name: 'Holder',
      email: null,
      code: null,
    })
    const name = `Codes ${crypto.randomUUID()}`
    const letters = name
      .toLowerCase()
      .replace(/[^a-z0-9]/g, '')
      .slice(0, 20)
    await sql.query(
      `insert into referral_links (code, program_id, partner_id) select $1 || n, $2, $3 from generate_series(1000, 9999) n`,
      [letters, program.programId, partnerId],
    )
    const grace = await person()
    await changeJoinPage(db, program.programId, { approves_at_once: true })
    expect((await program.send(grace.email, grace.userId, { name })).outcome).toBe('approved')
    const [made] = await program.partners()
    expect(made?.links[0]?.code).toMatch(new RegExp(`^${letters}\\d{5}$`))
  })
})

describe('a decision', () => {
  test.each(['approve', 'reject', 'both'])(
    'of several at once has one effect: %s',
    { timeout: 30_000 },
    async (kind) => {
      const program = await joinable()
      const ids = [await program.waiting(), await program.waiting(), await program.waiting()]
      for (const id of ids) {
        const tries = Array.from({ length: 6 }, (_, n) =>
          kind === 'approve' || (kind === 'both' && n % 2 === 0)
            ? approveApplication(program.acting, program.programId, id, null)
            : rejectApplication(program.acting, program.programId, id, null),
        )
        const settled = await Promise.allSettled(tries)
        const done = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
        expect(done.filter(({ isFirst }) => isFirst)).toHaveLength(1)
        const { status } = await readApplication(db, program.programId, id)
        for (const { application } of done) expect(application.status).toBe(status)
        for (const one of settled) if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'conflict' })
      }
      const approved = (await program.states()).filter((status) => status === 'approved')
      const { rows } = await sql.query(
        'select (select count(*)::int from partners where program_id = $1) as partners, (select count(*)::int from referral_links where program_id = $1) as links',
        [program.programId],
      )
      expect(rows).toEqual([{ partners: approved.length, links: approved.length }])
      const audited = (await auditOf(program.programId)).filter(({ action }) => action.startsWith('application'))
      expect(audited).toHaveLength(3)
    },
  )

  test('on several approves those that wait, and leaves the others and those of another program', async () => {
    const [program, other] = [await joinable(), await joinable()]
    const [one, two, rejected, theirs] = [
      await program.waiting(),
      await program.waiting(),
      await program.waiting(),
      await other.waiting(),
    ]
    await rejectApplication(program.acting, program.programId, rejected, null)
    const { approved } = await approveApplications(
      program.acting,
      program.programId,
      [one, two, rejected, theirs],
      null,
    )
    expect(approved.map(({ application, isFirst }) => [application.id, isFirst])).toEqual([
      [rejected, false],
      [two, true],
      [one, true],
    ])
    expect(await other.states()).toEqual(['waiting'])
    await expect(approveApplication(program.acting, program.programId, theirs, null)).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(rejectApplication(program.acting, program.programId, theirs, null)).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('against somebody lets them apply again after thirty days', async () => {
    const [program, email] = [await joinable(), newEmail()]
    const id = await program.waiting(email)
    await rejectApplication(program.acting, program.programId, id, null)
    const { outcome, againAt } = await program.send(email)
    expect([outcome, Math.round(((againAt?.getTime() ?? 0) - Date.now()) / 86_400_000)]).toEqual(['rejected', 30])
    await sql.query(`update applications set decided_at = now() - interval '31 days' where id = $1`, [id])
    expect((await program.send(email)).outcome).toBe('applied')
  })

  test('by a key names the key', async () => {
    const program = await joinable()
    await createApiKey(db, program.programId, 'crm')
    const { rows } = await sql.query<{ id: string }>('select id from api_keys where program_id = $1', [
      program.programId,
    ])
    const byKey = db.actingByKey({ keyId: Number(rows[0]?.id), programId: program.programId })
    const { application } = await rejectApplication(byKey, program.programId, await program.waiting(), 'no')
    expect(application).toMatchObject({ status: 'rejected', decided_by: 'crm', note: 'no' })
  })
})

describe('an attacker', () => {
  test('who applies with the address of somebody mails them three times a day at most, and ten from all programs', async () => {
    const [program, email] = [await joinable(), newEmail()]
    const outcomes = []
    for (let n = 0; n < 5; n++) outcomes.push((await program.send(email.toLowerCase())).outcome)
    expect(outcomes).toEqual(['applied', 'applied', 'applied', 'recipient', 'recipient'])
    const others = []
    for (let n = 0; n < 3; n++) {
      const other = await joinable()
      for (let mails = 0; mails < 3; mails++) others.push((await other.send(email)).outcome)
    }
    expect(others.filter((outcome) => outcome === 'applied')).toHaveLength(7)
    const { rows } = await sql.query('select count(*)::int as n from applications where email = $1', [email])
    expect(rows).toEqual([{ n: 10 }])
  })

  test('who sends at once does not pass the bounds', async () => {
    const [program, email] = [await joinable(), newEmail()]
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => program.send(email)))
    expect(outcomes.filter(({ outcome }) => outcome === 'applied')).toHaveLength(3)
  })

  test('has 300 strangers of one program mailed a day at most', async () => {
    const program = await joinable()
    await sql.query(`insert into application_mails (counted, day, mails) values ($1, utc_day(now()), 299)`, [
      `applications of program ${program.programId}`,
    ])
    const outcomes = [await program.send(newEmail()), await program.send(newEmail())]
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['applied', 'program'])
    const grace = await person()
    expect((await program.send(grace.email, grace.userId)).outcome).toBe('waiting')
  })

  test('whose own text is sent first with an address stands in no way: the owner of the address confirms what they sent', async () => {
    const [program, email] = [await joinable(), newEmail()]
    const theirs = await program.send(email, null, { name: 'Buy at eve.example' })
    const own = await program.send(email)
    expect(await program.confirm(own.token)).toMatchObject({ outcome: 'waiting' })
    expect(await findApplication(db, theirs.token)).toBeUndefined()
    expect(await listApplications(db, program.programId, { limit: 5 })).toMatchObject([{ name: 'Grace Hopper' }])
  })

  test.each([
    ['older than a week', `applied_at = now() - interval '8 days'`],
    ['of another', `token_hash = sha256('x')`],
  ])('with a link %s confirms nothing', async (_, change) => {
    const program = await joinable()
    const { token } = await program.send(newEmail())
    const kept = await findApplication(db, token)
    await sql.query(`update applications set ${change} where program_id = $1`, [program.programId])
    expect(await findApplication(db, token)).toBeUndefined()
    if (kept && change.startsWith('applied')) expect((await confirmApplication(db, kept)).outcome).toBeNull()
    expect(await program.states()).toEqual([])
  })

  test('who applies for two accounts of one address makes one application of it', async () => {
    const [program, grace] = [await joinable(), await person()]
    const { token } = await program.send(grace.email)
    expect((await program.send(grace.email, grace.userId)).outcome).toBe('waiting')
    expect(await findApplication(db, token)).toBeUndefined()
    const later = await joinable()
    const tokens = [(await later.send(grace.email)).token, (await later.send(grace.email)).token]
    await Promise.all(tokens.map((one) => later.confirm(one)))
    expect(await later.states()).toEqual(['waiting'])
  })
})

describe('the page', () => {
  test('is off until it is turned on, and its former addresses lead to the present one and to no other program', async () => {
    const [program, other] = [await joinable({ is_open: false }), await joinable()]
    expect(await findJoinPage(db, program.slug)).toBeUndefined()
    await changeJoinPage(db, program.programId, { is_open: true })
    const next = `${program.slug}-next`
    await changeJoinPage(db, program.programId, { slug: next })
    expect(await findJoinPage(db, program.slug)).toMatchObject({ slug: next, program_id: program.programId })
    const taken = { code: 'conflict', details: [{ field: 'slug', message: expect.any(String) }] }
    await expect(changeJoinPage(db, other.programId, { slug: program.slug })).rejects.toMatchObject(taken)
    for (const n of [1, 2, 3]) await changeJoinPage(db, program.programId, { slug: `${next}-${n}` })
    await expect(changeJoinPage(db, program.programId, { slug: `${next}-4` })).rejects.toMatchObject(taken)
    expect((await changeJoinPage(db, program.programId, { slug: program.slug })).slug).toBe(program.slug)
  })

  test('takes a slug of the program’s name where none is given', async () => {
    const owner = await person()
    const workspaceId = await createWorkspace(db, { name: 'W', ownerId: owner.userId })
    const made = async (name: string) =>
      await createProgram(db, workspaceId, { ...programDefaults, name, domain: 'example.com' })
    for (const [name, slug] of [
      ['The Analytical  Engine!', 'the-analytical-engine'],
      ['分析', 'program'],
    ] as const) {
      const programId = await made(name)
      expect(await readJoinPage(db, programId)).toMatchObject({ slug: null, is_open: false })
      expect((await changeJoinPage(db, programId, {})).slug).toBe(`${slug}-${programId}`)
    }
  })

  test('keeps each text of the terms as a version, and with each application the one that was accepted', async () => {
    const program = await joinable({ terms: 'First.' })
    const first = await program.waiting()
    const { version } = await readJoinPage(db, program.programId)
    expect((await changeJoinPage(db, program.programId, { terms: 'First.', intro: 'x' })).terms_version).toBe(1)
    expect((await changeJoinPage(db, program.programId, { terms: 'Second.' })).terms_version).toBe(2)
    expect((await program.send(newEmail(), null, { version })).outcome).toBe('changed')
    const second = await program.waiting()
    expect(await changeJoinPage(db, program.programId, { terms: null })).toMatchObject({
      terms: null,
      terms_version: null,
    })
    expect((await changeJoinPage(db, program.programId, { terms: 'First.' })).terms_version).toBe(3)
    expect(await readApplication(db, program.programId, first)).toMatchObject({ terms_version: 1, terms: 'First.' })
    expect(await readApplication(db, program.programId, second)).toMatchObject({ terms_version: 2, terms: 'Second.' })
    await expect(
      sql.query('delete from program_terms where program_id = $1 and version = 2', [program.programId]),
    ).rejects.toThrow(/applications/)
    expect((await auditOf(program.programId)).map(({ details }) => details)).toContainEqual({ terms_version: [1, 2] })
  })

  test('asks anew what changed while somebody answered', async () => {
    const program = await joinable()
    const { version } = await readJoinPage(db, program.programId)
    await changeJoinPage(db, program.programId, { questions: [{ label: 'Why?', type: 'long', required: true }] })
    expect((await program.send(newEmail(), null, { version })).outcome).toBe('changed')
    await changeJoinPage(db, program.programId, { is_open: false })
    expect((await program.send(newEmail())).outcome).toBe('closed')
  })

  const hostile: [what: string, changes: object][] = [
    ['a logo that is a script', { logo_url: 'javascript:alert(1)' }],
    ['a logo over http', { logo_url: 'http://img.example/logo.png' }],
    ['a logo as data', { logo_url: 'data:image/svg+xml,<svg onload=alert(1)>' }],
    ['a logo of a user', { logo_url: 'https://a:b@img.example/x' }],
    ['a logo whose host ends a directive of a header', { logo_url: "https://x;script-src 'unsafe-inline'/a" }],
    ['a logo whose host holds a comma', { logo_url: 'https://a,b/c' }],
    ['a logo whose host is quoted', { logo_url: "https://'none'/c" }],
    ['an address that leaves its path', { slug: '../admin' }],
    ['an address in capitals', { slug: 'Engine' }],
    ['an address that is too short', { slug: 'ab' }],
    ['text that runs backwards', { intro: 'a\u202Eb' }],
    ['control characters', { terms: 'a\u0007b' }],
    ['a question of two lines', { questions: [{ label: 'a\nb' }] }],
    ['two questions alike', { questions: [{ label: 'a' }, { label: 'a' }] }],
    ['eleven questions', { questions: Array.from({ length: 11 }, (_, n) => ({ label: `Question ${n}` })) }],
    ['a question of an unknown type', { questions: [{ label: 'a', type: 'html' }] }],
    ['an unknown field', { html: '<b>' }],
  ]
  test.each(hostile)('refuses %s', (_, changes) => {
    expect(joinPageChanges.safeParse(changes).success).toBe(false)
  })

  test('holds a logo in the database to a host too', async () => {
    const program = await joinable()
    for (const logo of [
      "https://x;script-src 'unsafe-inline'/a",
      'https://a,b/c',
      'http://a.example/',
      'https://a.example/ b',
    ])
      await expect(
        sql.query('update join_pages set logo_url = $2 where program_id = $1', [program.programId, logo]),
      ).rejects.toThrow(/join_pages_logo_url_check/)
    expect(joinPageChanges.parse({ logo_url: ' https://CDN.Example.com/a b.png ' })).toEqual({
      logo_url: 'https://cdn.example.com/a%20b.png',
    })
  })
})

async function joined(program: Awaited<ReturnType<typeof joinable>>, grace: Person) {
  const { applicationId } = await program.send(grace.email, grace.userId)
  await approveApplication(program.acting, program.programId, applicationId ?? 0, null)
  return applicationId ?? 0
}

describe('what is kept', () => {
  test('an application is withdrawn with all that was sent, until it is decided', async () => {
    const program = await joinable()
    const [first, second] = [await program.send(newEmail()), await program.send(newEmail())]
    await program.confirm(second.token)
    await withdrawApplication(db, first.token)
    await withdrawApplication(db, second.token)
    const { rows } = await sql.query('select id from applications where program_id = $1', [program.programId])
    expect(rows).toEqual([])
    const third = await program.send(newEmail())
    await program.confirm(third.token)
    await approveApplication(program.acting, program.programId, third.applicationId ?? 0, null)
    await withdrawApplication(db, third.token)
    expect(await program.states()).toEqual(['approved'])
  })

  test('one that was rejected or never confirmed is deleted, and its sender may apply again; others stay', async () => {
    const program = await joinable()
    const email = newEmail()
    const [early, waits] = [await program.send(newEmail()), await program.waiting()]
    const rejected = await program.waiting(email)
    await rejectApplication(program.acting, program.programId, rejected, null)
    expect((await program.send(email)).outcome).toBe('rejected')
    const other = await joinable()
    await expect(deleteApplication(other.acting, other.programId, rejected)).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(deleteApplication(program.acting, program.programId, waits)).rejects.toMatchObject({
      code: 'conflict',
    })
    for (const id of [early.applicationId ?? 0, rejected])
      await deleteApplication(program.acting, program.programId, id)
    await approveApplication(program.acting, program.programId, waits, null)
    await expect(deleteApplication(program.acting, program.programId, waits)).rejects.toMatchObject({
      code: 'conflict',
    })
    expect(await program.states()).toEqual(['approved'])
    expect((await program.send(email)).outcome).toBe('applied')
    const entries = await listAuditEntries(db, program.workspaceId, { limit: 10, thing: 'application' })
    expect(entries.map(({ action, subject }) => [action, subject])).toContainEqual([
      'application.deleted',
      String(rejected),
    ])
  })

  test('unconfirmed ones go after a week and rejected ones after a year', async () => {
    const program = await joinable()
    await program.send(newEmail())
    const [waits, rejected, young] = [await program.waiting(), await program.waiting(), await program.waiting()]
    for (const id of [rejected, young]) await rejectApplication(program.acting, program.programId, id, null)
    await sql.query(
      `update applications set applied_at = now() - interval '8 days',
        decided_at = case when id = $2 then now() - interval '366 days' else decided_at end where program_id = $1`,
      [program.programId, rejected],
    )
    expect(await deleteOldApplications(db, 1000)).toBeGreaterThanOrEqual(2)
    const { rows } = await sql.query('select id from applications where program_id = $1 order by id', [
      program.programId,
    ])
    expect(rows.map(({ id }) => Number(id))).toEqual([waits, young])
  })

  test('erasing an account takes its applications, and leaves that somebody accepted the terms', async () => {
    const [program, other, grace] = [await joinable({ terms: 'Be true.' }), await joinable(), await person()]
    const id = await joined(program, grace)
    await other.send(grace.email, grace.userId)
    const stranger = await createPerson(db, env, { name: 'Eve', email: newEmail() })
    await eraseAccount(db, grace.userId)
    expect(await other.states()).toEqual([])
    expect(await readApplication(db, program.programId, id)).toMatchObject({
      name: 'Erased partner',
      email: null,
      answers: [],
      terms_version: 1,
      has_account: false,
    })
    // Who claims an address without having proven it erases nothing of it.
    const third = await joinable()
    await third.waiting(stranger.email)
    await sql.query('update users set email_verified = false where id = $1', [stranger.userId])
    await eraseAccount(db, stranger.userId)
    expect(await third.states()).toEqual(['waiting'])
  })

  test('a deleted workspace closes its pages and gives up who only applied', async () => {
    const program = await joinable()
    await program.waiting()
    await deleteWorkspace(db, { STRIPE_SECRET_KEY: '' }, program.workspaceId)
    expect(await findJoinPage(db, program.slug)).toBeUndefined()
    expect(await program.states()).toEqual([])
    const other = await joinable()
    await expect(changeJoinPage(db, other.programId, { slug: program.slug })).rejects.toMatchObject({
      code: 'conflict',
    })
  })

  test('a person sees their own applications by their verified address, with the terms that they accepted', async () => {
    const [program, grace] = [await joinable({ terms: 'Be true.' }), await person()]
    await program.waiting(grace.email)
    const asked = { id: grace.userId, email: grace.email, emailVerified: true }
    expect(await listApplicationsOf(db, asked, { limit: 5 })).toMatchObject([{ status: 'waiting', terms: 'Be true.' }])
    expect(await listApplicationsOf(db, { ...asked, emailVerified: false }, { limit: 5 })).toEqual([])
    const eve = await person('Eve')
    const [own] = await listApplicationsOf(db, asked, { limit: 5 })
    const of = { programId: own?.program_id ?? 0, applicationId: own?.id ?? 0 }
    const others = { id: eve.userId, email: eve.email, emailVerified: true }
    expect(await listApplicationsOf(db, others, { limit: 5, of })).toEqual([])
  })
})

const baseUrl = 'https://api.example.com'
const pageEnv = {
  ...env,
  BASE_URL: baseUrl,
  MAIL_INBOX: 'mails',
  RELAY: { fetch: () => Promise.resolve(new Response()) },
}

/** Sends a request to the pages, and waits for what they do after the answer. */
async function visit(path: string, init: RequestInit = {}, more: object = {}) {
  const after: Promise<unknown>[] = []
  const worker = { ...inNoWorker, waitUntil: (work: Promise<unknown>) => void after.push(work) }
  const response = await dashboard.request(baseUrl + path, init, { ...pageEnv, ...more }, worker)
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

/** The path of the latest link to this page that was mailed. */
async function linkTo(page: string, recipient: string) {
  const link = new RegExp(`${baseUrl}(/${page}\\?token=\\S+)`).exec((await mailsTo(recipient)).at(-1) ?? '')?.[1]
  if (link === undefined) throw new Error(`no link to ${page} was mailed to ${recipient}`)
  return link
}

const applicant = (email: string, more: object = {}) => ({ name: 'Grace', email, version: '1', ...more })

describe('the join page', () => {
  test('answers the same for every address, and says the rest by mail alone', async () => {
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
    const told = []
    const answers = new Set<string>()
    for (const email of [fresh, account, partner.email.toUpperCase(), waits, rejected, flooded]) {
      const { status, location, headers, text } = await submit(`/join/${program.slug}`, applicant(email))
      answers.add(JSON.stringify([status, location, headers.get('set-cookie'), text]))
      told.push((await mailsTo(email.toLowerCase())).map((body) => body.split('\n\n')[1]))
    }
    expect([...answers]).toEqual([JSON.stringify([303, `/join/${program.slug}/sent`, null, ''])])
    expect(told).toEqual([
      [expect.stringContaining('/application?token=')],
      [expect.stringContaining('/application?token=')],
      [expect.stringMatching(/^You are a partner of Engine already/)],
      [expect.stringMatching(/^Your earlier application to Engine waits/)],
      [expect.stringMatching(/did not take your earlier application. You can apply again from 20\d\d-/)],
      [],
    ])
    expect((await visit(`/join/${program.slug}/sent`)).text).toContain('Check your mail')
  })

  test('leads through the mailed link, which a scanner may open and which counts once, to the invitation', async () => {
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

  test('takes somebody signed in by their account without a mail, and others by mail however they are signed in', async () => {
    const [program, grace, unproven] = [await joinable(), await person(), await person()]
    const page = await visit(`/join/${program.slug}`, { headers: sessionCookieOf(grace.token) })
    expect(page.text).toContain(`You apply with your account, ${grace.email}`)
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

  test('shows what people typed as text, and loads the logo from its host on this page alone', async () => {
    const hostile = `<script>alert(1)</script><img src=x onerror=alert(2)> "' javascript:alert(3)`
    const program = await joinable({
      intro: hostile,
      terms: `- ${hostile}\n- b`,
      logo_url: 'https://cdn.example.net/logo.svg?a=1&b="><script>',
      questions: [{ label: hostile, type: 'long', required: false }],
    })
    await sql.query('update programs set name = $2 where id = $1', [program.programId, `Engine <script>alert(4)`])
    const { text, headers } = await visit(`/join/${program.slug}`)
    const [head = ''] = text.split('<body>').slice(1)
    expect(head).toContain('&lt;script&gt;alert(1)')
    expect(head).not.toMatch(/<script>|<img src=x|onerror=alert\(2\)>(?!.*&gt;)/)
    expect(text.match(/<script/g)).toHaveLength(1)
    expect(text.match(/<img /g)).toHaveLength(1)
    const policy = headers.get('content-security-policy') ?? ''
    expect(policy).toContain("img-src 'self' https://cdn.example.net;")
    expect(policy).toContain("script-src 'self';")
    expect(policy).toContain("frame-src 'none'")
    for (const path of ['/sign-in', `/join/${program.slug}/sent`, '/application?token=x'])
      expect((await visit(path)).headers.get('content-security-policy')).toContain("img-src 'self';")
    const email = newEmail()
    await submit(`/join/${program.slug}`, applicant(email, { version: '2', terms: 'accepted', answer_0: hostile }))
    const own = await visit(await linkTo('application', email))
    expect(own.text.match(/<script/g)).toHaveLength(1)
    expect(own.text).not.toContain('<img')
    const [mail = ''] = await mailsTo(email)
    expect(mail).not.toContain('alert(1)')
  })

  test('asks again for what is missing, with what was typed', async () => {
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
      [{ version: '1' }, 'changed while you read'],
    ] as const) {
      const refused = await submit(path, { ...full, ...change })
      expect([change, refused.status, refused.location]).toEqual([change, 303, path])
      const cookie = /__Secure-svc_form=[^;]*/.exec(refused.headers.get('set-cookie') ?? '')?.[0] ?? ''
      expect((await visit(path, { headers: { cookie } })).text).toContain(said)
    }
    expect((await submit(path, full)).location).toBe(`${path}/sent`)
  })

  test('is 404 while it is off, and leads on from a former address', async () => {
    const program = await joinable()
    await changeJoinPage(db, program.programId, { slug: `${program.slug}-new` })
    expect((await visit(`/join/${program.slug}`)).location).toBe(`/join/${program.slug}-new`)
    await changeJoinPage(db, program.programId, { is_open: false })
    for (const path of [program.slug, `${program.slug}-new`, 'nobody', `${program.slug}/sent`])
      expect([path, (await visit(`/join/${path}`)).status]).toEqual([path, 404])
    expect((await submit(`/join/${program.slug}`, applicant(newEmail()))).status).toBe(404)
  })

  test('takes no form of another site, and twenty of one address in a quarter of an hour', async () => {
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

  test('with keys of Turnstile takes who passed its challenge, which Cloudflare is asked once', async () => {
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
      expect(page.text).toContain('Switch JavaScript on to apply')
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

  test('is set, previewed and shown to the workspace, who approve all at once', async () => {
    const program = await joinable({ is_open: false })
    const owner = { token: program.owner.token }
    const settings = `/programs/${program.programId}/join-page`
    const fields = { is_open: 'yes', approves_at_once: 'no', slug: program.slug, logo_url: '', intro: 'Hi', terms: 'T' }
    const rows = { question_0: '', question_3: 'Where?', question_3_kind: 'long required' }
    expect((await submit(settings, { ...fields, ...rows }, owner)).status).toBe(303)
    expect(await readJoinPage(db, program.programId)).toMatchObject({
      is_open: true,
      intro: 'Hi',
      terms_version: 1,
      questions: [{ label: 'Where?', type: 'long', required: true }],
    })
    const shown = { headers: sessionCookieOf(program.owner.token) }
    for (const [change, said] of [
      [{ slug: 'A B' }, 'lower-case letters'],
      [{ logo_url: 'javascript:alert(1)' }, 'https:// address'],
      [{ question_1: 'a', question_2: 'a' }, 'label of its own'],
    ] as const) {
      const refused = await submit(settings, { ...fields, ...change }, owner)
      const cookie = /__Secure-svc_form=[^;]*/.exec(refused.headers.get('set-cookie') ?? '')?.[0] ?? ''
      const cookies = `${sessionCookieOf(program.owner.token).cookie}; ${cookie}`
      expect((await visit(settings, { headers: { cookie: cookies } })).text).toContain(said)
    }
    const preview = await visit(`${settings}/preview`, shown)
    expect(preview.text).toContain('Become a partner of Engine')
    expect(preview.text).not.toContain('<form')
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
    const { rows: told } = await sql.query<{ subject: string }>(
      `select m.subject from mails m join applications a on a.email = m.recipient where a.program_id = $1 order by m.id`,
      [program.programId],
    )
    expect(told.map(({ subject }) => subject)).toEqual(['Your application to Engine', 'You are a partner of Engine'])
  })
})
