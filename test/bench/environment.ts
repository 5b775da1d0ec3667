import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { Database } from '../../lib/database.ts'
import { generateSecrets } from '../../lib/local/environment.ts'
import { startPostgres } from '../../lib/serve/embedded-postgres.ts'
import { createSandbox, type Sandbox } from '../../lib/local/sandbox.ts'
import { migrate } from '../../lib/commands/migrate.ts'

export interface BenchDatabase {
  databaseUrl: string
  sql: Client
  /** The pid of Postgres' first process. */
  postgresPid: number
  sandbox: Sandbox
  neon: { url: string; control: Record<string, string>; pid: number }
  db: Database
  env: { DATABASE_URL: string; NEON_ENDPOINT: string; AUTH_SECRET: string }
  secrets: ReturnType<typeof generateSecrets>
  close(): Promise<void>
}

/** Everything that must be stopped, even if a benchmark fails. */
const open: (() => Promise<unknown>)[] = []

/** Stops everything that a benchmark left running, latest first. */
export async function closeAll(): Promise<void> {
  for (let close = open.pop(); close; close = open.pop()) await close()
}

function closing(close: () => Promise<unknown>): () => Promise<void> {
  let closed: Promise<unknown> | undefined
  const closeOnce = () => (closed ??= close())
  open.push(closeOnce)
  return async () => void (await closeOnce())
}

/**
 * Starts a separate, migrated Postgres in a temporary folder, the Neon endpoint in its own process, and a sandbox
 * program with its people. Postgres has its default settings unless `settings` change them, so every commit waits for
 * the disk.
 */
export async function startDatabase(settings: string[] = []): Promise<BenchDatabase> {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-bench-'))
  const secrets = generateSecrets()
  const postgres = await startPostgres({ dataFolder: path.join(folder, 'postgres'), password: 'bench', settings })
  const stopPostgres = closing(async () => {
    await postgres.stop()
    rmSync(folder, { recursive: true })
  })
  const databaseUrl = postgres.urlOf('postgres')
  await migrate(databaseUrl)
  const sql = new Client({ connectionString: databaseUrl })
  await sql.connect()
  const endSql = closing(() => sql.end())
  const neonProcess = await startProcess('neon')
  const { url: neonUrl, control } = neonProcess.ready as { url: string; control: Record<string, string> }
  const env = { DATABASE_URL: databaseUrl, NEON_ENDPOINT: neonUrl, AUTH_SECRET: secrets.AUTH_SECRET }
  const db = new Database(env)
  return {
    databaseUrl,
    sql,
    postgresPid: postgres.pid,
    sandbox: await createSandbox(db, env),
    neon: { url: neonUrl, control, pid: neonProcess.pid },
    db,
    env,
    secrets,
    async close() {
      await neonProcess.close()
      await endSql()
      await stopPostgres()
    },
  }
}

export interface BenchStack extends BenchDatabase {
  baseUrl: string
  workerdPid: number
  scheduled(name: string): Promise<void>
  /** The number of requests that the queue got. */
  queueRequests(): Promise<number>
  /** Restarts workerd without any function loaded. */
  restart(): Promise<void>
}

/**
 * Starts the whole service, with Postgres, the Neon endpoint and the functions in separate processes. Counts clicks
 * every minute unless `counts` is false, because a benchmark of database requests must count only its own requests. `settings`
 * are for Postgres.
 */
export async function startStack({ counts = true, settings = [] as string[] } = {}): Promise<BenchStack> {
  const database = await startDatabase(settings)
  const child = await startProcess('workers', { database: database.env, secrets: database.secrets })
  const { baseUrl } = child.ready as { baseUrl: string }
  let previous: Promise<unknown> = Promise.resolve()
  const askAfter = async (before: Promise<unknown>, message: object) => {
    await before
    child.process.send(message)
    const [answer] = (await once(child.process, 'message')) as [{ error?: string; queueRequests: number }]
    if (answer.error) throw new Error(answer.error)
    return answer.queueRequests
  }
  const ask = (message: object) => {
    const answered = askAfter(previous, message)
    previous = answered.catch(() => {})
    return answered
  }
  // Counts clicks as a deployment does. Otherwise, the performance read would count all clicks of the benchmark one by one.
  const counting = counts ? setInterval(() => void ask({ scheduled: 'count-clicks' }), 60_000) : undefined
  return {
    ...database,
    baseUrl,
    get workerdPid() {
      const pid = childrenOf(child.pid).find((candidate) => commandOf(candidate).includes('workerd'))
      if (!pid) throw new Error('workerd is not running.')
      return pid
    },
    scheduled: async (name) => void (await ask({ scheduled: name })),
    queueRequests: () => ask({}),
    restart: async () => void (await ask({ restart: true })),
    async close() {
      clearInterval(counting)
      await child.close()
      await database.close()
    },
  }
}

export async function startProcess(kind: string, options: object = {}) {
  const child: ChildProcess = fork(fileURLToPath(new URL('process.ts', import.meta.url)), [kind], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const close = closing(async () => {
    if (child.exitCode !== null) return
    const exited = once(child, 'exit')
    child.disconnect()
    await exited
  })
  child.send(options)
  const [ready]: unknown[] = await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => Promise.reject(new Error(`The process of ${kind} ended.`))),
  ])
  return { process: child, pid: child.pid ?? 0, ready, close }
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
}

/** Returns the child processes of `pid`. */
function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((candidate) => {
      try {
        const stat = readFileSync(`/proc/${candidate}/stat`, 'utf8')
        return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] === String(pid)
      } catch {
        return false // The process ended in the meantime.
      }
    })
}

/**
 * Returns the CPU time of a process and its threads so far in microseconds, including its child processes if `children` is set. Returns NaN
 * if the system has no /proc.
 */
export function cpuMicroseconds(pid: number, children = false): number {
  const pids = children ? [pid, ...childrenOf(pid)] : [pid]
  let sum = 0
  for (const each of pids) {
    try {
      for (const task of readdirSync(`/proc/${each}/task`)) {
        sum += Number(readFileSync(`/proc/${each}/task/${task}/schedstat`, 'utf8').split(' ')[0]) / 1000
      }
    } catch {
      if (each === pid) return NaN
    }
  }
  return sum
}
