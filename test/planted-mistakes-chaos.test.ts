import { afterAll, expect, test } from 'vitest'
import { startQueue } from '../lib/local/queue.ts'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { inModule, loadService, type ModuleMistakes } from './chaos/bundle.ts'
import { deliverEverything } from './chaos/notifications.ts'
import { runHistory } from './chaos/run-history.ts'
import { startFaultyMail } from './chaos/mail.ts'
import { startFaultyQueue } from './chaos/queue-faults.ts'
import { openWorld, patiently } from './chaos/world.ts'
import { type FunctionMistakes, plantInFunctions, unrunnable } from './support/planted-functions.ts'
import { openConnections, startEndpoint } from './support/stack.ts'

const [queue, stripe] = await Promise.all([startQueue(), startLocalStripe()])
const faultyQueue = await startFaultyQueue(queue.endpoint, 1, 0.3)
afterAll(async () => {
  await faultyQueue.close()
  await queue.close()
  await stripe.close()
})
const { databaseUrl, neon, sql } = await startEndpoint('workers')
const pool = openConnections(databaseUrl, 8)

interface Mistake {
  /** The seeds of histories that reveal the mistake. They run first, all at the same time. */
  known: number[]
  /** The length of these histories, by default 20. */
  steps?: number
  /** The share of requests that hit a fault, by default 0.1. Mistakes in repeated requests show up sooner with more faults. */
  faultRate?: number
  /** Whether the mistake shows up only after all mails have been sent. */
  isOfMail?: true
  service?: ModuleMistakes[]
  functions?: FunctionMistakes
  migration?: string
}

const mistakes: Record<string, Mistake> = {
  'a refunded total that is read before the lock': {
    known: [2],
    functions: {
      track_refund: `declare
        seen bigint := (select s.refunded_cents from sales s join api_keys k on k.program_id = s.program_id
          where k.key_hash = hash and not s.is_test and s.transaction_id = of_transaction_id);
      begin
        perform pg_sleep(0.02);
        intact();
        update sales s set refunded_cents = seen + r.applied_cents from refunds r
        where r.program_id = track_refund.program_id and r.sale_id = track_refund.sale_id and r.request_id = request
          and s.program_id = r.program_id and s.id = r.sale_id;
      end;`,
    },
  },
  'a repeated refund that is remembered before it succeeds': {
    known: [27],
    steps: 40,
    service: [
      inModule<typeof import('../lib/money/refunds.ts')>('lib/money/refunds.ts', {
        refundSale: (real) => {
          const seen = new Set<string>()
          return async (db, keyHash, transactionId, refund, requestId) => {
            const id = JSON.stringify([keyHash, transactionId, refund])
            if (seen.has(id)) {
              return { applied: { status: 'skipped', reason: 'refund_already_applied', commission_id: 0 }, outbox: [] }
            }
            seen.add(id)
            return await real(db, keyHash, transactionId, refund, requestId)
          }
        },
      }),
    ],
  },
  'a notification of a reversal in a separate request': {
    known: [1],
    functions: { notify_reversal: `if starts_with(by_cause, 'refund:') then return; end if; intact();` },
    service: [
      inModule<typeof import('../lib/money/refunds.ts')>('lib/money/refunds.ts', {
        refundSale:
          (real) =>
          async (db, ...given) => {
            const { applied } = await real(db, ...given)
            if ('deduction_cents' in applied && applied.deduction_cents > 0) {
              const kind = applied.status === 'reversed' ? 'commission_reversed' : 'commission_refunded'
              await pool.query(
                `insert into outbox (program_id, kind, audience, partner_id, cause, payload)
                select c.program_id, $1, 'partner', c.partner_id, 'refund:' || r.id, '{}'
                from commissions c join refunds r on r.program_id = c.program_id and r.sale_id = c.sale_id
                where c.id = $2 order by r.id desc limit 1 on conflict do nothing`,
                [kind, applied.commission_id],
              )
            }
            return { applied, outbox: [] }
          },
      }),
    ],
  },
  'a refund that finds sales of other programs': {
    known: [1],
    functions: {
      track_refund: `hash := coalesce((select k.key_hash from sales s join api_keys k on k.program_id = s.program_id
          where not s.is_test and s.transaction_id = of_transaction_id order by s.id limit 1), hash);
        intact();`,
    },
  },
  'an API key hash that matches all keys': {
    known: [1],
    service: [
      inModule<typeof import('../lib/access/api-keys.ts')>('lib/access/api-keys.ts', {
        apiKeyHash: (real) => {
          let known: string | undefined
          return async (authorization) => (known ??= await real(authorization))
        },
      }),
    ],
  },
  'clicks that one request counts and another removes': {
    known: [9],
    steps: 40,
    functions: {
      count_clicks: `declare
        held uncounted_clicks[] := array(select u from uncounted_clicks u order by u.clicked_at limit max_rows);
      begin
        intact();
        insert into uncounted_clicks select (h).* from unnest(held) h
        where not exists (select from uncounted_clicks u where u.event_id = (h).event_id);
      end;`,
    },
    service: [
      inModule<typeof import('../lib/tracking/clicks.ts')>('lib/tracking/clicks.ts', {
        countClicks: (real) => async (db, limit) => {
          const counted = await real(db, limit)
          const oldest = 'select ctid from uncounted_clicks order by clicked_at limit $1'
          await pool.query(`delete from uncounted_clicks where ctid = any (array(${oldest}))`, [limit])
          return counted
        },
      }),
    ],
  },
  'a payout run that pays whole balances despite open requests': {
    known: [18],
    steps: 40,
    functions: {
      create_payout_run: `intact();
        update payouts w set requested_cents = b.balance_cents, amount_cents = b.balance_cents from balances b
        where w.program_id = of_program_id and w.payout_run_id = result and w.status = 'in_run'
          and (b.program_id, b.partner_id, b.currency) = (w.program_id, w.partner_id, w.currency);`,
    },
  },
  'a repeated request that creates another payout run': {
    known: [17, 18, 19],
    steps: 40,
    faultRate: 0.4,
    functions: {
      create_payout_run: `update payout_runs r set request_id = gen_random_uuid()
        where r.program_id = of_program_id and r.request_id = request;
        intact();`,
    },
  },
  'a payout run that leaves its payments in the balance': {
    known: [1, 7],
    functions: {
      post_payout: `if payout.payout_run_id is null then
          intact();
        else
          update payouts w set status = 'paid', decided_at = now(), reference = of_reference, paid_on = of_paid_on
          where w.program_id = payout.program_id and w.id = payout.id;
        end if;`,
    },
  },
  'a repeated request that creates another adjustment': {
    known: [25, 26, 27],
    steps: 40,
    faultRate: 0.4,
    functions: {
      create_adjustment: `update adjustments a set request_id = gen_random_uuid()
        where a.program_id = of_program_id and a.request_id = request;
        intact();`,
    },
  },
  "a new partner's link that belongs to another partner": {
    known: [6],
    functions: {
      admit_applicant: `intact();
        update referral_links l set partner_id = (select min(r.id) from partners r where r.program_id = a.program_id) from applications a
        where a.program_id = application.program_id and a.id = application.id
          and (l.program_id, l.partner_id) = (a.program_id, a.partner_id);`,
    },
  },
  'a mail that is forgotten after a refusal by the mail API': {
    known: [1, 2, 3, 4],
    isOfMail: true,
    service: [
      inModule<typeof import('../lib/mail.ts')>('lib/mail.ts', {
        sendMail:
          (real) =>
          (...given) =>
            real(...given).catch(() => undefined),
      }),
    ],
  },
  'a retried mail with a new key': {
    known: [1, 2, 3, 4],
    isOfMail: true,
    functions: { claim_mails: `update notification_mails m set mail_id = null where m.due_at <= now(); intact();` },
  },
  'a missing unique key': {
    known: [3],
    migration: `alter table sales drop constraint sales_transaction_key,
      add constraint sales_transaction_key unique (program_id, is_test, transaction_id, id)`,
  },
}

