import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import shadowMode from '../functions/shadow-mode.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { findDifferences } from '../lib/commands/audit.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { balancesOf } from '../lib/money/balances.ts'
import { approveCommission, approveDueCommissions } from '../lib/money/commissions.ts'
import { listCommissions } from '../lib/money/commission-list.ts'
import { explainSale } from '../lib/money/explanation.ts'
import { askPayout } from '../lib/money/payouts.ts'
import { createPayoutRun } from '../lib/money/payout-runs.ts'
import type { FormerCommission } from '../lib/moving/comparison.ts'
import { addAccount } from './support/joined-partner.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, env } = await startEndpoint()

/** A program with a signed-in partner, and a caller of its API. */
async function startProgram(settings: Parameters<typeof createLedgerProgram>[2] = {}) {
  const program = await createLedgerProgram(sql, db, settings)
  const { programId, partnerIds } = program
  const { id: userId } = await addAccount(sql, 'Ada')
  await sql.query('update partners set user_id = $3 where program_id = $1 and id = $2', [
    programId,
    partnerIds[0],
    userId,
  ])
  const key = await createApiKey(db, programId, 'test', { scopes: ['manage', 'read'] })
  const call = async (method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${key}`, ...(body && { 'content-type': 'application/json' }) }
    const sent = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const response = await shadowMode.request(`/api/v1/shadow-mode${path}`, sent, env)
    return { status: response.status, body: await response.json() }
  }
  return { ...program, userId, call }
}

const [ada, rival] = [0, 1]
const postbackTypes = ['lead', 'sale', 'commission_approved', 'commission_reversed', 'payout_paid']

test('shadow mode computes everything and credits nothing, and partners neither see it nor get notifications', async () => {
  const program = await startProgram({ leadCommissionCents: 300, holdDays: 0 })
  const { programId, partnerIds, userId, call } = program
  const partnerId = partnerIds[ada] ?? 0
  const early = await program.soldBy(ada, 5000)
  expect(await approveDueCommissions(db, 100)).toMatchObject({ credited: 1 })
  const waiting = await program.soldBy(ada, 1000)
  await sql.query(
    `insert into webhook_endpoints (program_id, partner_id, url, types) values ($1, $2, 'https://partner.example.com', $3::webhook_type[])`,
    [programId, partnerId, postbackTypes],
  )

  expect((await call('POST', '/enter')).body).toMatchObject({ in_shadow_mode: true, can_enter: true })
  const { body: again } = await call('POST', '/enter')
  const sale = await program.soldBy(ada, 10_000)
  await program.lead('signup', await program.click(ada))
  const conflict = { code: 'conflict', message: expect.stringContaining('shadow mode') }
  const ask = { programId, partnerId, currency: 'usd', amountCents: 500, requestId: randomUUID() }
  await expect(approveCommission(db, programId, sale.commissionId)).rejects.toMatchObject(conflict)
  await expect(approveCommission(db, programId, waiting.commissionId)).rejects.toMatchObject(conflict)
  await expect(askPayout(db, ask)).rejects.toMatchObject({
    code: 'conflict',
    message: expect.not.stringContaining('shadow'),
  })
  const bonus = { partnerId, amountCents: 100, note: 'Bonus' }
  await expect(createAdjustment(db, programId, bonus, randomUUID(), [])).rejects.toMatchObject(conflict)
  expect(await createPayoutRun(db, programId, randomUUID())).toBeNull()
  expect(await approveDueCommissions(db, 100)).toMatchObject({ credited: 0, more: false })
  // A reversal of an earlier credit still counts.
  await program.refund(early.id, 1000)
  expect(await db.query(balancesOf(programId, partnerId))).toMatchObject([{ pending_cents: 200, balance_cents: 800 }])

  expect(await listCommissions(db, { userId }, { limit: 10 })).toMatchObject([
    { id: waiting.commissionId },
    { id: early.commissionId },
  ])
  const own = await listCommissions(db, { programId }, { limit: 10 })
  expect(own.map(({ amount_cents, is_shadow }) => [amount_cents, is_shadow])).toEqual([
    [300, true],
    [2000, true],
    [200, false],
    [1000, false],
  ])
  const request = { programId, transaction_id: sale.id, test: false, withCustomer: false }
  await expect(explainSale(db, { ...request, partnerUserId: userId })).rejects.toMatchObject({ code: 'not_found' })
  expect(JSON.stringify(await explainSale(db, request))).toContain('created, in shadow mode and so without any credit')

  expect((await call('POST', '/leave')).body).toMatchObject({
    in_shadow_mode: false,
    since: again.since,
    never_credited: [{ currency: 'usd', commissions: 2, amount_cents: 2300 }],
    to_credit: [{ currency: 'usd', commissions: 1, amount_cents: 200 }],
  })
  expect((await call('POST', '/leave')).body.ended_at).not.toBeNull()
  await program.refund(sale.id, 5000)
  await expect(approveCommission(db, programId, sale.commissionId)).rejects.toMatchObject(conflict)
  // A dispute that was lost and is won afterward.
  await sql.query(
    'select reverse_commission(c, 0, null, $3, $3, null, $4) from commissions c where program_id = $1 and id = $2',
    [programId, sale.commissionId, 'dispute', 'dispute_reinstated'],
  )
  const live = await program.soldBy(ada, 3000)
  expect(await approveDueCommissions(db, 100)).toMatchObject({ credited: 3 - 1 })
  expect(await db.query(balancesOf(programId, partnerId))).toMatchObject([{ pending_cents: 0, balance_cents: 1600 }])
  const { rows: notified } = await sql.query(
    `select kind, (payload->>'commission_id')::int as id from outbox where program_id = $1 order by id`,
    [programId],
  )
  expect(notified).toEqual([{ kind: 'commission_refunded', id: early.commissionId }])
  const { rows: postbacks } = await sql.query(
    `select type, (data->>'commission_cents')::int as cents from webhook_messages where program_id = $1 order by id`,
    [programId],
  )
  expect(postbacks).toEqual([
    { type: 'commission_reversed', cents: -200 },
    { type: 'sale', cents: 600 },
    { type: 'commission_approved', cents: 200 },
    { type: 'commission_approved', cents: 600 },
  ])
  const { rows: log } = await sql.query(
    "select action, details from audit_log where program_id = $1 and action like 'shadow%' order by id",
    [programId],
  )
  expect(log).toEqual([
    { action: 'shadow_mode.entered', details: {} },
    { action: 'shadow_mode.left', details: { commissions: 2 } },
  ])
  expect(await findDifferences(sql, programId)).toEqual([])

  await askPayout(db, { ...ask, requestId: randomUUID() })
  expect(await call('POST', '/enter')).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
  expect((await call('GET', '')).body).toMatchObject({ in_shadow_mode: false, can_enter: false })
  expect(live.commissionCents).toBe(600)
})

test('a sale that was paid or recorded during shadow mode is never credited, no matter how late it is attributed', async () => {
  const program = await startProgram({ holdDays: 0 })
  const { programId, partnerIds, call } = program
  const report = async (id: string) => await program.sale({ id, customerKey: id, amount: 1000, currency: 'usd' })
  await call('POST', '/enter')
  await report('of the first time')
  await call('POST', '/leave')
  await report('paid in the first time')
  await report('live')
  await sql.query(
    `update sales s set sale_date = p.shadow_since from programs p
    where p.id = $1 and s.program_id = $1 and s.transaction_id = 'paid in the first time'`,
    [programId],
  )
  await call('POST', '/enter')
  await report('of the second time')
  for (const id of ['of the first time', 'paid in the first time', 'live', 'of the second time']) {
    await program.lead(id, await program.click(ada))
    // The repeated call attributes the sale.
    await expect(report(id)).rejects.toMatchObject({ code: 'duplicate_transaction' })
  }
  await call('POST', '/leave')
  const { rows } = await sql.query(
    `select s.transaction_id from sales s join commissions c on c.program_id = s.program_id and c.sale_id = s.id
    where s.program_id = $1 and not c.is_shadow`,
    [programId],
  )
  expect(rows).toEqual([{ transaction_id: 'live' }])
  await approveDueCommissions(db, 100)
  expect(await db.query(balancesOf(programId, partnerIds[ada] ?? 0))).toMatchObject([{ balance_cents: 200 }])
  // The only finding is the changed date of the sale.
  expect(await findDifferences(sql, programId)).toEqual([expect.stringContaining('sold on')])
})

test('the comparison gives each reason why the former service pays a different amount', async () => {
  const program = await startProgram()
  const { programId, partnerIds, call } = program
  await call('POST', '/enter')
  const sales = await Promise.all(Array.from({ length: 12 }, (_, number) => program.soldBy(ada, 5000 + number)))
  const [same, rate, other, refunded, held, tested, taxed, here, byAmount, rejected, rounded, twice] = sales
  await program.refund(refunded?.id ?? '', 5000)
  for (const [statement, sale] of [
    [
      'update commissions set held_at = now() where program_id = $1 and sale_id = (select id from sales where program_id = $1 and transaction_id = $2)',
      held,
    ],
    ['update sales set commission_base_cents = 4200 where program_id = $1 and transaction_id = $2', taxed],
  ] as const)
    await sql.query(statement, [programId, sale?.id])
  await sql.query(
    'delete from commissions where program_id = $1 and sale_id = (select id from sales where transaction_id = $2)',
    [programId, tested?.id],
  )
  await sql.query(`update sales set is_test = true where program_id = $1 and transaction_id = $2`, [
    programId,
    tested?.id,
  ])
  const at = new Date().toISOString()
  const there = (id: string | undefined, cents: number, more: Partial<FormerCommission> = {}): FormerCommission => ({
    id: id ?? '',
    partner_id: partnerIds[ada],
    amount_cents: cents,
    currency: 'usd',
    status: 'approved',
    sale_cents: 5000,
    payment_id: id,
    earned_at: at,
    ...more,
  })
  const rows = [
    there(same?.id, 1000),
    there(rate?.id, 1500, { sale_cents: 5001 }),
    there(other?.id, 1000, { partner_id: partnerIds[rival], sale_cents: 5002 }),
    there(refunded?.id, 1001, { sale_cents: 5003 }),
    there(held?.id, 1001, { sale_cents: 5004 }),
    there(tested?.id, 1001),
    there(taxed?.id, 1200, { sale_cents: 6000 }),
    there('missing here', 900),
    there('no payment', 1002, { payment_id: undefined, sale_cents: byAmount ? 5008 : 0 }),
    there(rejected?.id, 1002, { status: 'rejected', sale_cents: 5009 }),
    there(rounded?.id, 1003, { sale_cents: undefined }),
    there(`${twice?.id}`, 502, { sale_cents: 5011 }),
    there(`${twice?.id}-2`, 500, { sale_cents: 5011, payment_id: twice?.id }),
  ]
  expect((await call('POST', '/commissions', { commissions: rows })).body).toEqual({ success: true, stored: 13 })
  expect((await call('POST', '/commissions', { commissions: rows.slice(0, 2) })).status).toBe(200)
  expect(await call('POST', '/commissions', { commissions: [there('x', 1, { partner_id: 1e9 })] })).toMatchObject({
    status: 404,
    body: { error: { code: 'not_found' } },
  })

  const { body } = await call('GET', '/differences?limit=100')
  const found = new Map<string, string[]>(
    // oxlint-disable-next-line no-explicit-any -- from JSON
    body.data.map((one: any) => [one.here?.transaction_id ?? one.there.id, one.reasons.map(({ code }: any) => code)]),
  )
  expect(Object.fromEntries(found)).toEqual({
    [rate?.id ?? '']: ['other_rate'],
    [other?.id ?? '']: ['other_partner'],
    [refunded?.id ?? '']: ['refunded'],
    [held?.id ?? '']: ['held'],
    [tested?.id ?? '']: ['test'],
    [taxed?.id ?? '']: ['other_base', 'other_rate'],
    [here?.id ?? '']: ['only_here'],
    'api:missing here': ['only_there'],
    [rejected?.id ?? '']: ['rejected_there'],
    [rounded?.id ?? '']: ['rounding'],
  })
  expect(
    body.data.find((one: { here?: { transaction_id: string } }) => one.here?.transaction_id === rate?.id).reasons,
  ).toEqual([{ code: 'other_rate', text: 'Another rate: 29.99% there, 20% here.' }])
  const pages: string[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const { body: page } = await call('GET', `/differences?limit=3${cursor && `&cursor=${cursor}`}`)
    pages.push(
      ...page.data.map(({ at: time, reasons }: { at: string; reasons: unknown }) => JSON.stringify([time, reasons])),
    )
    cursor = page.next_cursor
  }
  expect(pages).toHaveLength(10)
  const { body: filtered } = await call('GET', `/differences?reason=other_partner&partner_id=${partnerIds[rival]}`)
  expect(filtered.data).toMatchObject([
    { there: { partner_id: partnerIds[rival] }, here: { partner_id: partnerIds[ada] } },
  ])
  const { body: first } = await call('GET', '/comparison?limit=1')
  const { body: second } = await call('GET', `/comparison?cursor=${first.next_cursor}`)
  expect([...first.data, ...second.data]).toEqual([
    {
      partner_id: partnerIds[ada],
      partner_name: 'Partner 0',
      currency: 'usd',
      former_commissions: 11,
      former_cents: 1000 + 1500 + 1001 + 1001 + 1001 + 1200 + 900 + 1002 + 1003 + 1002,
      commissions: 11,
      cents: 9011,
      differences: 10,
    },
    {
      partner_id: partnerIds[rival],
      partner_name: 'Partner 1',
      currency: 'usd',
      former_commissions: 1,
      former_cents: 1000,
      commissions: 0,
      cents: 0,
      differences: 1,
    },
  ])
  expect(await call('GET', '/comparison?from=2026-01-01&to=2026-08-01')).toMatchObject({ status: 400 })
})
