import { afterAll, expect, test } from 'vitest'
import { startQueue } from '../lib/local/queue.ts'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { loadService, type Plant } from './chaos/bundle.ts'
import { deliverEverything } from './chaos/notifications.ts'
import { runHistory } from './chaos/run-history.ts'
import { startFaultyMail } from './chaos/mail.ts'
import { startFaultyQueue } from './chaos/queue-faults.ts'
import { openWorld } from './chaos/world.ts'
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

const functionNames = [
  'commission_of',
  'track_refund',
  'lock_balance',
  'tell_reversal',
  'record_sale',
  'track_sale',
  'count_clicks',
  'make_payout_run',
  'pay_payout_run',
  'flag_commissions',
  'decide_reviews',
  'make_adjustment',
  'admit_applicant',
  'claim_mails',
] as const

/** A change in the text of a function of the database. */
interface FunctionPlant {
  name: (typeof functionNames)[number]
  from: string
  to: string
}

const noSaleLock: FunctionPlant = {
  name: 'track_refund',
  from: 'not s.is_test and s.transaction_id = of_transaction_id for no key update',
  to: 'not s.is_test and s.transaction_id = of_transaction_id',
}
/** The lock of the commission, which most sales have. */
const noCommissionLock: FunctionPlant = {
  name: 'track_refund',
  from: 'c.sale_id = sale.id for no key update',
  to: 'c.sale_id = sale.id',
}

/** Mistakes that a service like this is made with, each as it would stand in the code and in the database. */
const mistakes: Record<
  string,
  {
    plants?: Plant[]
    functions?: FunctionPlant[]
    migration?: string
    /** Seeds of histories that showed it, which are tried first, all at once. */
    known: number[]
    /** Of each of these, 20 unless told. */
    steps?: number
    /** It shows when everything is mailed in the end, and not before. */
    isOfMail?: true
  }
