import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { networkInterfaces, tmpdir } from 'node:os'
import path from 'node:path'
import { json } from 'node:stream/consumers'
import { createConnection } from 'node:net'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { freePort } from '../lib/serve/embedded-postgres.ts'

/** Runs `npm start`, `npm run -s sandbox` and the walkthrough of the README in a separate data folder. */
const run = promisify(execFile)
const folder = mkdtempSync(path.join(tmpdir(), 'svc-stack-'))
const port = await freePort()
const baseUrl = `http://127.0.0.1:${port}`
// Vitest sets its own BASE_URL, which the stack would use.
const env = {
  ...process.env,
  BASE_URL: undefined,
  LOCAL_DATA_FOLDER: path.join(folder, 'data'),
  PORT: String(port),
  NO_COLOR: '1',
}

let stack: ChildProcess
let sandbox: Record<string, string | number>

async function start(): Promise<void> {
  stack = spawn(process.execPath, ['lib/local/start.ts'], { env })
  let output = ''
  stack.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  stack.stderr?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  await vi.waitFor(() => expect(output).toContain(`The service runs at ${baseUrl}`), 150_000)
}

/** Resolves with the exit code and the signal that ended the process. */
async function stop(signal: NodeJS.Signals): Promise<unknown[]> {
  const exited = once(stack, 'exit')
  stack.kill(signal)
  return await exited
}

async function newSandbox(...options: string[]): Promise<Record<string, string | number>> {
  const { stdout } = await run(process.execPath, ['lib/local/sandbox.ts', ...options], { env })
  return JSON.parse(stdout) as Record<string, string | number>
}

beforeAll(async () => {
  await start()
  sandbox = await newSandbox('--commission-percent', '12.55', '--hold-days', '0', '--currency', 'eur')
})

afterAll(async () => {
  if (stack.exitCode === null && stack.signalCode === null) await stop('SIGTERM')
  rmSync(folder, { recursive: true })
})

test('a sandbox has everything that an integration test needs', () => {
  expect(sandbox).toMatchObject({
    baseUrl,
    programId: expect.any(Number),
    apiKey: expect.stringMatching(/^svc_live_/),
    partnerCode: expect.any(String),
    partnerId: expect.any(Number),
    dashboardToken: expect.any(String),
    billingToken: expect.any(String),
    outsiderToken: expect.any(String),
    partnerToken: expect.any(String),
    connectedAccountId: expect.stringMatching(/^acct_/),
    webhookSecret: expect.stringMatching(/^whsec_/),
    databaseUrl: expect.stringMatching(/^postgresql:/),
    queueUrl: expect.stringMatching(/^http:/),
    deadLetterQueueUrl: expect.stringMatching(/^http:/),
  })
})

test.each([
  ['--commission-percent', '120', '--commission-percent: A commission can be at most 100%.'],
  ['--hold-days', 'soon', '--hold-days: '],
  ['--attribution-model', 'middle_click', '--attribution-model: '],
  ['--commision', '1', "Unknown option '--commision'"],
])('a sandbox with %s %s is refused', async (option, value, message) => {
  await expect(newSandbox(option, value)).rejects.toThrow(message)
})

test.each([
  ['at its path', '/api/v1/track/click', `127.0.0.1:${port}`],
  ['at its path with a query', '/api/v1/track/click?debug=1', `127.0.0.1:${port}`],
  ['at its path under any host', '/api/v1/track/click', 'api.example.com'],
  ['at the root of its own address', '/', `track-click.localhost:${port}`],
])('a function responds %s', async (_, pathname, host) => {
  const answer = await post(pathname, host, {
    affiliate_url: `https://shop.example.com/?aff=${sandbox['partnerCode']}`,
  })
  expect(answer).toMatchObject({ success: true, partner_code: sandbox['partnerCode'] })
})

/** fetch doesn't send a caller's Host header. */
async function post(pathname: string, host: string, body: object): Promise<unknown> {
  const headers = { host, 'content-type': 'application/json' }
  const sent = request({ host: '127.0.0.1', port, path: pathname, method: 'POST', headers })
  sent.end(JSON.stringify(body))
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return await json(response)
}

