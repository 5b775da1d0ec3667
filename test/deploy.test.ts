import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { crc32, gzipSync, inflateRawSync } from 'node:zlib'
import { beforeEach, expect, inject, onTestFinished, test, vi } from 'vitest'
import { unstable_getMiniflareWorkerOptions as workerOptionsOf, unstable_readConfig as readConfig } from 'wrangler'
import { gzipBytesMax, planDeployment } from '../lib/commands/deploy.ts'
import { operatorToml, readOperator } from '../lib/commands/deploy/config.ts'
import trackerScript from '../functions/tracker-script.ts'
import { buildLambda } from '../lib/commands/deploy/lambda.ts'
import { rollback, shiftsTo, shiftTo } from '../lib/commands/deploy/rollout.ts'
import { staticPaths, writeStaticFiles } from '../lib/commands/deploy/static-files.ts'
import { inBindingOrder, readFunctions } from '../lib/commands/wrangler-file.ts'
import { bundleFunctions } from '../lib/local/workers.ts'
import { startCloudflare } from './support/cloudflare.ts'
import { unpack } from '../tracker/pack.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { bareEnvironment } from './support/spawned.ts'
import { startEndpoint } from './support/stack.ts'

const wranglerToml = readFileSync('wrangler.toml', 'utf8')
const cloudflare = await startCloudflare()

/** The variables for a first deployment. */
function given(environment: string): Record<string, string> {
  return {
    ...cloudflare.environment,
    ENVIRONMENT: environment,
    DOMAIN: 'acme.test',
    VERSION: 'v1',
    DATABASE_URL: `postgresql://svc@${environment}.eu-central-1.aws.neon.tech/svc`,
    DATABASE_REGION: 'aws:eu-central-1',
    QUEUE_URL: `https://sqs.eu-central-1.amazonaws.com/1/notifications-${environment}`,
    WEBHOOK_QUEUE_URL: `https://sqs.eu-central-1.amazonaws.com/1/webhooks-${environment}`,
    AWS_REGION: 'eu-central-1',
    AWS_ACCESS_KEY_ID: 'AKIA',
    AWS_SECRET_ACCESS_KEY: 'aws',
    AUTH_SECRET: 'auth',
    EMAIL_HASH_KEY: 'hash',
    PROXY_SECRET: 'proxy',
    WEBHOOK_SECRET: 'webhooks',
    METRICS_TOKEN: 'metrics',
    STRIPE_SECRET_KEY: 'sk_live',
    STRIPE_WEBHOOK_SECRET: 'whsec',
  }
}
const mail = {
  MAIL_API_URL: 'https://api.resend.com/emails',
  MAIL_API_KEY: 're_1',
  MAIL_FROM: 'Acme <partners@acme.test>',
}

const plan = (environment: Record<string, string>, wanted: string[] = []) =>
  planDeployment(readOperator(environment).operator, wranglerToml, environment['CLOUDFLARE_API_TOKEN'], wanted)

/** Sets up the edge as it is after a first production deployment of all functions, with GitHub sign-in. */
function deployed(): void {
  const first: Record<string, string> = {
    ...given('production'),
    ...mail,
    GITHUB_CLIENT_ID: 'gh',
    GITHUB_CLIENT_SECRET: 'gh-secret',
  }
  const toml = operatorToml(wranglerToml, readOperator(first).operator)
  for (const { workerName, vars, secrets, crons, routes } of readFunctions(toml)) {
    const optional = 'MAIL_FROM' in vars ? ['MAIL_API_KEY', 'GITHUB_CLIENT_SECRET'] : []
    cloudflare.workers[workerName] = {
      bindings: [
        ...Object.entries(vars).map(([name, text]) => ({ type: 'plain_text', name, text })),
        ...[...secrets, ...optional].map((name) => ({ type: 'secret_text', name })),
      ],
      crons,
    }
    cloudflare.routes.push(...routes.map((pattern) => ({ pattern, script: workerName })))
  }
}

