import type { Database } from '../database.ts'
import { ApiError, errorResponse } from '../errors.ts'
import { kysely } from '../kysely.ts'
import type { Service } from './functions.ts'

const anyProgram = kysely.selectFrom('programs').select('id').limit(1)

/** Calls with a key, and everything that is sent to the API. Its documents are pages without a key. */
const isCall = ({ url, method, headers }: Request) =>
  new URL(url).pathname.startsWith('/api/v1/') && (method === 'POST' || headers.has('authorization'))

/**
 * Answers calls of the API with 503 until the database has a program, so that their callers retry. The database is empty until a backup is
 * restored into it. It would refuse all keys and links, and the restore would discard the events that it accepted.
 */
export function afterFirstProgram(db: Database, service: Pick<Service, 'answer'>): Service['answer'] {
  let hasProgram = false
  let reading: Promise<boolean> | undefined
  const read = async () => {
    try {
      return (await db.query(anyProgram)).length > 0
    } catch {
      // The restore locks all tables.
      return false
    } finally {
      reading = undefined
    }
  }
  return async (request, context) => {
    if (!hasProgram && isCall(request)) {
      hasProgram = await (reading ??= read())
      if (!hasProgram) return noProgram()
    }
    return await service.answer(request, context)
  }
}

const noProgram = () =>
  errorResponse(
    new ApiError('unavailable', 'This service has no program yet. Try again later.', {
      headers: { 'Retry-After': '10' },
    }),
  )
