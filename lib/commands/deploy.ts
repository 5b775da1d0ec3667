import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import color from 'picocolors'
import { exitCodeOf } from './processes.ts'
import { OperatorError } from './operator-error.ts'
import { type FunctionEntry, inBindingOrder, readFunctions } from './wrangler-file.ts'
import { explain, runCommand } from './command.ts'
import { currentVersion } from './version.ts'
import { type Operator, operatorToml, readOperator } from './deploy/config.ts'
import { cloudflareToken, emptyEdge, readEdge } from './deploy/edge.ts'
import { buildLambda } from './deploy/lambda.ts'
import { type Plan, planOf, secretsOf } from './deploy/plan.ts'
import { openRollout, rollback, type Rollout, type Shift, shiftsTo } from './deploy/rollout.ts'
import { writeStaticFiles } from './deploy/static-files.ts'

/**
 * `npm run deploy`: deploys every function in wrangler.toml with `wrangler deploy --env`. `npm run deploy -- track-click` deploys only the
 * named functions. `--plan` only shows the changes, `--dry-run` only builds, without a network. Other options go to wrangler.
 *
 * The environment holds the settings of one operator, so wrangler.toml stays unchanged: `ENVIRONMENT` and `DOMAIN` name Workers
 * and routes, and set variables and secrets are deployed. Unset ones keep their values at Cloudflare. If a function lacks a
 * value, or production has no mail, the command changes nothing. All functions of a deployment have the same version id.
 */

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Every visitor and every sale waits for these scripts. Small scripts start quickly, so there is a limit in gzipped bytes. */
export const gzipBytesMax: Record<string, number> = {
  'track-click': 90 * 1024,
  'track-lead': 90 * 1024,
  'track-sale': 90 * 1024,
  'track-refund': 90 * 1024,
}

interface Outcome {
  name: string
  ok: boolean
  output: string
  rawKib: number
  gzipKib: number
}

const logIn = 'Log in with `npx wrangler login`, or set CLOUDFLARE_API_TOKEN.'

/** The line above a plan that was computed without asking Cloudflare. */
const notAsked = `You are not logged in to Cloudflare, so this shows a first deployment. Unknown: which Workers, variables, secrets
and schedules are there already, whether another Worker answers a route, and whether the zone is yours.
${logIn}
`

const isDryRun = process.argv.includes('--dry-run')
const isPlan = process.argv.includes('--plan')
const isRollback = process.argv.includes('--rollback')
const percentOption = process.argv.find((argument) => argument.startsWith('--percent'))
const options = process.argv.slice(2).filter((argument) => argument.startsWith('-') && argument !== percentOption)
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('-'))

async function deploy(entry: FunctionEntry, version: string, config: string, folder: string): Promise<Outcome> {
  const secrets = secretsOf(entry).flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []))
  const secretsFile = path.join(folder, `${entry.name}.json`)
  writeFileSync(secretsFile, JSON.stringify(Object.fromEntries(secrets)), { mode: 0o600 })
  const child = spawn(
    'wrangler',
    [
      // A version gets no requests until it is given a share of them.
      ...(percentOption ? ['versions', 'upload'] : ['deploy']),
      `--tag=${version}`,
      `--env=${entry.name}`,
      `--config=${config}`,
      `--outdir=${path.join(folder, entry.name)}`,
      '--keep-vars',
      ...(secrets.length > 0 && !isDryRun ? [`--secrets-file=${secretsFile}`] : []),
      ...options,
    ],
    { cwd: root, env: { ...process.env, WRANGLER_SEND_METRICS: 'false', FORCE_COLOR: '0' } },
  )
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const code = await exitCodeOf(child)
  const [, rawKib, gzipKib] = /Total Upload: ([\d.]+) KiB \/ gzip: ([\d.]+) KiB/.exec(output) ?? []
  return { name: entry.name, ok: code === 0, output, rawKib: Number(rawKib), gzipKib: Number(gzipKib) }
}

