import { type Database, type DatabaseEnv, openDatabase } from './database.ts'
import { isTransient } from './errors.ts'

/** A scheduled Worker may run for 15 minutes. This limit leaves enough time for the last batch. */
const maxMilliseconds = 10 * 60 * 1000

/** The result of a batch: its figures or a name, and whether there is more work. */
type Batch = { more: boolean } & { [figure: string]: number | boolean | string }

/** The failures of a run: the errors of programs by their ids, of steps by their names, and of a batch of all programs. */
export type Failures = Map<number | string, unknown>

const allPrograms = 'all programs'
/** After this many programs in a row without an answer from the database, a run checks whether the database answers at all. */
const maxTransient = 3

/**
 * Creates a scheduled function that works through a backlog in batches until nothing is waiting. It doesn't start a batch after 10 minutes,
 * and the next run continues. It logs each batch that changed anything. It throws the failures of programs and steps at the end.
 */
export function inBatches<Env extends DatabaseEnv>(
  name: string,
  work: (db: Database, env: Env, failures: Failures) => Promise<Batch>,
) {
  return {
    async scheduled(_event: unknown, env: Env): Promise<void> {
      const db = openDatabase(env)
      const failures: Failures = new Map()
      const started = performance.now()
      while (performance.now() - started < maxMilliseconds) {
        const { more, ...figures } = await work(db, env, failures)
        if (Object.values(figures).some(Boolean)) console.log(JSON.stringify({ function: name, ...figures }))
        if (!more) break
      }
      throwFailures(name, failures)
    },
  }
}

/**
 * Works on a batch of all programs, so that a run takes few requests. If the batch fails or takes too long, works on each waiting program by
 * itself. So one program's data never stops the other programs. A program that failed waits for the next run. Returns the results. Without
 * `failures`, it throws the error of the batch.
 */
export async function workOnPrograms<Result>(
  failures: Failures | undefined,
  waiting: () => Promise<number[]>,
  work: (programId: number | null) => Promise<Result>,
): Promise<Result[]> {
  if (!failures) return [await work(null)]
  if (!failures.has(allPrograms)) {
    try {
      return [await work(null)]
    } catch (error) {
      failures.set(allPrograms, error)
    }
  }
  let inARow = 0
  const results: Result[] = []
  for (const programId of await waiting()) {
    if (failures.has(programId)) continue
    try {
      results.push(await work(programId))
      inARow = 0
    } catch (error) {
      failures.set(programId, error)
      inARow += isTransient(error) ? 1 : 0
      if (inARow < maxTransient) continue
      // A tenant can have several programs that take too long. If the database doesn't list the programs either, it is out of reach.
      await waiting()
      inARow = 0
    }
  }
  return results
}

/**
 * Does a step of a scheduled function. If the step fails, returns `otherwise`, so that the other steps still run. A step that failed isn't
 * repeated in this run.
 */
export async function attempt<Result>(
  failures: Failures,
  step: string,
  work: () => Promise<Result>,
  otherwise: Result,
): Promise<Result> {
  if (failures.has(step)) return otherwise
  try {
    return await work()
  } catch (error) {
    failures.set(step, error)
    return otherwise
  }
}

/** Logs the programs and steps that failed, without the messages of the errors, which can contain data. Then throws the errors. */
export function throwFailures(name: string, failures: Failures): void {
  if (failures.size === 0) return
  for (const [failed, error] of failures) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    const { name: kind } = error instanceof Error ? error : { name: typeof error }
    console.error(JSON.stringify({ function: name, error: kind, code, failed }))
  }
  throw new AggregateError(failures.values(), `${name} failed for ${[...failures.keys()].join(', ')}.`)
}
