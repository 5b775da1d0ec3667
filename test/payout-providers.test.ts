import { createHmac, createSign, generateKeyPairSync, randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import type { Database } from '../lib/database.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { connectProvider, disconnectProvider, listProviders, setRecipients } from '../lib/money/payout-connections.ts'
import { exportPayments } from '../lib/money/payout-files.ts'
import { createPayoutRun, payPayoutRun, readPayoutRun, reopenPayoutRun } from '../lib/money/payout-runs.ts'
import { payPayout, returnPayout } from '../lib/money/payouts.ts'
import {
  continueBatches,
  listRunBatches,
  readSendable,
  receiveProviderWebhook,
  sendRunToProvider,
  stopBatch,
} from '../lib/money/provider-batches.ts'
import type { ProviderName } from '../lib/money/providers/providers.ts'
import { createLedgerProgram, transfer } from './support/ledger.ts'
import { ProviderStandIns } from './support/payout-providers.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()
const env = { EMAIL_HASH_KEY: 'x'.repeat(32) }
const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })

const keys: Record<ProviderName, Record<string, string>> = {
  paypal: { client_id: 'id', client_secret: 'secret', webhook_id: 'WH-1' },
  wise: { token: 'token', profile_id: '7', webhook_key: String(publicKey.export({ type: 'spki', format: 'pem' })) },
  stripe: { secret_key: 'sk_test_1', financial_account: 'fa_1', webhook_secret: 'whsec_1' },
}

/** The states of a payment, in each provider's terms. */
const words = {
  paypal: { paid: 'SUCCESS', returned: 'REVERSED', failed: 'FAILED', waits: 'ONHOLD' },
  wise: { paid: 'outgoing_payment_sent', returned: 'funds_refunded', failed: 'cancelled', waits: 'bounced_back' },
  stripe: { paid: 'posted', returned: 'returned', failed: 'failed', waits: 'processing' },
} as const
const names = ['paypal', 'wise', 'stripe'] as const

/** A program that is connected to a provider. A run owes its two partners 30.00 and 12.00. */
async function createSending(provider: ProviderName) {
  const standIns = new ProviderStandIns()
  const { programId, partnerIds } = await createLedgerProgram(sql, db)
  const recipients: string[] = []
  for (const [index, partnerId] of partnerIds.entries()) {
    const amountCents = index === 0 ? 3000 : 1200
    const tag = randomUUID().replaceAll('-', '')
    recipients.push(provider === 'stripe' ? `acct_${tag}` : `${tag}@example.com`)
    await sql.query('update partners set email = $2 where id = $1', [partnerId, `${tag}@example.com`])
    if (provider === 'stripe') await setRecipients(db, programId, [{ partnerId, recipientId: `acct_${tag}` }])
    await createAdjustment(db, programId, { partnerId, amountCents, currency: 'usd', note: 'Bonus' }, randomUUID(), [])
  }
  const id = await connectProvider(db, env, programId, { provider, livemode: false, keys: keys[provider] })
  const runId = (await createPayoutRun(db, programId, randomUUID())) ?? 0
  const send = async (on = db) => await sendRunToProvider(on, programId, runId, { id, provider }, 4200)
  /** Continues until nothing is due, and repeats this `times` times, as if a day passed in between. */
  const go = async (times = 1, on = db, fetcher: typeof fetch = standIns.fetch) => {
    for (let time = 0; time < times; time++) {
      await sql.query('update payout_batches set next_step_at = now() where program_id = $1', [programId])
      await continueBatches(on, env, { connectionId: id, until: Date.now() + 60_000, fetch: fetcher })
    }
  }
  const states = async () => (await readPayoutRun(db, programId, runId)).payouts.map(({ status }) => status)
  const balances = async () =>
    (
      await sql.query<{ balance_cents: string }>(
        'select balance_cents from balances where program_id = $1 order by partner_id',
        [programId],
      )
    ).rows.map((row) => Number(row.balance_cents))
  const notified = async () =>
    (
      await sql.query<{ kind: string }>(
        "select kind from outbox where program_id = $1 and kind like 'payout%' order by id",
        [programId],
      )
    ).rows.map(({ kind }) => kind)
  const payoutIds = (await readPayoutRun(db, programId, runId)).payouts.map((payout) => payout.id)
  return { standIns, programId, partnerIds, id, runId, recipients, payoutIds, send, go, states, balances, notified }
}

