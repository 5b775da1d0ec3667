import { transfer } from '../support/ledger.ts'
import { addAccount, findJoined, join } from '../support/joined-partner.ts'
import type { Model } from './model.ts'
import { currencies, type History, people, type Step } from './history.ts'
import { patiently } from './world.ts'

export function approve(history: History): Step {
  const chosen = Array.from(
    { length: history.random.integer(1, 4) },
    () => history.random.pick(history.model.commissions) ?? [],
  )
    .flat()
    .filter((commission, index, all) => all.indexOf(commission) === index)
  return {
    touches: ['approvals', ...chosen.map((commission) => history.subject(commission.id))],
    alone: history.payoutsOpen(),
    run: async () => {
      const ids = chosen.map(({ id }) => id)
      const { answers, sure } = await history.act(() =>
        history.world.service.approveCommissions(history.world.db, history.program.programId, ids, [], 'chaos'),
      )
      const credited = history.model.approve(chosen)
      if (sure) history.expect('approved', answers[0], { value: credited })
    },
  }
}

export function reject(history: History): Step | undefined {
  const commission = history.random.pick(history.model.commissions)
  if (!commission) return undefined
  return {
    touches: [history.subject(commission.id)],
    alone: history.payoutsOpen(),
    run: async () => {
      const { db, service } = history.world
      const { programId } = history.program
      const isOfMany = commission.amount % 2 === 0
      const { answers, sure } = await history.act(() =>
        isOfMany
          ? service.rejectCommissions(db, programId, [commission.id], 'Not a real sale')
          : service.rejectCommission(db, programId, commission.id, 'Not a real sale'),
      )
      const expected = isOfMany ? { value: history.model.rejectAll([commission]) } : history.model.reject(commission)
      if (sure) history.expect(`rejection of ${commission.id}`, pickLike(answers[0], expected), expected)
    },
  }
}

/** A person decides on held commissions. */
export function decideReviews(history: History): Step | undefined {
  const held = history.model.commissions.filter((one) => one.held)
  const chosen = held.filter(() => history.random.chance(0.5))
  const [first] = chosen
  if (!first) return undefined
  const decision = history.random.chance(0.6) ? 'released' : 'rejected'
  return {
    touches: [],
    // A released customer is never held again, so concurrent commissions depend on the order.
    alone: true,
    run: async () => {
      const { db, service } = history.world
      const ids = chosen.map(({ id }) => id)
      const { answers, sure } = await history.act(async () => ({
        changed: (await service.decideReviews(db, history.program.programId, ids, decision, 'Asked the buyer')).changed,
      }))
      const changed = history.model.decide(chosen, decision)
      if (sure) history.expect(`${decision} of ${ids.join(', ')}`, answers[0], { changed })
    },
  }
}

/** A manual commission or deduction, which counts once, no matter how often it is sent. */
export function adjust(history: History): Step {
  const partner = history.random.integer(0, history.program.partnerIds.length - 1)
  const currency = history.random.pick(currencies) ?? 'usd'
  const amount = history.random.integer(1, 8000) * (history.random.chance(0.5) ? 1 : -1)
  return {
    // Payouts follow the order of credits, so no two commissions are credited at the same time.
    touches: ['approvals'],
    alone: true,
    run: async () => {
      const { db, service } = history.world
      const { programId, partnerIds } = history.program
      const requestId = crypto.randomUUID()
      const given = { partnerId: partnerIds[partner] ?? 0, currency, amountCents: amount, note: 'By hand' }
      const { answers } = await history.act(async () => ({
        id: (await service.createAdjustment(db, programId, given, requestId, [])).id,
      }))
      history.model.adjust(partner, currency, amount)
      const outcomes = new Set(answers.map((answer) => JSON.stringify(answer)))
      if (outcomes.size > 1) history.wrong.push(`one adjustment was answered ${[...outcomes].join(' and ')}`)
    },
  }
}

/** A person joins through the program's page, becomes the last partner, and refers a buyer. */
export function joinProgram(history: History): Step | undefined {
  if (history.program.partnerIds.length > 2) return undefined
  return {
    touches: [],
    alone: true,
    run: async () => {
      const { db, pool, service } = history.world
      const { programId } = history.program
      // The code of the partner's link contains this name. It is unique, so that a click finds its program by the code.
      const name = `Partner 2 of ${programId}`
      const account = await patiently(() => addAccount(pool, name))
      const given = { account, name, groupId: null }
      await history.act(() => join(service, db, programId, given))
      history.program.add(await findJoined(pool, programId, account, patiently))
      history.model.join()
      for (const person of [people, people + 1]) history.clickIds[person] = await history.click(person)
    },
  }
}

