import { kyselyAdapter } from '@better-auth/kysely-adapter'
import { APIError, createAuthMiddleware, getSessionFromCtx } from 'better-auth/api'
import { betterAuth } from 'better-auth/minimal'
import { bearer } from 'better-auth/plugins/bearer'
import { twoFactor } from 'better-auth/plugins/two-factor'
import { Kysely } from 'kysely'
import type { SessionEnv } from './sessions.ts'
import { connect, type DatabaseEnv, openDatabase } from '../database.ts'
import { kysely } from '../kysely.ts'
import { ApiError } from '../errors.ts'
import { isName } from '../names.ts'
import { canMail, type Mail, mailIsMissing, type MailEnv, sendMail } from '../mail.ts'
import type { DB } from '../schema.ts'
import { countAttempts, delayAfter } from './attempts.ts'
import { countedAddress } from './counted-address.ts'
import { dialectOf } from './dialect.ts'
import { confirmationSeconds } from './email-address.ts'
import { newRecoveryCodes } from './recovery-codes.ts'
import { sessionCookie, sessionSeconds } from './sessions.ts'

export interface AuthEnv extends DatabaseEnv, SessionEnv, MailEnv {
  /** The address at which browsers reach the service, without a slash at its end. Other origins are refused. */
  BASE_URL: string
  GITHUB_CLIENT_ID?: string
  GITHUB_CLIENT_SECRET?: string
  GOOGLE_CLIENT_ID?: string
  GOOGLE_CLIENT_SECRET?: string
}

/**
 * Tries in a quarter of an hour. More are refused from an address, and for an account from that address. What strangers try elsewhere
 * at an account refuses its person nothing: it delays sign-in, and of reset mails no more are sent.
 */
const attemptsPerAddress = 100
const attemptsPerAccountAndAddress = 20
/** Mails that somebody else than their reader may cause, by what is tried. */
const mailsPerAccount = { reset: 20, verification: 5, 'sign-up': 5 } as const
/** What must not tell whether an address has an account answers after so many milliseconds at the earliest. */
const leastAnswerMs = 500

/** What a try is counted as. Asking for a reset and using one counts apart from passwords. */
const guardedPaths = new Map<string, 'sign-in' | 'two-factor' | keyof typeof mailsPerAccount>([
  ['/sign-in/email', 'sign-in'],
  ['/change-password', 'sign-in'],
  ['/verify-password', 'sign-in'],
  ['/two-factor/enable', 'sign-in'],
  ['/two-factor/disable', 'sign-in'],
  ['/two-factor/generate-backup-codes', 'sign-in'],
  ['/two-factor/verify-totp', 'two-factor'],
  ['/two-factor/verify-backup-code', 'two-factor'],
  ['/sign-up/email', 'sign-up'],
  ['/request-password-reset', 'reset'],
  ['/reset-password', 'reset'],
  ['/send-verification-email', 'verification'],
])

/** What is nothing without the mail that it sends. */
const mailedPaths: ReadonlySet<string> = new Set(['/request-password-reset', '/send-verification-email'])

/** What makes a session before a code is asked for, and ends it where one is. */
const firstFactorPaths: ReadonlySet<string> = new Set(['/sign-in/email', '/callback/:id'])

/** The refusals with the status 503, which pages know by their codes. */
export const noMail = { code: 'MAIL_IS_MISSING', message: mailIsMissing }
/** The mail API did not take the mail of a sign-up. The account is there all the same, of this person or as it was before. */
export const signUpUnmailed = {
  code: 'SIGN_UP_UNMAILED',
  message: 'The mail that confirms this address could not be sent. Sign in, and have it sent again in a minute.',
}
export const tooManyAttempts = 'Too many tries. Wait 15 minutes, then try again.'

/** A call, with its environment and what goes on after its answer. */
interface AuthContext {
  env: AuthEnv
  executionCtx: { waitUntil(work: Promise<unknown>): void }
}

/**
 * better-auth for one call, over the service's own tables: who a person is, and their sessions. It runs single statements only, as the
 * HTTP driver has no interactive transactions. Members of workspaces are in lib/programs/members.ts: there each change has to
 * be one atomic statement (a workspace never loses its last owner), and a removed member has to stay known.
 */