describe.each(names)('%s', (provider) => {
  const { paid, returned, failed, waits } = words[provider]

  test('sends each payment, reports each state, and makes returned money payable again', async () => {
    const { standIns, programId, runId, recipients, payoutIds, send, go, states, balances, notified } =
      await createSending(provider)
    expect(await readSendable(db, programId, runId, provider)).toEqual([
      { currency: 'usd', payments: 2, payable_cents: 4200 },
    ])
    await send()
    await send().catch((error: unknown) => expect(String(error)).toContain('amounts of this run have changed'))
    await go(2)
    expect(recipients.map((to) => standIns.paidTo(to))).toEqual([
      [3000, 1],
      [1200, 1],
    ])
    expect([await states(), await balances()]).toEqual([
      ['sent', 'sent'],
      [3000, 1200],
    ])
    // Payments through the provider aren't in any file, and nobody can decide on them manually.
    await expect(exportPayments(db, programId, { payoutRunId: runId }, { layout: 'csv' })).rejects.toThrow(
      'nothing left',
    )
    await expect(payPayoutRun(db, programId, runId, transfer, 4200)).rejects.toThrow('is executing this payment')
    await expect(payPayout(db, programId, payoutIds[0] ?? 0, 3000, transfer)).rejects.toThrow('is executing')
    await expect(returnPayout(db, programId, payoutIds[0] ?? 0, 'failed', 'x')).rejects.toThrow('is executing')

    const [first = '', second = ''] = recipients
    standIns.setStatus(first, paid)
    standIns.setStatus(second, waits)
    await go(2)
    expect([await states(), await balances()]).toEqual([
      ['paid', 'sent'],
      [0, 1200],
    ])
    // An open payment is still read after 60 days, but only daily.
    await sql.query("update payout_batches set created_at = now() - interval '61 days' where program_id = $1", [
      programId,
    ])
    await go()
    const { rows } = await sql.query(
      "select status, next_step_at > now() + interval '23 hours' as is_slow from payout_batches where program_id = $1",
      [programId],
    )
    expect(rows).toEqual([{ status: 'sent', is_slow: true }])
    standIns.setStatus(first, returned)
    standIns.setStatus(second, failed)
    await go(2)
    expect([await states(), await balances()]).toEqual([
      ['returned', 'failed'],
      [3000, 1200],
    ])
    // A late report of an earlier state changes nothing.
    standIns.setStatus(first, paid)
    standIns.setStatus(second, paid)
    await go(2)
    expect(await states()).toEqual(['returned', 'failed'])
    const held = provider === 'stripe' ? [] : ['payout_held']
    expect(await notified()).toEqual(['payout_paid', ...held, 'payout_returned', 'payout_returned'])
    await expect(reopenPayoutRun(db, programId, runId)).rejects.toThrow('Mark individual payouts')
    expect(await createPayoutRun(db, programId, randomUUID())).not.toBeNull()
    expect(await findDifferences(sql, programId)).toEqual([])
  })

  test('pays once, even if the service stops at any call, an answer is lost, or a batch is taken over or stopped', async () => {
    let kinds: string[] = []
    for (let point = 0; kinds.length >= point; point++) {
      kinds = await stopOnce(provider, point, 'everything')
      if (kinds[point] !== 'fetch') continue
      for (const fault of ['an answer', point % 2 === 0 ? 'its claim' : 'its payments'] as const)
        await stopOnce(provider, point, fault)
    }
    expect(kinds.length).toBeGreaterThan(12)
  })

  test('pays once, even if several people and workers send, read and file the run at the same time', async () => {
    const { standIns, programId, runId, recipients, send, go, states, balances } = await createSending(provider)
    const file = () => exportPayments(db, programId, { payoutRunId: runId }, { layout: 'csv' })
    const outcomes = await Promise.allSettled([
      send(),
      file(),
      send(),
      file(),
      payPayoutRun(db, programId, runId, transfer),
    ])
    expect(await findDifferences(sql, programId)).toEqual([])
    const [isFiled, isPaid] = [1, 4].map((place) => outcomes[place]?.status === 'fulfilled')
    await Promise.allSettled([go(), go(), go(), stopAll(programId, runId)])
    for (const to of recipients) standIns.setStatus(to, paid)
    await Promise.allSettled([go(), go(), go()])
    const sent = recipients.map((to) => standIns.paidTo(to)?.[1] ?? 0)
    // Each payment was sent in a file or through the provider, or it wasn't sent at all.
    for (const [place, state] of (await states()).entries())
      expect(Number(isFiled || isPaid) + (sent[place] ?? 0), state).toBe(['paid', 'sent'].includes(state) ? 1 : 0)
    const isOut = async () => (await states()).map((state, place) => (state === 'paid' ? 0 : [3000, 1200][place]))
    expect(await balances()).toEqual(await isOut())
    expect(await findDifferences(sql, programId)).toEqual([])
  })

  test('can refuse one payment or wait for a person, and payments unknown to it can be taken back', async () => {
    const { standIns, programId, runId, recipients, send, go, states, balances } = await createSending(provider)
    standIns.outage = [403, { name: 'NOT_AUTHORIZED' }]
    await send()
    await go()
    const [waiting] = await listRunBatches(db, programId, runId)
    expect(waiting).toMatchObject({ provider, status: 'sending', problem: expect.stringContaining('403') })
    standIns.outage = undefined
    standIns.refused.add(recipients[1] ?? '')
    await go(2)
    if (provider === 'paypal') {
      // PayPal refuses the whole batch.
      expect(await stopBatch(db, programId, waiting?.id ?? 0)).toBe(2)
      expect(await states()).toEqual(['in_run', 'in_run'])
    } else {
      expect(await states()).toEqual(['sent', 'failed'])
      expect(standIns.payments.size).toBe(1)
    }
    const other = await createSending(provider)
    await other.send()
    const [unsent] = await listRunBatches(db, other.programId, other.runId)
    expect(unsent).toMatchObject({ unsent: 2, payments: 2 })
    // A deduction while the payments wait reduces the payout as soon as it is back in the run.
    const deduction = { partnerId: other.partnerIds[0] ?? 0, amountCents: -500, currency: 'usd', note: 'Bonus' }
    await createAdjustment(db, other.programId, deduction, randomUUID(), [])
    expect(await stopBatch(db, other.programId, unsent?.id ?? 0)).toBe(2)
    await other.go(2)
    const { payouts } = await readPayoutRun(db, other.programId, other.runId)
    expect(payouts.map((payout) => [payout.status, payout.amount_cents])).toEqual([
      ['in_run', 2500],
      ['in_run', 1200],
    ])
    expect([await other.notified(), await other.balances(), other.standIns.payments.size]).toEqual([
      ['payout_reduced'],
      [2500, 1200],
      0,
    ])
    expect(await balances()).toEqual([3000, 1200])
    for (const id of [programId, other.programId]) expect(await findDifferences(sql, id)).toEqual([])
  })

  test('verifies webhooks, which only cause a new read of the state, even of a finished batch', async () => {
    const { standIns, id, recipients, programId, send, go, states } = await createSending(provider)
    await send()
    await go(2)
    for (const to of recipients) standIns.setStatus(to, paid)
    const body = JSON.stringify({ event_type: 'x', resource: { transaction_status: returned } })
    const seconds = Math.floor(Date.now() / 1000)
    const signed: Record<ProviderName, Record<string, string>> = {
      paypal: { 'paypal-transmission-sig': 'good' },
      wise: { 'x-signature-sha256': createSign('sha256').update(body).sign(privateKey, 'base64') },
      stripe: {
        'stripe-signature': `t=${seconds},v1=${createHmac('sha256', 'whsec_1').update(`${seconds}.${body}`).digest('hex')}`,
      },
    }
    const deliver = async (headers: Record<string, string>, text = body) =>
      await receiveProviderWebhook(
        db,
        env,
        id,
        { body: text, header: (name) => headers[name], now: Date.now() },
        standIns.fetch,
      )
    await expect(deliver({})).rejects.toThrow('signature does not match')
    await expect(deliver({}, `${body},"transmission_sig":"good"`)).rejects.toThrow('does not match')
    if (provider !== 'paypal') await expect(deliver(signed[provider], `${body} `)).rejects.toThrow('does not match')
    const read = async (status: string, dueIn: string) => {
      await sql.query(
        `update payout_batches set status = $2, next_step_at = now() + $3::interval, created_at = now() - interval '61 days'
        where program_id = $1`,
        [programId, status, dueIn],
      )
      await deliver(signed[provider])
      await continueBatches(db, env, { connectionId: id, until: Date.now() + 60_000, fetch: standIns.fetch })
      return await states()
    }
    expect(await read('sent', '1 hour')).toEqual(['paid', 'paid'])
    for (const to of recipients) standIns.setStatus(to, returned)
    // Finished batches are read at most once a day.
    expect(await read('done', '1 hour')).toEqual(['paid', 'paid'])
    expect(await read('done', '-1 hour')).toEqual(['returned', 'returned'])
    await expect(
      receiveProviderWebhook(db, env, `pay_${'A'.repeat(43)}`, { body, header: () => '', now: 0 }, standIns.fetch),
    ).rejects.toThrow('no such connection')
  })
})

