import { expect, test } from 'vitest'
import { startStack } from './support/stack.ts'

const stack = await startStack()

test('says that it is up', async () => {
  const response = await fetch(`${stack.baseUrl}/healthz`)
  expect(response.status).toBe(200)
})

test('a path that no function takes answers 404 in the platform envelope', async () => {
  const response = await fetch(`${stack.baseUrl}/api/v1/nothing`)
  expect(response.status).toBe(404)
  expect(await response.json()).toMatchObject({ success: false, error: { code: 'not_found' } })
})