const unplanted = await loadService()

/** Deletes the rows of one table at a time. Truncation would replace the tables, and Postgres would have to plan everything again. */
const tables = await sql.query<{ name: string }>(
  `select table_name as name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
  where table_schema = 'public' and column_name = 'program_id' and table_type = 'BASE TABLE'`,
)
const emptying = ['programs', ...tables.rows.map(({ name }) => name)].map((name) => `delete from ${name}`).join('; ')

test.each(Object.entries(mistakes))(
  'the histories detect %s',
  { timeout: 300_000 },
  async (_name, { service: mistaken, functions = {}, migration, known, steps = 20, faultRate = 0.1, isOfMail }) => {
    const service = mistaken ? await loadService(mistaken) : unplanted
    const takeOut = await plantInFunctions(sql, functions)
    if (migration) await sql.query(migration)
    // Removes the traces of earlier mistakes. Otherwise, the histories would also count, deliver and mail those, and find them instead.
    // Requests of killed functions may still run, so a deadlock is possible.
    await patiently(() => sql.query(`set local session_replication_role = replica; ${emptying}`))
    const world = openWorld({
      service,
      databaseUrl,
      pool,
      neonEndpoint: neon.url,
      neonControl: neon.control,
      queueEndpoint: faultyQueue.url,
      queueUrl: queue.url,
      stripeApiUrl: stripe.url,
      faultRate,
      keepsBackends: true,
    })
    const found: string[] = []
    const mail = await startFaultyMail(1, 0.3)
    try {
      const run = async (seeds: number[], length: number) => {
        found.push(...(await Promise.all(seeds.map((seed) => runHistory(world, seed, length)))).flat())
        found.push(...world.violations)
      }
      await run(known, steps)
      // The seeds that reveal a mistake change with the histories. Most mistakes show up in a few short histories, but some need more and
      // longer ones.
      const others = isOfMail ? 0 : 128
      for (let next = 1, lanes = 4; next <= others && found.length === 0; next += lanes) {
        lanes = next <= 8 ? 4 : 8
        await run(
          Array.from({ length: lanes }, (_, lane) => next + lane),
          next <= 8 ? 20 : 40,
        )
      }
      // In a few histories, the number of mails and a refusal by the mail API depend on timing.
      const deliveries = isOfMail ? 8 : 0
      for (let more = 0; more < deliveries && found.length === 0; more++) {
        if (more > 0)
          await run(
            known.map((seed) => seed + more * known.length),
            steps,
          )
        expect(found).toEqual([])
        found.push(...(await deliverEverything(world, faultyQueue, queue.url, mail)))
      }
    } finally {
      await mail.close()
      await world.close()
      await takeOut()
    }
    expect(found).not.toEqual([])
    expect([...found, ...world.logs].filter((line) => unrunnable.test(line))).toEqual([])
  },
)
