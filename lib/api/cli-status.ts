import * as z from 'zod/mini'
import { answered, type Operation } from './operation.ts'
import { currency, id, success, text, time } from '../response-fields.ts'

const lastSeen = () => z.object({ live: z.nullable(time()), test: z.nullable(time()) })

const statusResponse = () =>
  z.object({
    success: success(),
    program: z.object({
      id: id(),
      name: z.string(),
      domain: z.string(),
      currency: currency(),
      commission_percent: z.number(),
      cookie_window_days: z.number(),
      lead_auth_policy: z.enum(['server_verified', 'browser_allowed']),
    }),
    api_base_url: z.string(),
    proxy_path: z.string(),
    proxy_key: text(),
    processor: z.object({ connected: z.boolean(), account_id: text() }),
    activity: z.object({
      last_click: lastSeen(),
      last_lead: lastSeen(),
      last_sale: lastSeen(),
      last_webhook: lastSeen(),
    }),
    refusals: z.array(z.object({ call: z.string(), code: z.string(), refused_at: time(), message: z.string() })),
    checks: z.array(z.object({ name: z.string(), ok: z.boolean(), message: z.string() })),
  })

const seen = { live: '2026-01-01T12:00:00.000Z', test: null }

/** Describes GET /api/v1/cli/status for the reference. */
export const cliStatus = (): Operation => ({
  id: 'status',
  method: 'get',
  path: '/api/v1/cli/status',
  summary: 'Check the health of a program',
  description:
    'Returns the setup of the key’s program, its latest events, recent refusals, and the remaining steps. `proxy_path` and `proxy_key` are for the proxy on your own domain. `proxy_key` is null if the API key does not have the scope `track`.',
  auth: 'key',
  success: { schemas: [statusResponse()], description: 'The program and its checks.' },
  examples: [
    answered('status', 'A program that receives events', {
      program: {
        id: 1,
        name: 'Shop',
        domain: 'shop.example.com',
        currency: 'usd',
        commission_percent: 20,
        cookie_window_days: 30,
        lead_auth_policy: 'server_verified',
      },
      api_base_url: 'https://api.example.com',
      proxy_path: 'kqzvxjnm',
      proxy_key: `svc_proxy_1_${'x'.repeat(43)}`,
      processor: { connected: true, account_id: 'acct_1' },
      activity: { last_click: seen, last_lead: seen, last_sale: seen, last_webhook: { live: null, test: null } },
      refusals: [
        {
          call: 'sale',
          code: 'invalid_request',
          refused_at: '2026-01-01T12:00:00.000Z',
          message: 'A sale was refused: amount_cents must be a positive integer. Correct these fields.',
        },
      ],
      checks: [{ name: 'link_exists', ok: true, message: 'The program has an active referral link.' }],
    }),
  ],
})
