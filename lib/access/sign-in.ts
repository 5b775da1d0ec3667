import { kyselyAdapter } from '@better-auth/kysely-adapter'
import { APIError, createAuthMiddleware } from 'better-auth/api'
import { betterAuth } from 'better-auth/minimal'
import { bearer } from 'better-auth/plugins/bearer'
import { expressionBuilder, Kysely, sql } from 'kysely'
import { NeonDialect } from 'kysely-neon'
import type { SessionEnv } from './sessions.ts'
import { connect, type Database, type DatabaseEnv, openDatabase } from '../database.ts'
import { kysely, now } from '../kysely.ts'
import { type MailEnv, sendMail } from '../notifications/mail.ts'
import type { DB } from '../schema.ts'
import { countedAddress } from './counted-address.ts'
import { sessionCookie, sessionSeconds } from './sessions.ts'

export interface AuthEnv extends DatabaseEnv, SessionEnv, MailEnv {
  /** The address at which browsers reach the service, without a slash at its end. Other origins are refused. */
  BASE_URL: string
  GITHUB_CLIENT_ID?: string
  GITHUB_CLIENT_SECRET?: string
  GOOGLE_CLIENT_ID?: string
  GOOGLE_CLIENT_SECRET?: string
}

/** Tries at a password in a quarter of an hour; more are refused for everyone, so that changing isolates or addresses is no way round. */
const attemptWindowSeconds = 15 * 60
const attemptsPerEmail = 20
const attemptsPerAddress = 100

const guardedPaths = new Set([
  '/sign-in/email',
  '/sign-up/email',
  '/request-password-reset',
  '/reset-password',
  '/change-password',
])

/**
 * better-auth over the service's own tables: who a person is, and their sessions. It runs single statements only, as the
 * HTTP driver has no interactive transactions. Members of workspaces are in lib/programs/members.ts: there each change has to
 * be one atomic statement (a workspace never loses its last owner), and a removed member has to stay known.
 */
