/**
 * `npm run generators`: lints the OpenAPI document with Redocly and Spectral. Generates clients with orval, Hey API and
 * openapi-typescript, compiles them, and sends a sale with one. It downloads these tools into a temporary folder. Exits with 1 at the first
 * error or warning.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { openApiDocument } from '../../lib/api/openapi.ts'
import { readOptions } from '../../lib/commands/command.ts'
import { freePort } from '../../lib/serve/embedded-postgres.ts'

readOptions('npm run generators    lints the OpenAPI document and compiles clients from common generators', {})

const run = promisify(execFile)
const folder = mkdtempSync(path.join(tmpdir(), 'generators-'))
const write = (file: string, content: object | string) =>
  writeFileSync(path.join(folder, file), typeof content === 'string' ? content : JSON.stringify(content))
const tools = ['@redocly/cli@2.77.0', '@stoplight/spectral-cli@6.16.3', 'orval@8.38.0', '@hey-api/openapi-ts@0.99.0']
const types = ['openapi-typescript@7.13.0', 'typescript@5.9.3']

const bin = (name: string) => `node_modules/.bin/${name}`

async function step(name: string, command: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<void> {
  const begun = performance.now()
  const options = { cwd: folder, env: { ...process.env, REDOCLY_TELEMETRY: 'off', ...env } }
  const { stdout, stderr } = await run(command, args, options)
  // Redocly succeeds even if it prints warnings.
  if (name === 'Redocly' && !/"warnings": ?0/.test(stdout)) throw new Error(stdout + stderr)
  console.log(`${((performance.now() - begun) / 1000).toFixed(1).padStart(6)} s  ${name}`)
}

/** Sends a sale with Hey API's client to a server that records it. */
async function sendSale(): Promise<void> {
  const port = await freePort()
  let received: unknown
  const server = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming
    void text(incoming).then((sent) => {
      received = [method, url, headers.authorization, JSON.parse(sent)]
      return outgoing.writeHead(200, { 'content-type': 'application/json' }).end('{"success":true}')
    })
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  const body = { transaction_id: 'order-1', customer_key: 'user-1', amount_cents: 4990 }
  write(
    'sale.ts',
    `import { client } from './out/hey/client.gen'
     import { trackSale } from './out/hey'
     client.setConfig({ baseUrl: 'http://127.0.0.1:${port}', auth: 'svc_live_1' })
     const { data } = await trackSale({ body: ${JSON.stringify(body)} })
     if (!data?.success) throw new Error('The sale has no answer.')`,
  )
  await step('send a sale with a generated client', 'node_modules/.bin/esbuild', [
    'sale.ts',
    '--bundle',
    '--format=esm',
    '--outfile=sale.mjs',
  ])
  await run(process.execPath, ['sale.mjs'], { cwd: folder })
  server.close()
  const expected = ['POST', '/api/v1/track/sale', 'Bearer svc_live_1', body]
  if (JSON.stringify(received) !== JSON.stringify(expected)) throw new Error(JSON.stringify(received))
}

try {
  write('openapi.json', openApiDocument('https://partners.affiliate.dev'))
  write('package.json', { private: true, type: 'module' })
  write('.spectral.yaml', 'extends: ["spectral:oas"]')
  const strict = {
    strict: true,
    noEmit: true,
    module: 'esnext',
    moduleResolution: 'bundler',
    target: 'es2022',
    types: [],
  }
  write('tsconfig.json', { compilerOptions: { ...strict, lib: ['es2022', 'dom', 'dom.iterable'] }, include: ['out'] })
  const target = { target: './out/orval/api.ts', client: 'fetch', mode: 'split' }
  write('orval.config.mjs', `export default { api: { input: './openapi.json', output: ${JSON.stringify(target)} } }`)
  const npm = ['install', '--no-audit', '--no-fund', '--ignore-scripts', 'esbuild@0.28.2', ...tools, ...types]
  await step('npm install', 'npm', npm)
  await step('Redocly', bin('redocly'), ['lint', 'openapi.json', '--format=json'])
  await step('Spectral', bin('spectral'), ['lint', 'openapi.json', '--fail-severity=hint'])
  await step('orval', bin('orval'), [])
  await step('Hey API', bin('openapi-ts'), ['-i', 'openapi.json', '-o', 'out/hey'])
  await step('openapi-typescript', bin('openapi-typescript'), ['openapi.json', '-o', 'out/types/api.ts'])
  await step('compile the clients', bin('tsc'), ['-p', '.'])
  await sendSale()
} catch (error) {
  console.error(error)
  process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
