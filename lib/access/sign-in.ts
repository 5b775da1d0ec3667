import { kyselyAdapter } from '@better-auth/kysely-adapter'
import { APIError, createAuthMiddleware } from 'better-auth/api'
import { betterAuth } from 'better-auth/minimal'
import { bearer } from 'better-auth/plugins/bearer'
import { twoFactor } from 'better-auth/plugins/two-factor'
import { Kysely } from 'kysely'
import type { SessionEnv } from './sessions.ts'
import { connect, type Database, type DatabaseEnv, openDatabase } from '../database.ts'
import { kysely, now } from '../kysely.ts'
import { ApiError } from '../errors.ts'
import { chooseLanguage, type Language } from '../languages.ts'
import { isName } from '../names.ts'
import { mailBounds, tooManyMails, tooManyMailsOfNetwork } from '../mail-bounds.ts'
import { canMail, type Mail, mailIsMissing, type MailEnv, sendMail } from '../mail.ts'
import type { DB } from '../schema.ts'
import { mails } from '../texts/messages/mails.ts'
import { createTexts } from '../texts/texts.ts'
import { countAttempts, delayAfter, mayMailToday, mayMailUnconfirmed } from './attempts.ts'
import { countedAddress } from './counted-address.ts'
import { dialectOf } from './dialect.ts'
import { mailboxOf } from './mailbox.ts'
import { confirmationSeconds, mailedPage } from './email-address.ts'
import { newRecoveryCodes } from './recovery-codes.ts'
import { readSessionToken, sessionCookie, sessionSeconds } from './sessions.ts'

export interface AuthEnv extends DatabaseEnv, SessionEnv, MailEnv {
  /** The address at which browsers reach the service, without a trailing slash. Other origins are refused. */
  BASE_URL: string
  /** On one box, limits the CPU time that each address can take by hashing passwords. */
  VISITOR_BUDGET?: { takeHashing(address: string | null): boolean }
  GITHUB_CLIENT_ID?: string
  GITHUB_CLIENT_SECRET?: string
  GOOGLE_CLIENT_ID?: string
  GOOGLE_CLIENT_SECRET?: string
}

/**
 * The maximum number of attempts in a quarter of an hour from one address, and for one account from one address. Attempts by strangers from
 * other addresses only delay a sign-in. They never lock a person out.
 */
const attemptsPerAddress = 100
const attemptsPerAccountAndAddress = 20
/** The maximum number of sign-ups in a quarter of an hour from one address, because the page reveals whether an address has an account. */
const signUpsPerAddress = 30
/** The minimum response time in milliseconds of requests that must not reveal whether an address has an account. */
const leastAnswerMs = 500

