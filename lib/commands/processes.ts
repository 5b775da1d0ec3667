import { type ChildProcess, spawn } from 'node:child_process'

/** Returns whether a process exists, regardless of its owner. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/** Waits until a process has ended and its output has been read. Returns its exit code, or null if a signal ended it. */
export async function exitCodeOf(child: ChildProcess): Promise<number | null> {
  return await new Promise((resolve) => child.once('close', resolve))
}

/**
 * Stops a child process when this process ends, even after SIGKILL. A shell waits on a pipe, which the system closes when this process
 * ends.
 */
export function stopWithThisProcess(child: ChildProcess): void {
  const watchdog = spawn('/bin/sh', ['-c', `read line; kill -INT ${child.pid}`], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  watchdog.unref()
  child.once('exit', () => watchdog.kill())
}
