import { describe, expect, test } from 'vitest'
import { erasePayee } from '../lib/money/payees.ts'
import { auditEntriesStatement } from '../lib/access/audit-log.ts'
import { mailboxOf } from '../lib/access/mailbox.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { newToken } from '../lib/access/tokens.ts'
import { createPerson, type Person } from '../lib/local/people.ts'
import {
  applyByKey,
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
import { countInvitationMail } from '../lib/programs/invitation-mails.ts'
import { createGroup } from '../lib/programs/groups.ts'
import { changeJoinPage, findJoinPage, joinPageChanges, readJoinPage } from '../lib/programs/join-page.ts'
import { acceptPartnerInvitation, findPartnerInvitation } from '../lib/programs/partner-invitations.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { endPartnership, listProgramsOfPartner } from '../lib/programs/partnerships.ts'
import { createProgram, programDefaults } from '../lib/programs/programs.ts'
import { createWorkspace, deleteWorkspace } from '../lib/programs/workspaces.ts'
import { newEmail, openJoinPages } from './support/join-pages.ts'
import { startEndpoint } from './support/stack.ts'
const { db, sql, env: databaseEnv } = await startEndpoint()
const env = { ...databaseEnv, AUTH_SECRET: 'a test secret that is long enough' }
const { person, joinable } = openJoinPages(db, env)

const auditOf = async (programId: number) => {
  const { rows } = await sql.query<{ action: string; user_id: string | null; details: object }>(
    `select action, user_id, details from audit_log
    where program_id = $1 and action ~ '^(application|join_page)\\.' order by id`,
    [programId],
  )
  return rows
}

describe('an application', () => {
  test('counts once its link is opened, waits for a decision, and creates an invited partner with a link', async () => {
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
    // The invitation belongs to the applicant, and stays valid after the approver is removed.
    await sql.query('update workspace_members set removed_at = now() where user_id = $1', [program.owner.userId])
    expect(await findPartnerInvitation(db, invitation)).toMatchObject({ program_name: 'Engine', language: null, email })
    const grace = await createPerson(db, env, { name: 'Grace', email })
    await acceptPartnerInvitation(db, { token: invitation }, grace.userId)
    expect(await program.partners()).toMatchObject([{ has_account: true, invited: false }])
    expect((await auditOf(program.programId)).filter(({ action }) => action === 'application.approved')).toEqual([
      { action: 'application.approved', user_id: program.owner.userId, details: { partner: application.partner_id } },
    ])
  })

  test('from a signed-in person counts immediately, and makes their account a partner', async () => {
    const [program, grace] = [await joinable(), await person()]
    const { outcome, applicationId } = await program.send(grace.email, grace.userId)
    expect(outcome).toBe('waiting')
    const approved = await approveApplication(program.acting, program.programId, applicationId ?? 0, null)
    expect(approved.invitation).toBeUndefined()
    expect(await listProgramsOfPartner(db, grace.userId, { limit: 5 })).toMatchObject([
      { id: program.programId, is_active: true, links: [{ is_active: true }] },
    ])
    // The typed name becomes the partner's name.
    const { rows } = await sql.query('select name from partner_profiles where user_id = $1', [grace.userId])
    expect(rows).toEqual([{ name: expect.any(String) }])
    expect((await program.send(grace.email, grace.userId)).outcome).toBe('partner')
  })

  test('is approved immediately and without an actor if the program allows it', async () => {
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

  test('from a former or rejected partner waits for a decision, even if others are approved immediately', async () => {
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
    // After the approval, the ended partnership continues with the same partner and link.
    await approveApplication(program.acting, program.programId, again.applicationId ?? 0, null)
    expect((await program.partners()).filter(({ email }) => email === ended.email)).toMatchObject([
      { id: partner?.id, is_active: true, ended_at: null, links: [{ is_active: true, code: partner?.links[0]?.code }] },
    ])
  })

  test('from a manually added partner is linked to that partner', async () => {
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

  test('can be approved only into a group of this program', async () => {
    const [program, other] = [await joinable(), await joinable()]
    const theirs = await createGroup(db, other.programId, { name: 'Theirs', rules: [] })
    const own = await createGroup(db, program.programId, { name: 'Own', rules: [] })
    const id = await program.waiting()
    const refused = { code: 'not_found', details: [{ field: 'group_id', message: expect.any(String) }] }
    await expect(approveApplication(program.acting, program.programId, id, theirs.id)).rejects.toMatchObject(refused)
    expect([await program.states(), await program.partners()]).toEqual([['waiting'], []])
    await approveApplication(program.acting, program.programId, id, own.id)
    expect(await program.partners()).toMatchObject([{ group_id: own.id }])
  })

  test('silently gets the next free code if the generated one exists', async () => {
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
    const [created] = await program.partners()
    expect(created?.links[0]?.code).toMatch(new RegExp(`^${letters}\\d{5}$`))
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
        const attempts = Array.from({ length: 6 }, (_, n) =>
          kind === 'approve' || (kind === 'both' && n % 2 === 0)
            ? approveApplication(program.acting, program.programId, id, null)
            : rejectApplication(program.acting, program.programId, id, null),
        )
        const settled = await Promise.allSettled(attempts)
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

  test('on several applications approves the waiting ones, and skips the others and those of another program', async () => {
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

  test('to reject an applicant lets them apply again after thirty days', async () => {
    const [program, email] = [await joinable(), newEmail()]
    const id = await program.waiting(email)
    await rejectApplication(program.acting, program.programId, id, null)
    const { outcome, againAt } = await program.send(email)
    expect([outcome, Math.round(((againAt?.getTime() ?? 0) - Date.now()) / 86_400_000)]).toEqual(['rejected', 30])
    await sql.query(`update applications set decided_at = now() - interval '31 days' where id = $1`, [id])
    expect((await program.send(email)).outcome).toBe('applied')
  })

  test('by an API key records the key', async () => {
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

describe('a stranger', () => {
  test("with another person's address causes at most three mails a day to them, and ten from all programs", async () => {
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

  test("can't exceed the limits with concurrent applications", async () => {
    const [program, email] = [await joinable(), newEmail()]
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => program.send(email)))
    expect(outcomes.filter(({ outcome }) => outcome === 'applied')).toHaveLength(3)
  })

  test("can't block a program: networks, the page and the API have separate limits, and signed-in people aren't limited", async () => {
    const program = await joinable()
    const from = async (network: string) => {
      const outcomes = []
      for (let n = 0; n < 3; n++) outcomes.push((await program.send(newEmail(), null, { network })).outcome)
      return outcomes
    }
    const networks = Array.from({ length: 15 }, (_, n) => `203.0.${n}.0/24`)
    for (const network of networks) expect(await from(network)).toEqual(['applied', 'applied', 'network'])
    expect((await program.send(newEmail(), null, { network: '198.51.100.0/24' })).outcome).toBe('applied')
    await sql.query(`update mail_counts set mails = 40 where counted = $1`, [
      `page of workspace ${program.workspaceId}`,
    ])
    expect((await program.send(newEmail())).outcome).toBe('source')
    const byForm = {
      programId: program.programId,
      email: newEmail(),
      name: 'Grace',
      answers: [],
      seen: { terms: null },
    }
    expect(await applyByKey(db, byForm, newToken())).toMatchObject({ status: 'unverified' })
    const grace = await person()
    expect((await program.send(grace.email, grace.userId)).outcome).toBe('waiting')
  })

  test('with a workspace causes at most three mails a day to one person, in any spelling, by invitations and applications together', async () => {
    const program = await joinable()
    const name = `eve${crypto.randomUUID().replaceAll('-', '')}`
    const sender = {
      workspaceId: program.workspaceId,
      user: { id: program.owner.userId, name: 'Owner', email: program.owner.email, emailVerified: true },
    }
    await countInvitationMail(db, sender, `${name}@gmail.com`)
    await countInvitationMail(db, sender, `${name.slice(0, 3)}.${name.slice(3)}@googlemail.com`)
    expect((await program.send(`${name}+join@gmail.com`)).outcome).toBe('applied')
    expect((await program.send(`${name}+more@gmail.com`)).outcome).toBe('recipient')
    await expect(countInvitationMail(db, sender, `${name}@gmail.com`)).rejects.toMatchObject({ code: 'rate_limited' })
  })

  test('with another spelling of a rejected mailbox stays rejected, and later waits for a decision', async () => {
    const program = await joinable({ approves_at_once: true })
    const name = `eve${crypto.randomUUID().replaceAll('-', '')}`
    const first = await program.send(`${name}@gmail.com`)
    await sql.query(`update join_pages set approves_at_once = false where program_id = $1`, [program.programId])
    expect(await program.confirm(first.token)).toMatchObject({ outcome: 'waiting' })
    await rejectApplication(program.acting, program.programId, first.applicationId ?? 0, null)
    await sql.query(`update join_pages set approves_at_once = true where program_id = $1`, [program.programId])
    const again = `e.${name.slice(1)}+again@gmail.com`
    expect((await program.send(again)).outcome).toBe('rejected')
    await sql.query(`update applications set decided_at = now() - interval '31 days' where id = $1`, [
      first.applicationId,
    ])
    const later = await program.send(again)
    expect(await program.confirm(later.token)).toMatchObject({ outcome: 'waiting' })
  })

  test.each([
    ['Eve.Smith+x@Gmail.com', 'evesmith@gmail.com'],
    ['e.v.e@googlemail.com', 'eve@gmail.com'],
    ['eve.smith+a+b@example.com', 'eve.smith@example.com'],
    ['+eve@example.com', '+eve@example.com'],
  ])('the mailbox of %s is %s, in the code and in the database', async (email, mailbox) => {
    const { rows } = await sql.query<{ mailbox: string }>('select mailbox_of($1) mailbox', [email])
    expect([mailboxOf(email), rows[0]?.mailbox]).toEqual([mailbox, mailbox])
  })

  test("without a confirmed address can't open a join page or send mail", async () => {
    const program = await joinable()
    await sql.query('update users set email_verified = false where id = $1', [program.owner.userId])
    expect((await program.send(newEmail())).outcome).toBe('unverified')
    const byForm = {
      programId: program.programId,
      email: newEmail(),
      name: 'Grace',
      answers: [],
      seen: { terms: null },
    }
    await expect(applyByKey(db, byForm, newToken())).rejects.toMatchObject({ code: 'forbidden' })
    await changeJoinPage(db, program.programId, { is_open: false })
    await expect(changeJoinPage(db, program.programId, { is_open: true })).rejects.toMatchObject({ code: 'forbidden' })
    expect(await readJoinPage(db, program.programId)).toMatchObject({ is_open: false })
  })

  test("can't block an address by applying first: the owner of the address confirms their own text", async () => {
    const [program, email] = [await joinable(), newEmail()]
    const theirs = await program.send(email, null, { name: 'Buy at eve.example' })
    const own = await program.send(email)
    expect(await program.confirm(own.token)).toMatchObject({ outcome: 'waiting' })
    expect(await findApplication(db, theirs.token)).toBeUndefined()
    expect(await listApplications(db, program.programId, { limit: 5 })).toMatchObject([{ name: 'Grace Hopper' }])
  })

  test.each([
    ['older than a week', `applied_at = now() - interval '8 days'`],
    ['for another application', `token_hash = sha256('x')`],
  ])("with a link %s doesn't confirm the application", async (_, change) => {
    const program = await joinable()
    const { token } = await program.send(newEmail())
    const unconfirmed = await findApplication(db, token)
    await sql.query(`update applications set ${change} where program_id = $1`, [program.programId])
    expect(await findApplication(db, token)).toBeUndefined()
    if (unconfirmed && change.startsWith('applied'))
      expect((await confirmApplication(db, unconfirmed)).outcome).toBeNull()
    expect(await program.states()).toEqual([])
  })

  test('with two accounts for one address creates one application', async () => {
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
  test('is closed until it is enabled, and its former addresses lead to the current one and to no other program', async () => {
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

  test('gets a slug from the program’s name by default', async () => {
    const owner = await person()
    const workspaceId = await createWorkspace(db, { name: 'W', ownerId: owner.userId })
    const created = async (name: string) =>
      await createProgram(db, workspaceId, { ...programDefaults, name, domain: 'example.com' })
    for (const [name, slug] of [
      ['The Analytical  Engine!', 'the-analytical-engine'],
      ['分析', 'program'],
    ] as const) {
      const programId = await created(name)
      expect(await readJoinPage(db, programId)).toMatchObject({ slug: null, is_open: false })
      expect((await changeJoinPage(db, programId, {})).slug).toBe(`${slug}-${programId}`)
    }
  })

  test('keeps each version of the terms, and records the accepted one with each application', async () => {
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
    await sql.query(
      `insert into program_terms (program_id, version, text) select $1, n, 'x' from generate_series(4, 20) n`,
      [program.programId],
    )
    await expect(changeJoinPage(db, program.programId, { terms: 'Again.' })).rejects.toMatchObject({
      code: 'conflict',
      details: [{ field: 'terms', message: 'must not change again today' }],
    })
    expect((await changeJoinPage(db, program.programId, { intro: 'y' })).intro).toBe('y')
  })

  test('asks again if it changed while somebody answered', async () => {
    const program = await joinable()
    const { version } = await readJoinPage(db, program.programId)
    await changeJoinPage(db, program.programId, { questions: [{ label: 'Why?', type: 'long', required: true }] })
    expect((await program.send(newEmail(), null, { version })).outcome).toBe('changed')
    await changeJoinPage(db, program.programId, { is_open: false })
    expect((await program.send(newEmail())).outcome).toBe('closed')
  })

  const hostile: [what: string, changes: object][] = [
    ['a headline with two lines', { headline: 'a\nb' }],
    ['an answer without a question', { faq: [{ question: '', answer: 'a' }] }],
    ['a question without an answer', { faq: [{ question: 'a', answer: ' ' }] }],
    ['an address outside its path', { slug: '../admin' }],
    ['an address in uppercase', { slug: 'Engine' }],
    ['an address that is too short', { slug: 'ab' }],
    ['text that runs backwards', { intro: 'a\u202Eb' }],
    ['control characters', { terms: 'a\u0007b' }],
    ['a question with two lines', { questions: [{ label: 'a\nb' }] }],
    ['two equal questions', { questions: [{ label: 'a' }, { label: 'a' }] }],
    ['eleven questions', { questions: Array.from({ length: 11 }, (_, n) => ({ label: `Question ${n}` })) }],
    ['a question of an unknown type', { questions: [{ label: 'a', type: 'html' }] }],
    ['an unknown field', { html: '<b>' }],
  ]
  test.each(hostile)('refuses %s', (_, changes) => {
    expect(joinPageChanges.safeParse(changes).success).toBe(false)
  })
})

async function joined(program: Awaited<ReturnType<typeof joinable>>, grace: Person) {
  const { applicationId } = await program.send(grace.email, grace.userId)
  await approveApplication(program.acting, program.programId, applicationId ?? 0, null)
  return applicationId ?? 0
}

describe('retention', () => {
  test('an applicant can withdraw an undecided application with all its data', async () => {
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

  test('only rejected and unconfirmed applications are deleted, and those applicants may apply again', async () => {
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
    const entries = await db.query(auditEntriesStatement(program.workspaceId, { limit: 10, thing: 'application' }))
    expect(entries.map(({ action, subject }) => [action, subject])).toContainEqual([
      'application.deleted',
      String(rejected),
    ])
  })

  test('unconfirmed applications are deleted after a week and rejected ones after a year', async () => {
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

  test('erasing an account deletes its applications but keeps the record of the accepted terms', async () => {
    const [program, other, grace] = [await joinable({ terms: 'Be true.' }), await joinable(), await person()]
    const id = await joined(program, grace)
    await other.send(grace.email, grace.userId)
    const stranger = await createPerson(db, env, { name: 'Eve', email: newEmail() })
    await erasePayee(db, 'key', grace.userId)
    expect(await other.states()).toEqual([])
    expect(await readApplication(db, program.programId, id)).toMatchObject({
      name: 'Erased partner',
      email: null,
      answers: [],
      terms_version: 1,
      has_account: false,
    })
    // A person who hasn't proven that they own an address can't erase its data.
    const third = await joinable()
    await third.waiting(stranger.email)
    await sql.query('update users set email_verified = false where id = $1', [stranger.userId])
    await erasePayee(db, 'key', stranger.userId)
    expect(await third.states()).toEqual(['waiting'])
  })

  test('deleting a workspace closes its pages and deletes its applicants', async () => {
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

  test('a person sees the applications of their verified address, with the accepted terms', async () => {
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

test.each(['a@x.example,b@y.example', 'a@x.example\r\nBcc: b@y.example', '"a@x.example', 'a@x.example '])(
  'the database refuses %j as an address, because a mail would have other recipients or headers',
  async (address) => {
    await expect(
      sql.query(`insert into partners (program_id, name, email) select min(id), 'Ann', $1 from programs`, [address]),
    ).rejects.toThrow('partners_email_check')
  },
)

test.each(['not a url', 'javascript:alert(1)', '/page', 'ftp://x.example/'])(
  'the database refuses %j as the page of a link',
  async (page) => {
    await expect(
      sql.query(`insert into referral_links (code, page_url) select 'page', $1 from programs limit 1`, [page]),
    ).rejects.toThrow('page_url_check')
  },
)
