import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { thirdPartyNotices } from '../lib/commands/notices.ts'

test('THIRD_PARTY_NOTICES has the terms of the installed packages: `npm run notices` writes it', () => {
  const notices = thirdPartyNotices()
  expect(notices).toMatch(/^hono \d[^]*MIT License[^]*Copyright \(c\) 2021/m)
  expect(readFileSync('THIRD_PARTY_NOTICES', 'utf8')).toBe(notices)
})
