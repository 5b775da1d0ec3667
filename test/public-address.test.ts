import { expect, test } from 'vitest'
import { isPublicAddress, refusalOfAddress, type AddressEnv } from '../lib/notifications/public-address.ts'

const env: AddressEnv = { DNS_OVER_HTTPS_URL: 'https://dns.example/dns-query' }

test.each([
  ['8.8.8.8', true],
  ['172.15.255.255', true],
  ['172.16.0.1', false],
  ['172.31.255.255', false],
  ['172.32.0.1', true],
  ['10.1.2.3', false],
  ['100.64.0.1', false],
  ['127.0.0.1', false],
  ['169.254.169.254', false],
  ['192.168.1.1', false],
  ['0.0.0.0', false],
  ['224.0.0.1', false],
  ['255.255.255.255', false],
  ['198.19.255.255', false],
  ['192.88.99.1', false],
  ['240.0.0.1', false],
  ['010.8.8.8', false],
  ['8.8', false],
  ['2606:4700:4700::1111', true],
  ['[2606:4700:4700::1111]', true],
  ['::1', false],
  ['::', false],
  ['::ffff:127.0.0.1', false],
  ['64:ff9b::a00:1', false],
  ['fe80::1', false],
  ['fd00::1', false],
  ['2001:db8::1', false],
  ['2001::1', false],
  ['2002:7f00:1::', false],
  ['ff02::1', false],
  ['3fff::1', false],
  ['4000::1', false],
  ['nonsense', false],
])('%s is public: %s', (address, isPublic) => {
  expect(isPublicAddress(address)).toBe(isPublic)
})

test.each([
  ['https://hooks.example.com/svc?a=1', undefined],
  ['https://hooks.example.com:8443/svc', undefined],
  ['https://8.8.8.8/', undefined],
  ['http://hooks.example.com/', 'must begin with https://'],
  ['ftp://hooks.example.com/', 'must begin with https://'],
  ['https://ann:secret@hooks.example.com/', 'must not contain a password'],
  ['https://127.0.0.1/', 'must be a public address'],
  ['https://0x7f.1/', 'must be a public address'],
  ['https://2130706433/', 'must be a public address'],
  ['https://[::ffff:a9fe:a9fe]/', 'must be a public address'],
  ['https://localhost/', 'must have a public host'],
  ['https://localhost./', 'must have a public host'],
  ['https://localhost../', 'must have a public host'],
  ['https://127.0.0.1../', 'must have a public host'],
  ['https://db.internal../', 'must have a public host'],
  ['https://db.internal/', 'must have a public host'],
  ['https://intranet/', 'must have a public host'],
  ['hooks.example.com', 'must be an address such as https://example.com/webhooks'],
])('webhooks to %s: %s', (address, refusal) => {
  expect(refusalOfAddress(address, env)).toBe(refusal)
})

test.each([
  ['http://127.0.0.1:3000/hook', undefined],
  ['http://localhost:3000/hook', undefined],
  ['http://10.0.0.1/hook', 'must begin with https://'],
  ['https://10.0.0.1/hook', 'must be a public address'],
])('a local stack that allows loopback accepts %s: %s', (address, refusal) => {
  expect(refusalOfAddress(address, { ...env, WEBHOOK_LOOPBACK: 'on' })).toBe(refusal)
})
