import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { clientTypes } from '../lib/local/client-types.ts'

test("the integrators' types are current: `npm run types` writes them", async () => {
  const files = await clientTypes()
  expect(Object.keys(files)).toEqual(['tracker/src/api-types.ts', 'tracker/src/webhook-types.ts'])
  for (const [file, code] of Object.entries(files)) expect(readFileSync(file, 'utf8')).toBe(code)
})
