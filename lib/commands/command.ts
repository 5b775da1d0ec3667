import { parseArgs, type ParseArgsConfig } from 'node:util'
import { DatabaseError } from 'pg'
import { ApiError } from '../errors.ts'
import { OperatorError } from './operator-error.ts'
import { readRunningStack, type RunningStack } from './running-stack.ts'

/** Prints the usage and ends the process where `--help` asks for it. */
export function answerHelp(usage: string): void {
  if (!process.argv.includes('--help') && !process.argv.includes('-h')) return
  console.log(usage)
  process.exit(0)
}

/**
 * Runs a command of `npm run`. `--help` prints its usage. What goes wrong ends the process with 1, an option that there is not with 2; it is
 * said in a sentence with what to do about it, and only what nobody foresaw has a stack.
 */
export async function runCommand(usage: string, main: () => Promise<void>): Promise<void> {
  answerHelp(usage)
  try {
    await main()
  } catch (error) {
    console.error(explain(error, usage))
    process.exitCode = isOfOptions(error) ? 2 : 1
  }
}

/** The options of a command that is no more than a script, as `runCommand` reads them. */
export function readOptions<const Config extends ParseArgsConfig>(
  usage: string,
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  answerHelp(usage)
  try {
    return parseArgs(config)
  } catch (error) {
    console.error(explain(error, usage))
    return process.exit(2)
  }
}

/**
 * What a command that asks Stripe works on: a deployment, by DATABASE_URL, EMAIL_HASH_KEY and STRIPE_SECRET_KEY, else the running stack. Another
 * EMAIL_HASH_KEY would never find a lead by their address, so none is made up.
 */
export function stripeEnvironment(): Pick<
  RunningStack['environment'],
  'DATABASE_URL' | 'NEON_ENDPOINT' | 'EMAIL_HASH_KEY' | 'STRIPE_SECRET_KEY' | 'STRIPE_API_URL'
> {
  const { DATABASE_URL, NEON_ENDPOINT, EMAIL_HASH_KEY, STRIPE_SECRET_KEY, STRIPE_API_URL } = process.env
  if (!DATABASE_URL) return readRunningStack().environment
  if (!EMAIL_HASH_KEY || !STRIPE_SECRET_KEY)
    throw new OperatorError('DATABASE_URL is set, so set EMAIL_HASH_KEY and STRIPE_SECRET_KEY as well.')
  return {
    DATABASE_URL,
    EMAIL_HASH_KEY,
    STRIPE_SECRET_KEY,
    ...(NEON_ENDPOINT && { NEON_ENDPOINT }),
    ...(STRIPE_API_URL && { STRIPE_API_URL }),
  }
}

const isOfOptions = (error: unknown) =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')

/** What to do about an error of Postgres, by the beginning of its code. */
const databaseErrors: [state: RegExp, advice: string][] = [
  [
    /^28/,
    'See that DATABASE_URL has the right user and password; with --embedded, put back the secrets.json that the database was made with.',
  ],
  [/^3D000/, 'Create the database, or see that DATABASE_URL names the right one.'],
  [/^42(P01|883|703)/, 'The schema is of another version. Run `npm run migrate` with this DATABASE_URL.'],
  [/^42501/, 'Use the role that owns the tables, which is the one that ran `npm run migrate`.'],
  [/^53100/, 'The disk of the database is full. Make room there, then run this again.'],
  [/^53300/, 'The database has no connection left. Use the pooled address, or run this again later.'],
  [/^57P/, 'The database is going down or starting. Run this again in a minute.'],
]

const addressOfNeon =
  "See that DATABASE_URL is Neon's connection string, postgresql://user:password@host/database, and that this machine has a network."

/** What to do about an error of the system, Node or the queue, by its code or name. */
const advices: Record<string, string> = {
  ECONNREFUSED:
    'Nothing answers there. See that it runs, and that DATABASE_URL or QUEUE_URL has the right host and port.',
  ENOTFOUND: 'There is no such host. See that DATABASE_URL or QUEUE_URL has the right one.',
  EAI_AGAIN: 'The name of the host could not be looked up. See that this machine has a network.',
  ETIMEDOUT: 'There was no answer. See that this machine may reach that host.',
  ECONNRESET: 'The connection broke. Run this again.',
  ERR_INVALID_URL: 'See that DATABASE_URL is a connection string: postgresql://user:password@host/database.',
  ENOENT: 'See that the path is right.',
  EISDIR: 'Name a file, not a folder.',
  EACCES: 'See that you may read and write there.',
  ENOSPC: 'The disk is full. Make room, then run this again.',
  QueueDoesNotExist: 'See that QUEUE_URL and AWS_REGION are those of the queue.',
  InvalidClientTokenId: 'AWS does not know AWS_ACCESS_KEY_ID. See that it is of the right account.',
  UnrecognizedClientException: 'AWS does not know AWS_ACCESS_KEY_ID. See that it is of the right account.',
  SignatureDoesNotMatch: 'See that AWS_SECRET_ACCESS_KEY belongs to AWS_ACCESS_KEY_ID.',
  AccessDenied: 'Give the user the policy in lib/commands/aws/queue-policy.json.',
  AccessDeniedException: 'Give the user the policy in lib/commands/aws/queue-policy.json.',
}

/** What `pg` says without a code, by the code of the same. */
const withoutCode: Record<string, string> = {
  'timeout expired': 'ETIMEDOUT',
  'Connection terminated unexpectedly': 'ECONNRESET',
  'Client has encountered a connection error and is not queryable': 'ECONNRESET',
}

/** An error in a sentence or two: what was wrong, and what to do. */
export function explain(error: unknown, usage = ''): string {
  if (error instanceof OperatorError || error instanceof ApiError) return error.message
  if (error instanceof AggregateError && error.errors.length > 0) return explain(error.errors[0], usage)
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error ? String(error.code) : ''
  if (isOfOptions(error)) return `${error.message.split('. ')[0]}.\n\n${usage}`
  if (error instanceof DatabaseError || (error.name === 'NeonDbError' && code !== 'undefined')) {
    const advice = databaseErrors.find(([state]) => state.test(code))?.[1]
    if (advice) return `The database refused: ${error.message}. ${advice}`
  }
  // Its message may hold the address with the password.
  if (error.name === 'NeonDbError') return `The database cannot be asked. ${addressOfNeon}`
  const advice = advices[withoutCode[error.message] ?? code] ?? advices[error.name]
  return advice ? `${error.message || code}. ${advice}` : (error.stack ?? error.message)
}
