import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'

const { scrypt } = crypto

/**
 * Hashes passwords at a sixteenth of their cost in this thread, because sign-in tests spend most of their time on hashing. Hashes with
 * different costs don't match, so both sides of a test must use this function. @returns a function that restores the cost
 */
export function hashPasswordsCheaply(): () => void {
  set((password, salt, length, options, callback) =>
    scrypt(password, salt, length, { ...options, N: Number(options.N) / 16 }, callback),
  )
  return () => set(scrypt)
}

type Scrypt = (
  ...args: [
    password: crypto.BinaryLike,
    salt: crypto.BinaryLike,
    length: number,
    options: crypto.ScryptOptions,
    callback: (error: Error | null, key: NonSharedBuffer) => void,
  ]
) => void

function set(value: Scrypt): void {
  Object.assign(crypto, { scrypt: value })
  syncBuiltinESMExports()
}