test('its data, secrets and log are readable only by their owner, and the log contains no secret of a mailed link', async () => {
  const data = path.join(folder, 'data')
  const files = ['functions.log', 'secrets.json', 'stack.json', 'demo.json'].map((name) => path.join(data, name))
  expect([data, ...files].filter((file) => (statSync(file).mode & 0o077) !== 0)).toEqual([])
  const { email } = JSON.parse(readFileSync(path.join(data, 'demo.json'), 'utf8')) as { email: string }
  const answered = await fetch(`${baseUrl}/api/auth/request-password-reset`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email }),
  })
  expect(answered.status).toBe(200)
  const log = () => readFileSync(path.join(data, 'functions.log'), 'utf8')
  await vi.waitFor(() => expect(log()).toContain('/reset-password?token='), 60_000)
  expect(log()).toContain('/reset-password?token=…\n')
  expect(log()).not.toMatch(/token=[\w-]/)
})

const ownAddress = Object.values(networkInterfaces())
  .flat()
  .find((address) => address?.family === 'IPv4' && !address.internal)?.address

test.skipIf(ownAddress === undefined).each(['queueUrl', 'databaseUrl', 'baseUrl'])(
  'its %s accepts connections only from loopback',
  async (name) => {
    const own = new URL(String(sandbox[name]))
    const reach = async (host: string) => {
      const socket = createConnection({ host, port: Number(own.port) })
      const outcome = await once(socket, 'connect').then(
        () => 'reached',
        (error: unknown) => (error instanceof Error && 'code' in error ? error.code : error),
      )
      socket.destroy()
      return outcome
    }
    expect(await reach('127.0.0.1')).toBe('reached')
    expect(await reach(ownAddress ?? '')).toBe('ECONNREFUSED')
  },
)

test('the pasted README commands end with the reversed commission, the deducted balance and the notification', async () => {
  const readme = readFileSync('README.md', 'utf8')
  const walk = /### From a click to a reversed commission[^]*?```sh\n([^]*?)```/.exec(readme)?.[1] ?? ''
  const file = path.join(folder, 'sandbox.json')
  const { stdout } = await run('bash', ['-euc', walk.replaceAll('sandbox.json', file)], { env })

  expect(stdout).toContain('"status":"refunded","deductionAmount":6,')
  expect(stdout).toContain('"status":"reversed","deductionAmount":14,')
  expect(stdout).toMatch(/Commissions[^]*'order-1'[^]*'20.00'[^]*'20.00'[^]*'reversed'[^]*'chargeback'/)
  expect(stdout).toMatch(/Balances[^]*'0.00'[^]*'0.00'[^]*Entries[^]*'20.00'[^]*'-6.00'[^]*'-14.00'/)
  expect(stdout).toMatch(/Notifications[^]*'commission_refunded'[^]*'6.00'[^]*'commission_reversed'[^]*'14.00'/)
}, 60_000)

test('a second start reports that the data folder is in use', async () => {
  const other = { ...env, PORT: String(await freePort()) }
  await expect(run(process.execPath, ['lib/local/start.ts'], { env: other })).rejects.toThrow(
    /in use by the stack of process \d+/,
  )
})

test('a start on a port in use reports it, with the variable that sets another port', async () => {
  const other = { ...env, LOCAL_DATA_FOLDER: path.join(folder, 'other') }
  await expect(run(process.execPath, ['lib/local/start.ts'], { env: other })).rejects.toThrow(
    /is in use by another program\. Stop it, or choose another port: PORT=/,
  )
})

test(
  'neither a kill nor Ctrl-C leaves a process behind, and the next start keeps the data',
  { timeout: 240_000 },
  async () => {
    await stop('SIGKILL')
    await expect(newSandbox()).rejects.toThrow('The local stack is not running. Start it with `npm start`')
    await expect.poll(leftovers, { timeout: 60_000 }).toEqual([])

    await start()
    const { databaseUrl } = await newSandbox()
    const client = new Client({ connectionString: String(databaseUrl) })
    await client.connect()
    const { rows } = await client.query(
      `select currency, commission_bp, hold_days, sum(clicks) as clicks
     from programs p join link_click_counts l on l.program_id = p.id where p.id = $1 group by p.id`,
      [sandbox['programId']],
    )
    await client.end()
    expect(rows).toEqual([{ currency: 'eur', commission_bp: 1255, hold_days: 0, clicks: '4' }])

    expect(await stop('SIGINT')).toEqual([0, null])
    expect(await leftovers()).toEqual([])
  },
)

/** Finds processes that use the test's data folder or port. */
async function leftovers(): Promise<string[]> {
  const { stdout } = await run('sh', ['-c', 'ps -eo args= || cat /proc/[0-9]*/cmdline | tr "\\0\\n" " \\n"'])
  return stdout.split('\n').filter((line) => line.includes(folder) || line.includes(`127.0.0.1:${port}`))
}
