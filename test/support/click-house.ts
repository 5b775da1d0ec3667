import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import path from 'node:path'
import { afterAll } from 'vitest'
import * as z from 'zod'
import { ClickHouse } from '../../lib/click-house.ts'

const file = path.join(import.meta.dirname, 'click-house-answers.json')

/** The answers to each request, in their order. */
const recordedAnswers = z.record(
  z.string(),
  z.array(z.object({ status: z.number(), code: z.string().optional(), body: z.string() })),
)
type Answers = z.infer<typeof recordedAnswers>

/** A fault of the requests that match. With `lose`, ClickHouse gets the request, but its answer is lost. */
type Fault = { of: RegExp; how: 'refuse' | 'lose' }

export interface ClickHouseStandIn {
  server: ClickHouse
  url: string
  /** Requests that were not recorded. */
  unknown: string[]
  /** The number of answered requests. */
  answered(): number
  fault: Fault | undefined
}

/**
 * Starts a stand-in for a ClickHouse server. It is not ClickHouse: it only gives the answers in click-house-answers.json, which a real
 * ClickHouse 26.7 gave to the same requests in the same order. With CLICKHOUSE_RECORD=http://user@host:8123/database, it forwards the
 * requests to an empty database of a real server, and writes that file.
 */
export async function startClickHouse(): Promise<ClickHouseStandIn> {
  const { CLICKHOUSE_RECORD: recorded, CLICKHOUSE_PASSWORD: password = '' } = process.env
  const known: Answers =
    recorded === undefined && existsSync(file) ? recordedAnswers.parse(JSON.parse(readFileSync(file, 'utf8'))) : {}
  const written: Answers = {}
  let answered = 0
  const server = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(z.instanceof(Buffer).parse(chunk))
      const body = Buffer.concat(chunks).toString()
      const url = new URL(request.url ?? '', 'http://stand-in')
      const key = keyOf(url, body)
      const { fault } = standIn
      if (fault?.how === 'refuse' && fault.of.test(key)) return response.destroy()
      const answer = recorded === undefined ? known[key]?.shift() : await forward(recorded, password, url, body)
      if (recorded !== undefined && answer) (written[key] ??= []).push(answer)
      if (fault?.of.test(key)) return response.destroy()
      if (!answer) standIn.unknown.push(key)
      answered += 1
      return response
        .writeHead(answer?.status ?? 501, answer?.code ? { 'X-ClickHouse-Exception-Code': answer.code } : {})
        .end(answer?.body ?? 'This request is not recorded.')
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = z.object({ port: z.number() }).parse(server.address())
  const url = `http://svc@127.0.0.1:${address.port}/svc`
  afterAll(() => {
    server.close()
    if (recorded !== undefined) writeFileSync(file, `${JSON.stringify(written, null, 1)}\n`)
  })
  const standIn: ClickHouseStandIn = {
    server: new ClickHouse(url, 'secret'),
    url,
    unknown: [],
    answered: () => answered,
    fault: undefined,
  }
  return standIn
}

/** The query with its parameters. Inserted rows are hashed. */
function keyOf(url: URL, body: string): string {
  const insert = url.searchParams.get('query')
  const parameters = [...url.searchParams].filter(([name]) => name.startsWith('param_')).map((pair) => pair.join('='))
  return insert === null
    ? [body, ...parameters].join('\n')
    : `${insert} ${createHash('sha256').update(body).digest('hex')}`
}

async function forward(
  server: string,
  password: string,
  { search }: URL,
  body: string,
): Promise<Answers[string][number]> {
  const { origin, username } = new URL(server)
  const headers = { 'X-ClickHouse-User': username || 'default', 'X-ClickHouse-Key': password }
  const response = await fetch(`${origin}/${search}`, { method: 'POST', headers, body })
  const code = response.headers.get('x-clickhouse-exception-code')
  // Only the code of an error counts.
  return { status: response.status, body: response.ok ? await response.text() : '', ...(code && { code }) }
}