export function askPayout(history: History): Step {
  const partner = history.random.integer(0, history.program.partnerIds.length - 1)
  const currency = history.random.pick(currencies) ?? 'usd'
  const percent = history.random.integer(0, 120)
  return {
    touches: [],
    alone: true,
    run: async () => {
      const available = history.model.available(partner, currency)
      if (percent > 100 && available > 0) return await payByHand(history, partner, currency, available)
      const share = Math.floor((Math.max(available, 0) * percent) / 100)
      // A delayed attempt can arrive after its retry was refused and after the balance has grown. Even then, the amount must be too large.
      const amountCents = share > 0 && share <= available ? share : 1_000_000_000_000
      const requestId = crypto.randomUUID()
      const ask = {
        programId: history.program.programId,
        partnerId: history.program.partnerIds[partner] ?? 0,
        currency,
        amountCents,
        requestId,
      }
      const { answers } = await history.act(() => history.world.service.askPayout(history.world.db, ask))
      const distinct = new Set(answers.map((answer) => JSON.stringify(answer)))
      if (distinct.size > 1) history.wrong.push(`one request for a payout was answered ${[...distinct].join(' and ')}`)
      const [answer = {}] = answers
      if (amountCents > available) return history.expect('a payout beyond the balance', answer, { error: 'conflict' })
      if (!('value' in answer))
        return void history.wrong.push(`a payout within the balance was answered ${JSON.stringify(answer)}`)
      history.model.payouts.push({
        id: Number(answer.value),
        partner,
        currency,
        amount: amountCents,
        status: 'requested',
      })
    },
  }
}

/** Pays the whole available amount without a request by the partner. */
async function payByHand(history: History, partner: number, currency: string, amount: number): Promise<void> {
  const { db, pool, service } = history.world
  const { programId, partnerIds } = history.program
  const requestId = crypto.randomUUID()
  const payment = { programId, partnerId: partnerIds[partner] ?? 0, currency, amountCents: amount, requestId }
  const { answers } = await history.act(async () => void (await service.payByHand(db, payment, transfer)))
  const { rows } = await patiently(() =>
    pool.query<{ id: string }>('select id from payouts where program_id = $1 and request_id = $2', [
      programId,
      requestId,
    ]),
  )
  const payout = { id: Number(rows[0]?.id), partner, currency, amount, status: 'requested' as const }
  history.model.payouts.push(payout)
  const expected = history.model.pay(payout)
  for (const answer of answers) history.expect(`payment by hand of ${amount}`, answer, expected)
}

/** Decides on a payout. Refusing a sent or paid payout means that it did not arrive. */
export function decidePayout(history: History, verb: 'pay' | 'refuse' | 'cancel'): Step | undefined {
  const payout = history.random.pick(history.model.payouts)
  if (!payout) return undefined
  return {
    touches: [],
    alone: true,
    run: async () => {
      const { db, service } = history.world
      const { programId } = history.program
      const isReturn = verb === 'refuse' && (payout.status === 'sent' || payout.status === 'paid')
      const { answers } = await history.act(async () => {
        if (isReturn) await service.returnPayout(db, programId, payout.id, 'returned', 'Account closed')
        else if (verb === 'pay') await service.payPayout(db, programId, payout.id, payout.amount, transfer)
        else if (verb === 'refuse') await service.refusePayout(db, programId, payout.id, 'Details are missing')
        else {
          const partnerId = history.program.partnerIds[payout.partner] ?? 0
          await service.cancelPayout(db, programId, partnerId, payout.id)
        }
      })
      const expected = isReturn ? history.model.return(payout) : history.model[verb](payout)
      for (const answer of answers) history.expect(`${verb} ${payout.id}`, answer, expected)
    },
  }
}

/** The payments in a run's file, oldest first. Empty if all are paid. */
async function fileOf(history: History, run: number): Promise<{ id: number; amount: number }[]> {
  const { service, db } = history.world
  const { answers } = await history.act(async () => ({
    text: await service.exportPayments(db, history.program.programId, { payoutRunId: run }, { layout: 'csv' }),
  }))
  const [answer = {}] = answers
  return ('text' in answer ? String(answer.text) : '')
    .trim()
    .split('\r\n')
    .slice(1)
    .map((line) => line.split(','))
    .map(([reference = '', , , amount = '']) => ({
      id: Number(reference.replace('payout-', '')),
      amount: Number(amount.replace('.', '')),
    }))
}

