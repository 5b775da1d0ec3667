import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
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

export interface Socket {
  fd: number
  close(): void
}

/**
 * Opens a socket as systemd does for `svc.socket`. This process never accepts a connection, and keeps the socket while the service
 * restarts.
 */
export function openSocket(port: number): Socket {
  // Node's own servers accept connections at once. This function, which its cluster module uses, only binds a socket.
  const bind = Reflect.get(net, '_createServerHandle') as (host: string, port: number, family: 4) => Socket
  return bind('127.0.0.1', port, 4)
}

/**
 * Starts `npm run serve` with only this environment, and resolves when it answers. The caller must end it. `socket` is a listening socket
 * that the service inherits.
 */
export async function spawnServe(
  environment: Record<string, string>,
  args: string[] = [],
  cwd: string = process.cwd(),
  socket?: Socket,
): Promise<Served> {
  const child = spawn('sh', ['-c', 'LISTEN_PID=$$ exec "$0" "$@"', process.execPath, 'lib/serve/serve.ts', ...args], {
    cwd,
    env: { ...environment, ...(socket && { LISTEN_FDS: '1' }) },
    stdio: ['ignore', 'pipe', 'pipe', ...(socket ? [socket.fd] : [])],
  })
  let output = ''
  let errors = ''
  child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()))
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