test('the partner is notified of the last day to claim a payment, and the payment is then paid or returned', async () => {
  const { standIns, programId, recipients, send, go, states, notified } = await createSending('paypal')
  await send()
  await go(2)
  for (const to of recipients) standIns.setStatus(to, 'UNCLAIMED')
  await go(2)
  expect(await states()).toEqual(['unclaimed', 'unclaimed'])
  const { rows } = await sql.query<{ day: string }>(
    "select payload->>'day' as day from outbox where program_id = $1 and kind = 'payout_unclaimed'",
    [programId],
  )
  expect(rows).toEqual([{ day: '2026-12-20' }, { day: '2026-12-20' }])
  standIns.setStatus(recipients[0] ?? '', 'SUCCESS')
  standIns.setStatus(recipients[1] ?? '', 'RETURNED')
  await go()
  expect(await states()).toEqual(['paid', 'returned'])
  expect(await notified()).toEqual(['payout_unclaimed', 'payout_unclaimed', 'payout_paid', 'payout_returned'])
})

test('the partner of a held payment is notified once, and blocked and disconnected payments wait for a person', async () => {
  const { standIns, programId, runId, recipients, payoutIds, send, go, states, notified } =
    await createSending('paypal')
  await send()
  await go(2)
  for (const status of ['ONHOLD', 'BLOCKED', 'ONHOLD', 'BLOCKED']) {
    standIns.setStatus(recipients[0] ?? '', status)
    await go()
  }
  expect(await notified()).toEqual(['payout_held', 'payout_held'])
  const [first = 0, second = 0] = payoutIds
  await expect(payPayout(db, programId, first, 3000, transfer)).rejects.toThrow('is executing')
  await returnPayout(db, programId, first, 'failed', 'Blocked by PayPal')
  await expect(payPayout(db, programId, second, 1200, transfer)).rejects.toThrow('is executing')
  standIns.setStatus(recipients[0] ?? '', 'SUCCESS')
  await go()
  const [batch] = await listRunBatches(db, programId, runId)
  expect(batch?.problem).toContain(`PayPal paid payout ${first} although it is marked as failed`)
  await disconnectProvider(db, programId, 'paypal')
  await payPayout(db, programId, second, 1200, transfer)
  expect([await states(), await listProviders(db, programId)]).toEqual([['failed', 'paid'], []])
})

