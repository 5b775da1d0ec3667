import { type FunctionEntry, readFunctions } from '../../lib/commands/wrangler-file.ts'

/**
 * The functions of wrangler.toml for tests. Tests run the counting of clicks themselves: half a minute after a click
 * it would meet another test's faults and request counts.
 */
export function readTestFunctions(): FunctionEntry[] {
  return readFunctions().map((entry) => {
    const { COUNT: _, ...services } = entry.services
    return { ...entry, services }
  })
}
