import { createServer, type IncomingMessage } from 'node:http'
import { findAccess, requireAction } from '../../lib/access/program-access.ts'
import { apiKeyHash } from '../../lib/access/api-keys.ts'
import type { Database } from '../../lib/database.ts'
import { recordSale } from '../../lib/money/sales.ts'
import { refundSale } from '../../lib/money/refunds.ts'
import { type Click, recordClick } from '../../lib/tracking/clicks.ts'
import { asEventPage, eventPageStatements } from '../../lib/tracking/events.ts'
import { recordServerLead } from '../../lib/tracking/leads.ts'
import { performanceStatement } from '../../lib/tracking/performance.ts'
import { asPerformance } from '../../lib/tracking/performance-answer.ts'
import { clickOn } from './calls.ts'

/** This server doesn't check the bodies of API calls. */
interface Sent {
  affiliate_url: string
  customer_key: string
  click_id: string
  transaction_id: string
}

/**
 * `node:http` without a framework. It parses JSON, calls the same function of `lib/` and answers. It has no limits, schema, log or error
 * handling. It looks up its key and its user only once.
 */
export function bareServer(options: {
  db: Database
  env: { AUTH_SECRET: string }
  programId: number
  apiKey: string
  dashboardToken: string
}) {
  const { db, env, programId } = options
  const keyHash = apiKeyHash(`Bearer ${options.apiKey}`)
  const reader = new Headers({ authorization: `Bearer ${options.dashboardToken}` })
  const click = clickOn('')

  const answers: Record<string, (sent: Sent) => Promise<unknown>> = {
    '/api/v1/track/click': (sent) => {
      const partner_code = sent.affiliate_url.slice(sent.affiliate_url.indexOf('aff=') + 4, -'&utm_source=blog'.length)
      return recordClick(db, { ...click, ...(sent as unknown as Partial<Click>), partner_code }, null)
    },
    '/api/v1/track/lead': async ({ customer_key, click_id }) => {
      const lead = { customer_key, click_id, is_test: false, email_hash: null, session_id: null, page_url: null }
      return await recordServerLead(db, await keyHash, { ...lead, additional_data: null }, null)
    },
    '/api/v1/track/sale': async ({ transaction_id, customer_key }) => {
      const payment = { amount_cents: 4900, currency: 'usd', sale_type: 'payment' as const, tax_cents: 0 }
      const none = { click_id: null, is_recurring: false, subscription_id: null, is_test: false, additional_data: null }
      return await recordSale(
        db,
        await keyHash,
        { transaction_id, customer_key, ...payment, ...none },
        null,
        crypto.randomUUID(),
      )
    },
    '/api/v1/track/refund': async ({ transaction_id }) => {
      const refund = { amount_cents: 1000, refund_id: 'refund-1', reason: 'refund' as const, reason_text: null }
      return await refundSale(db, await keyHash, transaction_id, refund, crypto.randomUUID())
    },
    [`/api/tracking/performance/${programId}?period=30d`]: async () => {
      const now = Date.now()
      const query = { period: '30d' as const }
      const statements = [performanceStatement(programId, query, now)]
      const { access, results } = await findAccess(db, env, reader, programId, statements)
      return asPerformance(results.flat(), requireAction(access, 'performance:read'), query, now)
    },
    [`/api/tracking/events/${programId}`]: async () => {
      const query = {}
      const { results } = await findAccess(db, env, reader, programId, eventPageStatements(programId, query))
      return asEventPage(results, query)
    },
  }

  return createServer((incoming, outgoing) => {
    void (async () => {
      const sent = await readJson(incoming)
      const text = JSON.stringify(await answers[incoming.url ?? '']?.(sent))
      outgoing.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
      outgoing.end(text)
    })()
  })
}

function readJson(incoming: IncomingMessage): Promise<Sent> {
  const { promise, resolve } = Promise.withResolvers<Sent>()
  let text = ''
  incoming.setEncoding('utf8')
  incoming.on('data', (chunk: string) => (text += chunk))
  incoming.on('end', () => resolve(JSON.parse(text || '{}') as Sent))
  return promise
}
