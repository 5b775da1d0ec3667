import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, inject, test, vi } from 'vitest'
import { explain } from '../lib/commands/command.ts'
import { withClient } from '../lib/commands/migrate.ts'
import { freePort } from '../lib/serve/embedded-postgres.ts'
import type { Outcome } from './support/command-host.ts'
import { startCommandHost } from './support/commands.ts'
import { bareEnvironment } from './support/spawned.ts'
import { createDatabase } from './support/stack.ts'

/** Errors of commands must be sentences with a remedy, never a stack. */
const run = promisify(execFile)
const folder = mkdtempSync(path.join(tmpdir(), 'commands-'))
afterAll(() => rmSync(folder, { recursive: true }))
const { databaseUrl, sql } = await createDatabase()
const port = await freePort()
const withPath = (url: string, pathname: string) => Object.assign(new URL(url), { pathname }).href
const nowhere = `postgresql://svc:secret@127.0.0.1:${port}/svc`
const empty = inject('adminUrl')
const closes = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
await once(closes, 'listening')
afterAll(() => closes.close())
const closing = nowhere.replace(`:${port}`, `:${(closes.address() as AddressInfo).port}`)
const aws = { AWS_REGION: 'eu-central-1', AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' }
const queue = {
  ...aws,
  QUEUE_URL: `http://127.0.0.1:${port}/1/notifications-staging`,
  AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
}

const runInHost = startCommandHost()

async function runAlone(args: string[], env: Record<string, string>): Promise<Outcome> {
  return await new Promise((resolve) => {
    execFile(process.execPath, args, { env, timeout: 100_000 }, (error, stdout, stderr) =>
      resolve({ exitCode: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    )
  })
}

/** Commands that also run if another module imports them. A single process runs them, so that shared modules are loaded only once. */
const runsOnImport = (file: string) => !readFileSync(file, 'utf8').includes('import.meta.main')

async function runShared([file = '', ...args]: string[], env: Record<string, string>): Promise<Outcome> {
  return runsOnImport(file)
    ? await runInHost({ command: path.resolve(file), args, folder: process.cwd(), environment: env })
    : await runAlone([file, ...args], env)
}

/** The commands that have already run in their own process, which proves that they terminate. */
const seen = new Set<string>()

/** A string stands for an environment with only this DATABASE_URL. */
type Row = [what: string, command: string, environment: string | Record<string, string>, message: RegExp]

test.each<Row>([
  ['migrate without a database', 'commands/migrate.ts', {}, /^DATABASE_URL is not set\. Set it to/],
  ['migrate without a running database', 'commands/migrate.ts', nowhere, /ECONNREFUSED.* Check that it is running/],
  ['migrate with an invalid URL', 'commands/migrate.ts', 'postgresql://:x', /Set DATABASE_URL to a connection string/],
  [
    'audit of a missing database',
    'commands/audit.ts',
    withPath(databaseUrl, 'none'),
    /database "none" does not exist\. Create the database/,
  ],
  [
    'audit of an empty database',
    'commands/audit.ts',
    empty,
    /does not exist\. The schema belongs to another version\. Run `npm run migrate`/,
  ],
  [
    'audit with a wrong password',
    'commands/audit.ts',
    databaseUrl.replace(/:[^:@]+@/, ':wrong@'),
    /password authentication failed.*\. Check the user and password/,
  ],
  ['audit while the connection breaks', 'commands/audit.ts', closing, /The connection was lost. Run/],
  ['restore from a folder', `commands/backup.ts restore ${folder}`, databaseUrl, /Name a file, not/],
  [
    'restore from a missing file',
    `commands/backup.ts restore ${folder}/a.gz`,
    databaseUrl,
    /no such file.*\. Check the path/,
  ],
  [
    'backup into a missing folder',
    `commands/backup.ts backup ${folder}/none/a.gz`,
    databaseUrl,
    /no such file.*\. Check the/,
  ],
  ['backup without a file', 'commands/backup.ts backup', databaseUrl, /^Name the file:\n\nnpm run backup -- FILE/],
  ...['9999-12-31', '2026-02-31', 'today'].map((day): Row => [
    `a payout run with an invalid payment date ${day}`,
    `local/payout-run.ts 1 --paid 1 --reference transfer-1 --paid-on ${day}`,
    {},
    /^Set --paid-on YYYY-MM-DD to the day on which the money left: today or earlier\./,
  ]),
  ['queue without a verb', 'commands/dead-letters.ts', {}, /^Say what to do:\n\nnpm run -s queue -- dead/],
  [
    'queue without a key',
    'commands/dead-letters.ts dead',
    { QUEUE_URL: queue.QUEUE_URL },
    /^AWS_REGION is not set|^AWS_ACCESS_KEY_ID is not set/,
  ],
  [
    'queue without a running service',
    'commands/dead-letters.ts dead',
    queue,
    /ECONNREFUSED.* Check that it is running/,
  ],
  ['erase without a customer', 'commands/erase.ts', {}, /^Name the customer to erase/],
  ...['replay', 'own-account 1', 'backfill 1', 'erase --program 1 --customer-key a'].flatMap((command) =>
    ['nonsense', 'postgresql://svc:secret@127.0.0.1:1/svc'].map((url): Row => [
      `${command.split(' ')[0]} with ${url} for a database`,
      `commands/${command.replace(/[\w-]+/, '$&.ts')}`,
      { DATABASE_URL: url, EMAIL_HASH_KEY: 'a', STRIPE_SECRET_KEY: 'sk_test' },
      /^The database is unreachable\. Check DATABASE_URL (?!.*secret)/,
    ]),
  ),
  ...['', ' x', ' 1.5'].map((program): Row => [
    `backfill of the program "${program}"`,
    `commands/backfill.ts${program}`,
    {},
    /^Name the program: npm run -s backfill/,
  ]),
  ...['0', '121', '1.5', 'many'].map((months): Row => [
    `backfill of ${months} months`,
    `commands/backfill.ts 1 --months ${months}`,
    {},
    /^--months takes a number from 1 to 120/,
  ]),
  ...['backfill.ts 1', 'replay.ts'].map((command): Row => [
    `${command} without the keys of the deployment`,
    `commands/${command}`,
    { DATABASE_URL: databaseUrl, STRIPE_SECRET_KEY: 'sk_test' },
    /^DATABASE_URL is set, so set EMAIL_HASH_KEY/,
  ]),
  ['replay of a missing program', 'commands/replay.ts --program x', {}, /^--program takes the id of a program/],
  ['sandbox without a stack', 'local/sandbox.ts', {}, /^The local stack is not running\. Start it with `npm start`/],
  ['deploy without anything', 'commands/deploy.ts', {}, /^Set ENVIRONMENT[^]*\nSet DOMAIN/],
  [
    'deploy of an unknown function',
    'commands/deploy.ts track-clicks',
    {},
    /^track-clicks has no entry in wrangler\.toml\. Name one of track-click, /,
  ],
])('%s', async (_, command, environment, message) => {
  const given = typeof environment === 'string' ? { DATABASE_URL: environment } : environment
  const args = `lib/${command}`.split(' ')
  const env = { ...bareEnvironment, NO_COLOR: '1', LOCAL_DATA_FOLDER: folder, ...given }
  const [file = ''] = args
  const failed = await (seen.has(file) ? runShared(args, env) : runAlone(args, env))
  seen.add(file)
  expect(failed).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(message) })
  expect(failed.stderr).not.toMatch(/^\s+at /m)
})

test('a command whose connection ends during a statement explains what to do', async () => {
  await sql.query('begin')
  await sql.query('lock table schema_functions, users, programs in access exclusive mode')
  const commands = ['commands/migrate.ts', 'commands/audit.ts', 'commands/backup.ts']
  const stopped = Promise.all(
    commands.map((file) =>
      run(process.execPath, [`lib/${file}`, ...(file.endsWith('backup.ts') ? ['backup', `${folder}/b.gz`] : [])], {
        env: { ...bareEnvironment, NO_COLOR: '1', LOCAL_DATA_FOLDER: folder, DATABASE_URL: databaseUrl },
      }).catch((error: unknown) => error),
    ),
  )
  const waiting = `from pg_locks join pg_database d on d.oid = database where datname = current_database() and not granted`
  await vi.waitFor(async () => expect((await sql.query(`select 1 ${waiting}`)).rowCount).toBe(commands.length), 60_000)
  await sql.query(`select pg_terminate_backend(pid) ${waiting}`)
  for (const failed of await stopped) {
    const stderr = expect.stringMatching(/terminating connection.*\. The database is stopping or starting/)
    expect(failed).toMatchObject({ code: 1, stderr })
    expect(failed).toMatchObject({ stderr: expect.not.stringMatching(/^\s+at /m) })
  }
  await sql.query('rollback')
})

test('a connection that breaks between two statements fails the next statement, but not the process', async () => {
  const failed = withClient(databaseUrl, 'svc-test', async (client) => {
    const ended = new Promise((resolve) => client.once('end', resolve))
    await sql.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'svc-test'`)
    await ended
    return await client.query('select 1')
  })
  expect(explain(await failed.catch((error: unknown) => error))).toMatch(
    /\. The connection was lost. Run this again\.$/,
  )
})

/** The `npm run` commands and the Node command lines that they run. */
function commandsOfNode(): { name: string; args: string[] }[] {
  const { scripts }: { scripts: Record<string, string> } = JSON.parse(readFileSync('package.json', 'utf8'))
  return Object.entries(scripts).flatMap(([name, script]) => {
    const [node, ...args] = script.split(' ')
    return node === 'node' ? [{ name, args }] : []
  })
}

test('block, erase, own-account, replay and backfill work on plain PostgreSQL', async () => {
  const { databaseUrl: url, sql: client } = await createDatabase()
  await client.query(
    `with workspace as (insert into workspaces (name) values ('Acme') returning id)
        insert into programs (workspace_id, name, domain) select id, 'Acme', 'shop.example.com' from workspace`,
  )
  await client.query(
    `with partner as (insert into partners (program_id, name, email) values (1, 'Ann', 'ann@example.com') returning id)
    insert into customers (program_id, click_id, customer_key, partner_id) select 1, 'cust_1_1', 'user-1', id from partner`,
  )

  const stripe = createHttpServer((_, response) => {
    response.setHeader('content-type', 'application/json').end('{"object":"list","data":[],"has_more":false}')
  }).listen(0, '127.0.0.1')
  await once(stripe, 'listening')
  const env = {
    ...bareEnvironment,
    NO_COLOR: '1',
    DATABASE_URL: url,
    EMAIL_HASH_KEY: 'a',
    STRIPE_SECRET_KEY: 'sk_test_a',
    STRIPE_API_URL: `http://127.0.0.1:${(stripe.address() as AddressInfo).port}`,
  }
  const output = async (command: string, ...args: string[]) =>
    (await run(process.execPath, [`lib/commands/${command}.ts`, ...args], { env })).stdout
  const network = ['--network', '198.51.100.0/24', '--hours', '2', '--reason', 'flood']
  expect(await output('block', ...network)).toContain('Block 1 ends in 2 h.')
  expect(await output('block')).toMatch(/^1 {2}198\.51\.100\.0\/24 {2}until .* {2}flood\n$/)
  expect(await output('block', '--end', '1')).toContain('Block 1 has ended.')
  expect(await output('erase', '--program', '1', '--customer-key', 'user-1')).toContain('Erased: 1 customer.')
  expect(await output('own-account', '1')).toContain('belong to program 1.')
  expect(await output('replay')).toContain('0 events replayed.')
  expect(await output('backfill', '1', '--months', '1')).toContain('done: 0 read, 0 recorded')
  stripe.close()
  stripe.closeAllConnections()
})

/**
 * The wrapper of `parseArgs` also refuses unknown options and shows the usage. The next test checks all commands, but this test checks
 * only one of each kind.
 */
test('--help explains a command and does nothing', async () => {
  const commands = commandsOfNode().filter(({ name }) => ['test', 'check', 'deploy', 'backup', 'schema'].includes(name))
  expect(commands).toHaveLength(5)
  const env = { ...bareEnvironment, LOCAL_DATA_FOLDER: folder }
  const results = await Promise.all(
    commands.map(async ({ name, args }) => {
      const { stdout } = await run(process.execPath, [...args, name.length % 2 ? '--help' : '-h'], { env })
      return [name, /npm (run|start|test)|Options:/.test(stdout)]
    }),
  )
  expect(results).toEqual(commands.map(({ name }) => [name, true]))
})

test('every command refuses an unknown option with exit code 2 and does nothing', async () => {
  // These two pass unknown options to wrangler and to the test runner.
  const commands = commandsOfNode().filter(({ name }) => !['deploy', 'test', 'check'].includes(name))
  expect(commands.length).toBeGreaterThan(15)
  const env = { ...bareEnvironment, LOCAL_DATA_FOLDER: folder }
  const results: [name: string, failed: Outcome][] = []
  for (const { name, args } of commands) {
    // Node reads its own options before the file.
    const runOne = args[0]?.startsWith('--') ? runAlone : runShared
    results.push([name, await runOne([...args, '--nonsense'], env)])
  }
  expect(results).toEqual(
    commands.map(({ name }) => [
      name,
      expect.objectContaining({
        exitCode: 2,
        stdout: '',
        stderr: expect.stringMatching(
          new RegExp(`^Unknown option '--nonsense'\\.\\n\\n[^]*(npm (run )?(-s )?${name}\\b|Options:)`),
        ),
      }),
    ]),
  )
})

test('npm shows a newcomer no warnings about the Node version', async () => {
  const { stdout } = await run('npm', ['config', 'get', 'loglevel'], { env: { PATH: process.env['PATH'] } })
  expect(stdout).toBe('error\n')
})
