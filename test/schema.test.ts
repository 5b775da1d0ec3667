import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { dumpSchema, generateSchemaTypes } from '../lib/local/schema-files.ts'
import { createDatabase } from './support/stack.ts'

const { databaseUrl } = await createDatabase()

describe('what `npm run schema` writes is what the migrations make', () => {
  test('migrations/schema.sql', async () => {
    expect(await dumpSchema(databaseUrl)).toBe(readFileSync('migrations/schema.sql', 'utf8'))
  })

  test('lib/schema.ts', async () => {
    expect(await generateSchemaTypes(databaseUrl)).toBe(readFileSync('lib/schema.ts', 'utf8'))
  })
})
