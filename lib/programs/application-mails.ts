import { countAttempts, daySeconds } from '../access/attempts.ts'
import { readSender, type Sender } from '../brand.ts'
import type { Database } from '../database.ts'
import { chooseLanguage } from '../languages.ts'
import { mailBounds } from '../mail-bounds.ts'
import { type MailEnv, sendMail } from '../mail.ts'
import { terms } from '../retention.ts'
import { mails } from '../texts/messages/mails.ts'
import { createTexts, type Texts } from '../texts/texts.ts'

/** Mails to applicants, in their language. The wording is fixed, except for the program's name. */

export type ApplicationMailEnv = MailEnv & { BASE_URL: string }

interface Recipient {
  to: string
  programId: number
  programName: string
  /** The person's or the program's language. Null means English. */
  language: string | null
}

const textsFor = ({ language }: Pick<Recipient, 'language'>) => createTexts(mails, chooseLanguage([language]))

/** Sends paragraphs on behalf of the program. */
async function mailText(
  db: Database,
  env: ApplicationMailEnv,
  { t, language }: Texts<typeof mails>,
  { text, ...mail }: { to: string; sender: Sender | undefined; subject: string; text: string[] },
) {
  await sendMail(db, env, { ...mail, text: text.join('\n\n'), language, button: t('Open the page') })
}

/**
 * Mails the link that confirms an application within `confirmDays`. The link proves who reads the mailbox, so it never leads to a program's
 * own host, whose DNS the program controls.
 */
export async function mailConfirmation(db: Database, env: ApplicationMailEnv, recipient: Recipient, token: string) {
  const { to, programId, programName: name } = recipient
  const texts = textsFor(recipient)
  const { t } = texts
  await mailText(db, env, texts, {
    to,
    sender: await readSender(db, programId),
    subject: t('Confirm your application to {name}', { name }),
    text: [
      t(
        'Somebody, probably you, applied to become a partner of {name} with this address. Check the application and confirm it within {days} days:',
        { name, days: confirmDays },
      ),
      `${env.BASE_URL}/application?token=${token}`,
      t("If this wasn't you, you can ignore this e-mail. We don't keep an application that isn't confirmed."),
    ],
  })
}

/** The number of days within which an application must be confirmed. */
const confirmDays = Number.parseInt(terms.unconfirmed_applications)

/** Mails the reason why an application wasn't accepted. The page itself must not show strangers who is a partner. */
export async function mailOutcome(
  db: Database,
  env: ApplicationMailEnv,
  recipient: Recipient,
  standing: { outcome: string; againAt: Date | null },
) {
  const { to, programId, programName: name } = recipient
  const texts = textsFor(recipient)
  const { t, day } = texts
  const answer =
    standing.outcome === 'partner'
      ? t('You are already a partner of {name}. Sign in to see your links: {address}', {
          name,
          address: `${env.BASE_URL}/partner`,
        })
      : standing.outcome === 'waiting'
        ? t('Your earlier application to {name} is waiting for review. You will get an e-mail when it is approved.', {
            name,
          })
        : t('{name} did not accept your earlier application. You can apply again from {day} on.', {
            name,
            day: standing.againAt === null ? '' : day(standing.againAt),
          })
  await mailText(db, env, texts, {
    to,
    sender: await readSender(db, programId),
    subject: t('Your application to {name}', { name }),
    text: [
      t('Somebody, probably you, applied to become a partner of {name} with this address.', { name }),
      answer,
      t("If this wasn't you, you can ignore this e-mail. Nothing has changed."),
    ],
  })
}

interface Decided {
  application: { id: number; program_id: number; email: string | null; program_name: string; language: string | null }
  /** True if this call decided the application. */
  isFirst: boolean
  /** The token of the invitation. Undefined for applicants with an account, who become partners at once. */
  invitation: string | undefined
}

/**
 * Sends newly approved applicants a mail with their invitation link. A failed mail doesn't stop the others, because the program can
 * invite people again.
 */
export async function mailApprovals(db: Database, env: ApplicationMailEnv, approved: Decided[]): Promise<void> {
  const news = approved.filter(({ isFirst }) => isFirst)
  const allowed = await mailable(
    db,
    news.map(({ application }) => application),
  )
  const mailed = news.filter(({ application }) => allowed.has(application.id))
  // All applications of a bulk action have the same program, so its sender is read once.
  const programs = Map.groupBy(mailed, ({ application }) => application.program_id)
  await Promise.allSettled(
    Array.from(programs, async ([programId, decided]) => {
      const sender = await readSender(db, programId)
      await Promise.allSettled(decided.map((one) => mailApproval(db, env, one, sender)))
    }),
  )
}

const decisionKey = ({ id }: { id: number }) => `decision on application ${id}`

/** Counts a decision on each application, and returns the ids of those whose applicants may get a mail about it today. */
async function mailable(db: Database, applications: { id: number }[]): Promise<Set<number>> {
  const counts = await countAttempts(db, applications.map(decisionKey), daySeconds)
  const allowed = applications.filter(
    (one) => (counts.get(decisionKey(one)) ?? 0) <= mailBounds.decision.perApplication,
  )
  return new Set(allowed.map(({ id }) => id))
}

async function mailApproval(
  db: Database,
  env: ApplicationMailEnv,
  { application, invitation }: Decided,
  sender: Sender | undefined,
) {
  const { email: to, program_name: name } = application
  if (to === null) return
  const texts = textsFor(application)
  const { t } = texts
  const text =
    invitation === undefined
      ? [t('{name} approved your application. Here are your links:', { name }), `${env.BASE_URL}/partner/links`]
      : [
          t(
            '{name} approved your application. Accept the invitation within 14 days to get your links and see what you earn:',
            { name },
          ),
          `${env.BASE_URL}/partner-invitation?token=${invitation}`,
        ]
  await mailText(db, env, texts, { to, sender, subject: t('You are a partner of {name}', { name }), text })
}

/** Mails a rejection, without the program's reason. */
export async function mailRejection(db: Database, env: ApplicationMailEnv, application: Decided['application']) {
  const { program_id: programId, email: to, program_name: name } = application
  if (to === null || !(await mailable(db, [application])).has(application.id)) return
  const texts = textsFor(application)
  const { t } = texts
  await mailText(db, env, texts, {
    to,
    sender: await readSender(db, programId),
    subject: t('Your application to {name}', { name }),
    text: [
      t('{name} did not accept your application to become a partner. You can apply again after thirty days.', { name }),
      t('We will delete your application within a year.'),
    ],
  })
}
