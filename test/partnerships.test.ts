import { describe, expect, test } from 'vitest'
import { findViewer } from '../lib/access/viewer.ts'
import { addMember, createPerson, type Person } from '../lib/local/people.ts'
import { addLink, maxLinks } from '../lib/programs/links.ts'
import { createProgram, programDefaults } from '../lib/programs/programs.ts'
import { changeMember, openProgram } from '../lib/programs/members.ts'
import {
  acceptPartnerInvitation,
  declinePartnerInvitation,
  findPartnerInvitation,
  invitePartner,
  listPartnerInvitations,
} from '../lib/programs/partner-invitations.ts'
import { addPartner, listPartners, updatePartner } from '../lib/programs/partners.ts'
import {
  endPartnership,
  listProgramsOfPartner,
  setPartnerName,
  setPayoutAddress,
} from '../lib/programs/partnerships.ts'
import { createWorkspace } from '../lib/programs/workspaces.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, env: databaseEnv } = await startEndpoint()
const env = { ...databaseEnv, AUTH_SECRET: 'a secret of tests that is long enough' }

async function person(name: string, verified = true) {
  const created = await createPerson(db, env, { name, email: `${name}-${crypto.randomUUID()}@example.com` })
  if (!verified) await sql.query('update users set email_verified = false where id = $1', [created.userId])
  return created
}

async function program(name = 'Engine') {
  const owner = await person('owner')
  const workspaceId = await createWorkspace(db, { name: 'Analytical', ownerId: owner.userId })
  const programId = await createProgram(db, workspaceId, { ...programDefaults, name, domain: 'example.com' })
  return { workspaceId, programId, owner }
}

const viewerOf = ({ token }: Person) => findViewer(db, env, new Headers({ authorization: `Bearer ${token}` }))
const programsOf = async ({ userId }: Person) => await listProgramsOfPartner(db, userId, { limit: 10 })
const invitationsOf = ({ email }: Person) => listPartnerInvitations(db, email, { limit: 10 })

const payoutOf = async (partnerId: number) =>
  (await sql.query('select payout_email from partners where id = $1', [partnerId])).rows[0]

/** A program that invited a partner with this address. */
async function inviting(email: string, typed = 'Typed name') {
  const created = await program()
  const { partnerId } = await addPartner(db, { programId: created.programId, name: typed, email, code: null })
  const of = { programId: created.programId, partnerId, invitedBy: created.owner.userId }
  const token = (await invitePartner(db, of))?.token ?? ''
  const row = async () => (await listPartners(db, created.programId, { limit: 1, partnerId }))[0]
  return { ...created, partnerId, of, token, row }
}

describe('adding a partner', () => {
  test("creates one only for this program: a second program that adds the address doesn't find out or change anything", async () => {
    const email = `grace-${crypto.randomUUID()}@example.com`
    const [first, second] = [await inviting(email, 'Grace'), await inviting(email.toUpperCase(), 'Buy at eve.example')]
    expect(second.partnerId).not.toBe(first.partnerId)
    expect(await first.row()).toMatchObject({ name: 'Grace', email, has_account: false })
  })

  test('gives the same response for an address with and without an account', async () => {
    const grace = await person('Grace')
    const { programId } = await program()
    const answers = await Promise.all(
      [grace.email, `nobody-${grace.email}`].map(async (email) => {
        const { partnerId } = await addPartner(db, { programId, name: 'Grace', email, code: null })
        const [row] = await listPartners(db, programId, { limit: 1, partnerId })
        const { id: _id, email: _email, created_at: _at, links: _links, ...rest } = row ?? {}
        return rest
      }),
    )
    expect(answers[0]).toEqual(answers[1])
    expect((await viewerOf(grace))?.partner).toBeNull()
  })

  test('with the address of another partner of the program is refused, and the error contains the field', async () => {
    const { programId } = await program()
    const partner = { programId, name: 'Grace', email: 'grace@example.com', code: null }
    await addPartner(db, partner)
    await expect(addPartner(db, { ...partner, email: 'GRACE@example.com' })).rejects.toMatchObject({
      code: 'conflict',
      details: [{ field: 'email' }],
    })
  })
})

test('a generated code grows by a digit on each collision', async () => {
  const { programId } = await program()
  const name = `Grace ${crypto.randomUUID()}`
  const letters = name
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')
    .slice(0, 20)
  const { partnerId } = await addPartner(db, { programId, name, email: null, code: null })
  await sql.query(
    `insert into referral_links (code, program_id, partner_id)
    select $1 || n, $2, $3 from generate_series(1000, 9999) n on conflict do nothing`,
    [letters, programId, partnerId],
  )
  const { code } = await addPartner(db, { programId, name, email: null, code: null })
  expect(code).toMatch(new RegExp(`^${letters}\\d{5}$`))
})

