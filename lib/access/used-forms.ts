import { type Database, type SentForm, violatedConstraint } from '../database.ts'
import { kysely } from '../kysely.ts'

/** Returns true if a statement of `Database.actingAs` failed because its form was already sent. */
export function isUsedForm(error: unknown): boolean {
  return violatedConstraint(error) === 'used_forms_pkey'
}

const mostLocationCharacters = 500

/** Stores the address to which a form redirects, for repeated submissions. Stores `/` instead of a very long one. */
export async function keepAnswer(db: Database, form: SentForm, answered: string): Promise<void> {
  const location = answered.length > mostLocationCharacters ? '/' : answered
  await db.query(
    kysely
      .updateTable('used_forms')
      .set({ location })
      .where('token', '=', form.token)
      .where('request_id', '=', form.requestId),
  )
}

/** Allows another submission of a form that this request claimed and then refused. */
export async function releaseForm(db: Database, form: SentForm): Promise<void> {
  await db.query(
    kysely.deleteFrom('used_forms').where('token', '=', form.token).where('request_id', '=', form.requestId),
  )
}

const answersWithinMilliseconds = 5000
const attemptsEveryMilliseconds = 200

/** Waits for the redirect of a form's first submission. Returns undefined if there is none within five seconds. */
export async function answerOf(db: Database, userId: string | null, token: string): Promise<string | undefined> {
  for (let waited = 0; waited <= answersWithinMilliseconds; waited += attemptsEveryMilliseconds) {
    const [form] = await db.query(
      kysely.selectFrom('used_forms').select(['user_id', 'location']).where('token', '=', token),
    )
    if (!form || form.user_id !== userId) return undefined
    if (form.location !== null) return form.location
    await new Promise((resolve) => setTimeout(resolve, attemptsEveryMilliseconds))
  }
  return undefined
}
