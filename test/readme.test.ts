import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

test('the README contains each variable that a deployment requires', () => {
  const block = /## Deploy[^]*?```sh\n([^]*?)```/.exec(readFileSync('README.md', 'utf8'))?.[1] ?? ''
  const given = new Set(block.matchAll(/\b([A-Z_]+)=/g).map(([, name]) => name))
  const lists = readFileSync('wrangler.toml', 'utf8').matchAll(/^secrets = \{ required = \[(.*)\]/gm)
  const required = [...lists].flatMap(([, names = '']) => names.match(/[A-Z_]+/g) ?? [])
  expect(required).toContain('DATABASE_URL')
  expect(
    [...required, 'DOMAIN', 'QUEUE_URL', 'WEBHOOK_QUEUE_URL', 'AWS_REGION'].filter((name) => !given.has(name)),
  ).toEqual([])
})
