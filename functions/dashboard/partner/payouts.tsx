import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'
import { listPayoutLines, payoutLineTotals } from '../../../lib/money/payout-lines.ts'
import { askPayout, cancelPayout, type Payout, payoutTotals, payoutsStatement } from '../../../lib/money/payouts.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { mayChangePayoutAddress, mailPayoutAddress } from '../../../lib/programs/payout-address-mails.ts'
import { listProgramBalances, type ProgramBalances, setPayoutAddress } from '../../../lib/programs/partnerships.ts'
import { checkPassword, OwnPassword } from '../account/credentials.tsx'
import { idInPath } from '../components/address.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form, Hidden, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { byId, partnerList } from '../components/list.tsx'
import { isolated } from '../components/format.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import type { Column } from '../components/table.tsx'
import { amountProblem, smallestUnits } from '../components/typed-number.ts'
import { payoutColumns, payoutsCsv } from '../components/payout.tsx'
import { statementList } from '../components/statement.tsx'
import { payoutLineList } from '../components/payout-lines.tsx'
import { type PageTexts, Text, useTexts } from '../components/text.tsx'
import { partnerSaleAddress } from './sale.tsx'
import { moneyIn, programNamed } from './money.ts'

/** The page on which partners request payouts, set their payout address, and see all payouts. */
export const pages = createPages()

const address = '/partner/payouts'

partnerList<Payout, number, ProgramBalances[]>(pages, address, (c) => {
  const of = { userId: c.get('viewer').user.id }
  const { created, state, amount } = payoutColumns
  const { t } = c.get('texts')
  return {
    title: t('Payouts'),
    current: '/payouts',
    rows: (count) => t('{count} payouts', { count }),
    cursor: byId,
    read: (part) => payoutsStatement(of, part),
    totals: () => payoutTotals(of, {}),
    more: () => listProgramBalances(c.get('db'), of.userId),
    show: (_, programs = []) => ({
      lead: t('Request a payout of your available balance. The advertiser transfers it and marks it as paid.'),
      above: (
        <>
          <AskForPayout programs={programs} />
          <PayoutAddress payoutEmail={c.get('partner').payoutEmail ?? c.get('viewer').user.email} />
        </>
      ),
      caption: t('Your payouts, newest first'),
      columns: [
        created,
        { label: 'Payout', cell: ({ id }) => <a href={`${address}/${id}/lines`}>{id}</a> },
        { label: 'Program', cell: ({ program_name: name }) => name, phone: 'title' },
        state,
        amount,
        cancel,
      ],
      empty: {
        title: t('No payouts yet'),
        text: t('The payouts that you request appear here with their state.'),
      },
    }),
    file: () => 'payouts',
    csv: (payouts) => payoutsCsv(payouts, ['program']),
  }
})

partnerList(pages, `${address}/:payoutId/lines`, (c) => {
  const payoutId = idInPath(c, 'payoutId', missing)
  const texts = c.get('texts')
  return payoutLineList({
    title: texts.t('Payout {id}', { id: String(payoutId) }),
    texts,
    current: '/payouts',
    file: `payout-${payoutId}`,
    read: (part) => listPayoutLines(c.get('db'), { userId: c.get('viewer').user.id }, { ...part, payoutId }),
    totals: () => payoutLineTotals({ userId: c.get('viewer').user.id }, { payoutId }),
    saleAddress: partnerSaleAddress,
  })
})

partnerList(pages, `${address}/:programId/statement`, (c) => {
  const programId = idInPath(c, 'programId', 'You are not a partner of this program.')
  return statementList(c.get('db'), c.req.query(), {
    texts: c.get('texts'),
    of: { programId, userId: c.get('viewer').user.id },
    current: '/payouts',
    saleAddress: (transactionId) => partnerSaleAddress({ programId, transactionId }),
  })
})

const cancel: Column<Payout> = {
  cell: (payout) => payout.status === 'requested' && payout.payout_run_id === null && <CancelPayout payout={payout} />,
}

function CancelPayout({ payout }: { payout: Payout }) {
  const { id, program_id: programId, amount_cents: cents, currency } = payout
  const { t, money } = useTexts()
  return (
    <PostButton
      action={`${address}/${programId}/${id}/cancel`}
      class="compact"
      label={t('Cancel the payout of {amount}', { amount: money(cents, currency) })}
      confirm={t('Cancel this payout? The amount stays in your balance.')}
      text={t('Cancel')}
    />
  )
}

