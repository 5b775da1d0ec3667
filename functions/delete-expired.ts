import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'

/** Scheduled: deletes sessions and one-time secrets that have run out. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    await deleteExpired(openDatabase(env))
  },
}
