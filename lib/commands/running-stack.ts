import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import * as z from 'zod/mini'
import type { DatabaseEnv } from '../database.ts'
import { OperatorError } from './operator-error.ts'
import { isAlive } from './processes.ts'

/** The data folder of the local stack. If it does not exist, the stack starts empty. LOCAL_DATA_FOLDER selects another folder. */
export const dataFolder = path.resolve(
  process.env['LOCAL_DATA_FOLDER'] ?? fileURLToPath(new URL('../../.local/', import.meta.url)),
)

export const stateFile = path.join(dataFolder, 'stack.json')

/** The local stack's address and environment. The stack stores them while it runs, so that commands on this machine find it. */
export const runningStack = z.object({
  pid: z.number(),
  baseUrl: z.string(),
  /** The functions' variables and secrets. */
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
  /** The header `Control-Token` of requests to the Neon endpoint's `/control`. */
  neonControlToken: z.optional(z.string()),
})
export type RunningStack = z.infer<typeof runningStack>

/** Reads a JSON file in the data folder. Returns undefined if the file doesn't exist or has a different shape. */
export function readDataFile<Schema extends z.ZodMiniType>(file: string, schema: Schema): z.infer<Schema> | undefined {
  if (!fs.existsSync(file)) return undefined
  return z.safeParse(schema, JSON.parse(fs.readFileSync(file, 'utf8'))).data
}

/** Returns the stack that runs from this checkout. */
export function readRunningStack(): RunningStack {
  const state = readDataFile(stateFile, runningStack)
  if (!state || !isStack(state.pid)) {
    throw new OperatorError('The local stack is not running. Start it with `npm start` and run this again.')
  }
  return state
}

/** Returns the database for a command: the one in DATABASE_URL, or else the one of the running stack. */
export function commandDatabase(): DatabaseEnv {
  const { DATABASE_URL } = process.env
  return DATABASE_URL ? { DATABASE_URL } : readRunningStack().environment
}

/** Returns whether a process is a running stack, and not another program that got the same process id. */
export function isStack(pid: number): boolean {
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
