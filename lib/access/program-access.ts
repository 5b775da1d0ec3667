import { type InferResult, type NotNull, sql } from 'kysely'
import type { Database, Statement } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { type Action, may, type Role } from './roles.ts'
import { readSessionToken, type SessionEnv } from './sessions.ts'

/** Who asks, and what stands between them and a program. `program` is undefined where no program has that id. */
export interface Access {
  user: { id: string; name: string; email: string }
  program: { id: number; workspaceId: string; name: string; currency: string; createdAt: Date } | undefined
  /** The active member's role in the program's workspace and the one the program was opened with; else empty. */
  roles: Role[]
  /** Whether the workspace demands two-factor codes that the person lacks; they hold nothing on it then. */
  isLocked: boolean
}

/**
 * Finds who sent a request and what they hold on a program, and reads `statements` in the same database request. What those
 * answer is for the caller to give only after `requireAction`. Throws `unauthorized` where there is no session: none sent,
 * forged, expired, signed out, or an API key; what is not signed asks the database nothing. `programId` may be undefined where the one
 * sent was not a positive integer: refuse that after this, so that nobody without a session learns what an address takes.
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
      .leftJoin('workspaces', 'workspaces.id', 'programs.workspace_id')
      .leftJoin('workspace_members', (join) =>
        join
          .onRef('workspace_members.workspace_id', '=', 'programs.workspace_id')
          .onRef('workspace_members.user_id', '=', 'users.id')
          .on('workspace_members.removed_at', 'is', null),
      )
      .leftJoin('program_members', (join) =>
        join.onRef('program_members.program_id', '=', 'programs.id').onRef('program_members.user_id', '=', 'users.id'),
      )
      .select(['users.id as user_id', 'users.name as user_name', 'users.email as user_email'])
      .select(['programs.id as program_id', 'programs.workspace_id', 'programs.name as program_name'])
      .select(['programs.currency', 'programs.created_at as program_created_at'])
      .select(['workspace_members.role as workspace_role', 'program_members.role as program_role'])
      .select(['users.two_factor_enabled', 'workspaces.requires_two_factor'])
      .where('sessions.token', '=', token)
      .where('sessions.expires_at', '>', sql<Date>`now()`)
      // They are null only where `program_id` is.
      .$narrowType<{
        workspace_id: NotNull
        program_name: NotNull
        currency: NotNull
        program_created_at: NotNull
      }>()
  )
}

function asAccess(row: InferResult<ReturnType<typeof accessStatement>>[number]): Access {
  const { program_id: id, workspace_id: workspaceId, program_name: name, currency, program_created_at: createdAt } = row
  const isLocked = row.workspace_role !== null && row.requires_two_factor === true && !row.two_factor_enabled
  return {
    user: { id: row.user_id, name: row.user_name, email: row.user_email },
    program: id === null ? undefined : { id, workspaceId, name, currency, createdAt },
    isLocked,
    // A program's own grant counts only for an active member of its workspace.
    roles:
      row.workspace_role === null || isLocked
        ? []
        : [row.workspace_role, row.program_role].filter((role) => role !== null),
  }
}

/** Refuses with `not_found` where there is no such program, and with `forbidden` unless a role held on it carries `action`. */
export function requireAction(access: Access, action: Action): NonNullable<Access['program']> {
  if (!access.program) throw new ApiError('not_found', 'There is no program with this id. Check the id in the address.')
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
    throw new ApiError('forbidden', `Your role does not carry ${action}. Ask an owner of the workspace for it.`)
  }
  return access.program
}