test('a payment that a person marked as failed before its call is not sent', async () => {
  for (const point of [3, 4, 5]) {
    const { standIns, programId, payoutIds, send, go } = await createSending('stripe')
    let attempted = NaN
    const decide = async () => {
      await disconnectProvider(db, programId, 'stripe')
      for (const id of payoutIds) await returnPayout(db, programId, id, 'failed', 'Paid in cash')
      const { rows } = await sql.query('select from payout_items where program_id = $1 and attempted_at is not null', [
        programId,
      ])
      attempted = rows.length
    }
    const slow = stopAt(point, 'its claim', standIns.fetch, decide)
    await send()
    await go(1, slow.db, slow.fetch)
    expect([point, standIns.payments.size]).toEqual([point, attempted])
  }
})

test('the keys of a provider are encrypted, and an empty key keeps its value', async () => {
  const { id, programId } = await createSending('stripe')
  const again = { provider: 'stripe', livemode: false, keys: { secret_key: '', webhook_secret: 'whsec_2' } } as const
  expect(await connectProvider(db, env, programId, again)).toBe(id)
  const { rows } = await sql.query<{ keys: Buffer }>('select keys from payout_connections where id = $1', [id])
  expect(rows[0]?.keys.toString('latin1')).not.toMatch(/sk_test|whsec/)
  await expect(
    connectProvider(db, env, programId, { provider: 'wise', livemode: true, keys: { token: 'a' } }),
  ).rejects.toThrow('Enter the profile id.')
})

