/**
 * `npm run image`: the steps of lib/serve/Containerfile, without a container engine. Each stage is a root folder of its own that holds
 * Node, npm, a shell and the few programs that the steps name, and nothing else of this machine; each instruction runs in it by `chroot`. Then
 * the image's command serves, as its user, on a Postgres outside, its health check and the nightly backup run, and it stops. Prints
 * each step with its time, and ends with 1 where one fails.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import * as z from 'zod/mini'
import { readOptions } from '../../lib/commands/command.ts'
import { freePort, startPostgres } from '../../lib/serve/embedded-postgres.ts'
import { givenSecrets } from '../support/serve-process.ts'

readOptions(
  'npm run image    the steps of the container file in an empty root folder; needs Linux, root and the npm registry',
  {},
)

const run = promisify(execFile)
const checkout = fileURLToPath(new URL('../../', import.meta.url))
const temporary = mkdtempSync(path.join(tmpdir(), 'image-'))
/** What `node:24-slim` has for its user. */
const node = { uid: 1000, gid: 1000 }
const programs = ['sh', 'install', 'env', 'date', 'find', 'sleep', 'cat']

interface Instruction {
  word: string
  rest: string
}

interface Stage {
  root: string
  workdir: string
  user: string
  environment: Record<string, string>
  command: string[]
  healthCheck: string[]
}

const words = z.array(z.string())

/** The stages of a container file: what follows each FROM. */
function readStages(file: string): { name: string; base: string; instructions: Instruction[] }[] {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  return lines
    .join('\n')
    .split(/^FROM /m)
    .slice(1)
    .map((text) => {
      const [from = '', ...others] = text.trim().split('\n')
      const [, base = '', name = ''] = /^(\S+)(?: AS (\S+))?$/.exec(from) ?? []
      const instructions = others.map((line) => {
        const [, word = '', rest = ''] = /^(\w+) (.*)$/.exec(line) ?? []
        return { word, rest }
      })
      return { name, base, instructions }
    })
}

/** What an engine would be sent of this checkout: all that the ignore file excepts. */
const sent = readFileSync(path.join(checkout, 'lib/serve/Containerfile.dockerignore'), 'utf8').split('\n')
const isSent = (name: string) => sent.includes(`!${name.split('/')[0]}`) && !sent.includes(name)

/** With its permissions, and what a link leads to in place of the link. */
function copyFile(from: string, to: string): void {
  mkdirSync(path.dirname(to), { recursive: true })
  copyFileSync(from, to)
}

/** A root folder with what the base image has of use here. */
function makeRoot(base: string): Stage {
  if (base !== `node:${process.versions.node.split('.')[0]}-slim`)
    throw new Error(`The base image is ${base}, and this is Node ${process.versions.node}.`)
  const root = mkdtempSync(path.join(temporary, 'root-'))
  chmodSync(root, 0o755)
  for (const folder of ['bin', 'usr/bin', 'usr/local/bin', 'usr/local/lib', 'etc', 'proc', 'dev', 'tmp', 'root'])
    mkdirSync(path.join(root, folder), { recursive: true })
  const found = programs.map((name) => execFileSync('which', [name], { encoding: 'utf8' }).trim())
  const files: [from: string, to: string][] = [
    [process.execPath, '/usr/local/bin/node'],
    ...found.map((file): [string, string] => [file, `/bin/${path.basename(file)}`]),
  ]
  for (const [from, to] of files) {
    copyFile(from, path.join(root, to))
    const libraries = execFileSync('ldd', [from], { encoding: 'utf8' }).matchAll(/(?:=> )?(\/\S+) \(0x/g)
    for (const [, library = ''] of libraries) copyFile(library, path.join(root, library))
  }
  copyFile('/bin/env', path.join(root, 'usr/bin/env'))
  const npm = path.resolve(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim()), '../..')
  cpSync(npm, path.join(root, 'usr/local/lib/npm'), { recursive: true })
  const start = '#!/bin/sh\nexec node /usr/local/lib/npm/bin/npm-cli.js "$@"\n'
  writeFileSync(path.join(root, 'usr/local/bin/npm'), start, { mode: 0o755 })
  writeFileSync(
    path.join(root, 'etc/passwd'),
    `root:x:0:0::/root:/bin/sh\nnode:x:${node.uid}:${node.gid}::/tmp:/bin/sh\n`,
  )
  writeFileSync(path.join(root, 'etc/group'), `root:x:0:\nnode:x:${node.gid}:\n`)
  // The registry is reached as it is from here: by how names are found, by the authorities that are trusted, and by npm's settings.
  for (const file of ['/etc/resolv.conf', '/etc/hosts', process.env['NODE_EXTRA_CA_CERTS'] ?? ''])
    if (file !== '' && existsSync(file)) copyFile(file, path.join(root, file))
  const settings = execFileSync('npm', ['config', 'get', 'userconfig'], { encoding: 'utf8' }).trim()
  if (existsSync(settings)) copyFile(settings, path.join(root, 'root/.npmrc'))
  chmodSync(path.join(root, 'tmp'), 0o1777)
  return { root, workdir: '/', user: 'root', environment: {}, command: [], healthCheck: [] }
}

/** The arguments by which a program runs in the root folder, as the stage's user; what is mounted for it is seen by it alone. */
function inRoot({ root, workdir, user, environment }: Stage, given: Record<string, string>, command: string[]) {
  const values = {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    HOME: user === 'root' ? '/root' : '/tmp',
    ...environment,
    ...given,
  }
  const variables = Object.entries(values).map(([name, value]) => `${name}=${value}`)
  const mounts = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$@"'
  const inside = ['/bin/sh', '-c', `cd '${workdir}' && exec "$@"`, 'sh', ...command]
  const identity = user === 'root' ? '0:0' : `${node.uid}:${node.gid}`
  const outside = ['sh', '-c', mounts, root, `--userspec=${identity}`, root, '/usr/bin/env', '-i', ...variables]
  return ['--mount', '--', ...outside, ...inside]
}

