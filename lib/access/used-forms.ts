import { type Database, type SentForm, violatedConstraint } from '../database.ts'
import { kysely } from '../kysely.ts'

/** Whether a statement of `Database.actingAs` was refused because its form was sent before. */
export function isUsedForm(error: unknown): boolean {
  return violatedConstraint(error) === 'used_forms_pkey'
}

/** Keeps where the answer to a form led, for those who send it again. */
export async function keepAnswer(db: Database, form: SentForm, location: string): Promise<void> {
  await db.query(
    kysely
      .updateTable('used_forms')
      .set({ location })
      .where('token', '=', form.token)
      .where('request_id', '=', form.requestId),
  )
}

/** Lets a form be sent again, where this request took it and refused it. */
export async function releaseForm(db: Database, form: SentForm): Promise<void> {
  await db.query(
    kysely.deleteFrom('used_forms').where('token', '=', form.token).where('request_id', '=', form.requestId),
  )
}

const answersWithinMilliseconds = 5000
const attemptsEveryMilliseconds = 200

/** Where the answer to the first sending of a form led its user; it is waited for. Undefined where it does not come. */
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
