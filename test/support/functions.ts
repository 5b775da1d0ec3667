import { type FunctionEntry, readFunctions } from '../../lib/commands/wrangler-file.ts'

/**
 * The functions of wrangler.toml as tests start them: a click leaves counting to the test, because what runs half a minute after it
 * would meet another test's faults and counts of requests.
 */
export function readTestFunctions(): FunctionEntry[] {
  return readFunctions().map((entry) => {
    const { COUNT: _, ...services } = entry.services
    return { ...entry, services }
  })
}