test('the keys of another account are refused once there are payments, so that no payment is repeated there', async () => {
  const another = { provider: 'paypal', livemode: false, keys: { client_id: 'other', client_secret: 'b' } } as const
  for (let point = 0; point < 7; point++) {
    const { standIns, programId, send, go } = await createSending('paypal')
    const accounts = new Set<string>()
    let account = ''
    // PayPal acts, but its first answer is lost.
    const losing: typeof fetch = async (input, init) => {
      const { pathname } = new URL(input instanceof Request ? input.url : input)
      if (pathname.endsWith('/token')) account = atob(new Headers(init?.headers).get('authorization')?.slice(6) ?? '')
      const answer = await standIns.fetch(input, init)
      if (!pathname.endsWith('/payouts')) return answer
      accounts.add(account)
      if (accounts.size === 1) throw new Error('The answer was lost.')
      return answer
    }
    let refusal: unknown
    const replace = async () => {
      await connectProvider(db, env, programId, another).catch((error: unknown) => (refusal = error))
    }
    await send()
    const slow = stopAt(point, 'its claim', losing, replace)
    await go(1, slow.db, slow.fetch)
    await go(1, db, losing)
    expect([point, String(refusal), [...accounts]]).toEqual([
      point,
      expect.stringContaining('Disconnect PayPal first'),
      ['id:secret'],
    ])
  }
})

