import { parse } from 'smol-toml'
import { expect, test } from 'vitest'
import { operatorConfig } from '../lib/commands/deploy.ts'

const wranglerToml = `
name = "svc"
[env.pages]
name = "svc-pages"
routes = [{ pattern = "api.example.com/*", zone_name = "example.com" }]
vars = { BASE_URL = "https://api.example.com", QUEUE_URL = "", MAIL_FROM = "" }
`

test.each([
  ['the domain', { DOMAIN: 'acme.test' }, 'api.acme.test'],
  ['a host of its own', { DOMAIN: 'acme.test', API_HOST: 'partners.acme.test' }, 'partners.acme.test'],
])('%s takes the place of the example in routes and addresses', (_, environment, host) => {
  const { toml } = operatorConfig(wranglerToml, environment)
  expect(parse(toml)).toMatchObject({
    env: {
      pages: { routes: [{ pattern: `${host}/*`, zone_name: 'acme.test' }], vars: { BASE_URL: `https://${host}` } },
    },
  })
})

test('a variable of the environment takes the place of one in wrangler.toml', () => {
  const { toml } = operatorConfig(wranglerToml, { DOMAIN: 'acme.test', QUEUE_URL: 'https://sqs/queue' })
  expect(parse(toml)).toMatchObject({ env: { pages: { vars: { QUEUE_URL: 'https://sqs/queue', MAIL_FROM: '' } } } })
})

test.each([
  [{}, ['Set DOMAIN', 'Functions need a value of QUEUE_URL']],
  [{ DOMAIN: 'acme.test' }, ['Functions need a value of QUEUE_URL']],
  [{ DOMAIN: 'acme.test', QUEUE_URL: 'https://sqs/queue' }, []],
])('with %j it says what is missing', (environment, sentences) => {
  const { missing } = operatorConfig(wranglerToml, environment)
  expect(missing).toEqual(sentences.map((sentence) => expect.stringContaining(sentence)))
})
