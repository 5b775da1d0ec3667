import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { describe, expect, onTestFinished, test } from 'vitest'
import { recordClick } from '../lib/tracking/clicks.ts'
import { noClick } from './support/ledger.ts'
import { command, startSvc } from './support/svc.ts'

const { stack, sandbox, connection, inFolder, svc, json } = await startSvc([])

describe('svc webhooks', () => {
  test('creates, lists, tests, replays and deletes an endpoint', async () => {
    const url = 'https://hooks.example.com/svc'
    const created = await svc(['webhooks', 'create', '--url', url, '--types', 'sale.created, sale.refunded'])
    expect([created.exitCode, created.stderr]).toEqual([0, ''])
    const [, id = '', secret = ''] = /Endpoint (\d+): .*\n.*(whsec_\S+)/.exec(created.stdout) ?? []
    const list = await svc(['webhooks', 'list'])
    expect(list.stdout).toMatch(new RegExp(`^${id} .*${url} .*sale.created, sale.refunded .*active`, 'm'))
    expect(list.stdout).not.toContain(secret)
    await svc(['webhooks', 'test', id])
    const { delivery_id: delivery } = await json(['webhooks', 'test', id, '--json'])
    expect((await svc(['webhooks', 'deliveries', id, '--limit', '1'])).stdout).toMatch(
      new RegExp(`\n${delivery} .*webhook.test .*pending.*\nMore: --limit 2, or --cursor \\S+\n$`),
    )
    expect((await svc(['webhooks', 'delivery', id, delivery])).stdout).toMatch(
      /^webhook\.test: pending\n[^]*\nNo attempts yet\.\n$/,
    )
    await stack.sql.query(
      `insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status, answer)
      values ($1, $2, $3, '2026-11-22T12:00:00Z', 31, 503, 'Down')`,
      [sandbox.programId, id, delivery.slice(4)],
    )
    expect((await svc(['webhooks', 'delivery', id, delivery])).stdout).toMatch(
      /2026-11-22T12:00:00.000Z +31 +503 +Down\n$/,
    )
    expect(await json(['webhooks', 'replay', id, '--delivery-id', delivery, '--json'])).toEqual({
      success: true,
      replayed: 0,
    })
    expect(
      (await svc(['webhooks', 'replay', id, '--since', '2026-01-01T00:00:00Z', '--failed-only'])).stdout,
    ).toContain('0 sent again')
    expect(await json(['webhooks', 'replay', id, '--json'])).toMatchObject({
      success: false,
      error: { code: 'invalid_request' },
    })
    const rotated = await svc(['webhooks', 'rotate', id])
    expect(rotated.stdout).toMatch(new RegExp(`^✓ Endpoint ${id} has a new secret, shown this once: whsec_`))
    expect(rotated.stdout).not.toContain(secret)
    const every = await json(['webhooks', 'create', '--url', url, '--json'])
    expect((await svc(['webhooks', 'list'])).stdout).toMatch(
      new RegExp(`^${every.webhook_endpoint.id} +${url} +all +active`, 'm'),
    )
    await svc(['webhooks', 'delete', `${every.webhook_endpoint.id}`])
    expect((await svc(['webhooks', 'delete', id])).stdout).toContain(`Endpoint ${id} was deleted`)
    expect(await svc(['webhooks', 'test', id])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('no enabled webhook endpoint'),
    })
  })
})

/** Stops a server and restarts it on the same port. */
async function startMovable(handle: RequestListener) {
  const server = createServer(handle).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
    start: async () => await once(server.listen(port, '127.0.0.1'), 'listening'),
  }
}

/**
 * The service behind a proxy with a fault for each of the next requests: the proxy responds with 502 itself, or cuts the response short.
 */
async function startWayToService() {
  const moods: ('fails' | 'breaks off')[] = []
  const moved = await startMovable((incoming, outgoing) => {
    void (async () => {
      const mood = moods.shift()
      if (mood === 'fails') return outgoing.writeHead(502).end('<h1>Bad gateway</h1>')
      const { method = 'GET', url = '', headers } = incoming
      const parts: Buffer[] = await incoming.toArray()
      const answer = await fetch(stack.baseUrl + url, {
        method,
        headers: { authorization: headers.authorization ?? '', 'content-type': 'application/json' },
        ...(parts.length > 0 && { body: Buffer.concat(parts) }),
      })
      const text = await answer.text()
      if (mood === undefined) return outgoing.writeHead(answer.status).end(text)
      outgoing.writeHead(answer.status, { 'content-length': text.length })
      return outgoing.write(text.slice(0, 50), () => outgoing.destroy())
    })()
  })
  return { ...moved, moods }
}

/**
 * A server on this machine that answers `status` and records webhooks that the Standard Webhooks library verified with each secret.
 */