export function openAuth({ env, executionCtx }: AuthContext, { confirmsAddress = true } = {}) {
  const db = openDatabase(env)
  const startedAt = Date.now()
  let mayMail = true
  let isSignUp = false
  let signUpMail: Promise<void> | undefined
  /** The answer to a sign-up waits for its mail, which every one sends: begun at the same moment, it tells nothing of the account. */
  async function sendInTurn(mail: Mail): Promise<void> {
    if (!isSignUp) return await sendMail(db, env, mail)
    signUpMail = sleep(startedAt + leastAnswerMs - Date.now()).then(() => sendMail(db, env, mail))
    return await signUpMail
  }
  return betterAuth({
    appName: 'Affiliate tracking',
    baseURL: env.BASE_URL,
    basePath: '/api/auth',
    secret: env.AUTH_SECRET,
    database: kyselyAdapter(new Kysely({ dialect: dialectOf(connect(env)) }), {
      type: 'postgres',
      transaction: false,
    }),
    // What is no refusal is thrown: it becomes the answer that it is everywhere, and better-auth would log it with what it quotes.
    onAPIError: { errorURL: `${env.BASE_URL}/sign-in`, throw: true },
    telemetry: { enabled: false },
    logger: { disabled: true },
    emailAndPassword: {
      enabled: true,
      // Who signs up is answered alike whether the address has an account, so nobody is signed in by it.
      autoSignIn: false,
      minPasswordLength: 10,
      maxPasswordLength: 128,
      revokeSessionsOnPasswordReset: true,
      resetPasswordTokenExpiresIn: 60 * 60,
      // A reset token's value is the person; what else is kept there is no id. The link came by mail, which proves the address. Where nobody
      // had proven it, somebody else may have had the account first: their other ways in end with their password.
      onPasswordReset: async ({ user }) => {
        const unproven = kysely
          .selectFrom('users')
          .select('id')
          .where('id', '=', user.id)
          .where('email_verified', '=', false)
        await db.batch([
          kysely.deleteFrom('verifications').where('value', '=', user.id),
          kysely.deleteFrom('accounts').where('user_id', 'in', unproven).where('provider_id', '<>', 'credential'),
          kysely.deleteFrom('two_factors').where('user_id', 'in', unproven),
          kysely.updateTable('users').set({ two_factor_enabled: false }).where('id', 'in', unproven),
          kysely.updateTable('users').set({ email_verified: true }).where('id', '=', user.id),
        ])
      },
      onExistingUserSignUp: async ({ user }) => {
        if (!mayMail) return
        await sendInTurn({
          to: user.email,
          subject: 'You have an account already',
          text: [
            'Somebody, probably you, tried to make an account with this address. There is one already. Sign in here:',
            `${env.BASE_URL}/sign-in`,
            'Forgot the password? Choose a new one here:',
            `${env.BASE_URL}/forgot-password`,
            'If it was not you, do nothing: nothing has changed.',
          ].join('\n\n'),
        })
      },
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
    emailVerification: {
      sendOnSignUp: confirmsAddress,
      expiresIn: confirmationSeconds,
      sendVerificationEmail: async ({ user, token }) => {
        await sendInTurn({
          to: user.email,
          subject: 'Confirm your e-mail address',
          text: [
            'Somebody, probably you, made an account with this address. Confirm within a day that it is yours:',
            `${env.BASE_URL}/verify-email?token=${encodeURIComponent(token)}`,
            'If it was not you, do nothing: without this link the account can send nobody mail.',
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
    // In this order, since the token that `bearer` gives is no session's before the code.
    plugins: [secondFactor(), bearer({ requireSignature: true })],
    hooks: {
      // A refusal is returned: what is thrown here would reach callers on the server as an exception.
      before: createAuthMiddleware(async (ctx) => {
        const name: unknown = ctx.body?.name
        if (name !== undefined && !(typeof name === 'string' && isName(name)))
          return new APIError('BAD_REQUEST', { message: 'Enter a name of 1 to 80 characters, without line breaks.' })
        const kind = guardedPaths.get(ctx.path)
        if (kind === undefined) return undefined
        isSignUp = kind === 'sign-up'
        if (mailedPaths.has(ctx.path) && !canMail(env)) return new APIError('SERVICE_UNAVAILABLE', noMail)
        const email: unknown = ctx.body?.email
        if (!isStorable(ctx.body) || (email !== undefined && !isAddress(email)))
          return new APIError('BAD_REQUEST', { message: 'Enter an e-mail address, and text without NUL.' })
        const account = email?.toLowerCase() ?? (await getSessionFromCtx(ctx))?.user.email
        const address = countedAddress(ctx.headers?.get('cf-connecting-ip') ?? null)
        const keys = {
          address: `${kind} from ${address}`,
          both: `${kind} of ${account} from ${address}`,
          account: `${kind} of ${account}`,
        }
        const attempts = await countAttempts(db, [
          ...(address ? [keys.address] : []),
          ...(account ? [keys.both, keys.account] : []),
        ])
        const isOver = (key: string, limit: number) => (attempts.get(key) ?? 0) > limit
        if (isOver(keys.address, attemptsPerAddress) || isOver(keys.both, attemptsPerAccountAndAddress))
          return refuseTry()
        if (kind === 'sign-in' || kind === 'two-factor') {
          await sleep(delayAfter(attempts.get(keys.account) ?? 0))
          return undefined
        }
        mayMail = !isOver(keys.account, mailsPerAccount[kind])
        if (kind === 'reset' && !mayMail) return resetAnswer
        if (kind === 'verification' && !mayMail) return refuseTry()
        return undefined
      }),
      after: createAuthMiddleware(async ({ path, body, context }) => {
        const isRefusedSignIn = path === '/sign-in/email' && context.returned instanceof APIError
        const isSilent = isRefusedSignIn || path === '/sign-up/email' || path === '/request-password-reset'
        if (isSilent) await sleep(startedAt + leastAnswerMs - Date.now())
        const isUnmailed = await signUpMail?.then(
          () => false,
          () => true,
        )
        // better-auth takes whatever the database says to a new account for a refusal of what was entered.
        if (context.returned instanceof APIError && context.returned.body?.code === 'FAILED_TO_CREATE_USER')
          throw new ApiError('unavailable', 'The account could not be created. Try again in a minute.')
        if (isUnmailed && canMail(env)) return new APIError('SERVICE_UNAVAILABLE', signUpUnmailed)
        // A code signs in once: who saw it typed is not let in by it. One that sets the codes up comes with a session.
        if (path !== '/two-factor/verify-totp' || !context.newSession || context.session) return undefined
        const { user, session } = context.newSession
        const used = `code ${body?.code} of ${user.id}`
        if ((await countAttempts(db, [used])).get(used) === 1) return undefined
        await context.internalAdapter.deleteSession(session.token)
        return new APIError('UNAUTHORIZED', { message: 'This code was used. Wait for the next one.' })
      }),
    },
    advanced: {
      // Each call has an instance of its own, which would read the whole catalogue of the database first. A test compares them once.
      database: { validateSchema: false },
      cookiePrefix: '__Host-svc',
      cookies: { session_token: { name: sessionCookie } },
      defaultCookieAttributes: { secure: true, httpOnly: true, sameSite: 'lax', path: '/' },
      useSecureCookies: false,
      disableOriginCheck: false,
      disableCSRFCheck: false,
      ipAddress: { disableIpTracking: true },
      // A mail for a new password goes out after the answer, whose time would tell of it.
      backgroundTasks: { handler: (work) => executionCtx.waitUntil(work) },
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
      additionalFields: {
        byFirstFactor: {
          type: 'boolean',
          fieldName: 'by_first_factor' satisfies keyof DB['sessions'],
          input: false,
          returned: false,
        },
      },
    },
    databaseHooks: {
      session: {
        create: {
          before: (session, context) =>
            Promise.resolve({ data: { ...session, byFirstFactor: firstFactorPaths.has(context?.path ?? '') } }),
        },
      },
      user: {
        create: {
          // What a provider calls somebody may be no name here; their address is then.
          before: async (user) => ({
            data: { ...user, name: isName(user.name) ? user.name : user.email.slice(0, 80) },
          }),
        },
      },
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

/**
 * Codes of an app (TOTP) and recovery codes, asked for after every way to sign in. Ten wrong ones in a row close the account's codes for
 * a quarter of an hour.
 */
function secondFactor() {
  const plugin = twoFactor({
    issuer: 'Partner Tracking',
    // No device is trusted: the list of sessions would not show it, nor would signing out everywhere end it.
    trustDeviceMaxAge: 0,
    backupCodeOptions: { customBackupCodesGenerate: newRecoveryCodes },
    schema: {
      user: { fields: { twoFactorEnabled: 'two_factor_enabled' satisfies keyof DB['users'] } },
      twoFactor: {
        modelName: 'two_factors' satisfies keyof DB,
        fields: {
          userId: 'user_id',
          backupCodes: 'backup_codes',
          failedVerificationCount: 'failed_verification_count',
          lockedUntil: 'locked_until',
        } satisfies Record<string, keyof DB['two_factors']>,
      },
    },
  })
  const after = plugin.hooks.after.map((hook) => ({
    ...hook,
    matcher: (context: Parameters<typeof hook.matcher>[0]) => hook.matcher(context) || context.path === '/callback/:id',
  }))
  return { ...plugin, hooks: { after } }
}

const refuseTry = () => new APIError('TOO_MANY_REQUESTS', { message: tooManyAttempts })

/** What better-auth answers whoever asks for a reset, mail or none. */
const resetAnswer = {
  status: true,
  message: 'If this email exists in our system, check your email for the reset link',
}

async function sleep(milliseconds: number): Promise<void> {
  if (milliseconds > 0) await new Promise((resolve) => setTimeout(resolve, milliseconds))
}

/** Whether Postgres can keep all texts of a body. */
function isStorable(body: unknown): boolean {
  const texts = typeof body === 'object' && body !== null ? Object.values(body) : []
  return texts.every((text) => typeof text !== 'string' || (text.isWellFormed() && !text.includes('\0')))
}

/** Whether it may be an e-mail address: what is longer is in no index. */
function isAddress(email: unknown): email is string {
  return typeof email === 'string' && email.length <= 320 && /^[^\s@]+@[^\s@]+$/.test(email)
}
