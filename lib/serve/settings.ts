import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import path from 'node:path'
import * as z from 'zod/mini'
import { optionalVariables } from '../commands/wrangler-file.ts'
import { clickRetentionMonths } from '../tracking/retention.ts'

/** The operator's checked settings. */
export interface Settings {
  /** Variables and secrets by their names in wrangler.toml. */
  environment: Record<string, string>
  /** Undefined if the service runs its own database in the data folder. */
  databaseUrl: string | undefined
  dataFolder: string
  /** The password of the service's own database. */
  databasePassword: string
  migrates: boolean
  host: string
  port: number
  /** The listening socket that systemd has opened, if any. It replaces the host and the port. */
  socket: number | undefined
  /** Proxies that may set X-Forwarded-For. */
  trusted: BlockList
  geoFile: string | undefined
  /** The folder of the nightly backups, whose age is a metric. */
  backupFolder: string | undefined
  /** The operator's confirmation that secrets were replaced. */
  replacedSecrets: string | undefined
}

export interface Options {
  embedded: boolean
  data: string
  migrates: boolean
}

/** Secrets that are random and permanent. The runbook lists the effects of replacing them. */
const secretNames = ['AUTH_SECRET', 'EMAIL_HASH_KEY', 'PROXY_SECRET', 'WEBHOOK_SECRET', 'METRICS_TOKEN'] as const
const leastSecretLength = 24
const stripeNames = ['STRIPE_SECRET_KEY', 'STRIPE_WEBHOOK_SECRET'] as const
/** Variables that require another variable. */
const beside = {
  CLICKHOUSE_URL: 'CLICKHOUSE_PASSWORD',
  GITHUB_CLIENT_ID: 'GITHUB_CLIENT_SECRET',
  GOOGLE_CLIENT_ID: 'GOOGLE_CLIENT_SECRET',
  TURNSTILE_SITE_KEY: 'TURNSTILE_SECRET_KEY',
} as const

const secretsFile = z.record(z.string(), z.string())
const secret = () => randomBytes(32).toString('base64url')

/**
 * Reads the operator's variables.
 * @returns the settings, and a sentence for each problem. Writes nothing if there is a problem.
 */
export function readSettings(
  variables: Record<string, string | undefined>,
  options: Options,
): { settings: Settings; problems: string[] } {
  const problems: string[] = []
  const value = (name: string) => variables[name]?.trim() || undefined
  const need = (name: string, advice: string) => {
    const found = value(name)
    if (found === undefined) problems.push(`${name} is not set. ${advice}`)
    return found ?? ''
  }

  const databaseUrl = value('DATABASE_URL')
  if (options.embedded && databaseUrl !== undefined)
    problems.push('DATABASE_URL and --embedded name two databases. Use only one of them.')
  if (!options.embedded && databaseUrl === undefined)
    problems.push(
      'DATABASE_URL is not set. Set it to the connection string of a PostgreSQL 18, or run with --embedded.',
    )
  if (databaseUrl !== undefined && !/^postgres(ql)?:$/.test(URL.parse(databaseUrl)?.protocol ?? ''))
    problems.push('DATABASE_URL must be a connection string: postgresql://user:password@host/database.')

  const baseUrl = need(
    'BASE_URL',
    'Set it to the address at which browsers reach the service: BASE_URL=https://partners.yourdomain.com.',
  )
  const wrongBase = baseUrl && wrongOrigin(baseUrl)
  if (wrongBase) problems.push(`BASE_URL ${wrongBase}.`)

  const mail = {
    MAIL_API_URL: need(
      'MAIL_API_URL',
      'Set it to an HTTP mail API such as https://api.resend.com/emails. Nobody can sign up without mail.',
    ),
    MAIL_API_KEY: need('MAIL_API_KEY', "Set it to the mail API's key."),
    MAIL_FROM: need('MAIL_FROM', "Set it to the sender: MAIL_FROM='You <partners@yourdomain.com>'."),
  }
  if (mail.MAIL_API_URL && !/^https?:$/.test(URL.parse(mail.MAIL_API_URL)?.protocol ?? ''))
    problems.push('MAIL_API_URL must be an address that begins with https://.')
  if (mail.MAIL_FROM && !/^[^<>\s@]+@[^<>\s@]+$|^[^<>]*<[^<>\s@]+@[^<>\s@]+>$/.test(mail.MAIL_FROM))
    problems.push("MAIL_FROM must be an address, or a name with one: MAIL_FROM='You <partners@yourdomain.com>'.")

  const dataFolder = path.resolve(options.data)
  const kept = options.embedded ? readKept(dataFolder, problems) : {}
  const secrets: Record<string, string> = {}
  for (const name of secretNames) {
    const found = value(name) ?? kept[name] ?? (options.embedded ? secret() : undefined)
    secrets[name] = found ?? need(name, `Generate one and keep it: ${name}=$(openssl rand -base64 32).`)
    if (found !== undefined && found.length < leastSecretLength)
      problems.push(`${name} is too short. Generate one: openssl rand -base64 32.`)
  }
  const stripe = stripeNames.filter((name) => value(name) !== undefined)
  if (stripe.length === 1) {
    const missing = stripeNames.find((name) => name !== stripe[0])
    problems.push(`${stripe[0]} is set without ${missing}. Set both, or neither if you don't use Stripe.`)
  }
  for (const [name, other] of Object.entries(beside))
    if (value(name) !== undefined && value(other) === undefined)
      problems.push(`${name} is set without ${other}. Set both.`)

  const { trusted, wrong } = readTrusted(value('TRUST_PROXY'))
  problems.push(...wrong)
  if (baseUrl.startsWith('https:') && value('TRUST_PROXY') === undefined)
    problems.push(
      'TRUST_PROXY is not set. Set it to the address from which your proxy connects: TRUST_PROXY=127.0.0.1. The service only accepts visitor addresses from this proxy.',
    )
  const port = Number(value('PORT') ?? 8787)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) problems.push('PORT must be a number up to 65535.')
  const host = value('HOST') ?? '127.0.0.1'
  const geoFile = value('GEOIP_FILE')
  if (geoFile !== undefined && !existsSync(geoFile)) problems.push(`GEOIP_FILE names ${geoFile}, which does not exist.`)
  const backupFolder = value('BACKUP_FOLDER')
  if (backupFolder !== undefined && !existsSync(backupFolder))
    problems.push(`BACKUP_FOLDER names ${backupFolder}, which does not exist. Create it, or remove the variable.`)

  const loggedPart = value('LOGGED_PART')
  if (loggedPart !== undefined && !(Number(loggedPart) >= 0 && Number(loggedPart) <= 1))
    problems.push('LOGGED_PART must be a number from 0 to 1: the share of successful calls in the log.')
  try {
    clickRetentionMonths(value('CLICK_RETENTION_MONTHS'))
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error))
  }

  const optional = [...optionalVariables].flatMap((name) => (value(name) ? [[name, value(name) ?? '']] : []))
  const environment: Record<string, string> = {
    ...Object.fromEntries(optional),
    ...mail,
    ...secrets,
    BASE_URL: baseUrl,
    API_BASE_URL: baseUrl,
    // These are random values, so that no signature and no key is valid without Stripe.
    STRIPE_WEBHOOK_SECRET: value('STRIPE_WEBHOOK_SECRET') ?? `whsec_${secret()}`,
    STRIPE_SECRET_KEY: value('STRIPE_SECRET_KEY') ?? 'sk_test_none',
    ...(loggedPart !== undefined && { LOGGED_PART: loggedPart }),
  }
  const databasePassword = kept['DATABASE_PASSWORD'] ?? secret()
  if (options.embedded && problems.length === 0)
    // If a variable is set, it takes precedence. The stored secret is kept.
    keep(dataFolder, { ...secrets, ...kept, DATABASE_PASSWORD: databasePassword }, problems)
  const settings = {
    environment,
    databaseUrl,
    dataFolder,
    databasePassword,
    migrates: options.migrates,
    host,
    port,
    // sd_listen_fds(3): the first inherited socket is file descriptor 3.
    socket: value('LISTEN_PID') === String(process.pid) && value('LISTEN_FDS') === '1' ? 3 : undefined,
    trusted,
    geoFile,
    backupFolder,
    replacedSecrets: value('REPLACED_SECRETS'),
  }
  return { settings, problems }
}

