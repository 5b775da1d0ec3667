import { generateX25519Identity, identityToRecipient } from 'age-encryption'
import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as z from 'zod/mini'
import { freePort } from '../lib/serve/embedded-postgres.ts'
import { packageFile } from '../tracker/dist/served/package.js'
import { unpack } from '../tracker/pack.ts'
import { createDatabase } from './support/stack.ts'

/**
 * Runs the steps of "Run it on one box" in a copy of this folder without development packages. Scripts take the
 * place of root, systemd and the registry.
 */
const run = promisify(execFile)
const root = fileURLToPath(new URL('../', import.meta.url))
const folder = mkdtempSync(path.join(tmpdir(), 'svc-install-'))
const installed = path.join(folder, 'opt')

const lock = z.object({
  packages: z.record(z.string(), z.object({ dev: z.optional(z.boolean()), link: z.optional(z.boolean()) })),
})

beforeAll(async () => {
  mkdirSync(installed)
  const { packages } = lock.parse(JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')))
  const used = Object.entries(packages).flatMap(([name, { dev }]) => {
    const isOwn = name.startsWith('node_modules/') && !name.includes('/node_modules/', 1)
    return isOwn && !dev && existsSync(path.join(root, name)) ? [name] : []
  })
  const sources = ['package.json', 'package-lock.json', 'wrangler.toml', 'tracker', 'functions', 'lib', 'migrations']
  await run('cp', ['-a', '--parents', ...sources, installed], { cwd: root })
  const copy = async (how: string) => await run('cp', [how, '--parents', ...used, installed], { cwd: root })
  // Hard links don't work if the temporary folder is on another disk.
  await copy('-al').catch(() => copy('-a'))
})
afterAll(() => {
  const running = path.join(folder, 'svc.pid')
  // If a step fails, its process may still be running.
  if (existsSync(running)) process.kill(Number(readFileSync(running, 'utf8')), 'SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

test("the commands don't need development packages, even for code that they import later", async () => {
  const commands = ['migrate', 'audit', 'backup', 'erase', 'replay', 'own-account', 'backfill']
  const late = commands.flatMap((name) => {
    const source = readFileSync(path.join(installed, `lib/commands/${name}.ts`), 'utf8')
    return Array.from(source.matchAll(/import\('(.*)'\)/g), ([, file = '']) => path.posix.join('./lib/commands', file))
  })
  expect(late).toContain('lib/processors/stripe/client.ts')
  const calls = [
    ['--input-type=module', '--eval', late.map((file) => `await import('./${file}')`).join('\n')],
    ...commands.map((name) => [`lib/commands/${name}.ts`, '--help']),
  ]
  await Promise.all(calls.map((args) => run(process.execPath, args, { cwd: installed })))
})

test('a failed nightly backup is reported and keeps the old backups, and a successful one replaces them and is copied', async () => {
  const { databaseUrl } = await createDatabase()
  const [backups, stubs] = [path.join(folder, 'nightly'), path.join(folder, 'stubs')]
  for (const created of [backups, stubs]) mkdirSync(created)
  // The script starts the first nightly run at once, and ends before the second one.
  writeFileSync(path.join(stubs, 'sleep'), '#!/bin/sh\nmkdir "$NIGHT"\n', { mode: 0o755 })
  const old = path.join(backups, 'svc-2026-01-01.sql.gz')
  writeFileSync(old, '')
  utimesSync(old, 0, 0)
  const PATH = `${stubs}:${path.dirname(process.execPath)}:${process.env['PATH']}`
  const night = async (DATABASE_URL: string, name: string, settings = {}) => {
    const env = { PATH, DATABASE_URL, NIGHT: path.join(folder, name), ...settings }
    return await run('sh', ['lib/serve/backup.sh', backups, 'nightly'], { cwd: root, env }).catch(
      (error: unknown) => error,
    )
  }
  const failed = expect.stringContaining('{"level":"error","error":"backup"}')
  expect(await night(databaseUrl.replace(/[^/]+$/, 'nowhere'), 'first')).toMatchObject({ stdout: failed })
  expect(readdirSync(backups)).toEqual([path.basename(old)])
  expect(await night(databaseUrl, 'second')).toMatchObject({ stdout: expect.not.stringContaining('error') })
  expect(readdirSync(backups)).toEqual([expect.stringMatching(/^svc-(?!2026-01-01)[\d-]{10}T\d{6}\.sql\.gz$/)])

  const elsewhere = path.join(folder, 'elsewhere')
  mkdirSync(elsewhere)
  const BACKUP_RECIPIENT = await identityToRecipient(await generateX25519Identity())
  const copied = await night(databaseUrl, 'third', { BACKUP_RECIPIENT, BACKUP_COPY: `cp "$1" '${elsewhere}'` })
  expect(copied).toMatchObject({ stdout: expect.not.stringContaining('error') })
  expect(readdirSync(elsewhere)).toEqual([expect.stringMatching(/\.sql\.gz\.age$/)])
  expect(await night(databaseUrl, 'fourth', { BACKUP_COPY: 'false' })).toMatchObject({ stdout: failed })
})

const readme = readFileSync(path.join(root, 'lib/serve/README.md'), 'utf8')
const places: Record<string, string> = {
  '/opt/svc': installed,
  '/var/lib/svc': path.join(folder, 'var'),
  '/var/backups/svc': path.join(folder, 'backups'),
  '/etc/svc.env': path.join(folder, 'svc.env'),
  '/etc/systemd/system': path.join(folder, 'units'),
}
const bin = path.join(folder, 'bin')
const data = path.join(folder, 'var')
const units = path.join(folder, 'units')

/** Runs a step from the page in the test's own folders. */
async function step(name: string): Promise<string> {
  const [, block] = new RegExp(`\`\`\`sh ${name}\\n([^]*?)\`\`\``).exec(readme) ?? []
  if (block === undefined) throw new Error(`The page has no step ${name}.`)
  const { stdout, stderr } = await run('bash', ['-euo', 'pipefail', '-c', placed(block)], {
    env: { PATH: `${bin}:${path.dirname(process.execPath)}:${process.env['PATH']}`, HOME: folder, NO_COLOR: '1' },
  })
  return stdout + stderr
}

const placed = (text: string) =>
  Object.entries(places).reduce((replaced, [there, here]) => replaced.replaceAll(there, here), text)

const newConnection = `import { Client } from "pg"
const client = new Client(process.argv[1])
await client.connect()
await client.query("do $$ begin end $$")
await client.end()`

const scripts = (npm: string) => ({
  // The test runs everything as its own user, in place of root and the service's user.
  sudo: `case "$1" in
  -u) shift 2 ;;
  useradd) exit ;;
  install) shift; exec install $(printf '%s\\n' "$@" | sed 's/^svc$/DROP/; s/^-[og]$/DROP/' | grep -v DROP) ;;
esac
exec "$@"`,
  // Removes all packages first, like npm. Meanwhile, a running service must still accept new connections.
  npm: `case "$1" in
  ci) mv node_modules away
    if [ -e ${data}/database-url ]; then (cd ${root} && node --input-type=module -e '${newConnection}' "$(cat ${data}/database-url)"); fi
    mv away node_modules ;;
  prune) ;;
  *) exec ${npm} "$@" ;;
esac`,
  'systemd-notify': `[ "$*" = --ready ] && touch ${folder}/ready`,
  systemctl: `start() {
  unit=${folder}/running-$1; sed ${Object.entries(places)
    .map(([there, here]) => `-e 's#${there}#${here}#g'`)
    .join(' ')} ${units}/$1.service > $unit
  value() { sed -n "s/^$1=//p" $unit; }
  cd "$(value WorkingDirectory)"; set -a; . "$(value EnvironmentFile)"; eval "$(value Environment)"; set +a
  if [ "$(value Type)" = oneshot ]; then sh -c "$(value ExecStart)"; return; fi
  rm -f ${folder}/ready; export NOTIFY_SOCKET=/run/notify
  setsid sh -c "exec $(value ExecStart)" > ${folder}/$1.log 2>&1 < /dev/null & echo $! > ${folder}/$1.pid
  until [ -e ${folder}/ready ]; do kill -0 "$(cat ${folder}/$1.pid)"; sleep 0.1; done
}
stop() { pid=$(cat ${folder}/$1.pid); kill -TERM $pid; while kill -0 $pid 2>/dev/null; do sleep 0.1; done; }
case "$1 \${2:-}" in
  daemon-reload*) ;;
  'enable --now') start $3 ;;
  restart*) stop $2; start $2 ;;
  start*) start $2 ;;
  'stop svc.socket') stop $3 ;;
  stop*) stop $2 ;;
esac`,
})

async function query(connectionString: string, text: string): Promise<unknown[]> {
  const client = new Client({ connectionString })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

test('the pasted steps of the page install, back up, upgrade, roll back and restore the service', async () => {
  const port = await freePort()
  mkdirSync(bin)
  mkdirSync(units)
  const npm = (await run('which', ['npm'])).stdout.trim()
  for (const [name, script] of Object.entries(scripts(npm))) {
    writeFileSync(path.join(bin, name), `#!/bin/bash\nset -eu\n${script}\n`, { mode: 0o755 })
  }
  await step('install')
  const built = () => readdirSync(path.join(installed, 'node_modules/.svc'))
  const atInstall = built()
  expect(atInstall).toContainEqual(expect.stringMatching(/-service\.js$/))
  const file = path.join(folder, 'svc.env')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  // The settings that the page requires, and a port in place of svc.socket.
  const filled = readFileSync(file, 'utf8').replace('MAIL_API_KEY=', 'MAIL_API_KEY=key')
  writeFileSync(file, `${filled}PORT=${port}\n`)
  places['127.0.0.1:8787'] = `127.0.0.1:${port}`
  expect(await step('start')).toContain('{"ok":true}')
  const url = () => readFileSync(path.join(data, 'database-url'), 'utf8')
  const insert = `insert into users (id, name, email) values (gen_random_uuid(), 'Ada', 'ada@example.com')`
  await query(url(), insert)
  await step('backup')
  const secrets = readFileSync(path.join(data, 'secrets.json'), 'utf8')
  // The source code of the next release.
  await run('cp', ['-al', installed, `${installed}-next`])
  await step('upgrade')
  await step('rollback')
  await step('backup')
  expect(await step('restore')).toMatch(/is restored[^]*agree/)
  expect(readdirSync(path.join(folder, 'backups'))).toHaveLength(2)
  expect(await query(url(), 'select email from users')).toEqual([{ email: 'ada@example.com' }])
  expect(readFileSync(path.join(data, 'secrets.json'), 'utf8')).toBe(secrets)
  expect((await fetch(`http://127.0.0.1:${port}/sign-in`)).status).toBe(200)
  const served = await (await fetch(`http://127.0.0.1:${port}/packages/${packageFile}`)).bytes()
  expect(unpack(served)['dist/server.js']).toContain('https://partners.yourdomain.com')
  // The release is built in one folder and started in another.
  expect(built()).toEqual(atInstall)
  await run(path.join(bin, 'systemctl'), ['stop', 'svc'])
  rmSync(path.join(folder, 'svc.pid'))
}, 240_000)