beforeEach(() => {
  for (const name of Object.keys(cloudflare.workers)) delete cloudflare.workers[name]
  cloudflare.routes.length = 0
})

/** Makes the plans of two environments comparable: removes mail, environment names and limit numbers. */
const common = (planned: string[]) =>
  planned
    .filter((line) => !/ MAIL_(API_URL|FROM|API_KEY) /.test(line))
    .map((line) => line.replaceAll(/(?<=svc-|api)-?staging[-.]?/g, (name) => (name.endsWith('.') ? '.' : '')))
    .map((line) =>
      line
        .replace('staging', 'production')
        .replace('number 8423', 'number ')
        .replace(/ +added/, ' added'),
    )

test('the first deployment contains every function, and staging differs from production only in names and mail', async () => {
  const production = { ...given('production'), ...mail }
  const { lines, problems } = await plan(production)
  expect(problems).toEqual([])
  const functions = readFunctions()
  expect(lines.filter((line) => line.startsWith('+ '))).toEqual(functions.map(({ name }) => `+ svc-${name}  new`))
  expect(lines.filter((line) => / route .* added$/.test(line))).toHaveLength(
    functions.flatMap(({ routes }) => routes).length,
  )
  // One function of each kind: HTTP, static files, scheduled, queue consumer, pages.
  const some = await plan(production, [
    'track-click',
    'tracker-script',
    'count-clicks',
    'deliver-notifications',
    'dashboard',
  ])
  await expect(`${some.lines.join('\n')}\n`).toMatchFileSnapshot('deploys/production.txt')
  const staging = await plan(given('staging'))
  expect(staging.problems).toEqual([])
  expect(common(staging.lines)).toEqual(common(lines))
})

test('every package that a function bundles is in THIRD_PARTY_NOTICES', () => {
  const folder = inject('scriptsFolder')
  const packages = new Set(
    readdirSync(folder).flatMap((file) =>
      Array.from(
        readFileSync(path.join(folder, file), 'utf8').matchAll(
          /^ *\/\/ node_modules\/(?:.*node_modules\/)?((?:@[^/]+\/)?[^/]+)\//gm,
        ),
        ([, name = '']) => name,
      ),
    ),
  )
  expect(packages.size).toBeGreaterThan(20)
  const notices = readFileSync('THIRD_PARTY_NOTICES', 'utf8').split('\n')
  expect([...packages].filter((name) => !notices.some((line) => line.startsWith(`${name} `)))).toEqual([])
})

test('environments share no Worker, route, rate limit or service binding', () => {
  const of = (environment: string) =>
    readFunctions(operatorToml(wranglerToml, readOperator(given(environment)).operator)).flatMap((entry) => [
      entry.workerName,
      ...entry.routes,
      ...entry.rateLimits.map(({ namespace_id }) => namespace_id),
    ])
  const production = new Set(of('production'))
  expect(production.size).toBe(of('production').length)
  for (const other of ['staging', 'dev', 'staging-2'])
    expect(of(other).filter((name) => production.has(name))).toEqual([])
  const staging = operatorToml(wranglerToml, readOperator(given('staging')).operator)
  const bound = Array.from(staging.matchAll(/service = "(.*?)"/g), ([, name = '']) => name)
  expect(bound).toContain('svc-staging-count-clicks')
  expect(bound.filter((name) => !name.startsWith('svc-staging-'))).toEqual([])
})

test('a function is deployed after the targets of its service bindings', () => {
  const groups = inBindingOrder(readFunctions()).map((group) => group.map(({ name }) => name))
  const groupOf = (name: string) => groups.findIndex((group) => group.includes(name))
  expect(['relay-outbox', 'commissions', 'mcp'].map(groupOf)).toEqual([0, 1, 2])
  const circle = { a: 'b', b: 'a' }
  const entries = Object.entries(circle).map(([name, target]) => ({ name, services: { X: { name: target } } }))
  expect(() => inBindingOrder(entries)).toThrow('a, b')
})