function AskForPayout({ programs }: { programs: ProgramBalances[] }) {
  const { t, money } = useTexts()
  const available = programs.flatMap(({ id, name, balances }) =>
    balances.filter((balance) => balance.available_cents > 0).map((balance) => ({ id, name, ...balance })),
  )
  return (
    <Card title={t('Request a payout')}>
      <p class="muted small">
        {t('Monthly statements:')}{' '}
        {programs.map(({ id, name }) => (
          <a href={`${address}/${id}/statement`}>{isolated(name)} </a>
        ))}
      </p>
      {available.length === 0 ? (
        <p class="muted">
          <Text
            of="There is nothing available right now. Commissions become available when their hold period ends. See <a>earnings</a>."
            a={(text) => <a href="/partner">{text}</a>}
          />
        </p>
      ) : (
        <Form action={address} submit={t('Request payout')}>
          <Hidden fields={{ request_id: crypto.randomUUID() }} />
          <Field
            name="balance"
            label={t('From')}
            options={available.map(({ id, name, currency, available_cents: cents }) => [
              `${id} ${currency}`,
              t('{program}: {amount} available', { program: isolated(name), amount: money(cents, currency) }),
            ])}
          />
          <Field
            name="amount"
            label={t('Amount')}
            inputmode="decimal"
            hint={t('Leave empty for the whole available amount.')}
          />
        </Form>
      )}
    </Card>
  )
}

function PayoutAddress({ payoutEmail }: { payoutEmail: string }) {
  const { t } = useTexts()
  return (
    <Card title={t('Payout address')}>
      <Form action="/partner/payout" submit={t('Save the payout address')} primary={false}>
        <Field
          name="payout_email"
          label={t('Payout address')}
          type="email"
          value={payoutEmail}
          hint={t(
            "If you change it, we notify the previous address. If you were paid or requested a payout before, payout runs don't pay you for 24 hours after a change.",
          )}
          required
        />
        <OwnPassword name="payout_password" />
      </Form>
    </Card>
  )
}

const stale = 'Reload the page, then request the payout.'
const askForm = z.object({ balance: z.string(stale), amount: z.string(stale), request_id: z.uuid(stale) })

pages.post(address, requirePartner, form(askForm, address, 'amount'), async (c) => {
  const { balance: chosen, amount, request_id: requestId } = c.req.valid('form')
  const [programText, currency = ''] = chosen.split(' ')
  const own = await programNamed(c, programText)
  const held = own && moneyIn(own).balances.find((balance) => balance.currency === currency)
  if (!held) throw new ApiError('forbidden', 'Choose one of your balances.')
  const texts = c.get('texts')
  const availableCents = Math.max(held.available_cents, 0)
  const amountCents = amount.trim() === '' ? availableCents : smallestUnits(amount, currency)
  if (!(amountCents > 0)) throw new FormRefusal({ amount: askProblem(amount, currency, availableCents, texts) })
  const { id: programId, partner_id: partnerId } = own
  const outbox: RelayMessage[] = []
  await askPayout(c.get('db'), { programId, partnerId, currency, amountCents, requestId }, outbox, texts)
  await sendSoon(c.env, outbox)
  return redirectWith(
    c,
    address,
    texts.t('You requested a payout of {amount}.', { amount: texts.money(amountCents, currency) }),
  )
})

/** The message for an invalid amount, which includes the available amount. */
function askProblem(amount: string, currency: string, availableCents: number, texts: PageTexts): string {
  const { t, money } = texts
  if (availableCents === 0) return t('Nothing is available in {currency} now.', { currency: currency.toUpperCase() })
  const available = t('Up to {amount} is available.', { amount: money(availableCents, currency) })
  return `${amountProblem(amount, currency, texts)} ${available}`
}

const missing = 'You have no such payout.'

pages.post(`${address}/:programId/:payoutId/cancel`, requirePartner, async (c) => {
  const own = await programNamed(c, c.req.param('programId'))
  if (!own) throw new ApiError('not_found', missing)
  await cancelPayout(c.get('db'), own.id, own.partner_id, idInPath(c, 'payoutId', missing))
  return redirectWith(c, address, 'The payout was canceled. The amount is in your balance.')
})

const payoutForm = z.object({
  payout_email: z.string().check(z.trim(), z.maxLength(320), z.email('Enter an e-mail address.')),
  payout_password: optionalText,
})

pages.post('/partner/payout', requirePartner, form(payoutForm, address), async (c) => {
  const { payout_email: payoutEmail, payout_password: password } = c.req.valid('form')
  const { id, email } = c.get('viewer').user
  if (payoutEmail === c.get('partner').payoutEmail)
    return redirectWith(c, address, 'This is already your payout address.')
  await checkPassword(c, 'payout_password', password)
  const db = c.get('db')
  if (!(await mayChangePayoutAddress(db, id)))
    throw new FormRefusal({ payout_email: 'You changed your payout address five times today. Try again tomorrow.' })
  const change = await setPayoutAddress(db, id, payoutEmail)
  c.executionCtx.waitUntil(
    mailPayoutAddress(db, c.env, { ...change, email, payoutEmail, language: c.get('texts').language }),
  )
  return redirectWith(c, address, 'Your payout address was saved.')
})
