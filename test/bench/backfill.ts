import { findDifferences } from '../../lib/commands/audit.ts'
import { startLocalStripe } from '../../lib/local/stripe.ts'
import { invoice } from '../../lib/local/stripe-events.ts'
import {
  type Backfill,
  readBackfill,
  resumeBackfill,
  startBackfill,
  stepBackfill,
  stopBackfill,
} from '../../lib/processors/stripe/backfill.ts'
import { openStripe } from '../../lib/processors/stripe/client.ts'
import { createShops, type TestShop } from '../support/shops.ts'
import { type BenchDatabase, startDatabase } from './environment.ts'
import { type Result, round } from './result.ts'

const invoices = 5000
const buyers = 500
const day = 86_400
/** One of this many buyers is unattributed. */
const nobodys = 5

/**
 * Imports the history of an account with 5,000 invoices from the fake Stripe. One import runs without a pause. Another is interrupted, hits
 * Stripe's rate limits, and is repeated. Both must create the same sales and commissions.
 */
export async function backfill(): Promise<Result> {
  const database = await startDatabase()
  const stripe = await startLocalStripe()
  const client = openStripe({ STRIPE_SECRET_KEY: 'sk_test_bench', STRIPE_API_URL: stripe.url })
  const [whole, broken] = await createShops(database.sql, 2)
  if (!whole || !broken) throw new Error('Two shops are missing.')
  for (const shop of [whole, broken]) stripe.lists.set(`${shop.account} /v1/invoices`, await pastOf(database, shop))

  const read = async ({ programId }: TestShop, pages = Infinity): Promise<Backfill | undefined> => {
    for (let page = 0; page < pages; page++) {
      const { status } = await stepBackfill(database.db, client, 'bench', programId)
      if (status === 'done' || status === 'waits') break
    }
    return await readBackfill(database.db, programId)
  }
  await startBackfill(database.db, whole.programId, 12)
  const once = await timed('in one run', () => read(whole))
  const end = await endOf(database, whole)

  await startBackfill(database.db, broken.programId, 12)
  const half = await timed('interrupted', () => read(broken, 28))
  await stopBackfill(database.db, broken.programId)
  await resumeBackfill(database.db, broken.programId)
  stripe.fail(429, 1)
  await read(broken)
  const rest = await timed('continued', () => read(broken), half.objects)
  const differs = (await endOf(database, broken)) === end ? 0 : 1
  await startBackfill(database.db, broken.programId, 12)
  const again = await timed('repeated', () => read(broken))
  const differsAgain = (await endOf(database, broken)) === end ? 0 : 1

  const { rows } = await database.sql.query<{ sales: number; attributed: number }>(
    'select count(*)::int as sales, count(customer_id)::int as attributed from sales where program_id = $1',
    [broken.programId],
  )
  const differences = await findDifferences(database.sql, broken.programId)
  await stripe.close()
  await database.close()
  const expected = invoices - invoices / nobodys
  return {
    figures: [once, half, rest, again].map((row) => ({ ...row, 'objects/s': round(row.objects / row.seconds) })),
    goals: [
      {
        what: 'sales of invoices with a click',
        measured: rows[0]?.attributed ?? 0,
        least: expected,
        most: expected,
      },
      { what: 'all sales', measured: rows[0]?.sales ?? 0, least: expected, most: expected },
      { what: 'differences from the run without an interruption', measured: differs + differsAgain, most: 0 },
      // Removes the shop's own visitor, who has no click event.
      {
        what: 'findings of the audit',
        measured: differences.filter((line) => !line.startsWith('a customer came by a click')).length,
        most: 0,
      },
    ],
  }
}

async function timed(name: string, run: () => Promise<Backfill | undefined>, readBefore = 0) {
  const started = performance.now()
  const state = await run()
  const seconds = (performance.now() - started) / 1000
  return {
    run: name,
    objects: (state?.objects_read ?? 0) - readBefore,
    recorded: state?.events_recorded ?? 0,
    seconds: round(seconds),
  }
}

/** A year of invoices for 500 buyers. Every fifth buyer is unattributed, and the other buyers clicked a link. */
async function pastOf({ sql }: BenchDatabase, shop: TestShop): Promise<Record<string, unknown>[]> {
  const clicks = Array.from({ length: buyers }, (_, n) => `cust_1_${n}x${shop.programId}`)
  await sql.query(
    `insert into customers (program_id, click_id, link_id, partner_id, created_at, last_click_at)
    select $1, click, $2, $3, now() - interval '360 days', now() - interval '345 days' from unnest($4::text[]) click`,
    [shop.programId, shop.linkId, shop.partnerId, clicks],
  )
  const first = shop.now - 359 * day
  return Array.from({ length: invoices }, (_, n) => {
    const buyer = n % buyers
    const at = {
      ...shop,
      customer: `cus_${buyer}`,
      email: `${buyer}@example.org`,
      now: first + Math.floor((n * 350 * day) / invoices),
    }
    const metadata = { program_id: String(shop.programId), svc_click_id: String(clicks[buyer]) }
    return invoice(at, {
      id: `in_${n}`,
      subscription: `sub_${buyer}`,
      payment_intent: `pi_${n}`,
      charge: `ch_${n}`,
      amount_paid: 1000 + n,
      metadata: buyer % nobodys === 0 ? {} : metadata,
    })
  })
}

/** Returns a program's sales and commissions without ids, in a fixed order. */
async function endOf({ sql }: BenchDatabase, { programId }: TestShop): Promise<string> {
  const { rows } = await sql.query<{ reported: string }>(
    `select json_agg(json_build_array(s.transaction_id, s.amount_cents, s.commission_base_cents, s.sale_date, s.customer_id is not null,
      c.amount_cents) order by s.transaction_id)::text as reported
    from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id where s.program_id = $1`,
    [programId],
  )
  return rows[0]?.reported ?? ''
}
