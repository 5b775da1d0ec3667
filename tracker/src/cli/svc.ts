import { styleText } from 'node:util'
import { confirm, isCancel, password } from '@clack/prompts'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { addExport, addImports } from './imports.ts'
import { init } from './init.ts'
import { addListen } from './listen.ts'
import { addPerformance } from './performance.ts'
import { addResources } from './resources.ts'
import { addRules } from './rules.ts'
import {
  CommandError,
  connect,
  type ConnectionFlags,
  envFile,
  fetchStatus,
  findApiKey,
  findBaseUrl,
  type Status,
} from './service.ts'
import { addWebhooks } from './webhooks.ts'
import { sendTestEvent, type TestEventKind } from './test-event.ts'

declare const SVC_VERSION: string

/** Exit codes for scripts. */
const exitCodes = { done: 0, failed: 1, usage: 2, checksFail: 3 }

const interactive = (flags: ConnectionFlags) =>
  process.stdin.isTTY && process.stdout.isTTY && !flags.json && !process.env['CI']

// styleText doesn't add colors if the stream is not a terminal or NO_COLOR is set.
const green = (text: string) => styleText('green', text, { stream: process.stdout })
const red = (text: string) => styleText('red', text, { stream: process.stdout })
const dim = (text: string) => styleText('dim', text, { stream: process.stdout })

const print = (flags: ConnectionFlags, data: object, text: string) =>
  console.log(flags.json ? JSON.stringify({ success: true, ...data }, null, 2) : text)

const svc = new Command('svc')
  .description('Set up and check the affiliate tracking of a shop.')
  .version(SVC_VERSION)
  .helpOption('-h, --help', 'Show this help.')
  .exitOverride()
  .configureOutput({ writeErr: (text) => process.stderr.write(text) })
  .showHelpAfterError('Run the command with --help to see its options.')
  .addHelpText(
    'after',
    `
Start here.
  $ svc init            ask for the API key, then write .svc/ for you and your coding agent
  $ svc test click      send a test event
  $ svc status          show the working and the missing parts

Then use a key with the scope for it.
  $ svc partners list   also links, sales, commissions, payouts and webhooks
  $ svc listen --forward http://localhost:3000/hooks

Key and address come from --api-key and --base-url, else SVC_API_KEY and SVC_BASE_URL, else ${envFile}.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 (status only) a check fails.`,
  )

/** Adds a subcommand with the common flags. */
function subcommand(parent: Command, name: string, description: string): Command {
  return parent
    .command(name)
    .description(description)
    .exitOverride()
    .helpOption('-h, --help', 'Show this help.')
    .option('--api-key <key>', 'API key of the program. Prefer SVC_API_KEY: other users of the machine can see flags.')
    .option('--base-url <url>', 'Address of the service.')
    .option('--json', 'Print one JSON object and never prompt.')
}

subcommand(svc, 'init', 'Check the API key and write .svc/ with instructions and settings.')
  .option('--force', 'Replace files that were changed by hand.')
  .addHelpText(
    'after',
    `
Writes .svc/AGENTS.md and .svc/skills.md (instructions for you or a coding agent), .svc/.env (your settings; git
ignores it) and .svc/.env.example. Adds a section between two markers to AGENTS.md in this folder; the rest of it stays.
Safe to repeat: it keeps files that you changed, unless you say otherwise.

The dashboard shows this command, filled in, with each new key.

Examples:
  $ svc init
  $ svc init --base-url https://api.example.com --api-key svc_live_…
  $ SVC_API_KEY=svc_live_… svc init --json`,
  )
  .action(async (flags: ConnectionFlags & { force?: boolean }) => {
    const apiKey = findApiKey(flags) ?? (interactive(flags) ? await askForKey() : undefined)
    const connection = { ...connect({ ...flags, ...(apiKey && { apiKey }) }), baseUrl: findBaseUrl(flags) }
    const { status, files } = await init(connection, async (path) => {
      if (flags.force) return true
      if (!interactive(flags)) return false
      const answer = await confirm({ message: `${path} was changed by hand. Replace it?`, initialValue: false })
      return answer === true
    })
    const lines = Object.entries(files).map(([path, written]) => {
      const note = written === 'kept' ? 'kept: changed by hand; --force replaces it' : written
      return `  ${path.padEnd(18)} ${dim(note)}`
    })
    const text = [
      `${green('✓')} ${status.program.name}, program ${status.program.id}`,
      ...lines,
      '',
      'Next: follow .svc/AGENTS.md, or give it to your coding agent. Then run `node_modules/.bin/svc status`.',
      `Watch what arrives: ${connection.baseUrl}/programs/${status.program.id}/check`,
      `Documentation: ${connection.baseUrl}/docs`,
    ]
    print(flags, { program: status.program, files }, text.join('\n'))
  })

