import { drive, interleave, medianRate, quantile, rateRatio, type Side } from './driver.ts'
import { seedEndpoints, take } from './endpoints.ts'
import { cpuMicroseconds, startStack } from './environment.ts'
import { type HttpCall, HttpConnection } from './http.ts'
import { type Result, round } from './result.ts'

const connections = 32
const callsAlone = 100
const rounds = 5
const callsARound = 600

/**
 * Whole calls through workerd, the Neon endpoint and Postgres (each commit waits for the disk): the rate and times at 32
 * connections and at one, and the CPU time of each process for a call. `nothing` is a Worker that answers and does no more, in
 * the same workerd.
 */
export async function endToEnd(): Promise<Result> {
  const stack = await startStack()
  const endpoints = await seedEndpoints(stack, 6000)
  const alone = new HttpConnection(stack.baseUrl)
  const carriers = Array.from({ length: connections }, () => new HttpConnection(stack.baseUrl))
  const cpu = {
    workerd: () => cpuMicroseconds(stack.workerdPid),
    'Neon endpoint': () => cpuMicroseconds(stack.neon.pid),
    Postgres: () => cpuMicroseconds(stack.postgresPid, true),
    miniflare: () => cpuMicroseconds(stack.workersPid),
    'this loader': () => cpuMicroseconds(process.pid),
  }
  const sides = endpoints.map((endpoint): Side<HttpCall> => ({
    name: endpoint.name,
    carriers,
    calls: (count) => take(endpoint, count),
  }))
  const measured = await interleave(sides, { rounds, count: callsARound, cpu })
  const result: Result = { figures: [], goals: [] }
  for (const endpoint of endpoints) {
    const single = await drive([alone], take(endpoint, callsAlone))
    const load = measured.get(endpoint.name)
    result.figures.push({
      call: endpoint.name,
      'calls/s': round(medianRate(load)),
      'of nothing': round(rateRatio(load, measured.get('nothing'))),
      'p50 ms': round(quantile(load?.loads.map(({ p50_ms }) => p50_ms) ?? [], 0.5)),
      'p99 ms': round(quantile(load?.loads.map(({ p99_ms }) => p99_ms) ?? [], 0.5)),
      'alone p50': round(single.p50_ms),
      'alone p99': round(single.p99_ms),
      ...Object.fromEntries(Object.entries(load?.cpu_us ?? {}).map(([part, each]) => [`${part} us`, round(each)])),
    })
  }
  result.goals.push({
    what: 'a durable click, of the rate of a function that does nothing',
    measured: rateRatio(measured.get('click'), measured.get('nothing')),
    least: 0.4,
  })
  for (const connection of [alone, ...carriers]) connection.close()
  await stack.close()
  return result
}
