import { parseArgs, type ParseArgsConfig } from 'node:util'
import { DatabaseError } from 'pg'
import { ClickHouseError } from '../click-house.ts'
import { Database, type DatabaseEnv } from '../database.ts'
import { ApiError } from '../errors.ts'
import { OperatorError } from './operator-error.ts'
import { openPool } from './postgres.ts'
import { readRunningStack, type RunningStack } from './running-stack.ts'

/** Prints the usage and ends the process if the arguments contain `--help`. */
export function answerHelp(usage: string): void {
  if (!process.argv.includes('--help') && !process.argv.includes('-h')) return
  console.log(usage)
  process.exit(0)
}

/**
 * Runs a command of `npm run`. An error ends the process with code 1, and an unknown option with code 2. Known errors print a
 * sentence with a remedy, and unexpected errors print a stack trace.
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

/** Reads the options of a script that does not use `runCommand`. */
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
 * The environment of a command that calls Stripe: DATABASE_URL, EMAIL_HASH_KEY and STRIPE_SECRET_KEY, or the running stack. Never
 * generates EMAIL_HASH_KEY, because the addresses of existing leads wouldn't match with another key.
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

/** Opens a command's database: over HTTP on Neon and on the local stack, with plain connections on any other PostgreSQL. */
export function openCommandDatabase(env: DatabaseEnv): Database {
  const host = URL.parse(env.DATABASE_URL)?.hostname
  if (host === undefined || env.NEON_ENDPOINT !== undefined || host.endsWith('.neon.tech')) return new Database(env)
  return new Database({ ...env, POSTGRES: openPool(env.DATABASE_URL, 2) })
}

const isOfOptions = (error: unknown) =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')

/** Remedies for Postgres errors, by the start of their code. */
const databaseErrors: [state: RegExp, advice: string][] = [
  [/^28/, 'Check the user and password in DATABASE_URL. With --embedded, restore the secrets.json of this database.'],
  [/^3D000/, 'Create the database, or correct its name in DATABASE_URL.'],
  [/^42(P01|883|703)/, 'The schema belongs to another version. Run `npm run migrate` with this DATABASE_URL.'],
  [/^42501/, 'Use the role that owns the tables. It is the role that ran `npm run migrate`.'],
  [/^53100/, "The database's disk is full. Free some space and run this again."],
  [/^53300/, 'The database has no free connection. Use the pooled address, or run this again later.'],
  [/^55P03/, 'A long query holds a lock that this needs. Wait for its end, and run this again.'],
  [/^57P/, 'The database is stopping or starting. Run this again in a minute.'],
]

const addressOfNeon = 'Check DATABASE_URL (postgresql://user:password@host/database) and the network of this machine.'

/** Remedies for errors from the system, Node or the queue, by code or name. */
const advices: Record<string, string> = {
  ECONNREFUSED:
    'There is no server at this address. Check that it is running, and check the host and port in DATABASE_URL or QUEUE_URL.',
  ENOTFOUND: 'There is no such host. Check the host in DATABASE_URL or QUEUE_URL.',
  EAI_AGAIN: 'The host name could not be resolved. Check the network of this machine.',
  ETIMEDOUT: 'There was no response. Check that this machine can reach the host.',
  ECONNRESET: 'The connection was lost. Run this again.',
  ERR_INVALID_URL: 'Set DATABASE_URL to a connection string: postgresql://user:password@host/database.',
  ENOENT: 'Check the path.',
  EISDIR: 'Name a file, not a folder.',
  EACCES: 'Check your permissions there.',
  ENOSPC: 'The disk is full. Free some space and run this again.',
  QueueDoesNotExist: 'Check QUEUE_URL and AWS_REGION.',
  InvalidClientTokenId:
    'AWS does not know AWS_ACCESS_KEY_ID. Check that the key is active and belongs to the account of the queue.',
  UnrecognizedClientException:
    'AWS does not know AWS_ACCESS_KEY_ID. Check that the key is active and belongs to the account of the queue.',
  SignatureDoesNotMatch: 'Check that AWS_SECRET_ACCESS_KEY belongs to AWS_ACCESS_KEY_ID.',
  AccessDenied: 'Give the user the policy in lib/commands/aws/queue-policy.json.',
  AccessDeniedException: 'Give the user the policy in lib/commands/aws/queue-policy.json.',
}

/** Error codes for messages of `pg` that have no code. */
const withoutCode: Record<string, string> = {
  'timeout expired': 'ETIMEDOUT',
  'Connection terminated unexpectedly': 'ECONNRESET',
  'Client has encountered a connection error and is not queryable': 'ECONNRESET',
}

/** Describes an error in one or two sentences: the problem and its remedy. */
export function explain(error: unknown, usage = ''): string {
  if (error instanceof OperatorError || error instanceof ApiError) return error.message
  if (error instanceof ClickHouseError) return `${error.message}. Check CLICKHOUSE_URL and CLICKHOUSE_PASSWORD.`
  if (error instanceof AggregateError && error.errors.length > 0) return explain(error.errors[0], usage)
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error ? String(error.code) : ''
  if (isOfOptions(error)) return `${error.message.split('. ')[0]}.\n\n${usage}`
  if (error instanceof DatabaseError || (error.name === 'NeonDbError' && code !== 'undefined')) {
    const advice = databaseErrors.find(([state]) => state.test(code))?.[1]
    if (advice) return `The database refused: ${error.message}. ${advice}`
  }
  // The message may contain the address with the password.
  if (error.name === 'NeonDbError') return `The database is unreachable. ${addressOfNeon}`
  const advice = advices[withoutCode[error.message] ?? code] ?? advices[error.name]
  return advice ? `${error.message || code}. ${advice}` : (error.stack ?? error.message)
}
