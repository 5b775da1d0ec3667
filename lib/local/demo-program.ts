import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { createAdjustment } from '../money/adjustments.ts'
import { hashPartnerEmails } from '../money/partner-hashes.ts'
import { decideReviews, flagNewCommissions, listReviews } from '../money/reviews.ts'
import {
  apply,
  approveApplication,
  confirmApplication,
  findApplication,
  rejectApplication,
} from '../programs/applications.ts'
import { createCode } from '../programs/codes.ts'
import { saveRules } from '../programs/commission-rules.ts'
import { createGroup, movePartners } from '../programs/groups.ts'
import { changeJoinPage, readJoinPage } from '../programs/join-page.ts'
import { emailHash } from '../tracking/customers.ts'

/** The rules and decisions of the demo program: terms, applications, reviews and adjustments. */

const where = 'Where do you publish?'
const why = 'What would you write about us?'

/** Publishes the join page. */
export async function openJoinPage(db: Database, programId: number): Promise<void> {
  await changeJoinPage(db, programId, {
    slug: 'demo',
    is_open: true,
    intro:
      'Recommend the Demo shop and earn a share of every sale.\n\n- 20% of each sale, more for those who write regularly\n- paid every month\n- a code for your readers, if you like',
    questions: [
      { label: where, type: 'short', required: true },
      { label: why, type: 'long', required: false },
    ],
    terms: 'Say that you are paid for your recommendation. Buy no ads for our name. Refunded sales earn nothing.',
  })
}

/** Sends an application with these answers and returns its id. The applicant confirms it unless `confirms` is false. */
async function applyAs(
  db: Database,
  programId: number,
  person: { name: string; email: string; userId?: string; answers: string[] },
  confirms = true,
): Promise<number> {
  const { name, email, userId = null, answers: texts } = person
  const [place = '', reason = ''] = texts
  const answers = [
    { question: where, answer: place },
    { question: why, answer: reason },
  ].filter(({ answer }) => answer !== '')
  const { version } = await readJoinPage(db, programId)
  const { applicationId, token } = await apply(db, {
    programId,
    userId,
    email,
    name,
    answers,
    seen: { version },
  })
  if (applicationId === null) throw new Error(`The application of ${name} was not accepted.`)
  const mailed = userId === null && confirms ? await findApplication(db, token) : undefined
  if (mailed) await confirmApplication(db, mailed)
  return applicationId
}

/** Adds a partner through the join page, with a link that has this code, and returns the partner's id. */
export async function joinAs(
  byOwner: Database,
  programId: number,
  person: { name: string; email: string; userId: string; code: string },
): Promise<number> {
  const answers = ['https://nora.example.net', 'Reviews of my purchases and how long they last.']
  const id = await applyAs(byOwner, programId, { ...person, answers })
  const { application } = await approveApplication(byOwner, programId, id, null)
  const partnerId = application.partner_id
  if (partnerId === null) throw new Error('An application was approved without a partner.')
  await byOwner.query(
    kysely
      .updateTable('referral_links')
      .set({ code: person.code })
      .where('program_id', '=', programId)
      .where('partner_id', '=', partnerId),
  )
  return partnerId
}

/** Creates applications in every state: two are waiting, one is rejected, one is approved and invited, and one is unconfirmed. */
export async function welcomeApplicants(byOwner: Database, programId: number, groupId: number): Promise<void> {
  const applicant = (name: string, email: string, ...answers: string[]) =>
    applyAs(byOwner, programId, { name, email, answers })
  const approved = await applicant(
    'Priya Patel',
    'priya@example.org',
    'https://priya.example.org',
    'A monthly comparison.',
  )
  await approveApplication(byOwner, programId, approved, groupId)
  const rejected = await applicant('Coupon Castle', 'deals@castle.example', 'A site of coupons')
  await rejectApplication(byOwner, programId, rejected, 'No coupon sites.')
  await applicant('Ada Writes', 'ada@example.org', 'https://ada.example.org', 'Long reviews, with pictures of my own.')
  await applicant('Sam Streams', 'sam@example.org', 'A video channel with 12,000 subscribers')
  await applyAs(byOwner, programId, { name: 'Lee Late', email: 'lee@example.org', answers: ['A forum'] }, false)
}

/** Creates rules by group, by product and for one partner. Returns the group of regular writers. */
export async function giveGroups(
  byOwner: Database,
  programId: number,
  partnerIds: Record<string, number>,
): Promise<number> {
  const regulars = await createGroup(byOwner, programId, {
    name: 'Regulars',
    rules: [
      { commission_bp: 2500, commission_duration_months: 12 },
      { sale_type: 'setup', commission_fixed_cents: 1500 },
    ],
  })
  const trials = await createGroup(byOwner, programId, {
    name: 'Reviewers',
    rules: [{ commission_bp: 1500, lifetime_cap_cents: 10_000 }],
  })
  const ids = (...codes: string[]) => codes.flatMap((code) => partnerIds[code] ?? [])
  await movePartners(byOwner, programId, ids('nora', 'build-weekly'), regulars.id)
  await movePartners(byOwner, programId, ids('tom'), trials.id)
  for (const partnerId of ids('build-weekly'))
    await saveRules(byOwner, programId, { partnerId }, [{ commission_bp: 3000 }])
  return regulars.id
}

/** Gives two partners a code each and returns the codes. */
export async function giveCodes(
  byOwner: Database,
  programId: number,
  partnerIds: Record<string, number>,
): Promise<string[]> {
  const codes = [
    { code: 'NORA10', partner: 'nora' },
    { code: 'WEEKLY15', partner: 'build-weekly' },
  ]
  for (const { code, partner } of codes) {
    const of = { promotion_code_id: null, account_id: null }
    await createCode(byOwner, programId, { partner_id: partnerIds[partner] ?? 0, code, ...of })
  }
  return codes.map(({ code }) => code)
}

/** Flags suspicious commissions. Releases one of the oldest, rejects one, and leaves the others waiting. */
export async function reviewCommissions(byOwner: Database, emailHashKey: string, programId: number): Promise<void> {
  await hashPartnerEmails(byOwner, (address) => emailHash(emailHashKey, address), 100)
  await flagNewCommissions(byOwner, 500)
  const held = await listReviews(byOwner, programId, { limit: 100, state: 'waiting' })
  const oldestOf = (rule: string) =>
    held
      .filter(({ flags }) => flags.some((flag) => flag.rule === rule))
      .toSorted((one, other) => new Date(one.hold_until).getTime() - new Date(other.hold_until).getTime())
      .slice(0, 1)
      .map(({ commission_id: id }) => id)
  await decideReviews(
    byOwner,
    programId,
    oldestOf('paid_ads'),
    'released',
    'A reader pasted the address of our own ad.',
  )
  await decideReviews(byOwner, programId, oldestOf('self_referral'), 'rejected', 'You bought this yourself.')
}

/** Adds a manual commission and a deduction. */
export async function adjustBalances(
  byOwner: Database,
  programId: number,
  partnerIds: Record<string, number>,
): Promise<void> {
  const adjust = async (partner: string, amountCents: number, note: string) => {
    const adjustment = { partnerId: partnerIds[partner] ?? 0, amountCents, note }
    await createAdjustment(byOwner, programId, adjustment, crypto.randomUUID(), [])
  }
  await adjust('nora', 5000, 'For the video of our launch.')
  await adjust('build-weekly', -1200, 'The March ad was booked twice.')
}