/** The counter for each path. Reset requests and resets count separately from passwords. */
const guardedPaths = new Map<string, 'sign-in' | 'two-factor' | 'reset' | 'verification' | 'sign-up'>([
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

/** Paths whose body identifies the account. On other paths the session identifies it, because the body could contain another account. */
const pathsByEmail: ReadonlySet<string> = new Set([
  '/sign-in/email',
  '/sign-up/email',
  '/request-password-reset',
  '/send-verification-email',
])

/** The counters of paths on which better-auth hashes or checks a password, except for paths that only send a mail. */
const hashingKinds: ReadonlySet<string> = new Set(['sign-in', 'sign-up', 'reset'])

/** Paths that only send a mail. */
const mailedPaths: ReadonlySet<string> = new Set(['/request-password-reset', '/send-verification-email'])

/** Paths that create a session before they ask for a code. If the account has two-factor codes, that session ends at once. */
const firstFactorPaths: ReadonlySet<string> = new Set(['/sign-in/email', '/callback/:id'])

/** The refusals with status 503. Pages recognize them by their codes. */
export const noMail = { code: 'MAIL_IS_MISSING', message: mailIsMissing }
/** The mail API refused the sign-up mail. The account exists anyway. */
export const signUpUnmailed = {
  code: 'SIGN_UP_UNMAILED',
  message:
    'The e-mail that confirms this address could not be sent. Send it again in a minute, when you are signed in.',
}
const mostSocialCharacters = 600
export const tooManyAttempts = 'Too many attempts. Wait 15 minutes, then try again.'

/** The environment of a call, and the work that continues after the response. */
interface AuthContext {
  env: AuthEnv
  executionCtx: { waitUntil(work: Promise<unknown>): void }
}

interface AuthOptions {
  confirmsAddress?: boolean
  next?: string
  language?: Language
}

/**
 * Opens better-auth for one call over the service's own tables: users and their sessions. It only runs single statements, because the HTTP
 * driver has no interactive transactions. lib/programs/members.ts handles the members of workspaces. There, each change must be one atomic
 * statement, so that a workspace never loses its last owner, and removed members stay in the table. `next` is the page after those that
 * mails link to. Mails are in `language`, unless the person has saved another one.
 */
export function openAuth(
  { env, executionCtx }: AuthContext,
  { confirmsAddress = true, next = '/', language }: AuthOptions = {},
) {
  const db = openDatabase(env)
  const startedAt = Date.now()
  let mayMail = true
  let isSignUp = false
  let signUpMail: Promise<void> | undefined
  /** Every sign-up sends a mail at the same moment and waits for it, so that the response time does not reveal whether the account existed. */
  async function sendInTurn(written: Promise<Mail>): Promise<void> {
    const turn = isSignUp ? startedAt + leastAnswerMs - Date.now() : 0
    const sent = Promise.all([written, sleep(turn)]).then(([mail]) => sendMail(db, env, mail))
    if (isSignUp) signUpMail = sent
    return await sent
  }
  async function textsFor(userId: string) {
    const saved = kysely.selectFrom('partner_profiles').select('language').where('user_id', '=', userId)
    const [profile] = await db.query(saved)
    return createTexts(mails, chooseLanguage([profile?.language, language]))
  }
  async function existingAccountMail(user: { id: string; email: string }): Promise<Mail> {
    const { t, language: written } = await textsFor(user.id)
    return {
      to: user.email,
      subject: t('You already have an account'),
      text: [
        t(
          'Somebody, probably you, tried to create an account with this address. You already have an account. Sign in here:',
        ),
        mailedPage(env, '/sign-in', { next }),
        t('Forgot your password? Choose a new one here:'),
        mailedPage(env, '/forgot-password', { next }),
        t("If this wasn't you, you can ignore this e-mail. Nothing has changed."),
      ].join('\n\n'),
      language: written,
      button: t('Open the page'),
    }
  }
  async function confirmationMail(user: { id: string; email: string }, token: string): Promise<Mail> {
    const { t, language: written } = await textsFor(user.id)
    return {
      to: user.email,
      subject: t('Confirm your e-mail address'),
      text: [
        t('Somebody, probably you, created an account with this address. If it is yours, confirm it within a day:'),
        mailedPage(env, '/verify-email', { token, next }),
        t("If this wasn't you, you can ignore this e-mail. Without your confirmation, the account can't send e-mail."),
      ].join('\n\n'),
      language: written,
      button: t('Open the page'),
    }
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
    // Unexpected errors are thrown, so that they get the usual error response. better-auth would log them, including the values that
    // they quote.
    onAPIError: { errorURL: `${env.BASE_URL}/sign-in`, throw: true },
    telemetry: { enabled: false },
    logger: { disabled: true },
    emailAndPassword: {
      enabled: true,
      // The API's response must not reveal whether the address already has an account. The page signs the person in separately.
      autoSignIn: false,
      minPasswordLength: 10,
      maxPasswordLength: 128,
      revokeSessionsOnPasswordReset: true,
      resetPasswordTokenExpiresIn: 60 * 60,
      // The value of a reset token is the user's id. Other verifications don't contain an id. A mailed link proves that the person owns the
      // address. If that wasn't proven before, a stranger may have created the account. So the reset removes the old password and all other
      // ways to sign in.
      onPasswordReset: async ({ user }) => {
        const unproven = kysely
          .selectFrom('users')
          .select('id')
          .where('id', '=', user.id)
          .where('email_verified', '=', false)
        const programs = kysely
          .selectFrom('programs as p')
          .innerJoin('workspace_members as m', 'm.workspace_id', 'p.workspace_id')
          .select('p.id')
          .where('m.user_id', 'in', unproven)
          .where('m.role', '=', 'owner')
        await db.batch([
          // A stranger could have created all of these. Nobody else is in the workspaces, because an unconfirmed owner can't invite anybody.
          kysely
            .updateTable('api_keys')
            .set({ revoked_at: now })
            .where('program_id', 'in', programs)
            .where('revoked_at', 'is', null),
          kysely
            .updateTable('webhook_endpoints')
            .set({ disabled_at: now, disabled_because: 'owner' })
            .where('program_id', 'in', programs)
            .where('disabled_at', 'is', null),
          kysely.updateTable('processor_connections').set({ secret: null }).where('program_id', 'in', programs),
          kysely
            .updateTable('programs')
            .set({ proxy_key_number: (eb) => eb('proxy_key_number', '+', 1), previous_proxy_key_until: null })
            .where('id', 'in', programs),
          kysely.deleteFrom('verifications').where('value', '=', user.id),
          kysely.deleteFrom('accounts').where('user_id', 'in', unproven).where('provider_id', '<>', 'credential'),
          kysely.deleteFrom('two_factors').where('user_id', 'in', unproven),
          kysely.updateTable('users').set({ two_factor_enabled: false }).where('id', 'in', unproven),
          kysely.updateTable('users').set({ email_verified: true }).where('id', '=', user.id),
        ])
      },
      onExistingUserSignUp: async ({ user }) => {
        if (mayMail) await sendInTurn(existingAccountMail(user))
      },
      sendResetPassword: async ({ user, token }) => {
        const { t, language: written } = await textsFor(user.id)
        await sendMail(db, env, {
          to: user.email,
          subject: t('Choose a new password'),
          text: [
            t('Somebody, probably you, asked for a new password. Choose a new one here within an hour:'),
            mailedPage(env, '/reset-password', { token, next }),
            t("If this wasn't you, you can ignore this e-mail. Your password stays the same."),
          ].join('\n\n'),
          language: written,
          button: t('Open the page'),
        })
      },
    },
    emailVerification: {
      sendOnSignUp: confirmsAddress,
      expiresIn: confirmationSeconds,
      sendVerificationEmail: async ({ user, token }) => {
        if (mayMail) await sendInTurn(confirmationMail(user, token))
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
    // The order of the plugins matters. Until the code is entered, the token from `bearer` doesn't belong to any session.
    plugins: [secondFactor(), bearer({ requireSignature: true })],
    hooks: {
      // Refusals are returned. If they were thrown, callers on the server would get exceptions.
      before: createAuthMiddleware(async (ctx) => {
        const name: unknown = ctx.body?.name
        if (name !== undefined && !(typeof name === 'string' && isName(name)))
          return new APIError('BAD_REQUEST', { message: 'Enter a name of 1 to 80 characters, without line breaks.' })
        // better-auth stores the fields of the request until the provider redirects back.
        if (ctx.path === '/sign-in/social' && JSON.stringify(ctx.body).length > mostSocialCharacters)
          return new APIError('BAD_REQUEST', { message: 'The request is too long. Send a shorter callbackURL.' })
        const kind = guardedPaths.get(ctx.path)
        if (kind === undefined) return undefined
        isSignUp = kind === 'sign-up'
        const visitor = ctx.headers?.get('cf-connecting-ip') ?? null
        const isHashing = hashingKinds.has(kind) && !mailedPaths.has(ctx.path)
        if (isHashing && env.VISITOR_BUDGET?.takeHashing(visitor) === false) return refuseTry()
        if (mailedPaths.has(ctx.path) && !canMail(env)) return new APIError('SERVICE_UNAVAILABLE', noMail)
        const email: unknown = ctx.body?.email
        if (!isStorable(ctx.body) || (email !== undefined && !isAddress(email)))
          return new APIError('BAD_REQUEST', { message: 'Enter an e-mail address, and text without NUL.' })
        const account = pathsByEmail.has(ctx.path)
          ? email?.toLowerCase()
          : await emailOfSession(db, env, ctx.headers ?? new Headers())
        const address = countedAddress(visitor)
        const keys = {
          address: `${kind} from ${address}`,
          both: `${kind} of ${account} from ${address}`,
          account: `${kind} of ${account}`,
        }
        const isGuess = kind === 'sign-in' || kind === 'two-factor'
        const attempts = await countAttempts(db, [
          ...(address ? [keys.address] : []),
          ...(account ? [keys.both, ...(isGuess ? [keys.account] : [])] : []),
        ])
        const isOver = (key: string, limit: number) => (attempts.get(key) ?? 0) > limit
        if (
          isOver(keys.address, kind === 'sign-up' ? signUpsPerAddress : attemptsPerAddress) ||
          isOver(keys.both, attemptsPerAccountAndAddress)
        )
          return refuseTry()
        if (isGuess) {
          await sleep(delayAfter(attempts.get(keys.account) ?? 0))
          return undefined
        }
        mayMail =
          !account || (await mayMailToday(db, [`${kind} of ${mailboxOf(account)}`], mailBounds[kind].perRecipient))
        // A reset mail is only sent to existing accounts.
        const isOfNetwork = kind === 'reset' || (await mayMailUnconfirmed(db, visitor))
        mayMail &&= isOfNetwork
        if (kind === 'reset' && !mayMail) return resetAnswer
        if (kind === 'verification' && !mayMail)
          return new APIError('TOO_MANY_REQUESTS', { message: isOfNetwork ? tooManyMails : tooManyMailsOfNetwork })
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
        // If creating an account fails with a database error, better-auth always reports invalid input.
        if (context.returned instanceof APIError && context.returned.body?.code === 'FAILED_TO_CREATE_USER')
          throw new ApiError('unavailable', 'The account could not be created. Try again in a minute.')
        if (isUnmailed && canMail(env)) return new APIError('SERVICE_UNAVAILABLE', signUpUnmailed)
        if (path === '/change-password' && context.session && !(context.returned instanceof APIError)) {
          const { user, session } = context.newSession ?? context.session
          await endOtherAccess(db, user.id, session.token)
        }
        // Each code works for one sign-in, so that people who see somebody type it can't reuse it. Codes that set up two-factor
        // sign-in are exempt, because the person is already signed in.
        if (path !== '/two-factor/verify-totp' || !context.newSession || context.session) return undefined
        const { user, session } = context.newSession
        const used = `code ${body?.code} of ${user.id}`
        if ((await countAttempts(db, [used])).get(used) === 1) return undefined
        await context.internalAdapter.deleteSession(session.token)
        return new APIError('UNAUTHORIZED', { message: 'This code was already used. Wait for the next one.' })
      }),
    },
    advanced: {
      // Each call creates an instance, and each instance would first read the whole database catalog. A test validates the schema instead.
      database: { validateSchema: false },
      cookiePrefix: '__Host-svc',
      cookies: { session_token: { name: sessionCookie } },
      defaultCookieAttributes: { secure: true, httpOnly: true, sameSite: 'lax', path: '/' },
      useSecureCookies: false,
      disableOriginCheck: false,
      disableCSRFCheck: false,
      ipAddress: { disableIpTracking: true },
      // The reset mail is sent after the response, so that the response time doesn't reveal whether the account exists.
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
          // The name from a provider may be invalid here. In that case, the address becomes the name.
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
 * Two-factor codes from an app (TOTP) and recovery codes. They are required no matter how somebody signs in. Ten wrong codes in a row lock
 * the account's codes for a quarter of an hour.
 */
function secondFactor() {
  const plugin = twoFactor({
    issuer: 'Partner Tracking',
    // Trusted devices aren't supported, because the session list wouldn't show them, and signing out everywhere wouldn't revoke them.
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

/** better-auth's response to a reset request, whether it sends a mail or not. */
const resetAnswer = {
  status: true,
  message: 'If this email exists in our system, check your email for the reset link',
}

async function sleep(milliseconds: number): Promise<void> {
  if (milliseconds > 0) await new Promise((resolve) => setTimeout(resolve, milliseconds))
}

/** Returns the address of the signed-in person, if the request has a session. */
async function emailOfSession(db: Database, env: SessionEnv, headers: Headers): Promise<string | undefined> {
  const token = await readSessionToken(headers, env.AUTH_SECRET)
  if (token === undefined) return undefined
  const [user] = await db.query(
    kysely
      .selectFrom('sessions')
      .innerJoin('users', 'users.id', 'sessions.user_id')
      .select('users.email')
      .where('sessions.token', '=', token)
      .where('sessions.expires_at', '>', now),
  )
  return user?.email
}

/** Ends a person's other sessions and invalidates the reset links in earlier mails, because a stranger may have them. */
async function endOtherAccess(db: Database, userId: string, sessionToken: string): Promise<void> {
  await db.batch([
    kysely.deleteFrom('sessions').where('user_id', '=', userId).where('token', '<>', sessionToken),
    kysely.deleteFrom('verifications').where('value', '=', userId),
  ])
}

/** Checks that Postgres can store all texts of a body. */
function isStorable(body: unknown): boolean {
  const texts = typeof body === 'object' && body !== null ? Object.values(body) : []
  return texts.every((text) => typeof text !== 'string' || (text.isWellFormed() && !text.includes('\0')))
}

/** Checks that a value can be an e-mail address. Longer addresses don't fit into the index. */
function isAddress(email: unknown): email is string {
  return typeof email === 'string' && email.length <= 320 && /^[^\s@]+@[^\s@]+$/.test(email)
}
