import type pg from 'pg'
import type { Database } from '../../lib/database.ts'
import type * as applications from '../../lib/programs/applications.ts'
import type { changeJoinPage } from '../../lib/programs/join-page.ts'

/** The service's functions for joining, from `lib/` or from a bundle with a mistake. */
export interface JoinVerbs {
  changeJoinPage: typeof changeJoinPage
  apply: typeof applications.apply
  listApplications: typeof applications.listApplications
  approveApplications: typeof applications.approveApplications
}

export interface JoinedPartner {
  partnerId: number
  /** The code of the new partner's link. */
  code: string
}

/** Creates an account with its own verified address. */
export async function addAccount(client: Pick<pg.Pool, 'query'>, name: string): Promise<{ id: string; email: string }> {
  const id = crypto.randomUUID()
  const email = `${id}@example.com`
  await client.query('insert into users (id, name, email, email_verified) values ($1, $2, $3, true)', [id, name, email])
  return { id, email }
}

/** Gives a program's workspace an owner with a verified address. Without one, its join page can't be opened. */
export async function addOwner(client: Pick<pg.Pool, 'query'>, programId: number): Promise<void> {
  const { id } = await addAccount(client, 'Owner')
  await client.query(
    `insert into workspace_members (workspace_id, user_id, role) select workspace_id, $2, 'owner' from programs where id = $1`,
    [programId, id],
  )
}

/**
 * Applies on a program's join page for a person with an account, and approves the application, into `group` if it is given. Repeating any
 * step returns the same partner.
 */
export async function join(
  verbs: JoinVerbs,
  db: Database,
  programId: number,
  { account, name, groupId }: { account: { id: string; email: string }; name: string; groupId: number | null },
): Promise<void> {
  const { version } = await verbs.changeJoinPage(db, programId, { is_open: true })
  const application = { programId, userId: account.id, email: account.email, name, answers: [], seen: { version } }
  const { outcome } = await verbs.apply(db, application)
  if (!['waiting', 'partner'].includes(outcome)) throw new Error(`An application got the answer ${outcome}.`)
  const [sent] = await verbs.listApplications(db, programId, { limit: 1, email: account.email })
  if (!sent) throw new Error('A waiting application is missing from the list.')
  await verbs.approveApplications(db, programId, [sent.id], groupId)
}

/**
 * Returns the partner of an application. Throws if there are none or several. `look` can repeat a query if the database
 * was down.
 */
export async function findJoined(
  client: Pick<pg.Pool, 'query'>,
  programId: number,
  account: { id: string },
  look: <Result>(read: () => Promise<Result>) => Promise<Result> = (read) => read(),
): Promise<JoinedPartner> {
  const { rows } = await look(() =>
    client.query<{ id: string; code: string }>(
      `select r.id, l.code from partners r join referral_links l on l.program_id = r.program_id and l.partner_id = r.id
      where r.program_id = $1 and r.user_id = $2`,
      [programId, account.id],
    ),
  )
  const [row] = rows
  if (!row || rows.length > 1) throw new Error(`A joined partner has ${rows.length} links.`)
  return { partnerId: Number(row.id), code: row.code }
}
