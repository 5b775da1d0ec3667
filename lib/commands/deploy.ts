import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import color from 'picocolors'
import { parse, stringify } from 'smol-toml'
import * as z from 'zod/mini'
import { optionalVariables } from '../local/environment.ts'
import { exitCodeOf, LocalStackError } from '../local/postgres.ts'
import { type FunctionEntry, readFunctions } from '../local/workers.ts'

/**
 * `npm run deploy`: deploys every function of wrangler.toml with `wrangler deploy --env`. `npm run deploy -- track-click`
 * deploys the named ones; `--dry-run` builds only; other options go to wrangler.
 *
 * What differs from one operator to the next comes from the environment, so wrangler.toml stays as it is: `DOMAIN` stands for
 * `example.com` in every route and address and `API_HOST` for `api.example.com` (`api.` and the domain unless it is given), a
 * variable of the environment replaces one of the same name under `vars`, and required secrets that the environment has are
 * uploaded with the function; those it has not must be there from before.
 */

const root = fileURLToPath(new URL('../../', import.meta.url))
const placeholderDomain = 'example.com'

/** A small script starts quickly in a new place. What every visitor and every sale waits for is held to these bytes, gzipped. */
const gzipBytesMax: Record<string, number> = {
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

const isDryRun = process.argv.includes('--dry-run')
const options = process.argv.slice(2).filter((argument) => argument.startsWith('-'))
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('-'))

/** As far as it is changed here; the rest goes on as it is. */
const wranglerConfig = z.looseObject({
  env: z.record(z.string(), z.looseObject({ vars: z.optional(z.record(z.string(), z.string())) })),
})

/**
 * wrangler.toml with the operator's addresses and variables. `missing` is what it cannot be deployed without, in sentences.
 * Variables of features that are optional may stay empty.
 */
export function operatorConfig(
  wranglerToml: string,
  environment: Record<string, string | undefined>,
): { toml: string; missing: string[] } {
  const { DOMAIN: domain } = environment
  const host = environment['API_HOST'] ?? (domain && `api.${domain}`)
  const placed = wranglerToml
    .replaceAll(`api.${placeholderDomain}`, host ?? `api.${placeholderDomain}`)
    .replaceAll(placeholderDomain, domain ?? placeholderDomain)
  const config = wranglerConfig.parse(parse(placed))
  const empty = new Set<string>()
  for (const { vars = {} } of Object.values(config.env)) {
    for (const name of Object.keys(vars)) {
      vars[name] = environment[name] ?? vars[name] ?? ''
      if (vars[name] === '' && !optionalVariables.has(name)) empty.add(name)
    }
  }
  const missing = [...empty].map((name) => `Functions need a value of ${name}. Set it in the environment.`)
  if (!domain) missing.unshift('Set DOMAIN to your zone at Cloudflare: DOMAIN=yourdomain.com npm run deploy')
  return { toml: stringify(config), missing }
}

async function deploy(entry: FunctionEntry, config: string, folder: string): Promise<Outcome> {
  const secrets = entry.secrets.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []))
  const secretsFile = path.join(folder, `${entry.name}.json`)
  writeFileSync(secretsFile, JSON.stringify(Object.fromEntries(secrets)), { mode: 0o600 })
  const child = spawn(
    'wrangler',
    [
      'deploy',
      `--env=${entry.name}`,
      `--config=${config}`,
      `--outdir=${path.join(folder, entry.name)}`,
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

async function deployAll(): Promise<void> {
  const all = readFunctions()
  const unknown = wanted.find((name) => !all.some((entry) => entry.name === name))
  if (unknown) throw new LocalStackError(`${unknown} has no entry in wrangler.toml.`)
  const functions = all.filter(({ name }) => wanted.length === 0 || wanted.includes(name))
  const { toml, missing } = operatorConfig(readFileSync(`${root}wrangler.toml`, 'utf8'), process.env)
  if (missing[0] && !isDryRun) throw new LocalStackError(missing.join('\n'))
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-deploy-'))
  // Beside wrangler.toml, since wrangler resolves the functions' files from where its configuration is.
  const config = `${root}wrangler.deploy.toml`
  try {
    writeFileSync(config, toml)
    // A function that others are bound to must be there before them.
    const bound = new Set(all.flatMap(({ services }) => Object.values(services).map(({ name }) => name)))
    const outcomes: Outcome[] = []
    for (const group of [
      functions.filter(({ name }) => bound.has(name)),
      functions.filter(({ name }) => !bound.has(name)),
    ]) {
      const queue = [...group]
      const worker = async () => {
        for (let entry = queue.shift(); entry; entry = queue.shift()) {
          const outcome = await deploy(entry, config, folder)
          outcomes.push(outcome)
          console.log(row(outcome))
          if (!outcome.ok) console.log(outcome.output)
        }
      }
      await Promise.all(Array.from({ length: availableParallelism() }, worker))
    }
    const failed = outcomes.filter(({ ok }) => !ok).length
    const tooLarge = outcomes.filter((outcome) => outcome.ok && isTooLarge(outcome))
    for (const { name } of tooLarge) console.log(color.red(`${name} is larger than it may be. See what it imports.`))
    console.log(`${outcomes.length - failed} ${isDryRun ? 'built' : 'deployed'}, ${failed} failed`)
    if (failed > 0 || tooLarge.length > 0) process.exitCode = 1
  } finally {
    rmSync(config, { force: true })
    rmSync(folder, { recursive: true })
  }
}

if (import.meta.main) {
  try {
    await deployAll()
  } catch (error) {
    if (!(error instanceof LocalStackError)) throw error
    console.error(error.message)
    process.exitCode = 1
  }
}
