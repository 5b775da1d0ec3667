import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import type { Order, Outcome } from './command-host.ts'
import { bareEnvironment } from './spawned.ts'

/** Starts a process that runs one command after another (command-host.ts), and ends it with the test file. */
export function startCommandHost(): (order: Order) => Promise<Outcome> {
  const host = fork(fileURLToPath(new URL('command-host.ts', import.meta.url)), { env: bareEnvironment, execArgv: [] })
  afterAll(() => void host.kill())
  return async (order) => {
    const ended = once(host, 'message')
    host.send(order)
    const [outcome]: Outcome[] = await ended
    if (!outcome) throw new Error('The command host sent no message.')
    return outcome
  }
}