async function startHooks(status: number) {
  const hooks = { secrets: [] as string[], verified: [] as { id: string; type: string; sequence: number }[] }
  const moved = await startMovable((request, response) => {
    void request
      .setEncoding('utf8')
      .toArray()
      .then((parts: string[]) => {
        const given = request.headers as Record<string, string>
        const events = hooks.secrets.map((secret) => new Webhook(secret).verify(parts.join(''), given))
        hooks.verified.push(events[0] as (typeof hooks.verified)[number])
        return response.writeHead(status).end()
      })
  })
  return { hooks, server: moved, url: `${moved.url}/hooks` }
}

async function startListener(status: number, ...args: string[]) {
  return await listenAt(await startHooks(status), ...args)
}

async function listenAt({ hooks, server, url }: Awaited<ReturnType<typeof startHooks>>, ...args: string[]) {
  const environment = { PATH: process.env['PATH'] ?? '', ...connection }
  const child = spawn(process.execPath, [command, 'listen', '--forward', url, ...args], {
    cwd: inFolder('.'),
    env: environment,
  })
  // This runs even if the test fails halfway.
  const exited = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const out = { text: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out.text += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (out.text += text))
  await expect.poll(() => out.text, { timeout: 20_000 }).toContain('Signed by')
  hooks.secrets = out.text.match(/whsec_\S+/g) ?? []
  return {
    child,
    hooks,
    server,
    out,
    end: async (signal: NodeJS.Signals) => {
      child.kill(signal)
      return (await exited) as [number | null, string | null]
    },
  }
}

