import { pathToFileURL } from 'node:url'
import { LocalStackError } from './postgres.ts'
import { readState } from './state.ts'
import { readFunctions } from './workers.ts'

interface Worker {
  default: { scheduled(event: object, env: object): Promise<void> }
}

/** `npm run -s scheduled -- <function>`: runs a scheduled function now, on the data of the running stack, and then ends. */
async function runScheduled(name: string | undefined): Promise<void> {
  const scheduled = readFunctions().filter(({ crons }) => crons.length > 0)
  const entry = scheduled.find((candidate) => candidate.name === name)
  if (!entry) {
    const names = scheduled.map((candidate) => candidate.name).join(', ')
    throw new LocalStackError(`Name one of the scheduled functions: ${names}.`)
  }
  const { environment } = readState()
  const worker: Worker = await import(pathToFileURL(entry.main).href)
  await worker.default.scheduled({}, environment)
}

try {
  await runScheduled(process.argv[2])
} catch (error) {
  if (!(error instanceof LocalStackError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