/** Creates a payout run for everything payable. A second run must be empty. */
export function payoutRun(history: History): Step {
  const writesFile = history.random.chance(0.5)
  return {
    touches: [],
    alone: true,
    run: async () => {
      const { db, service } = history.world
      const { programId } = history.program
      const due = history.model.payable()
      const requestId = crypto.randomUUID()
      const create = async () => ({ run: await service.createPayoutRun(db, programId, requestId) })
      // If nothing is due, the step runs without faults, because a delayed attempt could find money that became
      // due in the meantime.
      const { answers } = due.length > 0 ? await history.act(create) : { answers: [await history.world.settle(create)] }
      const outcomes = [...new Set(answers.map((answer) => ('run' in answer ? answer.run : answer)))]
      const [run] = outcomes
      const isCreated = typeof run === 'number'
      if (outcomes.length > 1 || isCreated !== due.length > 0) {
        history.wrong.push(`one payout run was answered ${JSON.stringify(answers)}, ${due.length} were due`)
      } else if (isCreated) {
        await takeRun(history, run, due, writesFile)
      }
    },
  }
}

/** Checks a new run: its file contains the due payouts, and a later run is empty. */
async function takeRun(
  history: History,
  run: number,
  due: ReturnType<Model['payable']>,
  writesFile: boolean,
): Promise<void> {
  const { db, service, pool } = history.world
  const file = writesFile ? await fileOf(history, run) : []
  if (writesFile) {
    history.expect(
      `the file of payout run ${run}`,
      file.map(({ amount }) => amount),
      due.map(({ amount }) => amount),
    )
  }
  const { rows } = await patiently(() =>
    pool.query<{ id: string }>('select id from payouts where program_id = $1 and payout_run_id = $2 order by id', [
      history.program.programId,
      run,
    ]),
  )
  for (const [index, payment] of due.entries()) {
    const id = Number(rows[index]?.id)
    history.model.payouts.push({ ...payment, id, status: writesFile ? 'sent' : 'in_run', run })
  }
  history.runs.push(run)
  const again = await history.world.settle(async () => ({
    run: await service.createPayoutRun(db, history.program.programId, crypto.randomUUID()),
  }))
  history.expect(`a payout run after run ${run}`, again, { run: null })
}

/** Pays the payments of a run. Half of the histories write its file first. */
export function payRun(history: History): Step | undefined {
  const run = history.random.pick(history.runs)
  if (run === undefined) return undefined
  const writesFile = history.random.chance(0.5)
  return {
    touches: [],
    alone: true,
    run: async () => {
      const { db, service } = history.world
      const open = history.model.openOf(run).map(({ id, amount }) => ({ id, amount }))
      if (writesFile && !history.model.paidRuns.has(run)) {
        history.expect(`the file of payout run ${run}`, await fileOf(history, run), open)
        for (const payout of history.model.openOf(run)) payout.status = 'sent'
      }
      const cents = open.reduce((sum, { amount }) => sum + amount, 0)
      const { answers } = await history.act(async () => {
        await service.payPayoutRun(db, history.program.programId, run, transfer, cents)
      })
      history.model.payRun(run)
      for (const answer of answers) history.expect(`payment of run ${run}`, answer, { ok: true })
    },
  }
}

/** Counts clicks for all programs, as the scheduled function does. This must not change the result of reads. */
export function countClicks(history: History): Step {
  const limit = history.random.integer(1, 40)
  return {
    touches: [],
    run: async () => {
      await history.act(() => history.world.service.countClicks(history.world.db, limit))
      await history.act(() => history.world.service.countFigures(history.world.db, limit))
    },
  }
}

/**
 * Changes the rules of everybody or of a partner during sales. The rules have no caps, because concurrent sales under a
 * cap depend on the order.
 */
export function changeRules(history: History): Step {
  const holder = history.random.pick(['everybody', 'partner 0', 'partner 1'] as const) ?? 'everybody'
  const types = holder === 'everybody' ? (['payment'] as const) : ([null, 'payment'] as const)
  const rules = types
    .filter(() => history.random.chance(0.6))
    .map((sale_type) => ({
      sale_type,
      commission_bp: history.random.pick([0, 335, 5000, 10_000]) ?? 0,
      commission_fixed_cents: history.random.pick([0, 0, 250]) ?? 0,
    }))
  return {
    touches: ['rules'],
    run: async () => {
      const { db, service } = history.world
      const { programId, partnerIds } = history.program
      history.possibleRules.push(new Map(history.model.rules).set(holder, rules))
      history.model.rules.set(holder, rules)
      const of = holder === 'everybody' ? holder : { partnerId: partnerIds[holder === 'partner 0' ? 0 : 1] ?? 0 }
      const { answers } = await history.act(async () => void (await service.saveRules(db, programId, of, rules)))
      for (const answer of answers) history.expect(`rules of ${holder}`, answer, { ok: true })
    },
  }
}

/** The fields of `found` that `expected` also has. */
function pickLike(found: object | undefined, expected: object): object {
  return Object.fromEntries(Object.entries(found ?? {}).filter(([name]) => name in expected))
}
