import { sha256 } from '@noble/hashes/sha2.js'
import { utf8ToBytes } from '@noble/hashes/utils.js'
import type { Database } from '../database.ts'
import { hmac } from '../hmac.ts'
import { countAttempts, daySeconds } from './attempts.ts'
import { base64Url, newToken, sameHash } from './tokens.ts'

/** The secret that signs tasks. */
export interface ProofEnv {
  AUTH_SECRET: string
}

/** The purpose of a task. Its proof only counts there. */
interface Purpose {
  programId: number
  /** Undefined for visitors from the local stack's own machine. */
  network: string | undefined
}

/** The number of zero bits at the start of a proof's hash. Each one doubles the work. Chromium takes 1.8 s for 16 on a slow machine. */
export const proofBits = 16
const lifeSeconds = 30 * 60

const sign = ({ AUTH_SECRET }: ProofEnv, { programId, network }: Purpose, content: string) =>
  `${content}.${base64Url(hmac(`proof:${AUTH_SECRET}`, `${programId} ${network} ${content}`))}`

/** Creates a task for a browser: to find a number for which the SHA-256 of `<task>.<number>` begins with zeros. It isn't stored. */
export function createTask(env: ProofEnv, purpose: Purpose): string {
  return sign(env, purpose, `${Math.floor(Date.now() / 1000) + lifeSeconds}.${newToken().slice(0, 16)}`)
}

const shape = /^(((\d{1,12})\.[\w-]{16})\.[\w-]{43})\.\d{1,12}$/

/** Returns true if `proof` solves a task of this purpose. Each task counts once, for half an hour. */
export async function isProof(db: Database, env: ProofEnv, purpose: Purpose, proof: string): Promise<boolean> {
  const [, task = '', content = '', expires] = shape.exec(proof) ?? []
  if (!task || !(await sameHash(task, sign(env, purpose, content))) || Number(expires) * 1000 < Date.now()) return false
  const hash = sha256(utf8ToBytes(proof))
  if (new DataView(hash.buffer, hash.byteOffset).getUint32(0) >>> (32 - proofBits) !== 0) return false
  const key = `proof of ${content}`
  return (await countAttempts(db, [key], daySeconds)).get(key) === 1
}
