import { neonConfig } from '@neondatabase/serverless'
import { Database } from '../../lib/database.ts'
import type { Statement } from './driver.ts'

/** A database that sends nothing, to capture the statements of functions in `lib/`. */
export const captured = new Database({ DATABASE_URL: 'postgresql://captured@localhost/captured' })

/** Returns the statements and parameters of the one database request that a call sends. The call never completes. */
export async function capture(call: () => Promise<unknown>): Promise<Statement[]> {
  const sent = Promise.withResolvers<string>()
  neonConfig.fetchFunction = (_url: string, { body }: { body: string }) => {
    sent.resolve(body)
    return new Promise(() => {})
  }
  call().catch(sent.reject)
  const body = JSON.parse(await sent.promise) as Statement | { queries: Statement[] }
  neonConfig.fetchFunction = undefined
  return 'queries' in body ? body.queries : [body]
}
