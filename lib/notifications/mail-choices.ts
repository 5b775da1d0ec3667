import { sign, verify } from 'hono/jwt'
import * as z from 'zod/mini'
import { mailboxOf } from '../access/mailbox.ts'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { failingDays } from './failing-days.ts'

/** Topics of notification mails. `mail_topic_of` in migrations/functions/1_base/notifications.sql maps kinds of notifications to topics. */
export const mailTopics = [
  'earned',
  'reversed',
  'paid',
  'statement',
  'message',
  'application',
  'payout_due',
  'review',
  'trouble',
  'postback',
] as const
export type MailTopic = (typeof mailTopics)[number]

export const mailFrequencies = ['at_once', 'daily', 'never'] as const
export type MailFrequency = (typeof mailFrequencies)[number]

interface TopicWords {
  name: string
  hint: string
  /** The subject line of a mail. */
  subject: string
  reader: 'partner' | 'advertiser'
}

/** The texts of the topics. */
export const topicWords: Record<MailTopic, TopicWords> = {
  earned: {
    name: 'Commissions earned',
    hint: 'Once a day: the commissions of the previous day.',
    subject: 'You earned a commission',
    reader: 'partner',
  },
  reversed: {
    name: 'Reversals and deductions',
    hint: 'A sale was refunded, charged back or corrected, or a program deducted an amount.',
    subject: 'Your earnings were corrected',
    reader: 'partner',
  },
  paid: { name: 'Payouts', hint: 'You were paid, or a payout was refused.', subject: 'Your payout', reader: 'partner' },
  statement: {
    name: 'Monthly statements',
    hint: 'At the start of a month: the statement of the previous month.',
    subject: 'Your monthly statement',
    reader: 'partner',
  },
  message: {
    name: 'Messages',
    hint: 'A program writes to all of its partners.',
    subject: 'A message to partners',
    reader: 'partner',
  },
  application: {
    name: 'Applications',
    hint: 'Somebody wants to become a partner.',
    subject: 'Somebody applied to become a partner',
    reader: 'advertiser',
  },
  payout_due: {
    name: 'Payouts due',
    hint: 'Once a week, if payouts are due.',
    subject: 'Payouts are due',
    reader: 'advertiser',
  },
  review: {
    name: 'Manual reviews',
    hint: 'Something needs your decision.',
    subject: 'A review is needed',
    reader: 'advertiser',
  },
  trouble: {
    name: 'Lost connections',
    hint: 'Stripe was disconnected, or webhooks were disabled.',
    subject: 'A connection was lost',
    reader: 'advertiser',
  },
  postback: {
    name: 'Postbacks',
    hint: `Your postbacks to an address were disabled after ${failingDays} days of failures.`,
    subject: 'Your postbacks were disabled',
    reader: 'partner',
  },
}

export type MailChoices = Record<MailTopic, MailFrequency>

const choiceRows = z.array(z.object({ topic: z.enum(mailTopics), frequency: z.enum(mailFrequencies) }))

/** Reads a person's mail choices, and whether mail to their address bounced. */
export async function readMailChoices(db: Database, userId: string) {
  const [rows, refused] = await db.batch([
    call('mail_choices_of', { of_user_id: userId }),
    kysely
      .selectFrom('refused_addresses as a')
      .innerJoin('users as u', 'u.email', 'a.email')
      .select(['a.reason', 'a.refused_at'])
      .where('u.id', '=', userId),
  ])
  return { choices: z.parse(choiceRows, rows), refused: refused[0] }
}

/** Saves a person's mail choices and drops waiting mails of disabled topics. Does nothing for erased accounts. */
export async function saveMailChoices(db: Database, userId: string, choices: Partial<MailChoices>): Promise<void> {
  const chosen = Object.entries(choices).filter(([, frequency]) => frequency !== undefined)
  await db.query(
    call('save_mail_choices', {
      of_user_id: userId,
      topics: chosen.map(([topic]) => topic),
      frequencies: chosen.map(([, frequency]) => frequency),
    }),
  )
}

/** Allows notification mails again for an address that refused them. */
export async function retryAddress(db: Database, userId: string): Promise<void> {
  await db.query(
    kysely
      .deleteFrom('refused_addresses')
      .where('email', '=', kysely.selectFrom('users').select('email').where('id', '=', userId)),
  )
}

/**
 * Stops notification mails to an address after a bounce or a complaint. Stores only addresses of people with an account, and of paid
 * partners.
 */
export async function refuseAddress(db: Database, email: string, reason: 'bounced' | 'complained'): Promise<void> {
  const counted = `payouts to ${mailboxOf(email)}`
  await db.query(
    kysely
      .insertInto('refused_addresses')
      .columns(['email', 'reason'])
      .expression(
        kysely
          .selectNoFrom((eb) => [eb.val(email.toLowerCase()).as('email'), eb.val(reason).as('reason')])
          .where((eb) =>
            eb.or([
              eb.exists(eb.selectFrom('users').select('id').where('email', '=', email.toLowerCase())),
              eb.exists(eb.selectFrom('mail_counts').select('day').where('counted', '=', counted)),
            ]),
          ),
      )
      .onConflict((oc) => oc.column('email').doNothing()),
  )
}

/** Stops all mail about payouts to an address without an account. */
export async function stopPayeeMails(db: Database, email: string): Promise<void> {
  await db.query(
    kysely
      .insertInto('refused_addresses')
      .values({ email: email.toLowerCase(), reason: 'unsubscribed' })
      .onConflict((oc) => oc.column('email').doNothing()),
  )
}

/** The mails that a link stops: some topics of a person, or all mail to an address without an account. */
type Unsubscription = ({ userId: string; topics: MailTopic[] } | { email: string }) & {
  /** The language of the mail. Undefined in mails to members of a workspace. */
  language?: string | undefined
}

const language = z.optional(z.string())
const claims = z.union([
  z.object({ sub: z.string(), topics: z.array(z.enum(mailTopics)), language }),
  z.object({ email: z.string(), language }),
])

/** This is a separate secret, so that nobody can use a mail token as another token of the service, or the other way around. */
const keyOf = ({ AUTH_SECRET }: { AUTH_SECRET: string }) => `stop mails:${AUTH_SECRET}`

/** Creates the token of an unsubscribe link. It never expires, like the mail itself. */
export async function unsubscribeToken(env: { AUTH_SECRET: string }, of: Unsubscription) {
  const claim = 'email' in of ? of : { sub: of.userId, topics: of.topics, language: of.language }
  return await sign(claim, keyOf(env), 'HS256')
}

/** Reads the mails of an unsubscribe link. Throws `invalid_request` if the token is not from this service. */
export async function readUnsubscription(env: { AUTH_SECRET: string }, token: string): Promise<Unsubscription> {
  try {
    const claim = z.parse(claims, await verify(token, keyOf(env), 'HS256'))
    return 'email' in claim ? claim : { userId: claim.sub, topics: claim.topics, language: claim.language }
  } catch {
    throw new ApiError(
      'invalid_request',
      'This link is incomplete. Sign in and choose your e-mails on your account page.',
    )
  }
}
