import { parseArgs } from 'node:util'
import * as z from 'zod/mini'
import type { SessionEnv } from '../access/sessions.ts'
import { keyScopes } from '../access/api-keys.ts'
import { createApiKey } from '../access/program-keys.ts'
import { runCommand } from '../commands/command.ts'
import { type Database, openDatabase } from '../database.ts'
import { kysely } from '../kysely.ts'
import { maxAmountCents } from '../money.ts'
import { setMinimumPayout } from '../money/payout-runs.ts'
import { addPartner } from '../programs/partners.ts'
import { createProgram, programDefaults, programSettings, type ProgramSettings } from '../programs/programs.ts'
import { createWorkspace } from '../programs/workspaces.ts'
import { addMember, createPerson, tiePartner } from './people.ts'
import { newToken } from '../access/tokens.ts'
import { changeSecret, createConnection, isProcessor, type SecretsEnv } from '../processors/connections.ts'
import { type ProcessorName, processors } from '../processors/processors.ts'
import { ownAccount } from '../processors/stripe/client.ts'
import { OperatorError } from '../commands/operator-error.ts'
import { readRunningStack } from '../commands/running-stack.ts'

export interface Sandbox {
  programId: number
  workspaceId: string
  apiKey: string
  partnerCode: string
  partnerId: number
  /** Sessions of the workspace's owner, a member without `tracking:list`, the owner of another workspace, and the partner. */
  dashboardToken: string
  billingToken: string
  outsiderToken: string
  partnerToken: string
  connectedAccountId: string
}

/**
 * Creates a workspace with a program, an API key, a connected processor account, a partner with a link, and people for test calls. Other
 * workspaces aren't affected.
 */
export async function createSandbox(
  db: Database,
  env: SessionEnv,
  settings: Partial<ProgramSettings> = {},
  isOwnAccount = false,
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

  const connectedAccountId = isOwnAccount ? ownAccount : `acct_${tag}`
  const programId = await createProgram(db, workspaceId, {
    ...programDefaults,
    // This limit is disabled, because all trial calls come from one address.
    review_rules: [],
    name: `Sandbox program ${tag}`,
    domain: 'shop.example.com',
    ...settings,
  })
  if (isOwnAccount) await releaseOwnAccount(db)
  await db.query(
    kysely.updateTable('programs').set({ processor_account_id: connectedAccountId }).where('id', '=', programId),
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
    apiKey: await createApiKey(db, programId, 'default', { scopes: keyScopes }),
    partnerCode: code,
    partnerId,
    dashboardToken: owner.token,
    billingToken: billing.token,
    outsiderToken: outsider.token,
    partnerToken: partnerUser.token,
    connectedAccountId,
  }
}

/** Only one program can use the deployment's own account, so a new sandbox takes it over. */
async function releaseOwnAccount(db: Database): Promise<void> {
  await db.query(
    kysely
      .updateTable('programs')
      .set({ processor_account_id: null, processor_former_account_id: ownAccount, processor_connected_at: null })
      .where('processor_account_id', '=', ownAccount),
  )
}

/** The options of `npm run -s sandbox -- --commission-percent 12.5 --hold-days 0`. */
const sandboxOptions = {
  'lead-auth-policy': { type: 'string' },
  'commission-percent': { type: 'string' },
  'hold-days': { type: 'string' },
  'cookie-window-days': { type: 'string' },
  'lead-commission-cents': { type: 'string' },
  currency: { type: 'string' },
  'own-account': { type: 'boolean' },
  processor: { type: 'string' },
  'attribution-model': { type: 'string' },
  'commission-duration-months': { type: 'string' },
  'minimum-payout-cents': { type: 'string' },
  'attribute-known-customers': { type: 'boolean' },
} as const

