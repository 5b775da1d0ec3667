import { closeSync, openSync, writeSync } from 'node:fs'
import { drive } from './driver.ts'
import { seedEndpoints, take } from './endpoints.ts'
import { startStack } from './environment.ts'
import { HttpConnection } from './http.ts'
import { type Result, round } from './result.ts'

const delay_ms = 20
const calls = 100

/**
 * One call at a time with 20 ms added at the Neon endpoint to every database request: a call that waits for the database once
 * takes these 20 ms and a few more.
 */
export async function network(): Promise<Result> {
  const stack = await startStack()
  const endpoints = (await seedEndpoints(stack, 3 * calls)).filter(
    (endpoint) => endpoint.function !== 'empty' && endpoint.name !== 'script',
  )
  const control = new URL('/control', stack.neon.url)
  const headers = stack.neon.control
  const connection = new HttpConnection(stack.baseUrl)
  const letSleep = keepAwake()
  const result: Result = { figures: [], goals: [] }
  for (const endpoint of endpoints) {
    await drive([connection], take(endpoint, calls / 2))
    const near = await drive([connection], take(endpoint, calls))
    await fetch(new URL('/control/faults', control), {
      method: 'POST',
      headers,
      body: JSON.stringify({ action: 'delay', delay_ms, times: 1e9 }),
    })
    const far = await drive([connection], take(endpoint, calls))
    await fetch(control, { method: 'DELETE', headers })
    result.figures.push({
      call: endpoint.name,
      'p50 ms': round(near.p50_ms),
      'p50 ms, +20': round(far.p50_ms),
      'p99 ms, +20': round(far.p99_ms),
      'added ms': round(far.p50_ms - near.p50_ms),
    })
    result.goals.push({ what: `p50 of ${endpoint.name}, ms`, measured: far.p50_ms, most: delay_ms + 5 })
  }
  letSleep()
  connection.close()
  await stack.close()
  return result
}

/**
 * Keeps the cores from sleeping, where this process may, until what it returns is called: one of a virtual machine takes tenths of a
 * millisecond to wake up, and a call wakes six processes after 20 ms of rest.
 */
function keepAwake(): () => void {
  try {
    const latency = openSync('/dev/cpu_dma_latency', 'w')
    writeSync(latency, Buffer.alloc(4))
    return () => closeSync(latency)
  } catch {
    return () => {}
  }
}
