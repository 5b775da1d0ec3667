import { afterAll, expect, test } from 'vitest'
import { startQueue } from '../lib/local/queue.ts'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { loadService, type Plant } from './chaos/bundle.ts'
import { deliverEverything, runHistory } from './chaos/history.ts'
import { startFaultyQueue } from './chaos/queue-faults.ts'
import { openWorld } from './chaos/world.ts'
import { startEndpoint } from './support/stack.ts'

const [queue, stripe] = await Promise.all([startQueue(), startLocalStripe()])
const faultyQueue = await startFaultyQueue(queue.endpoint, 1, 0.3)
afterAll(async () => {
  await faultyQueue.close()
  await queue.close()
  await stripe.close()
})
const { databaseUrl, neon, sql } = await startEndpoint()

const saleLock = `  return [
    sql\`\${target}
select from sales s where (s.program_id, s.id) in (select program_id, id from sale) for no key update\``
/** The lock of the commission, which most sales have. */
const noCommissionLock: Plant = {
  file: 'lib/refunds.ts',
  from: `select from commissions c where (c.program_id, c.sale_id) in (select program_id, id from sale) for no key update`,
  to: `select from commissions c where (c.program_id, c.sale_id) in (select program_id, id from sale)`,
}
const noSaleLock: Plant = { file: 'lib/refunds.ts', from: saleLock, to: saleLock.replace(' for no key update', '') }

/** Mistakes that a service like this is made with, each as it would stand in the code; `migration` is its part in the database. */
const mistakes: Record<string, { plants: Plant[]; migration?: string }> = {
  'a guard that sums the refunds, in place of the counter under its lock': {
    plants: [
      noSaleLock,
      noCommissionLock,
      {
        file: 'lib/refunds.ts',
        from: 's.amount_cents - s.refunded_cents) as applied_cents',
        to: 's.amount_cents - coalesce((select sum(r.applied_cents) from refunds r where r.program_id = s.program_id and r.sale_id = s.id), 0)) as applied_cents',
      },
    ],
  },
  'a repeat that is noted before the work is done': {
    plants: [
      {
        file: 'functions/track-refund.ts',
        from: '  const { applied, outbox } = await refundSale(',
        to: `  const seen = (globalThis.seenRefunds ??= new Set())
  const id = keyHash + JSON.stringify(body)
  if (seen.has(id)) return c.json({ success: true, status: 'skipped', reason: 'refund_already_applied', commission_id: 0 })
  seen.add(id)
  const { applied, outbox } = await refundSale(`,
      },
    ],
  },
  'a notice that is written after the reversal, in a request of its own': {
    plants: [
      {
        file: 'lib/commissions.ts',
        from: `  insert into outbox (program_id, kind, audience, partner_id, cause, payload)
  select program_id, kind, audience, partner_id, cause, payload::jsonb from told
  returning program_id, id`,
        to: 'select program_id, json_build_array(kind, audience, partner_id, cause, payload) as id from told',
      },
      {
        file: 'lib/refunds.ts',
        from: '  return { applied: asApplied(row), outbox: row.outbox ?? [] }',
        to: `  for (const { program_id, outbox_id: [kind, audience, partner, cause, payload] } of row.outbox ?? []) {
    await db.query(sql\`insert into outbox (program_id, kind, audience, partner_id, cause, payload)
      values (\${program_id}, \${kind}, \${audience}, \${partner}, \${cause}, \${JSON.stringify(payload)}::jsonb) on conflict do nothing\`)
  }
  return { applied: asApplied(row), outbox: [] }`,
      },
    ],
  },
  'a balance that is read before it is locked': {
    plants: [
      noSaleLock,
      {
        file: 'lib/refunds.ts',
        from: `  select c.program_id, c.partner_id, c.currency from commissions c join sale s on c.program_id = s.program_id and c.sale_id = s.id
) for no key update`,
        to: `  select c.program_id, c.partner_id, c.currency from commissions c join sale s on c.program_id = s.program_id and c.sale_id = s.id
)`,
      },
    ],
  },
  'a sale that is looked up in all programs': {
    plants: [
      {
        file: 'lib/refunds.ts',
        from: 'select s.* from sales s join program p on s.program_id = p.id where s.transaction_id = ${transactionId}',
        to: 'select s.* from sales s where s.transaction_id = ${transactionId}',
      },
    ],
  },
  'a commission in floating point': {
    plants: [
      {
        file: 'lib/sales.ts',
        from: '(s.commission_base_cents * p.commission_bp + 5000) / 10000',
        to: 'round(s.commission_base_cents * (p.commission_bp / 10000.0)::double precision)::bigint',
      },
    ],
  },
  'a hash of API keys that is kept under too little of the key': {
    plants: [
      {
        file: 'lib/api-keys.ts',
        from: `  return hex(await sha256(key))
}`,
        to: `  return ((globalThis.keyCache ??= {})[key.slice(0, prefix.length)] ??= hex(await sha256(key)))
}`,
      },
    ],
  },
  'a unique key that is missing': {
    migration: 'alter table sales drop constraint sales_transaction_key',
    plants: [
      {
        file: 'lib/sales.ts',
        from: '  on conflict on constraint sales_transaction_key do update set ${processor ? completion : sql`transaction_id = stored.transaction_id`}',
        to: '  where not exists (select from sales s where s.program_id = p.id and s.transaction_id = ${sale.transaction_id})',
      },
      {
        file: 'lib/sales.ts',
        from: "throw new Error('the sale statement answered without its sale')",
        to: "throw new ApiError('duplicate_transaction', 'It is recorded.', { data: { same_payload: true } })",
      },
    ],
  },
}

test.each(Object.entries(mistakes))(
  'the histories find %s',
  { timeout: 120_000 },
  async (_name, { plants, migration }) => {
    const service = await loadService(plants)
    if (migration) await sql.query(migration)
    const world = openWorld({
      service,
      databaseUrl,
      neonEndpoint: neon.url,
      queueEndpoint: faultyQueue.url,
      queueUrl: queue.url,
      stripeApiUrl: stripe.url,
      faultRate: 0.1,
    })
    const found: string[] = []
    try {
      for (let first = 1; first <= 64 && found.length === 0; first += 8) {
        found.push(
          ...(await Promise.all(Array.from({ length: 8 }, (_, lane) => runHistory(world, first + lane, 40)))).flat(),
        )
        found.push(...world.violations)
      }
      if (found.length === 0) found.push(...(await deliverEverything(world, faultyQueue, queue.url)))
    } finally {
      await world.close()
    }
    expect(found).not.toEqual([])
  },
)