subcommand(svc, 'status', 'Show the program and the working parts of the integration.')
  .addHelpText('after', '\nExamples:\n  $ svc status\n  $ svc status --json')
  .action(async (flags: ConnectionFlags) => {
    const status = await fetchStatus(connect(flags))
    print(flags, status, describeStatus(status))
    if (!status.checks.every(({ name, ok }) => ok || name === optionalCheck)) process.exitCode = exitCodes.checksFail
  })

/** Shops that send their own sales don't connect a processor, so the command never fails because of this check. */
const optionalCheck = 'processor_connected'

const describeActivity = ([name, { live, test: inTest }]: [string, Status['activity']['last_click']]) =>
  `  ${name.replace('_', ' ').padEnd(14)} ${live ?? 'never'}${inTest ? dim(` (test: ${inTest})`) : ''}`

const describeCheck = ({ name, ok, message }: Status['checks'][number]) =>
  `${ok ? green('✓') : name === optionalCheck ? dim('–') : red('✗')} ${message}`

/** `no_attribution` matters only until the first lead arrives, because most visitors don't come through a partner. */
const isRelevant = ({ checks }: Status) => {
  const hasLeads = checks.some(({ name, ok }) => name === 'lead_seen' && ok)
  return ({ code }: Status['refusals'][number]) => !(hasLeads && code === 'no_attribution')
}

const describeRefusal = ({ message, refused_at: at }: Status['refusals'][number]) => `${red('✗')} ${message} ${dim(at)}`

const describeStatus = (status: Status) => {
  const { program, activity, checks, refusals } = status
  return [
    `${program.name}, program ${program.id}`,
    `  domain         ${program.domain}`,
    `  commission     ${program.commission_percent}% of a sale`,
    `  cookie         ${program.cookie_window_days} days`,
    `  leads          ${program.lead_auth_policy}`,
    ...Object.entries(activity).map(describeActivity),
    '',
    ...checks.map(describeCheck),
    ...refusals.filter(isRelevant(status)).map(describeRefusal),
  ].join('\n')
}

const test = svc
  .command('test')
  .description('Send a test event. It does not count and earns nothing.')
  .helpOption('-h, --help', 'Show this help.')

for (const kind of ['click', 'lead', 'sale'] satisfies TestEventKind[]) {
  const command = subcommand(test, kind, `Send a test ${kind} and show that it arrived.`)
  const examples = ['', ' --json']
  if (kind === 'sale') {
    command.addOption(amountOption()).option('--coupon <code>', 'Code that the buyer typed.')
    examples.push(' --coupon NORA10')
  }
  command
    .addHelpText('after', ['', 'Examples:', ...examples.map((more) => `  $ svc test ${kind}${more}`)].join('\n'))
    .action(async (flags: ConnectionFlags & { amount?: number; coupon?: string }) => {
      const { amount: amountCents = 0, coupon } = flags
      const event = await sendTestEvent(connect(flags), kind, { amountCents, coupon })
      const byCode = event.attributed ? `The partner of ${coupon} would get it.` : `No partner has the code ${coupon}.`
      print(
        flags,
        event,
        `${green('✓')} The test ${kind} arrived at ${event.arrived_at}: event ${event.id} of program ${event.program_id}. It does not count.${coupon === undefined ? '' : ` ${byCode}`}`,
      )
    })
}

const webhooks = addResources(svc, subcommand, print).get('webhooks')
if (webhooks) addWebhooks(webhooks, subcommand, print)
addRules(svc, subcommand, print)
addImports(svc, subcommand, print)
addExport(svc, subcommand, print)
addListen(svc, subcommand)
addPerformance(svc, subcommand, print)

function amountOption(): Option {
  return new Option('--amount <cents>', 'Amount in cents.').default(1000).argParser((text) => {
    const amount = Number(text)
    if (!Number.isSafeInteger(amount) || amount <= 0)
      throw new InvalidArgumentError('Enter a positive integer number of cents.')
    return amount
  })
}

async function askForKey(): Promise<string> {
  const key = await password({ message: 'API key (dashboard, API keys):', mask: '•' })
  if (isCancel(key)) throw new CommandError('canceled', 'Nothing was written.', 'Run `svc init` when you have the key.')
  return key
}

try {
  await svc.parseAsync()
} catch (error) {
  if (error instanceof CommanderError) {
    // Help and version are not failures. All other parser errors are usage errors.
    process.exitCode = error.exitCode === 0 ? exitCodes.done : exitCodes.usage
  } else if (error instanceof CommandError) {
    const { code, message, hint } = error
    if (process.argv.includes('--json')) {
      console.log(JSON.stringify({ success: false, error: { code, message, hint } }, null, 2))
    } else {
      console.error(`${styleText('red', '✗', { stream: process.stderr })} ${message}\n  ${hint}`)
    }
    process.exitCode = exitCodes.failed
  } else throw error
}