function createAuth(env: AuthEnv) {
  const db = openDatabase(env)
  return betterAuth({
    appName: 'Affiliate tracking',
    baseURL: env.BASE_URL,
    basePath: '/api/auth',
    secret: env.AUTH_SECRET,
    database: kyselyAdapter(new Kysely({ dialect: new NeonDialect({ neon: connect(env) }) }), {
      type: 'postgres',
      transaction: false,
    }),
    telemetry: { enabled: false },
    logger: { disabled: true },
    emailAndPassword: {
      enabled: true,
      minPasswordLength: 10,
      maxPasswordLength: 128,
      revokeSessionsOnPasswordReset: true,
      resetPasswordTokenExpiresIn: 60 * 60,
      sendResetPassword: async ({ user, token }) => {
        await sendMail(db, env, {
          to: user.email,
          subject: 'Choose a new password',
          text: [
            'Somebody, probably you, asked for a new password. Choose it within an hour here:',
            `${env.BASE_URL}/reset-password?token=${encodeURIComponent(token)}`,
            'If it was not you, do nothing: your password stays as it is.',
          ].join('\n\n'),
        })
      },
    },
    socialProviders: {
      ...(env.GITHUB_CLIENT_ID && {
        github: { clientId: env.GITHUB_CLIENT_ID, clientSecret: env.GITHUB_CLIENT_SECRET ?? '' },
      }),
      ...(env.GOOGLE_CLIENT_ID && {
        google: { clientId: env.GOOGLE_CLIENT_ID, clientSecret: env.GOOGLE_CLIENT_SECRET ?? '' },
      }),
    },
    plugins: [bearer({ requireSignature: true })],
    hooks: {
      before: createAuthMiddleware(async (ctx) => {
        if (!guardedPaths.has(ctx.path)) return
        const address = ctx.headers && countedAddress(ctx.headers)
        const email: unknown = ctx.body?.email
        const allowed = await countAttempt(db, [
          ...(address ? [{ key: `address:${address}`, limit: attemptsPerAddress }] : []),
          ...(typeof email === 'string' ? [{ key: `email:${email.toLowerCase()}`, limit: attemptsPerEmail }] : []),
        ])
        if (!allowed)
          throw new APIError('TOO_MANY_REQUESTS', { message: 'Too many tries. Wait 15 minutes, then try again.' })
      }),
    },
    advanced: {
      cookiePrefix: '__Host-svc',
      cookies: { session_token: { name: sessionCookie } },
      defaultCookieAttributes: { secure: true, httpOnly: true, sameSite: 'lax', path: '/' },
      useSecureCookies: false,
      disableOriginCheck: false,
      disableCSRFCheck: false,
      ipAddress: { disableIpTracking: true },
    },
    rateLimit: { enabled: false },
    session: {
      modelName: 'sessions' satisfies keyof DB,
      expiresIn: sessionSeconds,
      disableSessionRefresh: true,
      fields: {
        userId: 'user_id',
        expiresAt: 'expires_at',
        ipAddress: 'ip_address',
        userAgent: 'user_agent',
        createdAt: 'created_at',
        updatedAt: 'updated_at',
      } satisfies Record<string, keyof DB['sessions']>,
    },
    user: {
      modelName: 'users' satisfies keyof DB,
      fields: { emailVerified: 'email_verified', createdAt: 'created_at', updatedAt: 'updated_at' } satisfies Record<
        string,
        keyof DB['users']
      >,
    },
    account: {
      modelName: 'accounts' satisfies keyof DB,
      encryptOAuthTokens: true,
      fields: {
        userId: 'user_id',
        accountId: 'account_id',
        providerId: 'provider_id',
        accessToken: 'access_token',
        refreshToken: 'refresh_token',
        idToken: 'id_token',
        accessTokenExpiresAt: 'access_token_expires_at',
        refreshTokenExpiresAt: 'refresh_token_expires_at',
        createdAt: 'created_at',
        updatedAt: 'updated_at',
      } satisfies Record<string, keyof DB['accounts']>,
    },
    verification: {
      modelName: 'verifications' satisfies keyof DB,
      storeIdentifier: 'hashed',
      fields: { expiresAt: 'expires_at', createdAt: 'created_at', updatedAt: 'updated_at' } satisfies Record<
        string,
        keyof DB['verifications']
      >,
    },
  })
}

export type Auth = ReturnType<typeof createAuth>

let opened: { env: AuthEnv; auth: Auth } | undefined

/** The isolate's better-auth. */
export function openAuth(env: AuthEnv): Auth {
  if (opened?.env !== env) opened = { env, auth: createAuth(env) }
  return opened.auth
}

/** Counts one try for each key, in one statement, and says whether all are within their limits. */
async function countAttempt(db: Database, keys: { key: string; limit: number }[]): Promise<boolean> {
  if (keys.length === 0) return true
  const eb = expressionBuilder<DB, 'sign_in_attempts'>()
  const isOver = eb(
    'sign_in_attempts.window_started_at',
    '<',
    sql<Date>`now() - make_interval(secs => ${attemptWindowSeconds})`,
  )
  const rows = await db.query(
    kysely
      .insertInto('sign_in_attempts')
      // In the order of the keys, so that two tries cannot wait for each other in a circle.
      .values(keys.map(({ key }) => ({ key, attempts: 1 })).toSorted((a, b) => (a.key < b.key ? -1 : 1)))
      .onConflict((oc) =>
        oc.column('key').doUpdateSet({
          attempts: eb
            .case()
            .when(isOver)
            .then(1)
            .else(eb('sign_in_attempts.attempts', '+', 1))
            .end(),
          window_started_at: eb.case().when(isOver).then(now).else(eb.ref('sign_in_attempts.window_started_at')).end(),
        }),
      )
      .returning(['key', 'attempts']),
  )
  return rows.every((row) => row.attempts <= (keys.find(({ key }) => key === row.key)?.limit ?? 0))
}