test('an explicit host replaces the host of the environment', () => {
  const { operator } = readOperator({ ...given('staging'), API_HOST: 'try.acme.test' })
  const dashboard = readFunctions(operatorToml(wranglerToml, operator)).find(({ name }) => name === 'dashboard')
  expect(dashboard).toMatchObject({ routes: ['try.acme.test/*'], vars: { BASE_URL: 'https://try.acme.test' } })
})

test('with OTLP destinations, every function sends its traces and logs there, and the plan says so', async () => {
  const exporting = { ...given('staging'), OTEL_TRACES_DESTINATION: 'tempo', OTEL_LOGS_DESTINATION: 'loki' }
  const { lines } = await plan({ ...exporting, OTEL_TRACES_SAMPLER_ARG: '0.05' }, ['health'])
  expect(lines.slice(1, 3)).toEqual(['OTLP destination of traces: tempo', 'OTLP destination of logs: loki'])
  const { operator } = readOperator({ ...exporting, OTEL_TRACES_SAMPLER_ARG: '0.05' })
  const folder = mkdtempSync(path.join(tmpdir(), 'wrangler-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const config = path.join(folder, 'wrangler.toml')
  writeFileSync(config, operatorToml(wranglerToml, operator))
  expect(readConfig({ config, env: 'track-sale' }).observability).toEqual({
    enabled: true,
    logs: { invocation_logs: false, destinations: ['loki'] },
    traces: { enabled: true, destinations: ['tempo'], head_sampling_rate: 0.05, persist: false },
  })
})

test("with PROGRAM_HOSTS=on, only the dashboard serves the programs' own hosts", () => {
  const { operator } = readOperator({ ...given('staging'), PROGRAM_HOSTS: 'on' })
  const everywhere = readFunctions(operatorToml(wranglerToml, operator)).filter(({ routes }) => routes.includes('*/*'))
  expect(everywhere.map(({ name }) => name)).toEqual(['dashboard'])
})

test('on Cloudflare, static files answer scripts and packages as the functions do, and other paths call the functions', async () => {
  const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = await import('miniflare')
  const folder = mkdtempSync(path.join(tmpdir(), 'static-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const { operator } = readOperator(given('staging'))
  const functions = readFunctions(operatorToml(wranglerToml, operator)).filter(({ name }) => name in staticPaths)
  const config = path.join(folder, 'wrangler.toml')
  writeFileSync(config, operatorToml(wranglerToml, operator, await writeStaticFiles(folder, functions)))
  const contents = 'export default { fetch: () => new Response(null, { status: 204 }) }'
  const modules = [{ type: 'ESModule' as const, path: 'called.js', contents }]
  for (const { name } of functions) {
    const worker = { ...workerOptionsOf(config, name).workerOptions, name, modules }
    const miniflare = new Miniflare(convertV4MiniflareOptions({ log: new Log(LogLevel.NONE), workers: [worker] }))
    onTestFinished(() => miniflare.dispose())
    const { origin } = await miniflare.ready
    for (const served of staticPaths[name] ?? []) {
      const response = await fetch(origin + served)
      expect([served, response.status]).toEqual([served, 200])
      const { etag = '', ...headers } = Object.fromEntries(response.headers)
      const body = await response.bytes()
      if (name === 'tracker-package') {
        expect(headers).toMatchObject({
          'cache-control': 'public, max-age=31536000, immutable',
          'content-type': 'application/gzip',
        })
        expect(unpack(body)['dist/svc.js']).toContain('https://api-staging.acme.test')
      } else {
        const answer = trackerScript.fetch(new Request(`https://service${served}`))
        const { etag: _, vary: __, 'x-request-id': ___, ...expected } = Object.fromEntries(answer.headers)
        expect(headers).toMatchObject(expected)
        expect(Buffer.from(body).toString()).toBe(await answer.text())
      }
      expect((await fetch(origin + served, { headers: { 'if-none-match': etag } })).status).toBe(304)
      const posted = await fetch(origin + served, { method: 'POST' })
      expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    }
    for (const other of ['/js/other.js', '/packages/svc-tracker-0.0.1.tgz', '/_headers'])
      expect([other, (await fetch(origin + other)).status]).toEqual([other, 204])
  }
})

const placed = (environment: Record<string, string>) =>
  readFunctions(operatorToml(wranglerToml, readOperator(environment).operator)).map(({ region }) => region)

test('functions run near the database, except functions without one', () => {
  const expected = readFunctions().map(({ secrets }) =>
    secrets.includes('DATABASE_URL') ? 'aws:eu-central-1' : undefined,
  )
  expect(placed(given('staging'))).toEqual(expected)
  expect(expected).toContain(undefined)
  expect(new Set(placed({ ...given('staging'), DATABASE_REGION: '' }))).toEqual(new Set([undefined]))
})

test('a second deployment keeps unset values, and reports what happens to the others', async () => {
  deployed()
  cloudflare.workers['svc-delete-expired'] = { bindings: [], crons: ['* * * * *'] }
  cloudflare.workers['svc-staging-track-click'] = { bindings: [], crons: [] }
  const { lines, problems } = await plan({
    ...cloudflare.environment,
    ENVIRONMENT: 'production',
    DOMAIN: 'acme.test',
    MAIL_FROM: 'Acme <hello@acme.test>',
    AUTH_SECRET: 'new',
  })
  expect(problems).toEqual([])
  expect(lines.filter((line) => /^\+|(added|removed)$/.test(line))).toEqual([])
  const auth = lines.slice(lines.indexOf('~ svc-auth') + 1).slice(0, 11)
  expect(auth.map((line) => line.trim().replaceAll(/ +/g, ' '))).toEqual([
    'var BASE_URL the same',
    'var MAIL_API_URL kept: "https://api.resend.com/emails"',
    'var MAIL_FROM "Acme <partners@acme.test>" -> "Acme <hello@acme.test>"',
    'var GITHUB_CLIENT_ID kept: "gh"',
    'var GOOGLE_CLIENT_ID none',
    'secret DATABASE_URL kept',
    'secret AUTH_SECRET replaced',
    'secret MAIL_API_KEY kept',
    'secret GITHUB_CLIENT_SECRET kept',
    'secret GOOGLE_CLIENT_SECRET none',
    'route api.acme.test/api/auth/*',
  ])
  expect(lines.filter((line) => line.startsWith('?'))).toEqual([
    expect.stringContaining('svc-delete-expired  is not a function of this version.'),
  ])
})

const without = (variables: Record<string, string>, ...left: string[]) =>
  Object.fromEntries(Object.entries(variables).filter(([name]) => !left.includes(name)))

test.each([
  ['production without mail', given('production'), 'production needs mail'],
  ['production with half of mail', without({ ...given('production'), ...mail }, 'MAIL_FROM'), 'production needs mail'],
  [
    'mail without its key',
    without({ ...given('staging'), ...mail }, 'MAIL_API_KEY'),
    'auth has MAIL_API_URL without MAIL_API_KEY',
  ],
  [
    'GitHub without its secret',
    { ...given('staging'), GITHUB_CLIENT_ID: 'gh' },
    'dashboard has GITHUB_CLIENT_ID without GITHUB_CLIENT_SECRET',
  ],
  ['no queue', without(given('staging'), 'QUEUE_URL'), 'relay-outbox needs a value of QUEUE_URL'],
  ['no secret', without(given('staging'), 'AUTH_SECRET'), 'tracking-performance needs the secret AUTH_SECRET'],
  [
    "another environment's queue",
    { ...given('staging'), QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/1/notifications-production' },
    'the queues of staging end with -staging',
  ],
])('%s is refused', async (_, variables, problem) => {
  const { problems } = await plan(variables)
  expect(problems).toEqual(expect.arrayContaining([expect.stringContaining(problem)]))
})

test('an empty value disables a feature, but production requires mail', async () => {
  deployed()
  const shell = { ...cloudflare.environment, ENVIRONMENT: 'production', DOMAIN: 'acme.test' }
  expect((await plan({ ...shell, GITHUB_CLIENT_ID: '' })).lines).toContainEqual(
    expect.stringMatching(/GITHUB_CLIENT_ID +"gh" -> ""/),
  )
  expect((await plan({ ...shell, MAIL_API_URL: '' })).problems).toEqual([
    expect.stringContaining('production needs mail'),
  ])
})

test("a host of another environment's Workers is refused", async () => {
  deployed()
  const { problems } = await plan({ ...given('staging'), API_HOST: 'api.acme.test' }, ['auth'])
  expect(problems).toEqual([
    'api.acme.test/api/auth/* is answered by another Worker, svc-auth. Set API_HOST to a separate host for this environment, or remove that route.',
  ])
})

test.each([
  [{}, ['Set ENVIRONMENT', 'Set DOMAIN']],
  [{ DOMAIN: 'acme.test' }, ['Set ENVIRONMENT']],
  [{ DOMAIN: 'acme.test', ENVIRONMENT: 'Staging' }, ['Set ENVIRONMENT']],
  [{ DOMAIN: 'acme.test', ENVIRONMENT: 'staging' }, []],
  [{ ...given('staging'), OTEL_TRACES_SAMPLER_ARG: 'all' }, ['the share of traces, from 0 to 1']],
  [{ ...given('staging'), DATABASE_REGION: 'Frankfurt' }, ['such as aws:eu-central-1']],
  [{ ...given('staging'), DATABASE_REGION: 'aws:us-east-1' }, ['DATABASE_URL is in aws:eu-central-1']],
])('with %j it lists the missing values', (environment, sentences) => {
  const { problems } = readOperator(environment)
  expect(problems).toEqual(sentences.map((sentence) => expect.stringContaining(sentence)))
})

const run = promisify(execFile)
const deploy = async (variables: Record<string, string>, ...args: string[]) =>
  await run(process.execPath, ['lib/commands/deploy.ts', ...args], {
    env: { ...bareEnvironment, HOME: process.env['HOME'], NO_COLOR: '1', ...variables },
  })

test('a second upload by wrangler keeps unset values, gets its share of requests, and can be rolled back', async () => {
  const bindings = () =>
    cloudflare.workers['svc-staging-auth']?.bindings
      .filter(({ name }) => name !== 'VERSION')
      .toSorted((a, b) => a.name.localeCompare(b.name))
  await deploy({ ...given('staging'), ...mail }, 'auth')
  const first = bindings()
  expect(first).toContainEqual({ type: 'plain_text', name: 'MAIL_FROM', text: mail.MAIL_FROM })
  expect(first).toContainEqual({ type: 'secret_text', name: 'MAIL_API_KEY', text: mail.MAIL_API_KEY })
  const next = { ...cloudflare.environment, ENVIRONMENT: 'staging', DOMAIN: 'acme.test', VERSION: 'v2' }
  await expect(deploy(next, '--percent=10', 'auth')).rejects.toMatchObject({
    stderr: expect.stringContaining('Deploy this version without --percent.'),
  })
  cloudflare.routes.push({ pattern: 'api-staging.acme.test/api/auth/*', script: 'svc-staging-auth' })
  const { stdout } = await deploy(next, '--percent=10', 'auth')
  expect(stdout).toContain('~ svc-staging-auth  v1 100% -> v2 10%, v1 90%')
  expect(bindings()).toEqual(first)
  expect(cloudflare.workers['svc-staging-auth']?.bindings).toContainEqual({
    type: 'plain_text',
    name: 'VERSION',
    text: 'v2',
  })
  const planned = await deploy(next, '--rollback', '--plan', 'auth')
  expect((await deploy(next, '--rollback', 'auth')).stdout).toBe(planned.stdout)
  expect(planned.stdout).toBe('~ svc-staging-auth  v2 10%, v1 90% -> v1 100%\n')
  expect(cloudflare.workers['svc-staging-auth']?.deployments).toEqual([
    { versions: [{ version_id: 'svc-staging-auth-1', percentage: 100 }] },
    {
      versions: [
        { version_id: 'svc-staging-auth-2', percentage: 10 },
        { version_id: 'svc-staging-auth-1', percentage: 90 },
      ],
    },
    { versions: [{ version_id: 'svc-staging-auth-1', percentage: 100 }] },
  ])
  expect(Object.keys(cloudflare.workers)).toEqual(['svc-staging-auth'])
}, 240_000)

/** A Worker with the versions 1 to `tags.length`, which were all deployed. */
const running = (worker: string, tags: string[], ...shares: [number: number, percentage: number][]) => ({
  worker,
  deployed: shares.map(([number, percentage]) => ({ id: `${worker}${number}`, percentage })),
  versions: tags
    .map((tag, at) => ({
      id: `${worker}${at + 1}`,
      number: at + 1,
      tag,
      createdOn: `2026-11-0${Number(tag.slice(1))}`,
    }))
    .toReversed(),
  everDeployed: new Set(tags.map((_, at) => `${worker}${at + 1}`)),
})

test('a rollback undoes only the latest version, in all functions that run it, and never moves forward', () => {
  const lines = (...states: ReturnType<typeof running>[]) => rollback(states).map(({ line }) => line)
  const old = running('a', ['v1', 'v2'], [2, 100])
  expect(lines(old, running('b', ['v1', 'v3'], [2, 100]), running('c', ['v1', 'v2', 'v3'], [3, 50], [2, 50]))).toEqual([
    '~ b  v3 100% -> v1 100%',
    '~ c  v3 50%, v2 50% -> v2 100%',
  ])
  expect(lines(running('b', ['v1', 'v3'], [1, 100]), running('c', ['v1', 'v2', 'v3'], [1, 100]))).toEqual([])
  expect(shiftTo(old, 'v2', 50).line).toBe('~ a  v2 100% -> v2 100%')
  expect(shiftTo(running('a', ['v1', 'v2'], [2, 10], [1, 90]), 'v2', 100).line).toBe('~ a  v2 10%, v1 90% -> v2 100%')
  expect(shiftTo(old, 'v3', 20).line).toBe('~ a  v2 100% -> v3 20%, v2 80%')
})

test('the function that serves packages gets a new version at once and keeps it, unless only it is rolled back', () => {
  const before = running('svc-tracker-package', ['v1', 'v2'], [1, 100])
  const after = running('svc-tracker-package', ['v1', 'v2'], [2, 100])
  const pages = running('svc-docs', ['v1', 'v2'], [2, 10], [1, 90])
  const lines = shiftsTo([pages, before], 'v2', 20).map(({ line }) => line)
  expect(lines).toEqual(['~ svc-tracker-package  v1 100% -> v2 100%', '~ svc-docs  v2 10%, v1 90% -> v2 20%, v1 80%'])
  expect(rollback([after, pages]).map(({ line }) => line)).toEqual(['~ svc-docs  v2 10%, v1 90% -> v1 100%'])
  expect(rollback([after]).map(({ line }) => line)).toEqual(['~ svc-tracker-package  v2 100% -> v1 100%'])
})

test("the functions for visitors and sales stay within their size limit, measured on wrangler's build", async () => {
  const held = readFunctions().filter(({ name }) => name in gzipBytesMax)
  const sizes = Array.from(await bundleFunctions(held, { minify: true }), ([name, [module]]) => {
    const script = module?.contents ?? ''
    return { name, bytes: Buffer.byteLength(script), gzipBytes: gzipSync(script).length }
  })
  expect(sizes.map(({ name }) => name).toSorted()).toEqual(Object.keys(gzipBytesMax).toSorted())
  expect(sizes.filter(({ name, gzipBytes }) => gzipBytes > (gzipBytesMax[name] ?? 0))).toEqual([])
  const [first] = sizes
  if (!first) throw new Error('No function has a limit.')
  // The other function has static files.
  const { stdout } = await deploy({ PATH: process.env['PATH'] ?? '' }, '--dry-run', first.name, 'tracker-package')
  expect(stdout).toContain('2 built, 0 failed')
  const [, ...printed] = new RegExp(`^✓ ${first.name} +([\\d.]+) KiB +([\\d.]+) KiB gzip`, 'm').exec(stdout) ?? []
  // Wrangler's figure includes a few more bytes, and is rounded twice.
  const differences = [first.bytes, first.gzipBytes].map((bytes, at) => Math.abs(bytes / 1024 - Number(printed[at])))
  expect(differences.filter((kib) => !(kib < 0.2))).toEqual([])
})

test('wrangler accepts the configuration of every function without a warning', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'wrangler-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const config = path.join(folder, 'wrangler.toml')
  writeFileSync(config, operatorToml(wranglerToml, readOperator(given('staging')).operator))
  const said = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
  onTestFinished(() => said.mockRestore())
  const names = readFunctions().map((entry) => [entry.name, readConfig({ config, env: entry.name }).name])
  expect(names).toEqual(readFunctions().map(({ name }) => [name, `svc-staging-${name}`]))
  expect(said.mock.calls).toEqual([])
  writeFileSync(config, `${wranglerToml}\n[env.track-click.vars2]\n`)
  readConfig({ config, env: 'track-click' })
  expect(said.mock.calls.join()).toContain('Unexpected fields found in env.track-click field: "vars2"')
})

test.each([
  ['production', { ...given('production'), ...mail }],
  ['staging', given('staging')],
])(
  'the plan works without a Cloudflare login: it shows the first deployment of %s and lists the skipped checks',
  async (_environment, variables) => {
    // Nobody can log in without wrangler.
    const nobody = { ...variables, CLOUDFLARE_API_TOKEN: '', PATH: '' }
    const { stdout } = await deploy(nobody, '--plan')
    expect(stdout).toMatch(/^You are not logged in to Cloudflare, so this shows a first deployment\. Unknown: /)
    expect(stdout).toContain(`\n\n${(await plan(variables)).lines.join('\n')}\n`)
    await expect(deploy(nobody)).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('You are not logged in to Cloudflare. Log in with'),
    })
    await expect(deploy({ ...nobody, AUTH_SECRET: '' }, '--plan')).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('dashboard needs the secret AUTH_SECRET. Set it in the environment.'),
    })
  },
)

