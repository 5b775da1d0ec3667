import { type FunctionEntry, readFunctions } from '../../lib/commands/wrangler-file.ts'

/**
 * The functions in wrangler.toml for tests. Tests count clicks themselves, because a count half a minute after a click would interfere
 * with another test's faults and request counts.
 */
export function readTestFunctions(): FunctionEntry[] {
  return readFunctions().map((entry) => {
    const { COUNT: _, ...services } = entry.services
    return { ...entry, services }
  })
}