test('people join no program and share no data until they accept an invitation, and then share only the listed data', async () => {
  const grace = await person('Grace')
  const [first, second] = [await inviting(grace.email, 'First'), await inviting(grace.email, 'Second')]
  const later = await inviting(grace.email, 'Later')
  await acceptPartnerInvitation(db, { token: first.token }, grace.userId)
  await acceptPartnerInvitation(db, { token: second.token }, grace.userId)
  await setPartnerName(db, grace.userId, 'Grace H.')
  await setPayoutAddress(db, grace.userId, 'pay@example.com')
  expect(await first.row()).toMatchObject({ name: 'Grace H.', has_account: true })
  expect(await second.row()).toMatchObject({ name: 'Grace H.', has_account: true })
  expect(await later.row()).toMatchObject({ name: 'Later', has_account: false })
  expect(await payoutOf(second.partnerId)).toEqual({ payout_email: 'pay@example.com' })
  expect(await payoutOf(later.partnerId)).toEqual({ payout_email: null })
  expect((await programsOf(grace)).map(({ id }) => id)).toEqual([second.programId, first.programId])
  const [open] = await invitationsOf(grace)
  expect(open).toMatchObject({ program_id: later.programId, program_name: 'Engine' })
  // Expects the program's name, but no other text from the program.
  expect(JSON.stringify(open)).not.toContain('Later')
  await acceptPartnerInvitation(db, { programId: later.programId, id: open?.id ?? 0 }, grace.userId)
  expect(await later.row()).toMatchObject({ name: 'Grace H.' })
  expect(await payoutOf(later.partnerId)).toEqual({ payout_email: 'pay@example.com' })
  expect(await viewerOf(grace)).toMatchObject({ partner: { name: 'Grace H.' }, invitations: 0, programs: [] })
})

describe('an invitation', () => {
  test('is accepted once, with its link and the invited address, which the acceptance confirms', async () => {
    const [grace, eve] = [await person('Grace', false), await person('Eve')]
    const { token, of } = await inviting(grace.email)
    expect(await findPartnerInvitation(db, token)).toEqual({
      program_name: 'Engine',
      language: null,
      email: grace.email,
      partner_name: 'Typed name',
      brand: { name: 'Engine', color: null, logo: null },
    })
    await expect(acceptPartnerInvitation(db, { token }, eve.userId)).rejects.toMatchObject({ code: 'forbidden' })
    await acceptPartnerInvitation(db, { token }, grace.userId)
    expect(await viewerOf(grace)).toMatchObject({ user: { emailVerified: true }, partner: {} })
    await expect(acceptPartnerInvitation(db, { token }, grace.userId)).rejects.toMatchObject({ code: 'forbidden' })
    expect(await invitePartner(db, of)).toBeUndefined()
  })

  test('is hidden from an unconfirmed address, which can neither accept nor decline it in the list', async () => {
    const grace = await person('Grace', false)
    const { token, programId } = await inviting(grace.email)
    const [{ id } = { id: 0 }] = await invitationsOf(grace)
    expect(await viewerOf(grace)).toMatchObject({ invitations: 0 })
    await expect(acceptPartnerInvitation(db, { programId, id }, grace.userId)).rejects.toMatchObject({
      code: 'forbidden',
    })
    await declinePartnerInvitation(db, { programId, id }, grace.userId)
    expect(await findPartnerInvitation(db, token)).toBeDefined()
  })

  test('is not visible to a person with another address', async () => {
    const [grace, eve] = [await person('Grace'), await person('Eve')]
    const { token, programId } = await inviting(grace.email)
    const [{ id } = { id: 0 }] = await invitationsOf(grace)
    await declinePartnerInvitation(db, { programId, id }, eve.userId)
    await expect(acceptPartnerInvitation(db, { programId, id }, eve.userId)).rejects.toMatchObject({
      code: 'forbidden',
    })
    expect(await findPartnerInvitation(db, token)).toBeDefined()
    expect(await viewerOf(eve)).toMatchObject({ invitations: 0, partner: null })
  })

  const ends: [what: string, end: (of: Awaited<ReturnType<typeof inviting>>, grace: Person) => Promise<unknown>][] = [
    [
      'declined',
      async ({ programId }, grace) => {
        const [{ id } = { id: 0 }] = await invitationsOf(grace)
        await declinePartnerInvitation(db, { programId, id }, grace.userId)
      },
    ],
    ['followed by another', ({ of }) => invitePartner(db, of)],
    ['of a partnership that the program ended', ({ of }) => endPartnership(db, of)],
    [
      'too old',
      ({ partnerId }) =>
        sql.query(`update partner_invitations set expires_at = now() where partner_id = $1`, [partnerId]),
    ],
    [
      'from a deleted account',
      ({ partnerId }) =>
        sql.query(`update partner_invitations set invited_by = null where partner_id = $1`, [partnerId]),
    ],
  ]
  test.each(ends)('ends if it was %s', async (_what, end) => {
    const grace = await person('Grace')
    const invited = await inviting(grace.email)
    await end(invited, grace)
    expect(await findPartnerInvitation(db, invited.token)).toBeUndefined()
    await expect(acceptPartnerInvitation(db, { token: invited.token }, grace.userId)).rejects.toMatchObject({
      code: 'forbidden',
    })
    expect(await programsOf(grace)).toEqual([])
  })

  test.each([
    [
      'is removed',
      'admin',
      (workspaceId: string, userId: string) => changeMember(db, { workspaceId, userId, role: null, byOwner: true }),
    ],
    [
      'may no longer add partners',
      'admin',
      (workspaceId: string, userId: string) => changeMember(db, { workspaceId, userId, role: 'member', byOwner: true }),
    ],
    [
      'lost the program',
      'guest',
      (_workspaceId: string, userId: string, programId: number) => openProgram(db, { programId, userId, role: null }),
    ],
  ] as const)('ends permanently when its sender %s', async (_what, role, lose) => {
    const [grace, sender] = [await person('Grace'), await person('Sender')]
    const { programId, workspaceId, of } = await inviting(grace.email)
    await addMember(db, workspaceId, sender.userId, role)
    if (role === 'guest') await openProgram(db, { programId, userId: sender.userId, role: 'admin' })
    const token = (await invitePartner(db, { ...of, invitedBy: sender.userId }))?.token ?? ''
    expect(await findPartnerInvitation(db, token)).toBeDefined()
    await lose(workspaceId, sender.userId, programId)
    expect(await findPartnerInvitation(db, token)).toBeUndefined()
    await sql.query(`update workspace_members set role = 'admin', removed_at = null where user_id = $1`, [
      sender.userId,
    ])
    expect(await findPartnerInvitation(db, token)).toBeUndefined()
    expect(await viewerOf(grace)).toMatchObject({ invitations: 0 })
  })

  test('that is accepted twice at once creates one partnership', async () => {
    const grace = await person('Grace')
    const { token, row } = await inviting(grace.email)
    const outcomes = await Promise.allSettled(
      [0, 1, 2, 3].map(() => acceptPartnerInvitation(db, { token }, grace.userId)),
    )
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await row()).toMatchObject({ has_account: true, invited: false })
  })
})

