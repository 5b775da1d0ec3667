import { type InferResult, type NotNull, sql } from 'kysely'
import type { Database, Statement } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { type Action, may, type Role } from './roles.ts'
import { readSessionToken, type SessionEnv } from './sessions.ts'

/**
 * The signed-in person and their roles on a program. `program` is undefined if no program has the id. Its `createdAt` is the day of its
 * first event, if an archive brought its history.
 */
export interface Access {
  user: { id: string; name: string; email: string }
  program: { id: number; workspaceId: string; name: string; currency: string; createdAt: Date } | undefined
  /** The role of an active member in the workspace, and the role granted on this program. Empty for everybody else. */
  roles: Role[]
  /** True if the workspace requires two-factor codes and the person has none. The person has no roles until they set up the codes. */
  isLocked: boolean
  /** True if the operator blocks the program. */
  isBlocked: boolean
}

/**
 * Finds the signed-in person and their roles on a program, and runs `statements` in the same database request. Use their results only after
 * `requireAction`. Throws `unauthorized` without a valid session. A token without a valid signature never reaches the database. If the
 * program id in the request is invalid, pass undefined as `programId` and refuse the request afterwards. That way, only signed-in callers
 * learn the rules for ids.
 */
export async function findAccess<Row = never>(
  db: Database,
  env: SessionEnv,
  headers: Headers,
  programId: number | undefined,
  statements: Statement<Row>[] = [],
): Promise<{ access: Access; results: Row[][] }> {
  const token = await readSessionToken(headers, env.AUTH_SECRET)
  const [found, ...results] =
    token === undefined ? [[]] : await db.batch([accessStatement(token, programId), ...statements])
  const [row] = found
  if (!row) {
    throw new ApiError('unauthorized', 'Sign in first, and send the session token as Authorization: Bearer <token>.')
  }
  return { access: asAccess(row), results }
}

function accessStatement(token: string, programId: number | undefined) {
  return (
    kysely
      .selectFrom('sessions')
      .innerJoin('users', 'users.id', 'sessions.user_id')
      // No program has the id 0.
      .leftJoin('programs', (join) => join.on('programs.id', '=', programId ?? 0).on('programs.deleted_at', 'is', null))
      .leftJoin('program_roles', (join) =>
        join.onRef('program_roles.program_id', '=', 'programs.id').onRef('program_roles.user_id', '=', 'users.id'),
      )
      .select(['users.id as user_id', 'users.name as user_name', 'users.email as user_email'])
      .select(['programs.id as program_id', 'programs.workspace_id', 'programs.name as program_name'])
      .select('programs.currency')
      .select(sql<Date>`program_began(programs.id, programs.created_at)`.as('program_created_at'))
      .select(sql<boolean>`is_blocked(programs.id)`.as('is_blocked'))
      .select((eb) => [eb.ref('program_roles.roles').$castTo<Role[] | null>().as('roles'), 'program_roles.is_locked'])
      .where('sessions.token', '=', token)
      .where('sessions.expires_at', '>', sql<Date>`now()`)
      // These columns are null only if `program_id` is null.
      .$narrowType<{
        workspace_id: NotNull
        program_name: NotNull
        currency: NotNull
      }>()
  )
}

function asAccess(row: InferResult<ReturnType<typeof accessStatement>>[number]): Access {
  const { program_id: id, workspace_id: workspaceId, program_name: name, currency, program_created_at: createdAt } = row
  const isLocked = row.is_locked ?? false
  return {
    user: { id: row.user_id, name: row.user_name, email: row.user_email },
    program: id === null ? undefined : { id, workspaceId, name, currency, createdAt },
    isLocked,
    isBlocked: row.is_blocked,
    roles: isLocked ? [] : (row.roles ?? []),
  }
}

/** The refusal of every action on a program that the operator blocks. */
export const blockedProgram = () =>
  new ApiError('forbidden', 'The operator of this service has blocked this program. Ask them for the reason.')

/** Throws `not_found` if the program does not exist, and `forbidden` unless a role of the person allows `action`. */
export function requireAction(access: Access, action: Action): NonNullable<Access['program']> {
  if (!access.program) throw new ApiError('not_found', 'There is no program with this id. Check the id in the address.')
  if (access.isBlocked) throw blockedProgram()
  if (access.isLocked) {
    throw new ApiError('forbidden', 'This workspace requires two-factor codes. Set them up in your account first.')
  }
  if (access.roles.length === 0) {
    throw new ApiError(
      'forbidden',
      "You are not an active member of this program's workspace. Ask its owner to invite you.",
    )
  }
  if (!may(access.roles, action)) {
    throw new ApiError(
      'forbidden',
      `Your role does not allow ${action}. Ask an owner of the workspace for another role.`,
    )
  }
  return access.program
}
