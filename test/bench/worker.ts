import { setTimeout as sleep } from 'node:timers/promises'
import { cpuRatio, drive, interleave, medianRate, quantile, type Side } from './driver.ts'
import { clicksTo, seedEndpoints, take } from './endpoints.ts'
import { cpuMicroseconds, startStack } from './environment.ts'
import { type HttpCall, HttpConnection } from './http.ts'
import { type Result, round } from './result.ts'

const connections = 32
const rounds = 12
const warmUps = 6
const callsARound = 320
const starts = 7

/**
 * Compares a click in workerd with the bare Worker (bare-worker.ts), which makes the same call with the same driver in
 * the same workerd. They take turns. Measures both with a log line for every hundredth click, as deployed, and with one
 * for every click (`logged-click`). Also measures the first call of each in a fresh workerd that has only run an empty
 * Worker.
 */
export async function worker(): Promise<Result> {
  const stack = await startStack()
  const own = ['track-click', 'logged-click', 'bare-worker']
  const endpoints = [...(await seedEndpoints(stack, 100)), ...own.map((name) => clicksTo(stack, name))]
  const named = (name: string) => {
    const found = endpoints.find((endpoint) => endpoint.name === name)
    if (!found) throw new Error(`There is no ${name} among the endpoints.`)
    return found
  }
  const carriers = Array.from({ length: connections }, () => new HttpConnection(stack.baseUrl))
  const cpu = {
    workerd: () => cpuMicroseconds(stack.workerdPid),
    'Neon endpoint': () => cpuMicroseconds(stack.neon.pid),
    Postgres: () => cpuMicroseconds(stack.postgresPid, true),
  }
  const sides = own.map(named)
  const measured = await interleave(
    sides.map((endpoint): Side<HttpCall> => ({
      name: endpoint.name,
      carriers,
      calls: (count) => take(endpoint, count),
    })),
    { rounds, count: callsARound, cpu, warmUps },
  )
  for (const connection of carriers) connection.close()

  const firsts = new Map<string, { ms: number; cpu_ms: number }[]>(sides.map(({ name }) => [name, []]))
  for (let start = 0; start < starts; start++) {
    for (const endpoint of sides) {
      await stack.restart()
      const connection = new HttpConnection(stack.baseUrl)
      await drive([connection], take(named('nothing'), 3))
      await sleep(100)
      const before_us = cpu.workerd()
      const { p50_ms: ms } = await drive([connection], take(endpoint, 1))
      firsts.get(endpoint.name)?.push({ ms, cpu_ms: (cpu.workerd() - before_us) / 1000 })
      connection.close()
    }
  }
  const first = (name: string, what: 'ms' | 'cpu_ms' = 'ms') =>
    quantile(firsts.get(name)?.map((call) => call[what]) ?? [], 0.5)
  const figures = sides.map(({ name }) => {
    const load = measured.get(name)
    return {
      call: name,
      'calls/s': round(medianRate(load)),
      'p50 ms': round(quantile(load?.loads.map(({ p50_ms }) => p50_ms) ?? [], 0.5)),
      ...Object.fromEntries(Object.entries(load?.cpu_us ?? {}).map(([part, each]) => [`${part} us`, round(each)])),
      'first call ms': round(first(name)),
      'its CPU ms': round(first(name, 'cpu_ms')),
    }
  })
  await stack.close()
  const [click, bare] = [measured.get('track-click'), measured.get('bare-worker')]
  return {
    figures,
    goals: [
      {
        what: 'CPU of the bare Worker relative to a click in workerd',
        measured: cpuRatio([click, 'workerd'], [bare, 'workerd']),
        least: 0.9,
      },
      { what: 'first click in a fresh workerd, ms', measured: first('track-click'), most: 12 },
    ],
  }
}