/** Records a sale to the same customer, who stays attributed after a call with their click id. */
async function sell(transaction_id: string, more: { click_id?: string } = {}) {
  const response = await fetch(`${stack.baseUrl}/api/v1/track/sale`, {
    method: 'POST',
    headers: { authorization: `Bearer ${sandbox.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ transaction_id, customer_key: 'listened', amount_cents: 4900, ...more }),
  })
  expect(response.status).toBe(200)
}

describe('svc listen', () => {
  test('forwards every event to each listener, signed, and deletes its endpoints when it ends', async () => {
    const secrets = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=', 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD']
    const [first, second] = await Promise.all([
      startListener(204),
      startListener(500, '--types', 'sale.created', ...secrets.flatMap((secret) => ['--secret', secret])),
    ])
    expect(second.hooks.secrets).toEqual(secrets)
    expect(first.hooks.secrets).toEqual([expect.not.stringMatching(secrets[0] ?? '')])
    const visit = {
      ...noClick,
      affiliate_url: `https://shop.example.com/?aff=${sandbox.partnerCode}`,
      partner_code: sandbox.partnerCode,
    }
    const click = await recordClick(stack.db, visit, null)
    for (const transaction_id of ['listen-1', 'listen-2']) await sell(transaction_id, { click_id: click.click_id })
    const types = ({ hooks }: typeof first) => hooks.verified.map(({ type }) => type)
    await expect
      .poll(() => types(first), { timeout: 20_000 })
      .toEqual(['sale.created', 'commission.created', 'sale.created', 'commission.created'])
    // The server of the second listener refuses every event, so each is sent again after five seconds.
    const repeated = () => second.hooks.verified.map(({ id }) => id)
    await expect.poll(() => new Set(repeated()).size, { timeout: 20_000 }).toBe(2)
    await expect.poll(() => repeated().length, { timeout: 20_000 }).toBeGreaterThanOrEqual(4)
    expect(new Set(repeated()).size).toBe(2)
    // Enter sends the latest event again, and an id sends the event with that id.
    const [oldest = '', latest = ''] = [first.hooks.verified[0]?.id, first.hooks.verified[3]?.id]
    first.child.stdin.write(`\n${oldest}\nevt_0\n`)
    await expect
      .poll(() => first.hooks.verified.slice(4).map(({ id }) => id), { timeout: 20_000 })
      .toEqual([latest, oldest])
    await expect.poll(() => first.out.text).toContain('has sent no event evt_0')
    first.hooks.verified.splice(4)
    // An event with a smaller number that commits later arrives too, and nothing arrives twice.
    const { rows } = await stack.sql.query<{ id: string }>(
      `select d.message_id as id from webhook_deliveries d join webhook_messages m using (program_id) where m.id = d.message_id
        and m.type = 'commission.created' order by 1 limit 1`,
    )
    const report = async (id: number, transaction: string, createdAt: string) => {
      await stack.sql.query(
        `with reported as (
          insert into webhook_messages (program_id, id, type, data, created_at) overriding system value
            values ($1, $2, 'sale.created', jsonb_build_object('transaction_id', $3::text), now() + $4::interval)
        )
        insert into webhook_deliveries (program_id, endpoint_id, message_id)
          select program_id, id, $2 from webhook_endpoints where program_id = $1 and url is null and deleted_at is null`,
        [sandbox.programId, id, transaction, createdAt],
      )
      await expect.poll(() => first.out.text, { timeout: 60_000 }).toContain(`transaction ${transaction} `)
    }
    const firstId = Number(rows[0]?.id)
    await report(firstId - 1000, 'late', '0')
    expect(first.out.text).toMatch(/sale\.created +transaction late +204/)
    expect(types(first)).toHaveLength(5)
    // This is also true if the next event arrives minutes later.
    for (const minutes of [2, 4, 6]) await report(firstId + 1000 + minutes, `after-${minutes}`, `${minutes} minutes`)
    expect(types(first)).toHaveLength(8)
    await expect.poll(() => first.out.text, { timeout: 20_000 }).toMatch(/sale\.created +transaction listen-2 +204/)
    await expect.poll(() => second.out.text, { timeout: 20_000 }).toMatch(/sale\.created +transaction listen-2 +500/)
    expect(await first.end('SIGINT')).toEqual([0, null])
    expect(await second.end('SIGTERM')).toEqual([0, null])
    expect((await svc(['webhooks', 'list'])).stdout).not.toContain('svc listen')
  })

  test("doesn't lose an event while the service, the local server or the listener is down", async () => {
    const service = await startWayToService()
    const { child, hooks, server, out, end } = await startListener(
      204,
      '--types',
      'sale.created',
      '--base-url',
      service.url,
    )
    const report = (text: string) => expect.poll(() => out.text, { timeout: 20_000 }).toContain(text)
    await Promise.all([service.stop(), server.stop()])
    await sell('away-1')
    await report(`${service.url} did not respond (`)
    await report('The service keeps events until it responds.')
    service.moods.push('breaks off', 'fails')
    await service.start()
    await report('The service responds again.')
    await report('/hooks does not respond (ECONNREFUSED). Events wait until it does.')
    await sell('away-2')
    await server.start()
    await report('/hooks responds again.')
    await report('transaction away-2')
    child.kill('SIGSTOP')
    await sell('away-3')
    child.kill('SIGCONT')
    await report('transaction away-3')
    expect(Array.from(out.text.matchAll(/transaction (\S+)/g), ([, id]) => id)).toEqual(['away-1', 'away-2', 'away-3'])
    expect(hooks.verified).toHaveLength(3)
    expect([out.text.match(/✗/g), out.text.match(/responds again/g)]).toMatchObject([{ length: 2 }, { length: 2 }])
    expect(service.moods).toEqual([])
    // Closing the terminal ends the command like Ctrl-C.
    expect(await end('SIGHUP')).toEqual([0, null])
    expect((await svc(['webhooks', 'list'])).stdout).not.toContain('svc listen')
  })

  test('takes over the endpoint of a killed listener, and misses no event', async () => {
    const place = await startHooks(204)
    const types = ['--types', 'sale.created']
    const killed = await listenAt(place, ...types)
    const [id = ''] = /(?<=Endpoint )\d+/.exec(killed.out.text) ?? []
    await sell('killed-1')
    await expect.poll(() => killed.out.text, { timeout: 60_000 }).toContain('transaction killed-1')
    expect(await killed.end('SIGKILL')).toEqual([null, 'SIGKILL'])
    await sell('killed-2')
    // The endpoint's events wait until the local server knows the new secret.
    await place.server.stop()
    const again = await listenAt(place, '--endpoint', id)
    await place.server.start()
    expect(again.out.text).toContain(`Endpoint ${id} forwards`)
    await expect.poll(() => again.out.text, { timeout: 60_000 }).toContain('transaction killed-2')
    const [first, ...rest] = place.hooks.verified.map(({ id: eventId }) => eventId)
    expect(rest).toEqual([first, expect.not.stringMatching(`^${first}$`)])
    expect(await again.end('SIGINT')).toEqual([0, null])
    expect((await svc(['webhooks', 'list'])).stdout).not.toContain('svc listen')
  })

  test('refuses an endpoint with an address and leaves it unchanged', async () => {
    const url = ['--url', 'https://shop.example.com/hooks']
    const { webhook_endpoint: created } = await json([
      'webhooks',
      'create',
      ...url,
      '--types',
      'sale.created',
      '--json',
    ])
    const answer = await svc(['listen', '--forward', 'http://localhost:3000', '--endpoint', `${created.id}`])
    expect([answer.exitCode, answer.stderr]).toEqual([1, expect.stringContaining('https://shop.example.com/hooks')])
    const { rows } = await stack.sql.query(
      'select secret_number, deleted_at from webhook_endpoints where program_id = $1 and id = $2',
      [sandbox.programId, created.id],
    )
    expect(rows).toEqual([{ secret_number: 1, deleted_at: null }])
    await svc(['webhooks', 'delete', `${created.id}`])
  })

  test.each([
    [['listen'], 2],
    [['listen', '--forward', 'http://localhost:3000', '--endpoint', '999999'], 1],
    [['listen', '--forward', 'http://localhost:3000', '--endpoint', '1', '--types', 'sale.created'], 2],
    [['listen', '--forward', 'localhost:3000'], 2],
    [['listen', '--forward', 'http://localhost:3000', '--secret', 'mine'], 2],
    [['listen', '--forward', 'http://localhost:3000', '--types', 'sale.shipped'], 1],
  ])('%j ends with %i and creates nothing', async (args, exitCode) => {
    expect((await svc(args)).exitCode).toBe(exitCode)
    expect((await svc(['webhooks', 'list'])).stdout).not.toContain('svc listen')
  })
})