const help = `Creates a workspace with a program, an API key, a partner and people, and prints them as JSON. Options:

  --lead-auth-policy server_verified|browser_allowed    who settles a lead
  --commission-percent 12.5                             of each sale
  --hold-days 0                                         until a commission is credited
  --cookie-window-days 30                               how long a click attributes
  --lead-commission-cents 150                           paid for each settled lead
  --currency eur                                        of the program, ISO 4217
  --attribution-model last_click|first_click            which click counts
  --commission-duration-months 12                       from the first purchase on
  --minimum-payout-cents 5000                           the smallest payable amount
  --attribute-known-customers                           also payments without metadata
  ${`--processor ${Object.keys(processors).join('|')}`.padEnd(54)}also connected to it
  --own-account                                         events from Stripe have no account; one sandbox at a time has them`

/** Rounds to two decimals, so that 12.55 percent doesn't become 1255.0000000000002 basis points. */
function parseNumber(text: string | undefined, factor = 1): number | undefined {
  return text === undefined ? undefined : Math.round(Number(text) * factor * 100) / 100
}

type Arguments = ReturnType<typeof parseArgs<{ options: typeof sandboxOptions }>>['values']

function settingsFrom(values: Arguments): Partial<ProgramSettings> {
  const options = {
    lead_auth_policy: values['lead-auth-policy'],
    commission_bp: parseNumber(values['commission-percent'], 100),
    hold_days: parseNumber(values['hold-days']),
    cookie_window_days: parseNumber(values['cookie-window-days']),
    lead_commission_cents: parseNumber(values['lead-commission-cents']),
    currency: values.currency,
    attribution_model: values['attribution-model'],
    commission_duration_months: parseNumber(values['commission-duration-months']),
    attribute_known_customers: values['attribute-known-customers'],
  } satisfies Partial<Record<keyof ProgramSettings, unknown>>
  const settings = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
  const parsed = z.partial(programSettings).safeParse(settings)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const option = `--${String(issue?.path[0]).replace('commission_bp', 'commission_percent').replaceAll('_', '-')}`
  throw new OperatorError(`${option}: ${issue?.message}`)
}

function minimumPayoutFrom(values: Arguments): number {
  const cents = Number(values['minimum-payout-cents'] ?? 0)
  if (Number.isSafeInteger(cents) && cents >= 0 && cents <= maxAmountCents) return cents
  throw new OperatorError('--minimum-payout-cents: Enter an amount in minor units, for example 5000.')
}

function processorFrom({ processor }: Arguments): ProcessorName | undefined {
  if (processor === undefined || isProcessor(processor)) return processor
  throw new OperatorError(`--processor: Choose one of ${Object.keys(processors).join(', ')}.`)
}

/** Connects a sandbox to a processor's live mode with its own secret. */
async function connect(
  db: Database,
  env: SecretsEnv,
  programId: number,
  processor: ProcessorName,
  baseUrl: string,
): Promise<{ processorWebhookUrl: string; processorWebhookSecret: string }> {
  const accountId = await createConnection(db, programId, { processor, livemode: true })
  const processorWebhookSecret = newToken().slice(0, 40)
  await changeSecret(db, env, programId, accountId, processorWebhookSecret)
  return { processorWebhookUrl: `${baseUrl}/api/v1/webhooks/${processor}/${accountId}`, processorWebhookSecret }
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: sandboxOptions })
  const processor = processorFrom(values)
  const settings = settingsFrom(values)
  const minimumPayoutCents = minimumPayoutFrom(values)
  const { baseUrl, environment } = readRunningStack()
  const db = openDatabase(environment)
  const sandbox = await createSandbox(db, environment, settings, values['own-account'])
  await setMinimumPayout(db, sandbox.programId, settings.currency ?? programDefaults.currency, minimumPayoutCents)
  const addresses = {
    connectedAccountId: values['own-account'] ? null : sandbox.connectedAccountId,
    databaseUrl: environment.DATABASE_URL,
    queueUrl: environment.QUEUE_URL,
    deadLetterQueueUrl: environment.DEAD_LETTER_QUEUE_URL,
    webhookSecret: environment.STRIPE_WEBHOOK_SECRET,
  }
  const connection = processor && (await connect(db, environment, sandbox.programId, processor, baseUrl))
  console.log(JSON.stringify({ baseUrl, ...sandbox, ...addresses, ...connection }, null, 2))
}

if (import.meta.main) await runCommand(help, main)
