import { sign, verify } from 'hono/jwt'
import * as z from 'zod/mini'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'

/** What people choose to be mailed about; which kind of notification is of which topic says `mail_topic_of` in migrations/functions/1_base/notifications.sql. */
export const mailTopics = ['earned', 'reversed', 'paid', 'application', 'payout_due', 'review', 'trouble'] as const
export type MailTopic = (typeof mailTopics)[number]

export const mailFrequencies = ['at_once', 'daily', 'never'] as const
export type MailFrequency = (typeof mailFrequencies)[number]

interface TopicWords {
  name: string
  hint: string
  /** What stands in the subject of a mail. */
  subject: string
  reader: 'partner' | 'advertiser'
}

/** What people read of the topics. */
export const topicWords: Record<MailTopic, TopicWords> = {
  earned: {
    name: 'Commissions earned',
    hint: 'Once a day: what the day before brought.',
    subject: 'You earned a commission',
    reader: 'partner',
  },
  reversed: {
    name: 'Commissions reversed',
    hint: 'A sale was refunded, charged back or corrected.',
    subject: 'A commission was reversed',
    reader: 'partner',
  },
  paid: { name: 'Payouts', hint: 'You were paid, or a payout was refused.', subject: 'Your payout', reader: 'partner' },
  application: {
    name: 'Applications',
    hint: 'Somebody wants to be a partner.',
    subject: 'Somebody applied to be a partner',
    reader: 'advertiser',
  },
  payout_due: {
    name: 'Payouts due',
    hint: 'Once a week, where partners are to be paid.',
    subject: 'Payouts are due',
    reader: 'advertiser',
  },
  review: {
    name: 'Reviews by hand',
    hint: 'Something that only a person can decide.',
    subject: 'A review is needed',
    reader: 'advertiser',
  },
  trouble: {
    name: 'Lost connections',
    hint: 'Stripe was disconnected, or webhooks were disabled.',
    subject: 'A connection was lost',
    reader: 'advertiser',
  },
}

export type MailChoices = Record<MailTopic, MailFrequency>

const choiceRows = z.array(z.object({ topic: z.enum(mailTopics), frequency: z.enum(mailFrequencies) }))

/** What a person is mailed about and how soon; and whether mail to their address came back. */
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

/** Keeps what a person chose; of somebody who is gone nothing. What waits of a topic that they want no more is not mailed. */
export async function saveMailChoices(db: Database, userId: string, choices: Partial<MailChoices>): Promise<void> {
  const given = Object.entries(choices).filter(([, frequency]) => frequency !== undefined)
  await db.query(
    call('save_mail_choices', {
      of_user_id: userId,
      topics: given.map(([topic]) => topic),
      frequencies: given.map(([, frequency]) => frequency),
    }),
  )
}

/** Has notifications mailed again to an address that refused them. */
export async function retryAddress(db: Database, userId: string): Promise<void> {
  await db.query(
    kysely
      .deleteFrom('refused_addresses')
      .where('email', '=', kysely.selectFrom('users').select('email').where('id', '=', userId)),
  )
}

/** Mails no notification more to an address, for a reason that its mail server or its person gave. One that is nobody's is not kept. */
export async function refuseAddress(db: Database, email: string, reason: 'bounced' | 'complained'): Promise<void> {
  await db.query(
    kysely
      .insertInto('refused_addresses')
      .columns(['email', 'reason'])
      .expression(
        kysely
          .selectFrom('users')
          .select((eb) => ['email', eb.val(reason).as('reason')])
          .where('email', '=', email.toLowerCase()),
      )
      .onConflict((oc) => oc.column('email').doNothing()),
  )
}

interface Unsubscription {
  userId: string
  topics: MailTopic[]
}

const claims = z.object({ sub: z.string(), topics: z.array(z.enum(mailTopics)) })

/** A secret of its own, so that no other token of the service stops mails, and this one does nothing else. */
const keyOf = ({ AUTH_SECRET }: { AUTH_SECRET: string }) => `stop mails:${AUTH_SECRET}`

/** What the link of a mail carries that stops mails like it. It has no end, as mails have none. */
export async function unsubscribeToken(env: { AUTH_SECRET: string }, { userId, topics }: Unsubscription) {
  return await sign({ sub: userId, topics }, keyOf(env), 'HS256')
}

/** Whose mails a link stops, and which. Throws `invalid_request` for what is none of this service's. */
export async function readUnsubscription(env: { AUTH_SECRET: string }, token: string): Promise<Unsubscription> {
  try {
    const { sub, topics } = z.parse(claims, await verify(token, keyOf(env), 'HS256'))
    return { userId: sub, topics }
  } catch {
    throw new ApiError(
      'invalid_request',
      'This link is not whole. Sign in and choose under Account what you are mailed.',
    )
  }
}
