import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { apiKeyHash, generateApiKey } from '../lib/access/api-keys.ts'

test('a key consists of `svc_live_`, 32 random bytes and a checksum in base 62; the database stores its hash and last four characters', async () => {
  const { key, keyHash, hint } = await generateApiKey()
  expect(key).toMatch(/^svc_live_[0-9A-Za-z]{49}$/)
  expect(keyHash).toMatch(/^[0-9a-f]{64}$/)
  expect(hint).toBe(key.slice(-4))
  expect(await apiKeyHash(`Bearer ${key}`)).toBe(keyHash)
  expect((await generateApiKey()).key).not.toBe(key)
})

test('a key with one wrong character is refused without a database request', async () => {
  const { key } = await generateApiKey()
  const other = fc.constantFrom('0', 'a', 'Z')
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: key.length - 1 }), other, async (place, character) => {
      fc.pre(key[place] !== character)
      const wrong = key.slice(0, place) + character + key.slice(place + 1)
      await expect(apiKeyHash(`Bearer ${wrong}`)).rejects.toMatchObject({ code: 'unauthorized' })
    }),
    { seed: 1 },
  )
})
