import type { Database } from '../database.ts'
import { type MailEnv, pageOfText, sendMail } from '../mail.ts'

/** What applicants are mailed: fixed words, and of what people typed the name of the program alone. */

export type ApplicationMailEnv = MailEnv & { BASE_URL: string }

interface Recipient {
  to: string
  programName: string
}

/** Sends paragraphs of text, as HTML too. */
async function mailText(db: Database, env: ApplicationMailEnv, mail: { to: string; subject: string; text: string[] }) {
  const { subject, text } = mail
  await sendMail(db, env, { ...mail, text: text.join('\n\n'), html: await pageOfText(subject, text, env.BASE_URL) })
}

const notYou = 'If it was not you, do nothing: without this link nothing is kept.'

/** The link by which somebody confirms that they applied; `confirmDays` says for how long. */
export async function mailConfirmation(
  db: Database,
  env: ApplicationMailEnv,
  { to, programName }: Recipient,
  token: string,
) {
  await mailText(db, env, {
    to,
    subject: `Confirm your application to ${programName}`,
    text: [
      `Somebody, probably you, applied to be a partner of ${programName} with this address. Read what was sent and confirm it within ${confirmDays} days:`,
      `${env.BASE_URL}/application?token=${token}`,
      notYou,
    ],
  })
}

/** How long an application waits to be confirmed; application_confirmed_within() in the database says the same. */
const confirmDays = 7

/** Why an application was not taken. It goes by mail, since the page must not tell strangers who is whose partner. */
export async function mailStanding(
  db: Database,
  env: ApplicationMailEnv,
  { to, programName }: Recipient,
  standing: { outcome: string; againAt: Date | null },
) {
  const said =
    standing.outcome === 'partner'
      ? `You are a partner of ${programName} already. Sign in to see your links: ${env.BASE_URL}/partner`
      : standing.outcome === 'waiting'
        ? `Your earlier application to ${programName} waits to be looked at. You are mailed once it is approved.`
        : `${programName} did not take your earlier application. You can apply again from ${standing.againAt?.toISOString().slice(0, 10)} on.`
  await mailText(db, env, {
    to,
    subject: `Your application to ${programName}`,
    text: [
      `Somebody, probably you, applied to be a partner of ${programName} with this address.`,
      said,
      'If it was not you, do nothing: nothing has changed.',
    ],
  })
}

interface Decided {
  application: { email: string | null; program_name: string }
  /** Whether this is news. */
  isFirst: boolean
  /** The token of the invitation; undefined where they applied with an account, by which they are a partner at once. */
  invitation: string | undefined
}

/** Tells those whose applications were approved just now, with the link of the invitation. A mail that fails stops no other: the program can invite again. */
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
          `${programName} approved your application. Accept within 14 days to get your links and see what you earn:`,
          `${env.BASE_URL}/partner-invitation?token=${invitation}`,
        ]
  await mailText(db, env, { to, subject: `You are a partner of ${programName}`, text })
}

/** That an application was rejected. Why is the program's own. */
export async function mailRejection(db: Database, env: ApplicationMailEnv, application: Decided['application']) {
  const { email: to, program_name: programName } = application
  if (to === null) return
  await mailText(db, env, {
    to,
    subject: `Your application to ${programName}`,
    text: [
      `${programName} did not take your application to be a partner. You can apply again after thirty days.`,
      'What you sent is deleted after a year at the latest.',
    ],
  })
}
