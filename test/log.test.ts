import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createApp } from '../lib/api/app.ts'
import { ApiError } from '../lib/errors.ts'

const app = createApp<object>()
app.get('/ok', (c) => c.json({ ok: true }))
app.get('/things/:id', (c) => c.json({ ok: true }))
app.get('/refused', () => {
  throw new ApiError('invalid_request', 'No.')
})
app.get('/broken', () => {
  throw new TypeError('of a row: secret')
})

/** Each test has its own minute, because the app counts refusals per minute and other test files share this process. */
let minutes = 0
beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2029, 0, 1, 0, minutes++), toFake: ['Date'] })
})

afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** Returns the lines that a request logs, without the counts of other test files in this process. The operator pays for each line. */
async function logOf(path: string, env: object, random: number): Promise<Record<string, unknown>[]> {
  const lines: string[] = []
  for (const method of ['log', 'error', 'warn', 'info', 'debug'] as const) {
    vi.spyOn(console, method).mockImplementation((line: string) => void lines.push(line))
  }
  vi.spyOn(Math, 'random').mockReturnValue(random)
  await app.request(path, {}, env)
  return lines
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ refusals, route }) => refusals === undefined || route === '/refused')
}

test.each([
  ['/ok', {}, 0.5, []],
  ['/ok', {}, 0.005, [{ status: 200 }]],
  ['/ok', { LOGGED_PART: '1' }, 0.999, [{ status: 200 }]],
  ['/refused', {}, 0.5, [{ status: 400 }]],
])('%s with %j at %d writes %j', async (path, env, random, expected) => {
  expect(await logOf(path, env, random)).toEqual(
    expected.map((line) => expect.objectContaining({ route: path, ...line })),
  )
})

test('the log contains the route and not the path', async () => {
  expect(await logOf('/things/secret', {}, 0)).toEqual([expect.objectContaining({ route: '/things/:id', status: 200 })])
  const lines = await logOf(`/nothing/${'x'.repeat(5000)}`, {}, 0.5)
  expect(lines).toEqual([expect.objectContaining({ route: '/*', status: 404 })])
})

test('a flood of refusals logs five lines and, after a minute, their count', async () => {
  const lines: Record<string, unknown>[] = []
  for (let n = 0; n < 1000; n++) lines.push(...(await logOf('/refused', {}, 0)))
  expect(lines).toHaveLength(5)
  vi.setSystemTime(Date.UTC(2030, 0, 1))
  expect(await logOf('/nothing', {}, 0)).toEqual([
    { route: '/refused', status: 400, refusals: 1000 },
    expect.objectContaining({ route: '/*', status: 404 }),
  ])
  expect(await logOf('/refused', { LOGGED_PART: '1' }, 0)).toHaveLength(1)
})

test('the line of a request contains the name of an unexpected error, but not its message', async () => {
  const lines = await logOf('/broken', {}, 0.5)
  expect(lines).toEqual([
    expect.objectContaining({ route: '/broken', status: 500, error: expect.objectContaining({ name: 'TypeError' }) }),
  ])
  expect(JSON.stringify(lines)).not.toContain('secret')
})