> = {
  'a guard that sums the refunds, in place of the counter under its lock': {
    known: [4],
    functions: [
      noSaleLock,
      noCommissionLock,
      {
        name: 'track_refund',
        from: "  if refund.refund_key <> key and starts_with(key, 'amount:') then",
        to: `  select coalesce(sum(r.applied_cents), 0) into sale.refunded_cents from refunds r
  where r.program_id = sale.program_id and r.sale_id = sale.id;
  if refund.refund_key <> key and starts_with(key, 'amount:') then`,
      },
    ],
  },
  'a repeat that is noted before the work is done': {
    known: [27, 32],
    steps: 40,
    plants: [
      {
        file: 'functions/track-refund.ts',
        from: '  const { applied, outbox } = await refundSale(',
        to: `  const seen = (globalThis.seenRefunds ??= new Set())
  const id = c.get('keyHash') + JSON.stringify(body)
  if (seen.has(id)) return c.json({ success: true, status: 'skipped', reason: 'refund_already_applied', commission_id: 0 })
  seen.add(id)
  const { applied, outbox } = await refundSale(`,
      },
    ],
  },
  'a notification that is written after the reversal, in a request of its own': {
    known: [1],
    functions: [
      {
        name: 'tell_reversal',
        from: `begin
  perform write_outbox`,
        to: `begin
  if starts_with(by_cause, 'refund:') then return; end if;
  perform write_outbox`,
      },
    ],
    plants: [
      {
        file: 'lib/money/refunds.ts',
        from: '  return { applied: asApplied(row), outbox: messagesAbout(row) }',
        to: `  if (Number(row.deduction_cents) > 0) await db.query({ compile: () => ({ parameters: [row.outcome, row.sale_id],
    sql: \`insert into outbox (program_id, kind, audience, partner_id, cause, payload)
    select c.program_id, case $1 when 'reversed' then 'commission_reversed' else 'commission_refunded' end, 'partner', c.partner_id,
      'refund:' || r.id, '{}' from refunds r join commissions c on c.program_id = r.program_id and c.sale_id = r.sale_id
    where r.sale_id = $2::bigint order by r.id desc limit 1 on conflict do nothing\` }) } as never)
  return { applied: asApplied(row), outbox: [] }`,
      },
    ],
  },
  'a balance that is read before it is locked': {
    known: [4],
    functions: [
      noSaleLock,
      noCommissionLock,
      {
        name: 'lock_balance',
        from: 'for no key update',
        to: '',
      },
    ],
  },
  'a sale that is looked up in all programs': {
    known: [1, 2],
    functions: [
      {
        name: 'track_refund',
        from: 'where s.program_id = track_refund.program_id and not s.is_test and s.transaction_id',
        to: 'where not s.is_test and s.transaction_id',
      },
    ],
  },
  'a commission in floating point': {
    known: [2],
    functions: [
      {
        name: 'commission_of',
        from: '(((base_cents * commission_bp) + 5000) / 10000)',
        to: 'round(base_cents * (commission_bp / 10000.0)::double precision)::bigint',
      },
    ],
  },
  'a hash of API keys that is kept under too little of the key': {
    known: [1, 2],
    plants: [
      {
        file: 'lib/access/api-keys.ts',
        from: 'knownHashes.get(key)',
        to: 'knownHashes.get(key.slice(0, prefix.length))',
      },
      {
        file: 'lib/access/api-keys.ts',
        from: 'knownHashes.set(key, hash)',
        to: 'knownHashes.set(key.slice(0, prefix.length), hash)',
      },
    ],
  },
  'clicks that are counted and then removed, in two requests': {
    known: [1, 2, 4, 8],
    steps: 40,
    functions: [
      {
        name: 'count_clicks',
        from: `    delete from uncounted_clicks
    where ctid = any (array(select ctid from uncounted_clicks limit max_rows for update skip locked))
    returning program_id, link_id, clicked_at, event_id, is_bot`,
        to: '    select program_id, link_id, clicked_at, event_id, is_bot from uncounted_clicks order by clicked_at limit max_rows',
      },
    ],
    plants: [
      {
        file: 'lib/tracking/clicks.ts',
        from: '  return row?.count_clicks ?? 0',
        to: `  await db.query({ compile: () => ({ parameters: [limit],
    sql: 'delete from uncounted_clicks where ctid = any (array(select ctid from uncounted_clicks order by clicked_at limit $1))' }) } as never)
  return row?.count_clicks ?? 0`,
      },
    ],
  },
  'a payout run of whole balances, also where they are asked for already': {
    known: [5, 9],
    steps: 40,
    functions: [
      {
        name: 'make_payout_run',
        from: `  select d.program_id, d.partner_id, d.currency, d.payable_cents, d.payable_cents, run_id, d.payout_address
  from payouts_due d join unnest(locked_partner_ids, locked_currencies) l (partner_id, currency) using (partner_id, currency)
  where d.program_id = of_program_id and d.left_out is null
  order by d.partner_id, d.currency;`,
        to: `  select b.program_id, b.partner_id, b.currency, b.balance_cents, b.balance_cents, run_id, null from balances b
  where b.program_id = of_program_id and b.balance_cents > 0
  order by b.partner_id, b.currency;`,
      },
    ],
  },
  'a payout run that is asked for anew where its answer was lost': {
    known: [4],
    plants: [
      {
        file: 'lib/money/payout-runs.ts',
        from: '  const [, [run], [told]] = await retryOnce(() => db.batch([make, read, writtenMessages()]))',
        to: `  const [, [run], [told]] = await retryOnce(() => {
    const another = crypto.randomUUID()
    return db.batch([
      call('make_payout_run', { of_program_id: programId, request: another }),
      keepMade(runsStatement(programId).where('r.request_id', '=', another)),
      writtenMessages(),
    ])
  })`,
      },
    ],
  },
  'a run whose payments leave no balance': {
    known: [10, 14],
    steps: 40,
    functions: [
      {
        name: 'pay_payout_run',
        from: '    perform post_withdrawal(withdrawal, of_reference, of_paid_on);',
        to: `    update withdrawals w set status = 'paid', decided_at = now(), reference = of_reference, paid_on = of_paid_on
    where w.program_id = withdrawal.program_id and w.id = withdrawal.id;`,
      },
    ],
  },
  'a held commission that is credited': {
    known: [2],
    functions: [
      {
        name: 'flag_commissions',
        from: 'update commissions c set held_at = now() where',
        to: 'update commissions c set held_at = null where',
      },
    ],
  },
  'a rejection that releases': {
    known: [9, 10, 12, 16],
    steps: 40,
    functions: [{ name: 'decide_reviews', from: "if of_decision = 'rejected' then", to: 'if false then' }],
  },
  'a deduction that is added': {
    known: [6],
    functions: [
      { name: 'make_adjustment', from: 'entry.amount_cents := of_cents;', to: 'entry.amount_cents := abs(of_cents);' },
    ],
  },
  'an adjustment that is made anew where its answer was lost': {
    known: [12],
    steps: 40,
    plants: [
      { file: 'lib/money/adjustments.ts', from: 'request: requestId,', to: 'request: crypto.randomUUID(),' },
      {
        file: 'lib/money/adjustments.ts',
        from: 'adjustmentsStatement({ programId }, { limit: 1, requestId })',
        to: 'adjustmentsStatement({ programId }, { limit: 1 })',
      },
    ],
  },
  'a link of somebody who joined, which is another partner’s': {
    known: [6],
    functions: [
      {
        name: 'admit_applicant',
        from: 'partner.program_id, partner.id);',
        to: 'partner.program_id, (select min(r.id) from partners r where r.program_id = partner.program_id));',
      },
    ],
  },
  'a mail that is forgotten where the mail API does not take it': {
    known: [1, 2, 3, 4],
    isOfMail: true,
    plants: [{ file: 'lib/notifications/notification-mails.ts', from: '() => false,', to: '() => true,' }],
  },
  'a mail that is tried again as another one': {
    known: [1, 2, 3, 4],
    isOfMail: true,
    functions: [
      {
        name: 'claim_mails',
        from: 'where m.due_at <= now() and m.mail_id is null group by',
        to: 'where m.due_at <= now() group by',
      },
      {
        name: 'claim_mails',
        from: 'where m.due_at <= now() and m.mail_id is null and m.user_id',
        to: 'where m.due_at <= now() and m.user_id',
      },
    ],
  },
  'a unique key that is missing': {
    known: [3],
    migration: 'alter table sales drop constraint sales_transaction_key',
    functions: [
      {
        name: 'record_sale',
        from: `    on conflict on constraint sales_transaction_key do nothing
    returning * into sale;
    inserted := found;`,
        to: `    returning * into sale;
    inserted := true;`,
      },
      {
        name: 'track_sale',
        from: '  recorded := record_sale(given, false);',
        to: `  select s.* into stored from sales s
  where s.program_id = given.program_id and s.is_test = given.is_test and s.transaction_id = given.transaction_id;
  if stored.id is not null then
    sale_id := stored.id;
    is_recorded := false;
    same_payload := true;
    return;
  end if;
  recorded := record_sale(given, false);`,
      },
    ],
  },
}

