import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { readFunctions } from '../../lib/commands/wrangler-file.ts'
import { bundleFunctions } from '../../lib/local/workers.ts'
import { drive, quantile } from './driver.ts'
import { seedEndpoints, take } from './endpoints.ts'
import { memoryMib, startStack } from './environment.ts'
import { HttpConnection } from './http.ts'
import { type Options, type Result, round } from './result.ts'

const starts = 3
const flatAfterMinutes = 10
const kib = (bytes: number) => round(bytes / 1024)

/**
 * The first call of each function in a workerd that has just started, beside the calls after it; the size of each bundle,
 * minified; what goes to browsers and integrators; and the memory of each process while clicks, sales and reads come in for `minutes`.
 */
export async function start({ minutes }: Options): Promise<Result> {
  const result: Result = { figures: [], goals: [] }
  const stack = await startStack()
  const endpoints = await seedEndpoints(stack, 6000)
  const firsts = new Map<string, number[]>(endpoints.map(({ name }) => [name, []]))
  for (let n = 0; n < starts; n++) {
    await stack.restart()
    for (const endpoint of endpoints) {
      const connection = new HttpConnection(stack.baseUrl)
      firsts.get(endpoint.name)?.push((await drive([connection], take(endpoint, 1))).p50_ms)
      connection.close()
      // What a function does after its answer is no part of the next one's first call.
      await sleep(100)
    }
  }
  const sizes = await bundleSizes()
  const warmConnection = new HttpConnection(stack.baseUrl)
  for (const endpoint of endpoints) {
    const warm = await drive([warmConnection], take(endpoint, 50))
    result.figures.push({
      what: endpoint.name,
      'first call ms': round(quantile(firsts.get(endpoint.name) ?? [], 0.5)),
      'then p50 ms': round(warm.p50_ms),
      'KiB gzip': sizes.get(endpoint.function) ?? 0,
    })
  }
  warmConnection.close()
  for (const [name, size] of sizes) {
    if (!endpoints.some((endpoint) => endpoint.function === name)) result.figures.push({ what: name, 'KiB gzip': size })
  }
  for (const name of ['track-click', 'track-sale']) {
    result.goals.push({ what: `${name}, KiB gzip`, measured: sizes.get(name) ?? NaN, most: 90 })
  }
  const script = brotliCompressSync(readFileSync('tracker/dist/svc-tracker.js')).length
  const client = gzipSync(readFileSync('tracker/dist/server.js')).length
  result.goals.push({ what: 'tracker script, KiB brotli', measured: script / 1024, most: 1 })
  result.goals.push({ what: 'server client, KiB gzip', measured: client / 1024, most: 2 })

  const pids = { workerd: stack.workerdPid, 'Neon endpoint': stack.neon.pid, miniflare: stack.workersPid }
  const carriers = Array.from({ length: 16 }, () => new HttpConnection(stack.baseUrl))
  const mixed = endpoints.filter(({ name }) => ['click', 'sale', 'performance', 'events'].includes(name))
  const read = () => Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, memoryMib(pid)]))
  const samples: Record<string, number>[] = []
  for (let part = 0; part < 10; part++) {
    await drive(carriers, endlessly(mixed), minutes * 6)
    samples.push(read())
  }
  for (const connection of carriers) connection.close()
  for (const name of Object.keys(pids)) {
    const at = (part: number) => round(samples[part]?.[name] ?? NaN)
    result.figures.push({
      what: `memory of ${name}, MiB`,
      [`after ${minutes / 2} min of load`]: at(4),
      [`after ${minutes} min`]: at(9),
    })
    // Before that the heaps still fill.
    if (minutes >= flatAfterMinutes) {
      result.goals.push({
        what: `memory of ${name}, second half of ${minutes} min by its first`,
        measured: at(9) / at(4),
        most: 1.25,
      })
    }
  }
  await stack.close()
  return result
}

function* endlessly(endpoints: { next: () => Buffer }[]): Generator<Buffer> {
  for (;;) for (const endpoint of endpoints) yield endpoint.next()
}

async function bundleSizes(): Promise<Map<string, number>> {
  const sizes = new Map<string, number>()
  for (const [name, [deployed]] of await bundleFunctions(readFunctions(), { minify: true }))
    sizes.set(name, kib(gzipSync(deployed?.contents ?? '').length))
  return sizes
}
