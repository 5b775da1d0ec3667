import { openDatabase } from '../../../lib/database.ts'
import { ApiError } from '../../../lib/errors.ts'
import { sendSoon } from '../../../lib/notifications/outbox.ts'
import { mailApprovals } from '../../../lib/programs/application-mails.ts'
import { approveApplications } from '../../../lib/programs/applications.ts'
import type { ProgramContext } from '../components/page.ts'

/** Approves all of the applications or none, and mails the applicants. Returns the number of applications that were waiting. */
export async function approveAndMail(c: ProgramContext, ids: number[], groupId: number | null): Promise<number> {
  const { approved, outbox } = await approveApplications(c.get('db'), c.get('program').id, ids, groupId)
  c.executionCtx.waitUntil(mailApprovals(openDatabase(c.env), c.env, approved))
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  return approved.filter(({ isFirst }) => isFirst).length
}

/** Approves applications. Skips applications that cannot be approved. */
export async function approveSome(c: ProgramContext, ids: number[], groupId: number | null): Promise<number> {
  try {
    return await approveAndMail(c, ids, groupId)
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'conflict') throw error
    if (ids.length === 1) return 0
    let count = 0
    for (const id of ids) count += await approveSome(c, [id], groupId)
    return count
  }
}