const unplanted = await loadService()
const definitions = new Map<string, string>()
for (const name of functionNames) {
  const { rows } = await sql.query<{ definition: string }>('select pg_get_functiondef($1::regproc) as definition', [
    name,
  ])
  definitions.set(name, rows[0]?.definition ?? '')
}

/** Only what changes is written, because each connection reads and plans anew what was. */
async function plantInFunctions(functions: FunctionPlant[]): Promise<void> {
  const planted = new Map<FunctionPlant['name'], string>()
  for (const { name, from, to } of functions) {
    const text = planted.get(name) ?? definitions.get(name) ?? ''
    expect(text.split(from), `the place in ${name}`).toHaveLength(2)
    planted.set(name, text.replace(from, to))
  }
  for (const definition of planted.values()) await sql.query(definition)
}

/** Rows are deleted one table after the other: a table that is truncated is another one, for which all is planned anew. */
const tables = await sql.query<{ name: string }>(
  `select table_name as name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
  where table_schema = 'public' and column_name = 'program_id' and table_type = 'BASE TABLE'`,
)
const emptying = ['programs', ...tables.rows.map(({ name }) => name)].map((name) => `delete from ${name}`).join('; ')

test.each(Object.entries(mistakes))(
  'the histories find %s',
  { timeout: 300_000 },
  async (_name, { plants = [], functions = [], migration, known, steps = 20, isOfMail }) => {
    const service = plants.length === 0 ? unplanted : await loadService(plants)
    await plantInFunctions(functions)
    if (migration) await sql.query(migration)
    // What the mistakes before left would be counted, delivered and mailed, too, and found in place of this one.
    await sql.query(`begin; set local session_replication_role = replica; ${emptying}; commit`)
    const world = openWorld({
      service,
      databaseUrl,
      pool,
      neonEndpoint: neon.url,
      neonControl: neon.control,
      queueEndpoint: faultyQueue.url,
      queueUrl: queue.url,
      stripeApiUrl: stripe.url,
      faultRate: 0.1,
    })
    const found: string[] = []
    const mail = await startFaultyMail(1, 0.3)
    try {
      const run = async (seeds: number[], length: number) => {
        found.push(...(await Promise.all(seeds.map((seed) => runHistory(world, seed, length)))).flat())
        found.push(...world.violations)
      }
      await run(known, steps)
      // Which ones show it changes with what histories do. Most show in a few short ones; what takes longer has longer ones, and many.
      const others = isOfMail ? 0 : 128
      for (let next = 1, lanes = 4; next <= others && found.length === 0; next += lanes) {
        lanes = next <= 8 ? 4 : 8
        await run(
          Array.from({ length: lanes }, (_, lane) => next + lane),
          next <= 8 ? 20 : 40,
        )
      }
      // How many mails a few histories have depends on what comes together, and with it whether the mail API refuses one of them.
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
      for (const { name } of functions) await sql.query(definitions.get(name) ?? '')
    }
    expect(found).not.toEqual([])
    // Found as the mistake that it is, and not because what was planted does not run.
    const broken = /ReferenceError|SyntaxError|is not a function|"code":"42/
    expect([...found, ...world.logs].filter((line) => broken.test(line))).toEqual([])
  },
)
