import type { Database } from '../database.ts'
import { type MailEnv, sendMail } from '../mail.ts'
import { readHost } from './hosts.ts'

/** Mails to applicants. Their wording is fixed, except for the program's name. */

export type ApplicationMailEnv = MailEnv & { BASE_URL: string }

interface Recipient {
  to: string
  programName: string
}

/** Sends paragraphs with the program as the sender. */
async function mailText(
  db: Database,
  env: ApplicationMailEnv,
  mail: { to: string; programName: string; subject: string; text: string[] },
) {
  const { to, programName, subject, text } = mail
  await sendMail(db, env, { to, subject, text: text.join('\n\n'), sender: programName })
}

const notYou = "If this wasn't you, you can ignore this e-mail. We don't keep an application that isn't confirmed."

/** Mails the link that confirms an application within `confirmDays`. It leads to the program's own host if it has a verified one. */
export async function mailConfirmation(
  db: Database,
  env: ApplicationMailEnv,
  { to, programId, programName }: Recipient & { programId: number },
  token: string,
) {
  const host = await readHost(db, programId)
  const origin = host?.verified_at ? `https://${host.host}` : env.BASE_URL
  await mailText(db, env, {
    to,
    programName,
    subject: `Confirm your application to ${programName}`,
    text: [
      `Somebody, probably you, applied to become a partner of ${programName} with this address. Check the application and confirm it within ${confirmDays} days:`,
      `${origin}/application?token=${token}`,
      notYou,
    ],
  })
}

/** The number of days to confirm an application. `application_confirmed_within()` in the database has the same value. */
const confirmDays = 7

/** Mails the reason why an application was not accepted. The page itself must not reveal to strangers who is a partner. */
export async function mailOutcome(
  db: Database,
  env: ApplicationMailEnv,
  { to, programName }: Recipient,
  standing: { outcome: string; againAt: Date | null },
) {
  const answer =
    standing.outcome === 'partner'
      ? `You are already a partner of ${programName}. Sign in to see your links: ${env.BASE_URL}/partner`
      : standing.outcome === 'waiting'
        ? `Your earlier application to ${programName} is waiting for review. You will get an e-mail when it is approved.`
        : `${programName} did not accept your earlier application. You can apply again from ${standing.againAt?.toISOString().slice(0, 10)} on.`
  await mailText(db, env, {
    to,
    programName,
    subject: `Your application to ${programName}`,
    text: [
      `Somebody, probably you, applied to become a partner of ${programName} with this address.`,
      answer,
      "If this wasn't you, you can ignore this e-mail. Nothing has changed.",
    ],
  })
}

interface Decided {
  application: { email: string | null; program_name: string }
  /** True if this call decided the application. */
  isFirst: boolean
  /** The token of the invitation. Undefined for applicants with an account, who become partners at once. */
  invitation: string | undefined
}

/** Mails newly approved applicants, with the link of their invitation. A failed mail does not stop the others: the program can invite again. */
export async function mailApprovals(db: Database, env: ApplicationMailEnv, approved: Decided[]): Promise<void> {
  const news = approved.filter(({ isFirst }) => isFirst)
  await Promise.allSettled(news.map((one) => mailApproval(db, env, one)))
}

async function mailApproval(db: Database, env: ApplicationMailEnv, { application, invitation }: Decided) {
  const { email: to, program_name: programName } = application
  if (to === null) return
  const text =
    invitation === undefined
      ? [`${programName} approved your application. Here are your links:`, `${env.BASE_URL}/partner/links`]
      : [
          `${programName} approved your application. Accept the invitation within 14 days to get your links and see what you earn:`,
          `${env.BASE_URL}/partner-invitation?token=${invitation}`,
        ]
  await mailText(db, env, { to, programName, subject: `You are a partner of ${programName}`, text })
}

/** Mails a rejection. The reason stays with the program. */
export async function mailRejection(db: Database, env: ApplicationMailEnv, application: Decided['application']) {
  const { email: to, program_name: programName } = application
  if (to === null) return
  await mailText(db, env, {
    to,
    programName,
    subject: `Your application to ${programName}`,
    text: [
      `${programName} did not accept your application to become a partner. You can apply again after thirty days.`,
      'We will delete your application within a year.',
    ],
  })
}
