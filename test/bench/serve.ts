import { cpuRatio, interleave, medianRate, rateRatio, type Side } from './driver.ts'
import { seedEndpoints, take } from './endpoints.ts'
import { cpuMicroseconds, startProcess, startStack } from './environment.ts'
import { type HttpCall, HttpConnection } from './http.ts'
import { type Goal, type Options, type Result, round } from './result.ts'

const connections = 32
const rounds = 9
const warmUps = 7
const callsARound = 320
const calls = ['click', 'lead', 'sale', 'refund', 'performance', 'events']
const sideAt = (name: string, address: string) => ({
  name,
  carriers: Array.from({ length: connections }, () => new HttpConnection(address)),
})

/** The background work after a refund ends within this time. */
const settle_ms = 120

/**
 * Compares `npm run serve` with workerd and with a bare `node:http` server that parses JSON and calls the same verb of `lib/` through the
 * same pool. The three take turns in short rounds on one database. Every commit waits for the disk. Each has its own process and is idle
 * between its turns. Ratios are medians of the ratios of all rounds. Clicks go to one link. `of bare` is the CPU time of the bare server
 * and its Postgres divided by that of `serve` and its Postgres. The figure for a refund includes the notifications after the answer,
 * which the bare server omits. Another row shows the figure without them.
 */
export async function serve({ call }: Options): Promise<Result> {
  const wanted = calls.filter((name) => (call ?? name) === name)
  if (wanted.length === 0) throw new Error(`--call takes one of ${calls.join(', ')}.`)
  const stack = await startStack()
  const given = { database: stack.env, secrets: stack.secrets, sandbox: stack.sandbox }
  const [served, bare] = [await startProcess('served', given), await startProcess('bare', given)]
  const silent = await startProcess('served', { ...given, sendsNothing: true })
  const endpoints = await seedEndpoints(stack, (rounds + warmUps) * callsARound * 4, 1)
  const addressOf = ({ ready }: typeof served) => (ready as { baseUrl: string }).baseUrl
  const sides = [
    sideAt('bare', addressOf(bare)),
    sideAt('serve', addressOf(served)),
    sideAt('silent', addressOf(silent)),
    sideAt('workerd', stack.baseUrl),
  ]
  const cpu = {
    serve: () => cpuMicroseconds(served.pid),
    silent: () => cpuMicroseconds(silent.pid),
    bare: () => cpuMicroseconds(bare.pid),
    workerd: () => cpuMicroseconds(stack.workerdPid),
    Postgres: () => cpuMicroseconds(stack.postgresPid, true),
  }
  const figures: Result['figures'] = []
  const goals: Goal[] = []
  for (const endpoint of endpoints.filter(({ name }) => wanted.includes(name))) {
    const reports = endpoint.name === 'refund'
    const measured = await interleave(
      sides
        .filter(({ name }) => reports || name !== 'silent')
        .map((side): Side<HttpCall> => ({ ...side, calls: (count) => take(endpoint, count) })),
      { rounds, count: callsARound, cpu, warmUps, settle_ms: reports ? settle_ms : 0 },
    )
    const of = (name: string) => measured.get(name)
    const us = (name: string, process = name) => round(of(name)?.cpu_us[process] ?? NaN)
    for (const name of reports ? ['serve', 'silent'] : ['serve']) {
      const ratio = cpuRatio([of(name), name, 'Postgres'], [of('bare'), 'bare', 'Postgres'])
      figures.push({
        call: name === 'silent' ? `${endpoint.name}, reporting nobody` : endpoint.name,
        'of bare': round(ratio),
        'of workerd': round(rateRatio(of(name), of('workerd'))),
        'rate of bare': round(rateRatio(of(name), of('bare'))),
        'serve/s': round(medianRate(of(name))),
        'bare/s': round(medianRate(of('bare'))),
        'workerd/s': round(medianRate(of('workerd'))),
        'serve us': us(name),
        'bare us': us('bare'),
        'workerd us': us('workerd'),
        'its Postgres us': us(name, 'Postgres'),
        'bare Postgres us': us('bare', 'Postgres'),
      })
      goals.push({
        what: `${figures.at(-1)?.['call'] ?? ''}: CPU of the bare server relative to serve`,
        measured: ratio,
        least: 0.7,
      })
    }
    if (endpoint.name === 'click')
      goals.push({
        what: 'rate of clicks relative to workerd',
        measured: rateRatio(of('serve'), of('workerd')),
        least: 2,
      })
  }
  for (const { carriers } of sides) for (const connection of carriers) connection.close()
  await served.close()
  await silent.close()
  await bare.close()
  await stack.close()
  return { figures, goals }
}