test('a refused deployment or plan changes nothing and exits with 1', { timeout: 120_000 }, async () => {
  const before = cloudflare.changes.length
  await expect(deploy(given('production'))).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^Nothing was deployed\.\nproduction needs mail.*\n$/),
  })
  const { stdout } = await deploy({ ...given('production'), ...mail }, '--plan', 'track-click')
  expect(stdout).toMatch(/^production: version v1 on api.acme.test[^]*\+ svc-track-click {2}new/)
  await expect(deploy({ ...given('staging'), CLOUDFLARE_API_TOKEN: 'other' }, '--plan')).rejects.toMatchObject({
    stderr: expect.stringContaining('Cloudflare refused to read /zones?name=acme.test: Authentication error.'),
  })
  expect(cloudflare.changes.length).toBe(before)
})

/** Reads an archive's files through its directory, like unzip, because Node has no function for that. */
function unzip(archive: Buffer): Map<string, Buffer> {
  const end = archive.subarray(-22)
  const files = new Map<string, Buffer>()
  let place = end.readUInt32LE(16)
  for (let left = end.readUInt16LE(10); left > 0; left--) {
    const entry = archive.subarray(place)
    const name = entry.subarray(46, 46 + entry.readUInt16LE(28)).toString()
    const local = archive.subarray(entry.readUInt32LE(42))
    expect(local.subarray(30, 30 + local.readUInt16LE(26)).toString()).toBe(name)
    const begins = 30 + local.readUInt16LE(26) + local.readUInt16LE(28)
    const contents = inflateRawSync(local.subarray(begins, begins + entry.readUInt32LE(20)))
    expect([crc32(contents), contents.length]).toEqual([entry.readUInt32LE(16), entry.readUInt32LE(24)])
    files.set(name, contents)
    place += 46 + entry.readUInt16LE(28)
  }
  return files
}

