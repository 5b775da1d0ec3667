import * as z from 'zod/mini'
import { unseal } from '../processors/seal.ts'
import type { ReadContext } from './read-files.ts'
import type { ReadRow } from './rows.ts'
import type { List } from './services/ask.ts'
import { RefusedByService } from './services/ask.ts'
import { dub } from './services/dub.ts'
import { firstpromoter } from './services/firstpromoter.ts'
import { partnerstack } from './services/partnerstack.ts'
import { rewardful } from './services/rewardful.ts'
import { tapfiliate } from './services/tapfiliate.ts'
import { tolt } from './services/tolt.ts'
import { services, type Source } from './sources.ts'

/** The variables for reading from a service. */
export interface ImportEnv {
  EMAIL_HASH_KEY: string
  /** The address of stand-ins for all services, for tests. Each stand-in is below its service's name. */
  IMPORT_API_URL?: string
}

/** The lists of each service, in the order in which an import reads them. */
const listsOf: Record<Exclude<Source, 'csv' | 'archive'>, Record<string, List>> = {
  rewardful,
  tolt,
  firstpromoter,
  partnerstack,
  tapfiliate,
  dub,
}

/** The progress in reading a service: the current list, the cursor of its next page, and the number of rows so far. */
const position = z.object({ account: z.string(), list: z.int(), cursor: z.optional(z.string()), stored: z.int() })
export type Position = z.output<typeof position>

/** An import that reads from a service. */
export interface Reading {
  program_id: number
  source: Source
  /** The encrypted key in Postgres' text format for bytes. */
  sealed_key: string
  position: unknown
}

/** The encryption context for a program's keys of other services. */
export const keyName = (programId: number) => `import of program ${programId}`

const waitMilliseconds = 5000
export const sleep = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/**
 * Reads the next page of a service. Returns its rows and the next position, which is undefined after the last page. If the service doesn't
 * respond, waits a little and retries until `until`. Throws `RefusedByService` if a retry does not help.
 */
export async function readPage(
  env: ImportEnv,
  { program_id: programId, source, sealed_key: sealed, position: stored }: Reading,
  context: ReadContext,
  until: number,
): Promise<{ rows: ReadRow[]; reached: Position | undefined }> {
  const at = position.parse(stored)
  const list = source === 'csv' || source === 'archive' ? undefined : Object.values(listsOf[source])[at.list]
  if (list === undefined) return { rows: [], reached: undefined }
  const key = await unseal(env.EMAIL_HASH_KEY, 'import key', keyName(programId), sealed)
  if (key === undefined) throw new RefusedByService('The stored key can no longer be read. Start another import.')
  const url = env.IMPORT_API_URL === undefined ? (services[source].url ?? '') : `${env.IMPORT_API_URL}/${source}`
  for (;;) {
    try {
      const { rows, next } = await list({ url, key, account: at.account }, context, at.cursor)
      const after = next === undefined ? { list: at.list + 1 } : { list: at.list, cursor: next }
      return { rows, reached: { account: at.account, ...after, stored: at.stored + rows.length } }
    } catch (error) {
      if (error instanceof RefusedByService || Date.now() + waitMilliseconds > until) throw error
      await sleep(waitMilliseconds)
    }
  }
}
