import { parseArgs } from 'node:util'
import { pathToFileURL } from 'node:url'
import { runCommand } from '../commands/command.ts'
import { OperatorError } from '../commands/operator-error.ts'
import { readRunningStack } from '../commands/running-stack.ts'
import { readFunctions } from '../commands/wrangler-file.ts'

interface Worker {
  default: { scheduled(event: object, env: object): Promise<void> }
}

/** `npm run -s scheduled -- <function>`: runs a scheduled function once on the running stack's data. */
async function runScheduled(name: string | undefined): Promise<void> {
  const scheduled = readFunctions().filter(({ crons }) => crons.length > 0)
  const entry = scheduled.find((candidate) => candidate.name === name)
  if (!entry) {
    const names = scheduled.map((candidate) => candidate.name).join(', ')
    throw new OperatorError(`Name one of the scheduled functions: ${names}.`)
  }
  const { environment } = readRunningStack()
  const worker: Worker = await import(pathToFileURL(entry.main).href)
  await worker.default.scheduled({}, environment)
}

await runCommand(
  'npm run -s scheduled -- FUNCTION    runs a scheduled function now, on the data of the running stack',
  () => runScheduled(parseArgs({ allowPositionals: true }).positionals[0]),
)