function row({ name, ok, rawKib, gzipKib }: Outcome): string {
  if (!ok) return `${color.red('✗')} ${name}`
  const limit = gzipBytesMax[name]
  const tooLarge = isTooLarge({ name, gzipKib })
  const size = `${rawKib.toFixed(1).padStart(8)} KiB ${gzipKib.toFixed(1).padStart(8)} KiB gzip`
  const limitText = limit ? color.dim(`  of ${(limit / 1024).toFixed(1)} KiB`) : ''
  return `${tooLarge ? color.red('✗') : color.green('✓')} ${name.padEnd(24)}${size}${limitText}`
}

function isTooLarge({ name, gzipKib }: Pick<Outcome, 'name' | 'gzipKib'>): boolean {
  const limit = gzipBytesMax[name]
  return limit !== undefined && gzipKib * 1024 > limit
}

/** Compares these functions with the deployed ones, which it reads from Cloudflare with `token`. Without a token, shows a first deployment. */
export async function planDeployment(
  operator: Operator,
  wranglerToml: string,
  token: string | undefined,
  names: string[] = [],
): Promise<Plan> {
  const all = readFunctions(wranglerToml)
  const placed = readFunctions(operatorToml(wranglerToml, operator))
  const functions = placed
    .filter(({ name }) => names.length === 0 || names.includes(name))
    // Uses all variables in wrangler.toml, because the deployed file omits unset ones.
    .map((entry) => ({ ...entry, vars: { ...all.find(({ name }) => name === entry.name)?.vars, ...entry.vars } }))
  const workers = functions.map(({ workerName }) => workerName)
  const edge = token === undefined ? emptyEdge : await readEdge(token, operator.domain, workers, operator.given)
  return planOf(
    operator,
    functions,
    edge,
    all.map(({ workerName }) => workerName),
  )
}

