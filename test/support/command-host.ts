/**
 * Runs a command again and again in this one process, each time read anew, with arguments, variables and a folder of its own: as processes of
 * their own would, without a start of Node for each. It tells the parent how each ended.
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

const said = { stdout: '', stderr: '' }
for (const name of ['stdout', 'stderr'] as const) {
  process[name].write = (text: string | Uint8Array) => {
    said[name] += typeof text === 'string' ? text : Buffer.from(text).toString()
    return true
  }
}

let runs = 0
async function run({ command, args, environment, folder }: Order): Promise<Outcome> {
  runs += 1
  said.stdout = ''
  said.stderr = ''
  process.chdir(folder)
  process.env = { ...environment }
  process.argv = [process.execPath, command, ...args]
  process.exitCode = undefined
  try {
    await import(`${command}?run=${runs}`)
  } catch (error) {
    // As Node says and ends what nobody caught.
    console.error(error)
    process.exitCode = 1
  }
  return { exitCode: process.exitCode ?? 0, ...said }
}

process.on('message', (order: Order) => void run(order).then((outcome) => process.send?.(outcome)))
