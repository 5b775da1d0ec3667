import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import * as z from 'zod/mini'
import { generateSecrets, type Secrets } from './environment.ts'
import { isAlive, LocalStackError } from './postgres.ts'

/** Everything the local stack keeps. Removing the folder starts afresh. LOCAL_DATA_FOLDER puts it elsewhere, as tests do. */
export const dataFolder = path.resolve(
  process.env['LOCAL_DATA_FOLDER'] ?? fileURLToPath(new URL('../../.local/', import.meta.url)),
)

const stateFile = path.join(dataFolder, 'stack.json')
const secretsFile = path.join(dataFolder, 'secrets.json')
const demoFile = path.join(dataFolder, 'demo.json')

/** The running stack, for other commands on this machine. */
const stackState = z.object({
  pid: z.number(),
  baseUrl: z.string(),
  /** What functions were given, secrets included. */
  environment: z.looseObject({
    DATABASE_URL: z.string(),
    NEON_ENDPOINT: z.optional(z.string()),
    QUEUE_URL: z.string(),
    DEAD_LETTER_QUEUE_URL: z.string(),
    AWS_REGION: z.string(),
    AWS_ACCESS_KEY_ID: z.string(),
    AWS_SECRET_ACCESS_KEY: z.string(),
    AWS_ENDPOINT_URL: z.optional(z.string()),
    AUTH_SECRET: z.string(),
    EMAIL_HASH_KEY: z.string(),
    STRIPE_SECRET_KEY: z.string(),
    STRIPE_WEBHOOK_SECRET: z.string(),
    STRIPE_API_URL: z.optional(z.string()),
  }),
  /** What the Neon endpoint's `/control` takes in the header `Control-Token`. */
  neonControlToken: z.optional(z.string()),
})
export type StackState = z.infer<typeof stackState>

const demo = z.object({
  email: z.string(),
  password: z.string(),
  partnerEmail: z.string(),
  programId: z.number(),
  apiKey: z.string(),
  partnerCode: z.string(),
})
/** What the first start made, and says on every start. */
export type Demo = z.infer<typeof demo>

/** A file of the data folder, as far as it is what it should be. */
function readFile<Schema extends z.ZodMiniType>(file: string, schema: Schema): z.infer<Schema> | undefined {
  if (!fs.existsSync(file)) return undefined
  return z.safeParse(schema, JSON.parse(fs.readFileSync(file, 'utf8'))).data
}

/** Takes the data folder for this process, or says who has it. A state left by a stack that was killed is taken over. */
export function lockDataFolder(): void {
  fs.mkdirSync(dataFolder, { recursive: true, mode: 0o700 })
  fs.chmodSync(dataFolder, 0o700)
  const lock = JSON.stringify({ pid: process.pid })
  try {
    fs.writeFileSync(stateFile, lock, { flag: 'wx', mode: 0o600 })
  } catch {
    const { pid, baseUrl } = readFile(stateFile, z.partial(stackState)) ?? {}
    if (pid && isStack(pid)) {
      throw new LocalStackError(
        `The data folder ${dataFolder} is in use by the stack of process ${pid}${baseUrl ? ` at ${baseUrl}` : ''}. Stop it first.`,
      )
    }
    fs.rmSync(stateFile)
    lockDataFolder()
  }
}

export function unlockDataFolder(): void {
  fs.rmSync(stateFile, { force: true })
}

export function writeState(state: StackState): void {
  fs.writeFileSync(stateFile, JSON.stringify(state, null, 2), { mode: 0o600 })
}

/** The stack that runs from this checkout. */
export function readState(): StackState {
  const state = readFile(stateFile, stackState)
  if (!state || !isStack(state.pid)) {
    throw new LocalStackError('The local stack is not running. Start it with `npm start` and run this again.')
  }
  return state
}

/** The secrets of this checkout, made on the first call; one that was added since is made and added. */
export function readSecrets(): Secrets {
  const secrets = { ...generateSecrets(), ...readFile(secretsFile, z.record(z.string(), z.string())) }
  fs.writeFileSync(secretsFile, JSON.stringify(secrets, null, 2), { mode: 0o600 })
  return secrets
}

/** The demo of this checkout, which `create` makes on the first call. */
export async function readDemo(create: () => Promise<Demo>): Promise<Demo> {
  const kept = readFile(demoFile, demo)
  if (kept) return kept
  const made = await create()
  fs.writeFileSync(demoFile, JSON.stringify(made, null, 2), { mode: 0o600 })
  return made
}

/** Whether a process is alive and a stack, and not another program that got its number. */
function isStack(pid: number): boolean {
  if (!isAlive(pid)) return false
  try {
    const command =
      process.platform === 'linux'
        ? fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        : execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' })
    return command.includes('lib/local/start.ts')
  } catch {
    return false
  }
}
