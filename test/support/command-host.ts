/**
 * Runs commands in this process. Each command is loaded again, with its own arguments, variables and folder, so it behaves like a
 * separate process, but Node doesn't have to start. Reports to the parent when a command ends.
 */
export interface Order {
  command: string
  args: string[]
  environment: Record<string, string>
  folder: string
}
export interface Outcome {
  exitCode: number
  stdout: string
  stderr: string
}

const output = { stdout: '', stderr: '' }
for (const name of ['stdout', 'stderr'] as const) {
  process[name].write = (text: string | Uint8Array) => {
    output[name] += typeof text === 'string' ? text : Buffer.from(text).toString()
    return true
  }
}

/** Ends a command as `process.exit` does. */
class Exited extends Error {}
process.exit = (code) => {
  process.exitCode = code
  throw new Exited()
}

let runs = 0
async function run({ command, args, environment, folder }: Order): Promise<Outcome> {
  runs += 1
  output.stdout = ''
  output.stderr = ''
  process.chdir(folder)
  process.env = { ...environment }
  process.argv = [process.execPath, command, ...args]
  process.exitCode = undefined
  try {
    await import(`${command}?run=${runs}`)
  } catch (error) {
    if (!(error instanceof Exited)) {
      // Reports uncaught errors and exits as Node does.
      console.error(error)
      process.exitCode = 1
    }
  }
  return { exitCode: process.exitCode ?? 0, ...output }
}

process.on('message', (order: Order) => void run(order).then((outcome) => process.send?.(outcome)))