function wrongOrigin(text: string): string | undefined {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be an address such as https://partners.yourdomain.com'
  if (url.origin !== text) return `must have no path and no trailing slash: ${url.origin}`
  if (url.protocol === 'http:' && !/^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname))
    return 'must begin with https://, because it receives cookies and passwords'
  return undefined
}

/** Parses addresses and networks (`10.0.0.0/8`), separated by commas or spaces. */
export function readTrusted(text: string | undefined): { trusted: BlockList; wrong: string[] } {
  const trusted = new BlockList()
  const wrong: string[] = []
  for (const entry of text?.split(/[\s,]+/).filter(Boolean) ?? []) {
    const [address = '', bits, ...more] = entry.split('/')
    const family = isIP(address)
    const most = family === 4 ? 32 : 128
    const prefix = bits === undefined ? most : /^\d{1,3}$/.test(bits) ? Number(bits) : Infinity
    if (family === 0 || more.length > 0 || prefix > most || prefix === 0) {
      wrong.push(
        `TRUST_PROXY has ${entry}, which is neither an address nor a network such as 10.0.0.0/8. You can't trust all addresses.`,
      )
    } else trusted.addSubnet(address, prefix, family === 4 ? 'ipv4' : 'ipv6')
  }
  return { trusted, wrong }
}

const fileOf = (dataFolder: string) => path.join(dataFolder, 'secrets.json')

function readKept(dataFolder: string, problems: string[]): Record<string, string> {
  const file = fileOf(dataFolder)
  if (!existsSync(file)) {
    // New secrets wouldn't match the existing data.
    if (existsSync(path.join(dataFolder, 'postgres')))
      problems.push(`${file} is missing, but the database next to it needs it. Restore your copy.`)
    return {}
  }
  try {
    return secretsFile.parse(JSON.parse(readFileSync(file, 'utf8')))
  } catch {
    problems.push(`${file} is unreadable. Restore your copy.`)
    return {}
  }
}

function keep(dataFolder: string, secrets: Record<string, string>, problems: string[]): void {
  mkdirSync(dataFolder, { recursive: true })
  const file = fileOf(dataFolder)
  const isThere = existsSync(file)
  const text = `${JSON.stringify(secrets, null, 2)}\n`
  if (isThere && readFileSync(file, 'utf8') === text) return
  try {
    // Another process may start at the same moment, and its database already uses its secrets.
    writeFileSync(file, text, { mode: 0o600, flag: isThere ? 'w' : 'wx' })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    problems.push(`${dataFolder} is in use by another process that started at the same moment. Run only one.`)
    return
  }
  chmodSync(file, 0o600)
}
