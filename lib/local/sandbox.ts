import { sql } from 'kysely'
import type { SessionEnv } from '../access.ts'
import { generateApiKey } from '../api-keys.ts'
import type { Database } from '../database.ts'
import { addPartner } from '../partners.ts'
import { createProgram, programDefaults, type ProgramSettings } from '../programs.ts'
import { createWorkspace } from '../workspaces.ts'
import { addMember, createPerson, tiePartner } from './people.ts'

export interface Sandbox {
  programId: number
  workspaceId: string
  apiKey: string
  partnerCode: string
  partnerId: number
  /** Sessions of: the workspace's owner, a member without `tracking:list`, the owner of another workspace, the partner. */
  dashboardToken: string
  billingToken: string
  outsiderToken: string
  partnerToken: string
  connectedAccountId: string
}

/**
 * Makes a workspace of its own with a program, an API key, a connected processor account and one partner with a link, and people
 * to call it as. Nothing of it touches another workspace.
 */
export async function createSandbox(
  db: Database,
  env: SessionEnv,
  settings: Partial<ProgramSettings> = {},
): Promise<Sandbox> {
  const tag = crypto.randomUUID().slice(0, 8)
  const person = (name: string) => createPerson(db, env, { name, email: `${name.toLowerCase()}-${tag}@example.com` })
  const [owner, billing, outsider, partnerUser] = await Promise.all([
    person('Owner'),
    person('Billing'),
    person('Outsider'),
    person('Partner'),
  ])
  const workspaceId = await createWorkspace(db, { name: `Sandbox ${tag}`, ownerId: owner.userId })
  await createWorkspace(db, { name: `Other ${tag}`, ownerId: outsider.userId })
  await addMember(db, workspaceId, billing.userId, 'billing')

  const connectedAccountId = `acct_${tag}`
  const programId = await createProgram(db, workspaceId, {
    ...programDefaults,
    name: `Sandbox program ${tag}`,
    domain: 'shop.example.com',
    ...settings,
  })
  await db.query(sql`update programs set processor_account_id = ${connectedAccountId} where id = ${programId}`)
  const { key, keyHash, hint } = await generateApiKey()
  await db.query(
    sql`insert into api_keys (program_id, key_hash, hint) values (${programId}, decode(${keyHash}, 'hex'), ${hint})`,
  )
  const { partnerId, code } = await addPartner(db, {
    programId,
    name: 'Partner',
    email: partnerUser.email,
    code: `partner-${tag}`,
  })
  await tiePartner(db, partnerId, partnerUser.userId)
  return {
    programId,
    workspaceId,
    apiKey: key,
    partnerCode: code,
    partnerId,
    dashboardToken: owner.token,
    billingToken: billing.token,
    outsiderToken: outsider.token,
    partnerToken: partnerUser.token,
    connectedAccountId,
  }
}
