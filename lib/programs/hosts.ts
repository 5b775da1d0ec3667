import { sql } from 'kysely'
import * as z from 'zod/mini'
import { countAttempts, daySeconds } from '../access/attempts.ts'
import { refuse } from '../constraints.ts'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import type { AddressEnv } from '../notifications/public-address.ts'
import { findsProof } from './domain-proof.ts'
import { programSettings } from './programs.ts'

/** The host of a program's own domain that shows its join page, such as partners.example.com. */

const hostRule = 'Enter a host of your domain, for example partners.example.com.'

/** Accepts names with at least two parts, but no IP addresses, whose last part is a number. */
export const programHost = z.pipe(
  programSettings.shape.domain,
  z.string().check(z.maxLength(253, hostRule), z.regex(/^([a-z0-9-]+\.)+[a-z][a-z0-9-]*$/, hostRule)),
)

/** Returns whether a host is the service's own, or above or below it in the DNS. Programs can't use such hosts. */
export function isNearService(host: string, baseUrl: string): boolean {
  const own = new URL(baseUrl).hostname
  return host === own || host.endsWith(`.${own}`) || own.endsWith(`.${host}`)
}

/** Reads a program's host, verified or not. */
export async function readHost(db: Database, programId: number) {
  const [row] = await db.query(
    kysely
      .selectFrom('program_hosts')
      .select(['host', 'verified_at', 'missing_since'])
      .where('program_id', '=', programId),
  )
  return row
}

const mostHostsPerDay = 10

/**
 * Counts a host that a workspace sets, because one box gets a certificate for each, and the issuer limits their number. Throws
 * `rate_limited` after 10 hosts in a day.
 */
export async function countHost(db: Database, workspaceId: string): Promise<void> {
  const key = `hosts of workspace ${workspaceId}`
  if (((await countAttempts(db, [key], daySeconds)).get(key) ?? 0) <= mostHostsPerDay) return
  throw new ApiError('rate_limited', `A workspace can set ${mostHostsPerDay} domains a day. Set this one tomorrow.`)
}

/** Sets a program's host. A new host is unverified at first. */
export async function setHost(db: Database, programId: number, host: string): Promise<void> {
  await db.query(
    kysely
      .insertInto('program_hosts')
      .values({ program_id: programId, host })
      .onConflict((conflict) =>
        conflict
          .column('program_id')
          .doUpdateSet({ host, verified_at: null, checked_at: null, missing_since: null })
          .where('program_hosts.host', '<>', host),
      ),
  )
}

export async function removeHost(db: Database, programId: number): Promise<void> {
  await db.query(kysely.deleteFrom('program_hosts').where('program_id', '=', programId))
}

/**
 * Looks for the DNS record of a program's host, and verifies the host if the record belongs to the program. Returns whether it belongs to
 * the program. Throws `conflict` if another program has verified the host, and an error if the name service does not respond.
 */
export async function verifyHost(db: Database, env: AddressEnv, programId: number, host: string): Promise<boolean> {
  if (!(await findsProof(env, programId, host))) return false
  await db
    .query(
      kysely
        .updateTable('program_hosts')
        .set({ verified_at: sql<Date>`coalesce(verified_at, now())`, checked_at: now, missing_since: null })
        .where('program_id', '=', programId)
        .where('host', '=', host),
    )
    .catch(refuse)
  return true
}

/** Selects the verified hosts of programs that aren't deleted. */
const verifiedHosts = () =>
  kysely
    .selectFrom('program_hosts as h')
    .innerJoin('programs as g', 'g.id', 'h.program_id')
    .where('h.verified_at', 'is not', null)
    .where('g.deleted_at', 'is', null)

/** Finds the program that verified a host. `slug` is null if its join page is closed. */
export async function findProgramOfHost(db: Database, host: string) {
  const [found] = await db.query(
    verifiedHosts()
      .leftJoin('join_pages as j', (join) => join.onRef('j.program_id', '=', 'g.id').on('j.is_open', '=', true))
      .select(['h.program_id', 'h.host', 'j.slug'])
      .where('h.host', '=', host),
  )
  return found
}
export type ProgramOfHost = NonNullable<Awaited<ReturnType<typeof findProgramOfHost>>>

/** Reads the hosts of all programs that verified one. */
export async function readVerifiedHosts(db: Database): Promise<Set<string>> {
  const rows = await db.query(verifiedHosts().select('h.host'))
  return new Set(rows.map(({ host }) => host))
}

/** The number of hosts that one run checks. A Worker can send 1,000 requests. */
const hostsOfRun = 500
const concurrentChecks = 10

/**
 * Looks for the DNS records of the verified hosts, least recently checked first. Disables a host after four daily checks without its record.
 * Skips a host if the name service does not respond. Returns the number of disabled hosts.
 */
export async function checkHosts(db: Database, env: AddressEnv): Promise<number> {
  const due = await db.query(
    kysely
      .selectFrom('program_hosts')
      .select(['program_id', 'host'])
      .where('verified_at', 'is not', null)
      .orderBy(sql`checked_at nulls first`)
      .limit(hostsOfRun),
  )
  const [found, missing]: [number[], number[]] = [[], []]
  for (let at = 0; at < due.length; at += concurrentChecks) {
    const checks = due.slice(at, at + concurrentChecks).map(async ({ program_id: programId, host }) => {
      const isFound = await findsProof(env, programId, host).catch(() => undefined)
      if (isFound !== undefined) (isFound ? found : missing).push(programId)
    })
    await Promise.all(checks)
  }
  if (found.length + missing.length === 0) return 0
  return (await db.query(call('record_host_checks', { found_programs: found, missing_programs: missing }))).length
}