test.each(['program', 'partner'] as const)(
  'a partnership that the %s ends is inactive, and only a new invitation resumes it',
  async (who) => {
    const grace = await person('Grace')
    const { token, of, programId, partnerId, row } = await inviting(grace.email)
    await acceptPartnerInvitation(db, { token }, grace.userId)
    const end = () => endPartnership(db, who === 'program' ? of : { programId, userId: grace.userId })
    await end()
    await end()
    const off = { is_active: false, ended_by: who, has_account: true, links: [{ is_active: false }] }
    expect(await row()).toMatchObject(off)
    // Former partners still see their earnings.
    expect(await programsOf(grace)).toMatchObject([{ id: programId, is_active: false, ended_by: who }])
    await setPartnerName(db, grace.userId, 'New name')
    expect(await row()).toMatchObject({ name: 'Typed name' })
    await expect(updatePartner(db, programId, partnerId, { is_active: true })).rejects.toMatchObject({
      code: 'conflict',
    })
    const again = await invitePartner(db, of)
    expect(await row()).toMatchObject({ ...off, invited: true })
    await acceptPartnerInvitation(db, { token: again?.token ?? '' }, grace.userId)
    expect(await row()).toMatchObject({
      is_active: true,
      ended_by: null,
      name: 'New name',
      links: [{ is_active: true }],
    })
  },
)

test('people can leave only their own partnerships', async () => {
  const [grace, eve] = [await person('Grace'), await person('Eve')]
  const { token, programId, row } = await inviting(grace.email)
  await acceptPartnerInvitation(db, { token }, grace.userId)
  await endPartnership(db, { programId, userId: eve.userId })
  expect(await row()).toMatchObject({ is_active: true, ended_by: null })
})

test('a partner has a limited number of links', async () => {
  const { programId } = await program()
  const { partnerId } = await addPartner(db, { programId, name: 'Grace', email: null, code: null })
  const tag = crypto.randomUUID().slice(0, 8)
  await sql.query(
    `insert into referral_links (program_id, partner_id, code) select $1, $2, $3 || n from generate_series(1, $4) n`,
    [programId, partnerId, `${tag}-`, maxLinks - 2],
  )
  const link = { programId, partnerId, code: null, pageUrl: null }
  expect(await addLink(db, link)).toMatchObject({ partner_id: partnerId })
  await expect(addLink(db, link)).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('at most 500 links'),
  })
})
