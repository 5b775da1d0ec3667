import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach } from 'vitest'
import { createSandbox } from '../../lib/local/sandbox.ts'
import type { ProgramSettings } from '../../lib/programs/programs.ts'
import { startCommandHost } from './commands.ts'
import type { Outcome } from './command-host.ts'
import { bareEnvironment } from './spawned.ts'
import { startStack } from './stack.ts'

/** The built `svc` command. */
export const command = fileURLToPath(new URL('../../tracker/dist/svc.js', import.meta.url))

/** A program in a running service, and the command with the program's key, in a separate folder for each test. */
export async function startSvc(functions: string[], settings: Partial<ProgramSettings> = {}) {
  const stack = await startStack({ functions: ['cli-status', 'webhook-endpoints', 'track-sale', ...functions] })
  const env = { ...stack.env, ...stack.environment, AUTH_SECRET: stack.environment['AUTH_SECRET'] ?? '' }
  const sandbox = await createSandbox(stack.db, env, settings)
  const connection = { SVC_API_KEY: sandbox.apiKey, SVC_BASE_URL: stack.baseUrl }

  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'svc-'))
    return () => rmSync(folder, { recursive: true })
  })
  const inFolder = (file: string) => path.join(folder, file)

  const runInHost = startCommandHost()

  /** Runs the command in the test's folder, with only the given environment. */
  async function svc(args: string[], environment: Record<string, string> = connection): Promise<Outcome> {
    return await runInHost({ command, args, folder, environment: { ...bareEnvironment, ...environment } })
  }

  return {
    stack,
    env,
    sandbox,
    connection,
    inFolder,
    read: (file: string) => readFileSync(inFolder(file), 'utf8'),
    svc,
    /** The command's output with `--json`. */
    json: async (...call: Parameters<typeof svc>) => JSON.parse((await svc(...call)).stdout),
    /** Runs the command in its own process, as users do. */
    svcAlone: (args: string[], environment: Record<string, string> = connection): Promise<Outcome> =>
      new Promise((resolve) => {
        const options = { cwd: folder, env: { ...bareEnvironment, ...environment } }
        execFile(process.execPath, [command, ...args], options, (error, stdout, stderr) => {
          resolve({ exitCode: typeof error?.code === 'number' ? error.code : 0, stdout, stderr })
        })
      }),
  }
}