test('replacing keys waits for a run that is being sent, and never revives or overwrites changed keys', async () => {
  const { programId, id, runId } = await createSending('paypal')
  const replace = async (keysNow: Record<string, string>) =>
    await connectProvider(db, env, programId, { provider: 'paypal', livemode: false, keys: keysNow })
  // Without payments, the account can change.
  expect(await replace({ client_id: 'other' })).toBe(id)
  await sql.query('begin')
  await sql.query("select create_payout_batches($1, $2, $3, '{usd}', 100, 4200)", [programId, runId, id])
  const refused = expect(replace({ client_id: 'third' })).rejects.toThrow('Disconnect PayPal first')
  const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  await expect.poll(async () => (await sql.query(waiting)).rowCount).toBe(1)
  await sql.query('commit')
  await refused
  expect(await replace({ client_secret: 'rotated' })).toBe(id)

  await sql.query('begin')
  await sql.query('update payout_connections set keys = null where id = $1', [id])
  const late = expect(replace({ client_secret: 'c' })).rejects.toThrow('Somebody else has just changed the keys')
  await expect.poll(async () => (await sql.query(waiting)).rowCount).toBe(1)
  await sql.query('commit')
  await late
  expect(await listProviders(db, programId)).toEqual([])
})

async function stopAll(programId: number, runId: number) {
  for (const { id } of await listRunBatches(db, programId, runId)) await stopBatch(db, programId, id)
}

/**
 * The fault at a call: the service stops before the call (`everything`), or the response is lost (`an answer`). If the call takes too long,
 * another worker continues the batch (`its claim`), or somebody stops the batch (`its payments`).
 */
type Fault = 'everything' | 'an answer' | 'its claim' | 'its payments'

/** Sends and reads a run with a fault at a call, and continues. Returns the kinds of calls before the fault. */
async function stopOnce(provider: ProviderName, point: number, loses: Fault): Promise<string[]> {
  const { standIns, programId, id, runId, recipients, send, go, states, balances } = await createSending(provider)
  const meanwhile = async () => {
    if (loses === 'its claim') await go()
    if (loses !== 'its payments') return
    const [batch] = await listRunBatches(db, programId, runId)
    await stopBatch(db, programId, batch?.id ?? 0)
    const [left] = await readSendable(db, programId, runId, provider)
    await sendRunToProvider(db, programId, runId, { id, provider }, left?.payable_cents ?? 0)
    await go()
  }
  const faulty = stopAt(point, loses, standIns.fetch, meanwhile)
  const arrive = () => {
    for (const to of recipients) standIns.setStatus(to, words[provider].paid)
  }
  await send()
  await go(1, faulty.db, faulty.fetch).catch(() => {})
  arrive()
  // The next step reads the payments. If the first step was interrupted, this one continues it.
  await go(1, faulty.db, faulty.fetch).catch(() => {})
  await go(2)
  arrive()
  await go()
  const paid = recipients.map((to) => standIns.paidTo(to))
  expect([paid, await states(), await balances()], `point ${point}, ${loses}`).toEqual([
    [
      [3000, 1],
      [1200, 1],
    ],
    ['paid', 'paid'],
    [0, 0],
  ])
  return faulty.kinds
}

/** A database and a provider with a fault at one call. Awaits `meanwhile` before that call. */
function stopAt(point: number, loses: Fault, fetcher: typeof fetch, meanwhile: () => Promise<void>) {
  const kinds: string[] = []
  let isDead = false
  const next = async <Result>(isFetch: boolean, run: () => Promise<Result>): Promise<Result> => {
    if (!isDead) kinds.push(isFetch ? 'fetch' : 'query')
    const isHere = !isDead && kinds.length - 1 === point
    if (isDead || (isHere && loses === 'everything')) {
      isDead = true
      throw new Error('stopped')
    }
    if (isHere) await meanwhile()
    const result = await run()
    if (isHere && loses === 'an answer') throw new Error('The answer was lost.')
    return result
  }
  const stopping = new Proxy(db, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      const method: (...given: unknown[]) => Promise<unknown> = value.bind(target)
      return name === 'query' || name === 'batch'
        ? (...given: unknown[]) => next(false, () => method(...given))
        : method
    },
  })
  return {
    db: stopping satisfies Database,
    fetch: ((input, init) => next(true, () => fetcher(input, init))) satisfies typeof fetch,
    kinds,
  }
}