const authorities = process.env['NODE_EXTRA_CA_CERTS']
const ofNpm: Record<string, string> = { ...(authorities && { NODE_EXTRA_CA_CERTS: authorities }) }

async function follow(stage: Stage, { word, rest }: Instruction, stages: Map<string, Stage>): Promise<void> {
  const place = (name: string) => path.join(stage.root, path.resolve(stage.workdir, name))
  if (word === 'WORKDIR') {
    stage.workdir = rest
    mkdirSync(place('.'), { recursive: true })
  } else if (word === 'COPY') {
    const [, from, names = ''] = /^(?:--from=(\S+) )?(.*)$/.exec(rest) ?? []
    const sources = names.split(' ')
    const target = sources.pop() ?? ''
    for (const source of sources) {
      if (from === undefined && !isSent(source)) throw new Error(`${source} is not sent to the engine.`)
      const origin = from === undefined ? path.join(checkout, source) : path.join(stages.get(from)?.root ?? '', source)
      const isInto = sources.length > 1 || target.endsWith('/')
      const filter = (file: string) => from !== undefined || !sent.includes(path.relative(checkout, file))
      cpSync(origin, isInto ? path.join(place(target), path.basename(source)) : place(target), {
        recursive: true,
        verbatimSymlinks: true,
        filter,
      })
    }
  } else if (word === 'RUN') {
    await run('unshare', inRoot(stage, ofNpm, ['/bin/sh', '-c', rest]), { maxBuffer: 64 * 1024 * 1024 })
  } else if (word === 'ARG') {
    stage.environment[rest] = 'partners.example.com'
  } else if (word === 'ENV') {
    const [name = '', value = ''] = rest.split('=')
    stage.environment[name] = value
  } else if (word === 'USER') stage.user = rest
  else if (word === 'CMD') stage.command = words.parse(JSON.parse(rest))
  else if (word === 'HEALTHCHECK')
    stage.healthCheck = words.parse(JSON.parse(rest.slice(rest.indexOf('CMD ') + 'CMD '.length)))
  else if (word !== 'EXPOSE') throw new Error(`${word} is not understood here.`)
}

async function step<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  const started = performance.now()
  const result = await work()
  console.log(`${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s  ${name}`)
  return result
}

async function served(child: ChildProcess, output: () => string): Promise<void> {
  for (const end = Date.now() + 120_000; !output().includes('"serving"');) {
    if (child.exitCode !== null || Date.now() > end) throw new Error(`It does not serve.\n${output()}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function tryOut(image: Stage): Promise<void> {
  const [postgres, port] = [
    await startPostgres({ dataFolder: path.join(temporary, 'postgres'), password: 'image' }),
    await freePort(),
  ]
  const settings = {
    ...givenSecrets,
    BASE_URL: 'https://partners.example.com',
    DATABASE_URL: postgres.urlOf('postgres'),
    TRUST_PROXY: '127.0.0.1',
    PORT: String(port),
    MAIL_API_URL: 'http://127.0.0.1:9',
    MAIL_API_KEY: 'none',
    MAIL_FROM: 'Image <image@example.com>',
  }
  const child = spawn('unshare', inRoot(image, settings, image.command))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)))
  const ended = once(child, 'exit')
  try {
    await step(`${image.command.join(' ')} as ${image.user}`, () => served(child, () => output))
    for (const address of ['/sign-in', '/docs', '/js/svc-tracker.js', '/svc-tracker.tgz', '/api/v1/openapi.json']) {
      const { status } = await fetch(`http://127.0.0.1:${port}${address}`)
      if (status !== 200) throw new Error(`${address} is answered ${status}.`)
    }
    const docs = await (await fetch(`http://127.0.0.1:${port}/docs/`)).text()
    if (docs.includes('api.example.com'))
      throw new Error('The documentation names another host than the one it is built for.')
    const check = image.healthCheck.map((text) => text.replace(':8787', `:${port}`))
    await step('the health check', () => run('unshare', inRoot(image, {}, check)))
    const backup = ['sh', 'lib/serve/backup.sh', '/backups']
    await step(backup.join(' '), () => run('unshare', inRoot(image, settings, backup)))
    const made = readdirSync(path.join(image.root, 'backups'))
    if (made.length !== 1) throw new Error(`The backups are ${made.join(', ')}.`)
    await step('its stop', async () => {
      child.kill('SIGTERM')
      const [code] = await ended
      if (code !== 0) throw new Error(`It ended with ${code}.\n${output}`)
    })
  } finally {
    child.kill('SIGKILL')
    await postgres.stop()
  }
}

try {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    throw new Error('This needs Linux and root, for chroot.')
  const stages = new Map<string, Stage>()
  let image: Stage | undefined
  for (const { name, base, instructions } of readStages(path.join(checkout, 'lib/serve/Containerfile'))) {
    const stage = await step(`FROM ${base}`, async () => makeRoot(base))
    for (const instruction of instructions)
      await step(`${instruction.word} ${instruction.rest}`.slice(0, 120), () => follow(stage, instruction, stages))
    stages.set(name, stage)
    image = stage
  }
  if (image) await tryOut(image)
} catch (error) {
  console.error(error)
  process.exitCode = 1
} finally {
  rmSync(temporary, { recursive: true, force: true })
}
