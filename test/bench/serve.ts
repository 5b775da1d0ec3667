import { interleave, medianRate, quantile, rateRatio, type Side } from './driver.ts'
import { seedEndpoints, take } from './endpoints.ts'
import { cpuMicroseconds, startProcess, startStack } from './environment.ts'
import { type HttpCall, HttpConnection } from './http.ts'
import { type Goal, type Result, round } from './result.ts'

const connections = 32
const rounds = 8
const callsARound = 320
const calls = ['click', 'lead', 'sale', 'refund', 'performance', 'events']

/**
 * What `npm run serve` makes of a call, against a bare `node:http` server that parses JSON and calls the same of `lib/` through the same
 * pool, and against workerd. They take turns in short rounds on one database, every commit waits for the disk, and the ratios are
 * medians of ratios of a round. Each has a process of its own; one that waits for its turn does nothing. Clicks go to one link.
 */
export async function serve(): Promise<Result> {
  const stack = await startStack()
  const given = { database: stack.env, secrets: stack.secrets, sandbox: stack.sandbox }
  const [served, bare] = [await startProcess('served', given), await startProcess('bare', given)]
  const endpoints = await seedEndpoints(stack, (rounds + 1) * callsARound * 3, 1)
  const addresses = {
    bare: (bare.ready as { baseUrl: string }).baseUrl,
    serve: (served.ready as { baseUrl: string }).baseUrl,
    workerd: stack.baseUrl,
  }
  const sides = Object.entries(addresses).map(([name, address]) => ({
    name,
    carriers: Array.from({ length: connections }, () => new HttpConnection(address)),
  }))
  const cpu = {
    serve: () => cpuMicroseconds(served.pid),
    bare: () => cpuMicroseconds(bare.pid),
    workerd: () => cpuMicroseconds(stack.workerdPid),
    Postgres: () => cpuMicroseconds(stack.postgresPid, true),
  }
  const figures: Result['figures'] = []
  const goals: Goal[] = []
  for (const endpoint of endpoints.filter(({ name }) => calls.includes(name))) {
    const measured = await interleave(
      sides.map((side): Side<HttpCall> => ({ ...side, calls: (count) => take(endpoint, count) })),
      { rounds, count: callsARound, cpu },
    )
    const of = (name: string) => measured.get(name)
    const ratio = rateRatio(of('serve'), of('bare'))
    figures.push({
      call: endpoint.name,
      'serve/s': round(medianRate(of('serve'))),
      'bare/s': round(medianRate(of('bare'))),
      'workerd/s': round(medianRate(of('workerd'))),
      'of bare': round(ratio),
      'of workerd': round(rateRatio(of('serve'), of('workerd'))),
      'serve p99 ms': round(quantile(of('serve')?.loads.map(({ p99_ms }) => p99_ms) ?? [], 0.5)),
      'serve us': round(of('serve')?.cpu_us['serve'] ?? NaN),
      'bare us': round(of('bare')?.cpu_us['bare'] ?? NaN),
      'workerd us': round(of('workerd')?.cpu_us['workerd'] ?? NaN),
      'Postgres us': round(of('serve')?.cpu_us['Postgres'] ?? NaN),
    })
    goals.push({ what: `${endpoint.name}, of a bare server's`, measured: ratio, least: 0.8 })
    if (endpoint.name === 'click')
      goals.push({ what: "click, of workerd's", measured: rateRatio(of('serve'), of('workerd')), least: 2 })
  }
  for (const { carriers } of sides) for (const connection of carriers) connection.close()
  await served.close()
  await bare.close()
  await stack.close()
  return { figures, goals }
}