test('the zipped consumer for Lambda takes a batch and reports failures', { timeout: 60_000 }, async () => {
  const { neon, databaseUrl, sql, db } = await startEndpoint('workers')
  const folder = mkdtempSync(path.join(tmpdir(), 'lambda-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const commands = await buildLambda(folder, 'staging', given('staging')['QUEUE_URL'] ?? '')
  expect(commands).toContain(
    'aws lambda create-function --region eu-central-1 --function-name svc-staging-deliver-notifications',
  )
  const json = (name: string): unknown => JSON.parse(readFileSync(path.join(folder, name), 'utf8'))
  expect(json('lambda-event-source.json')).toMatchObject({
    FunctionName: 'svc-staging-deliver-notifications',
    EventSourceArn: 'arn:aws:sqs:eu-central-1:1:notifications-staging',
    FunctionResponseTypes: ['ReportBatchItemFailures'],
  })
  expect(JSON.stringify(json('lambda-policy.json'))).toContain('arn:aws:sqs:*:*:notifications-staging')

  const files = unzip(readFileSync(path.join(folder, 'function.zip')))
  expect([...files.keys()]).toEqual(['index.js', 'THIRD_PARTY_NOTICES'])
  expect(files.get('THIRD_PARTY_NOTICES')?.toString()).toBe(readFileSync('THIRD_PARTY_NOTICES', 'utf8'))
  writeFileSync(path.join(folder, 'index.cjs'), files.get('index.js') ?? '')

  const { programId, partnerIds } = await createLedgerProgram(sql, db)
  const { rows } = await sql.query<{ id: string }>(
    `insert into outbox (program_id, kind, audience, partner_id, cause, payload)
     values ($1, 'commission_reversed', 'partner', $2, 'cause-1', '{}') returning id`,
    [programId, partnerIds[0]],
  )
  const event = {
    Records: [
      { messageId: 'a', body: JSON.stringify({ program_id: programId, outbox_id: Number(rows[0]?.id) }) },
      { messageId: 'b', body: 'not ours' },
    ],
  }
  const script = `require('./index.cjs').handler(${JSON.stringify(event)}).then((answer) => console.log(JSON.stringify(answer)))`
  const { stdout } = await run(process.execPath, ['-e', script], {
    cwd: folder,
    env: { DATABASE_URL: databaseUrl, NEON_ENDPOINT: neon.url },
  })
  expect(JSON.parse(stdout)).toEqual({ batchItemFailures: [{ itemIdentifier: 'b' }] })
  expect((await sql.query('select kind from notifications')).rows).toEqual([{ kind: 'commission_reversed' }])
})

test.each(['', 'notifications-staging', 'https://sqs.local/1/q'])(
  'the consumer for the queue "%s" can\'t be built',
  async (queueUrl) => {
    await expect(buildLambda('nowhere', 'staging', queueUrl)).rejects.toThrow('Set QUEUE_URL to the queue')
  },
)
