import { drive } from './driver.ts'
import { seedEndpoints, take } from './endpoints.ts'
import { startStack } from './environment.ts'
import { HttpConnection } from './http.ts'
import type { Result } from './result.ts'

/** Counts the database requests of each call at the Neon endpoint, over ten calls. */
export async function roundTrips(): Promise<Result> {
  const stack = await startStack()
  const endpoints = await seedEndpoints(stack, 100)
  const control = new URL('/control', stack.neon.url).href
  const headers = stack.neon.control
  const connection = new HttpConnection(stack.baseUrl)
  const result: Result = { figures: [], goals: [] }
  for (const endpoint of endpoints) {
    await fetch(control, { method: 'DELETE', headers })
    await drive([connection], take(endpoint, 10))
    const { requests, statements } = (await (await fetch(control, { headers })).json()) as {
      requests: number
      statements: number
    }
    result.figures.push({
      call: endpoint.name,
      'requests per call': requests / 10,
      'statements per call': statements / 10,
    })
    result.goals.push({ what: `database requests of ${endpoint.name}`, measured: requests / 10, most: 1 })
  }
  connection.close()
  await stack.close()
  return result
}
