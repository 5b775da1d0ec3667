import * as fs from 'node:fs'
import path from 'node:path'
import * as z from 'zod/mini'
import { generateSecrets, type Secrets } from './environment.ts'
import { OperatorError } from '../commands/operator-error.ts'
import {
  dataFolder,
  isStack,
  readDataFile,
  type RunningStack,
  runningStack,
  stateFile,
} from '../commands/running-stack.ts'

const secretsFile = path.join(dataFolder, 'secrets.json')
const demoFile = path.join(dataFolder, 'demo.json')

const demo = z.object({
  email: z.string(),
  password: z.string(),
  partnerEmail: z.string(),
  programId: z.number(),
  apiKey: z.string(),
  partnerCode: z.string(),
})
/** The demo's sign-in and keys. Every start prints them. */
export type Demo = z.infer<typeof demo>

/** Locks the data folder for this process, or throws an error that names the owner. Takes over the state of a killed stack. */
export function lockDataFolder(): void {
  fs.mkdirSync(dataFolder, { recursive: true, mode: 0o700 })
  fs.chmodSync(dataFolder, 0o700)
  const lock = JSON.stringify({ pid: process.pid })
  try {
    fs.writeFileSync(stateFile, lock, { flag: 'wx', mode: 0o600 })
  } catch {
    const { pid, baseUrl } = readDataFile(stateFile, z.partial(runningStack)) ?? {}
    if (pid && isStack(pid)) {
      throw new OperatorError(
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

export function writeState(state: RunningStack): void {
  fs.writeFileSync(stateFile, JSON.stringify(state, null, 2), { mode: 0o600 })
}

/** Returns the secrets of this checkout and generates missing ones. */
export function readSecrets(): Secrets {
  const secrets = { ...generateSecrets(), ...readDataFile(secretsFile, z.record(z.string(), z.string())) }
  fs.writeFileSync(secretsFile, JSON.stringify(secrets, null, 2), { mode: 0o600 })
  return secrets
}

/** Returns the demo of this checkout. The first call creates it with `create`. */
export async function readDemo(create: () => Promise<Demo>): Promise<Demo> {
  const kept = readDataFile(demoFile, demo)
  if (kept) return kept
  const created = await create()
  fs.writeFileSync(demoFile, JSON.stringify(created, null, 2), { mode: 0o600 })
  return created
}
