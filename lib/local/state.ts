import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Demo } from './demo.ts'
import { generateSecrets, type localEnvironment, type Secrets } from './environment.ts'
import { isAlive, LocalStackError } from './postgres.ts'

/** Everything the local stack keeps. Removing the folder starts afresh. LOCAL_DATA_FOLDER puts it elsewhere, as tests do. */
export const dataFolder = path.resolve(
  process.env['LOCAL_DATA_FOLDER'] ?? fileURLToPath(new URL('../../.local/', import.meta.url)),
)

const stateFile = path.join(dataFolder, 'stack.json')
const secretsFile = path.join(dataFolder, 'secrets.json')
const demoFile = path.join(dataFolder, 'demo.json')

/** The running stack, for other commands on this machine. */
export interface StackState {
  pid: number
  baseUrl: string
  /** What functions were given, secrets included. */
  environment: ReturnType<typeof localEnvironment> & {
    NEON_ENDPOINT?: string
    AWS_ENDPOINT_URL?: string
    STRIPE_API_URL?: string
  }
}

/** Takes the data folder for this process, or says who has it. A state left by a stack that was killed is taken over. */
export function lockDataFolder(): void {
  fs.mkdirSync(dataFolder, { recursive: true })
  const lock = JSON.stringify({ pid: process.pid })
  try {
    fs.writeFileSync(stateFile, lock, { flag: 'wx', mode: 0o600 })
  } catch {
    const { pid, baseUrl } = JSON.parse(fs.readFileSync(stateFile, 'utf8')) as Partial<StackState>
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
  const state = fs.existsSync(stateFile) && (JSON.parse(fs.readFileSync(stateFile, 'utf8')) as Partial<StackState>)
  if (!state || !state.baseUrl || !state.pid || !isStack(state.pid)) {
    throw new LocalStackError('The local stack is not running. Start it with `npm start` and run this again.')
  }
  return state as StackState
}

/** The secrets of this checkout, made on the first call; one that was added since is made and added. */
export function readSecrets(): Secrets {
  const kept = fs.existsSync(secretsFile) ? (JSON.parse(fs.readFileSync(secretsFile, 'utf8')) as Partial<Secrets>) : {}
  const secrets = { ...generateSecrets(), ...kept }
  fs.writeFileSync(secretsFile, JSON.stringify(secrets, null, 2), { mode: 0o600 })
  return secrets
}

/** The demo of this checkout, which `create` makes on the first call. */
export async function readDemo(create: () => Promise<Demo>): Promise<Demo> {
  if (fs.existsSync(demoFile)) return JSON.parse(fs.readFileSync(demoFile, 'utf8')) as Demo
  const demo = await create()
  fs.writeFileSync(demoFile, JSON.stringify(demo, null, 2), { mode: 0o600 })
  return demo
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
