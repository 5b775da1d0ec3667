import { expect } from 'vitest'
import type { SessionEnv } from '../../lib/access/sessions.ts'
import type { Database } from '../../lib/database.ts'
import { createPerson } from '../../lib/local/people.ts'
import { apply, confirmApplication, findApplication, listApplications } from '../../lib/programs/applications.ts'
import { changeJoinPage, type JoinPageChanges, readJoinPage } from '../../lib/programs/join-page.ts'
import { listPartners } from '../../lib/programs/partners.ts'
import { createProgram, programDefaults } from '../../lib/programs/programs.ts'
import { createWorkspace } from '../../lib/programs/workspaces.ts'

export const newEmail = () => `grace-${crypto.randomUUID()}@example.com`

/**
 * Programs with an open join page, and people who apply step by step. `joined-partner.ts` creates a joined partner with
 * the functions of any bundle.
 */
export function openJoinPages(db: Database, env: SessionEnv) {
  const person = (name = 'Grace') => createPerson(db, env, { name, email: newEmail() })

  /** Creates a program with an open join page. */
  async function joinable(changes: JoinPageChanges = {}) {
    const owner = await person('Owner')
    const workspaceId = await createWorkspace(db, { name: 'Analytical', ownerId: owner.userId })
    const programId = await createProgram(db, workspaceId, {
      ...programDefaults,
      name: 'Engine',
      domain: 'example.com',
    })
    const slug = `engine-${crypto.randomUUID().slice(0, 8)}`
    await changeJoinPage(db, programId, { slug, is_open: true, ...changes })
    const acting = db.actingAs(owner.userId)

    async function send(
      email: string,
      userId: string | null = null,
      more: { name?: string; version?: number; network?: string } = {},
    ) {
      const { version } = await readJoinPage(db, programId)
      const { name = 'Grace Hopper', version: seen = version, network } = more
      const answers = [{ question: 'Where?', answer: 'On my site' }]
      return await apply(db, { programId, userId, email, name, answers, seen: { version: seen }, network })
    }
    async function confirm(token: string) {
      const application = await findApplication(db, token)
      return application && (await confirmApplication(db, application))
    }
    /** Creates an application by a person without an account that waits for a decision. Returns its id. */
    async function waiting(email = newEmail()) {
      const { applicationId, token } = await send(email)
      expect(await confirm(token)).toMatchObject({ outcome: 'waiting', isFirst: true })
      return applicationId ?? 0
    }
    const partners = () => listPartners(db, programId, { limit: 50 })
    const states = async () => (await listApplications(db, programId, { limit: 50 })).map(({ status }) => status)
    return { owner, workspaceId, programId, slug, acting, send, confirm, waiting, partners, states }
  }

  return { person, joinable }
}
