/** A price above the amount that the plan includes each month. */
interface Price {
  of: string
  dollars: number
  per: number
  included: number
  source: string
}

const cloudflare = 'developers.cloudflare.com/workers/platform/pricing'
const staticAssets = 'developers.cloudflare.com/workers/static-assets/billing-and-limitations'
const logs = 'developers.cloudflare.com/workers/observability/logs/workers-logs'
const r2 = 'developers.cloudflare.com/r2/pricing'
const neon = 'neon.com/docs/introduction/plans'

/**
 * Prices in dollars on 28 November 2026. Neon's are those of Launch, from its page of 12 November 2026. A CU-hour of Launch cost $0.14 in
 * August 2025, which older pages still say.
 */
export const prices = {
  workersPlan: { of: 'months of Workers Paid', dollars: 5, per: 1, included: 0, source: cloudflare },
  request: { of: 'Worker requests', dollars: 0.3, per: 1e6, included: 10e6, source: cloudflare },
  workerCpu: { of: 'ms of Worker CPU', dollars: 0.02, per: 1e6, included: 30e6, source: cloudflare },
  staticRequest: { of: 'requests for static files', dollars: 0, per: 1e6, included: 0, source: staticAssets },
  logEvent: { of: 'log events', dollars: 0.6, per: 1e6, included: 20e6, source: logs },
  compute: { of: 'CU-hours of Neon', dollars: 0.106, per: 1, included: 0, source: neon },
  storage: { of: 'GB-months in Neon', dollars: 0.35, per: 1, included: 0, source: neon },
  history: { of: 'GB-months of restore history', dollars: 0.2, per: 1, included: 0, source: neon },
  egress: { of: 'GB out of Neon', dollars: 0.1, per: 1, included: 100, source: neon },
  objects: { of: 'GB-months in R2', dollars: 0.015, per: 1, included: 10, source: r2 },
  objectWrite: { of: 'writes to R2', dollars: 4.5, per: 1e6, included: 1e6, source: r2 },
  queueRequest: { of: 'SQS requests', dollars: 0.4, per: 1e6, included: 1e6, source: 'aws.amazon.com/sqs/pricing' },
} satisfies Record<string, Price>

/** The price of a CU-hour on Neon's plan Scale, with an uptime agreement and restore points of 30 days. */
export const scaleComputeDollars = 0.222

export interface Usage {
  price: keyof typeof prices
  amount: number
  how: string
}

/** Returns a row for each usage with its dollars, and their sum. The included amount counts for the first rows of a price. */
export function bill(usages: Usage[]): { rows: Record<string, string | number>[]; dollars: number } {
  const left = new Map<string, number>()
  let sum = 0
  const rows = usages.map(({ price: name, amount, how }) => {
    const price: Price = prices[name]
    const included = Math.min(amount, left.get(name) ?? price.included)
    left.set(name, (left.get(name) ?? price.included) - included)
    const dollars = ((amount - included) / price.per) * price.dollars
    sum += dollars
    return { what: price.of, amount: Math.round(amount * 100) / 100, dollars: Math.round(dollars * 100) / 100, how }
  })
  return { rows, dollars: sum }
}