async function deployAll(): Promise<void> {
  if (wanted.includes('lambda')) return await deployLambda()
  const wranglerToml = readFileSync(`${root}wrangler.toml`, 'utf8')
  const all = readFunctions(wranglerToml)
  const unknown = wanted.find((name) => !all.some((entry) => entry.name === name))
  if (unknown)
    throw new OperatorError(
      `${unknown} has no entry in wrangler.toml. Name one of ${all.map(({ name }) => name).join(', ')}.`,
    )
  const functions = all.filter(({ name }) => wanted.length === 0 || wanted.includes(name))
  const version = currentVersion()
  const { operator, problems } = readOperator({ ...process.env, VERSION: version })
  const percent = readPercent(version)
  const placed = readFunctions(operatorToml(wranglerToml, operator)).filter(({ name }) =>
    functions.some((entry) => entry.name === name),
  )
  let rollout: Rollout | undefined
  let uploaded = new Set<string>()
  if (!isDryRun) {
    if (problems.length > 0) throw new OperatorError(problems.join('\n'))
    const token = await cloudflareToken(process.env)
    if (token === undefined && !(isPlan && percent === undefined && !isRollback))
      throw new OperatorError(`You are not logged in to Cloudflare. ${logIn}`)
    if (token !== undefined && (isRollback || percent !== undefined))
      rollout = await openRollout(
        token,
        operator,
        placed.map(({ workerName }) => workerName),
      )
    if (rollout && isRollback) return await shift(rollout, rollback(await rollout.read()))
    const plan = await planDeployment(operator, wranglerToml, token, wanted)
    if (token === undefined) console.log(notAsked)
    if (isPlan) console.log(plan.lines.join('\n'))
    if (plan.problems.length > 0) throw new OperatorError(['Nothing was deployed.', ...plan.problems].join('\n'))
    if (rollout && percent !== undefined) {
      if (plan.changesTriggers)
        throw new OperatorError(
          'Nothing was deployed.\nA function, a route or a schedule is new or removed. Deploy this version without --percent.',
        )
      const states = await rollout.read()
      if (isPlan)
        console.log(
          shiftsTo(states, version, percent)
            .map(({ line }) => line)
            .join('\n'),
        )
      // Later steps change only the shares.
      const withVersion = states.filter(({ versions }) => versions.some(({ tag }) => tag === version))
      const isUploaded = (entry: FunctionEntry) => withVersion.some(({ worker }) => worker === entry.workerName)
      uploaded = new Set(placed.filter(isUploaded).map(({ name }) => name))
    }
    if (isPlan) return
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-deploy-'))
  // Wrangler resolves paths from its configuration file, so this file is next to wrangler.toml.
  const config = `${root}wrangler.deploy.${process.pid}.toml`
  try {
    const staticFolders = await writeStaticFiles(path.join(folder, 'static'), placed)
    writeFileSync(config, operatorToml(wranglerToml, operator, staticFolders))
    const outcomes: Outcome[] = []
    for (const group of inBindingOrder(functions)) {
      const queue = group.filter(({ name }) => !uploaded.has(name))
      const worker = async () => {
        for (let entry = queue.shift(); entry; entry = queue.shift()) {
          const outcome = await deploy(entry, version, config, folder)
          outcomes.push(outcome)
          console.log(row(outcome))
          if (!outcome.ok) console.log(outcome.output)
        }
      }
      await Promise.all(Array.from({ length: availableParallelism() }, worker))
    }
    const failed = outcomes.filter(({ ok }) => !ok).length
    const tooLarge = outcomes.filter((outcome) => outcome.ok && isTooLarge(outcome))
    for (const { name } of tooLarge) console.log(color.red(`${name} exceeds its size limit. Check its imports.`))
    const done = isDryRun ? 'built' : percent === undefined ? 'deployed' : 'uploaded'
    console.log(`${outcomes.length - failed} ${done}, ${failed} failed`)
    if (failed > 0 || tooLarge.length > 0) process.exitCode = 1
    else if (rollout && percent !== undefined) await shift(rollout, shiftsTo(await rollout.read(), version, percent))
  } finally {
    rmSync(config, { force: true })
    rmSync(folder, { recursive: true })
  }
}

/** Reads `--percent=10`, the share of requests that this version gets. */
function readPercent(version: string): number | undefined {
  if (percentOption === undefined) return undefined
  const percent = Number(/^--percent=(\d{1,3})$/.exec(percentOption)?.[1])
  if (!(percent >= 1 && percent <= 100))
    throw new OperatorError('Set --percent to the share of requests that the new version gets: --percent=10.')
  if (version.endsWith('-changed'))
    throw new OperatorError(`The version ${version} has uncommitted changes. Commit them, so that its id is unique.`)
  return percent
}

/** Shows the shifts, and applies them unless this is a plan. A refused shift doesn't stop the other shifts. */
async function shift(rollout: Rollout, shifts: Shift[]): Promise<void> {
  if (shifts.length === 0) throw new OperatorError('No function has an earlier version.')
  for (const one of shifts) {
    console.log(one.line)
    if (isPlan) continue
    try {
      await rollout.apply(one)
    } catch (error) {
      console.error(`${one.worker} was not changed. ${explain(error)}`)
      process.exitCode = 1
    }
  }
}

async function deployLambda(): Promise<void> {
  const { operator, problems } = readOperator(process.env)
  if (problems.length > 0) throw new OperatorError(problems.join('\n'))
  const folder = `${root}dist/lambda`
  console.log(await buildLambda(folder, operator.environment, process.env['QUEUE_URL'] ?? ''))
}

const usage = `npm run deploy                   deploys every function
npm run deploy -- track-click    deploys only the named functions
npm run deploy -- lambda         builds the notification consumer for AWS Lambda, and explains how to install it
npm run deploy -- --percent=10   uploads this version, and gives it a tenth of the requests. Repeat with a higher share, up to 100
npm run deploy -- --rollback     gives all requests back to the version before the latest one
npm run deploy -- --plan         shows the changes without making them, also with --percent and --rollback
npm run deploy -- --dry-run      only builds, and prints sizes

ENVIRONMENT and DOMAIN choose the names and hosts. The environment provides the functions' variables and secrets. Unset ones
keep their values.`

if (import.meta.main) await runCommand(usage, deployAll)
