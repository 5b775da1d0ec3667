import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { readOptions } from '../../lib/commands/command.ts'
import { openPool } from '../../lib/commands/postgres.ts'
import { Database } from '../../lib/database.ts'
import { createSandbox } from '../../lib/local/sandbox.ts'
import { freePort } from '../../lib/serve/embedded-postgres.ts'
import { lossesOf, startCallers } from '../chaos/serve.ts'
import { givenSecrets, openSocket, spawnServe } from '../support/serve-process.ts'
import { bareEnvironment } from '../support/spawned.ts'

/**
 * `npm run restarts -- --restarts 5`: restarts `npm run serve -- --embedded` behind a real Caddy with the Caddyfile of lib/serve/, as
 * `systemctl restart svc` does with `svc.socket`, while 24 callers use it. Prints the acknowledged and the refused calls. Requires the
 * program `caddy`. The exit code is 1 if a call was refused or lost.
 */
const { values } = readOptions(
  'npm run restarts [-- --restarts 5]    restarts one box behind a real Caddy, and counts calls',
  { options: { restarts: { type: 'string', default: '5' } } },
)
const clients = 24
const folder = mkdtempSync(path.join(tmpdir(), 'svc-restarts-'))
const data = path.join(folder, 'data')
const [port, front, tls, plain] = [await freePort(), await freePort(), await freePort(), await freePort()]

// The test's Caddy doesn't use the standard ports.
const caddyfile = readFileSync('lib/serve/Caddyfile', 'utf8')
  .replace('{\n', `{\n\tadmin off\n\tauto_https disable_redirects\n\thttp_port ${plain}\n\thttps_port ${tls}\n`)
  .replace('{$API_HOST}', `http://127.0.0.1:${front}`)
  .replaceAll('{$UPSTREAM:127.0.0.1:8787}', `127.0.0.1:${port}`)
writeFileSync(path.join(folder, 'Caddyfile'), caddyfile)
const caddy = spawn('caddy', ['run', '--adapter', 'caddyfile', '--config', path.join(folder, 'Caddyfile')], {
  stdio: 'ignore',
  env: { ...bareEnvironment, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
})
const environment = {
  ...bareEnvironment,
  ...givenSecrets,
  BASE_URL: `http://127.0.0.1:${front}`,
  PORT: String(port),
  TRUST_PROXY: '127.0.0.1',
  MAIL_API_URL: 'http://127.0.0.1:9',
  MAIL_API_KEY: 'none',
  MAIL_FROM: 'Partners <partners@example.com>',
}
const socket = openSocket(port)
const start = async () => await spawnServe(environment, ['--embedded', '--data', data], process.cwd(), socket)
const databaseUrl = () => readFileSync(path.join(data, 'database-url'), 'utf8')

let served = await start()
try {
  const pool = openPool(databaseUrl(), 2)
  const env = { AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '', DATABASE_URL: databaseUrl(), POSTGRES: pool }
  const program = await createSandbox(new Database(env), env)
  await pool.end()
  const callers = startCallers(() => environment.BASE_URL, [program], clients)
  const away: number[] = []
  for (let restart = 0; restart < Number(values.restarts); restart++) {
    const before = callers.count()
    while (callers.count() < before + 2 * clients) await sleep(50)
    const stopped = performance.now()
    const code = await served.end('SIGTERM')
    if (code !== 0) throw new Error(`The service ended with ${code}.`)
    served = await start()
    away.push((performance.now() - stopped) / 1000)
  }
  const before = callers.count()
  while (callers.count() < before + 2 * clients) await sleep(50)
  const heard = await callers.stop()
  const sql = new Client({ connectionString: databaseUrl() })
  await sql.connect()
  const wrong = await lossesOf(sql, heard)
  await sql.end()
  for (const line of wrong.slice(0, 20)) console.error(line)
  const calls = heard.clicks.length + heard.sales.length + heard.refunds.length
  const seconds = away.map((one) => one.toFixed(1)).join(', ')
  console.log(
    `${clients} clients, ${away.length} restarts of ${seconds} s: ${calls} calls acknowledged, ${heard.refusals} refused, ${wrong.length} lost or wrong`,
  )
  process.exitCode = wrong.length === 0 && heard.refusals === 0 ? 0 : 1
} finally {
  await served.end('SIGKILL')
  caddy.kill('SIGKILL')
  socket.close()
  rmSync(folder, { recursive: true, force: true })
}
