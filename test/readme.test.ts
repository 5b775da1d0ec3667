import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePort } from '../lib/local/postgres.ts'

const run = promisify(execFile)
const folder = mkdtempSync(path.join(tmpdir(), 'readme-'))
const environment = { ...process.env, LOCAL_DATA_FOLDER: folder, PORT: String(await freePort()), NO_COLOR: '1' }
let stack: ChildProcess
let printed = ''

beforeAll(async () => {
  stack = spawn(process.execPath, ['lib/local/start.ts'], { env: environment })
  await new Promise<void>((resolve) => {
    stack.stdout?.on('data', (chunk) => {
      printed += stripVTControlCharacters(String(chunk))
      if (printed.includes('Ctrl-C')) resolve()
    })
  })
})

afterAll(async () => {
  if (stack.exitCode === null) {
    stack.kill('SIGINT')
    await once(stack, 'exit')
  }
  rmSync(folder, { recursive: true, force: true })
})

test('the README gives each variable without which a function cannot be deployed', () => {
  const block = /## Deploy[^]*?```sh\n([^]*?)```/.exec(readFileSync('README.md', 'utf8'))?.[1] ?? ''
  const given = new Set(block.matchAll(/\b([A-Z_]+)=/g).map(([, name]) => name))
  const lists = readFileSync('wrangler.toml', 'utf8').matchAll(/^secrets = \{ required = \[(.*)\]/gm)
  const required = [...lists].flatMap(([, names = '']) => names.match(/[A-Z_]+/g) ?? [])
  expect(required).toContain('DATABASE_URL')
  expect(
    [...required, 'DOMAIN', 'QUEUE_URL', 'WEBHOOK_QUEUE_URL', 'AWS_REGION'].filter((name) => !given.has(name)),
  ).toEqual([])
})

test('the walk in the README, pasted, ends with the reversed commission, the deducted balance and the notification', async () => {
  expect(printed).toContain(`The service runs at http://127.0.0.1:${environment.PORT}`)
  const readme = readFileSync('README.md', 'utf8')
  const walk = /### From a click to a reversed commission[^]*?```sh\n([^]*?)```/.exec(readme)?.[1] ?? ''
  const sandbox = path.join(folder, 'sandbox.json')
  const { stdout } = await run('bash', ['-euc', walk.replaceAll('sandbox.json', sandbox)], { env: environment })

  expect(stdout).toContain('"status":"refunded","deductionAmount":6,')
  expect(stdout).toContain('"status":"reversed","deductionAmount":14,')
  expect(stdout).toMatch(/Commissions[^]*'order-1'[^]*'20.00'[^]*'20.00'[^]*'reversed'[^]*'chargeback'/)
  expect(stdout).toMatch(/Balances[^]*'0.00'[^]*'0.00'[^]*Entries[^]*'20.00'[^]*'-6.00'[^]*'-14.00'/)
  expect(stdout).toMatch(/Notifications[^]*'commission_refunded'[^]*'6.00'[^]*'commission_reversed'[^]*'14.00'/)
}, 60_000)

test('a second start says that the data folder is in use', async () => {
  const port = String(await freePort())
  await expect(run(process.execPath, ['lib/local/start.ts'], { env: { ...environment, PORT: port } })).rejects.toThrow(
    /in use by the stack of process \d+/,
  )
})

test('a start on a taken port says so, and which variable chooses another', async () => {
  const other = mkdtempSync(path.join(tmpdir(), 'readme-port-'))
  await expect(
    run(process.execPath, ['lib/local/start.ts'], { env: { ...environment, LOCAL_DATA_FOLDER: other } }),
  ).rejects.toThrow(/is taken by another program\. Stop it, or choose a port: PORT=/)
  rmSync(other, { recursive: true, force: true })
})

test('Ctrl-C ends the stack cleanly', async () => {
  const exited = once(stack, 'exit')
  stack.kill('SIGINT')
  expect(await exited).toEqual([0, null])
}, 30_000)
