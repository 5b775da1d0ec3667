import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Served {
  process: ChildProcess
  baseUrl: string
  /** Its log lines, all JSON. */
  logs(): Record<string, unknown>[]
  /** Its standard error, which stays empty while the service runs. */
  errors(): string
  /** Sends the signal and resolves with the exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>
}

/** Replaces the secrets that a service with an embedded database creates. */
export const givenSecrets: Record<string, string> = Object.fromEntries(
  ['AUTH_SECRET', 'EMAIL_HASH_KEY', 'PROXY_SECRET', 'WEBHOOK_SECRET', 'METRICS_TOKEN'].map((name) => [
    name,
    `${name.toLowerCase()}-${'x'.repeat(24)}`,
  ]),
)

const startsWithinMilliseconds = 300_000

/** Starts `npm run serve` with only this environment, and resolves when it answers. The caller must end it. */
export async function spawnServe(
  environment: Record<string, string>,
  args: string[] = [],
  cwd: string = process.cwd(),
): Promise<Served> {
  const child = spawn(process.execPath, ['lib/serve/serve.ts', ...args], { cwd, env: environment })
  let output = ''
  let errors = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  const ended = once(child, 'exit')
  const deadline = Date.now() + startsWithinMilliseconds
  while (!output.includes('"serving"')) {
    if (child.exitCode === null && child.signalCode === null && Date.now() < deadline) await sleep(50)
    else {
      child.kill('SIGKILL')
      throw new Error(`The service did not start.\n${output}${errors}`)
    }
  }
  return {
    process: child,
    baseUrl: environment['BASE_URL'] ?? '',
    logs: () =>
      output
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    errors: () => errors,
    async end(signal) {
      child.kill(signal)
      const [code] = (await ended) as [number | null]
      return code
    },
  }
}
