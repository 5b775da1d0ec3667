import * as z from 'zod/mini'
import type { Viewer } from '../../../lib/access/viewer.ts'
import { type PartnerBalance, readBalances } from '../../../lib/money/balances.ts'
import { commissionStatuses, earningsByDay, listCommissions } from '../../../lib/money/commission-list.ts'
import { toCsv } from '../../../lib/csv.ts'
import { ApiError } from '../../../lib/errors.ts'
import { listInbox, markInboxRead } from '../../../lib/notifications/notification-list.ts'
import { formatMoney, majorUnits } from '../../../lib/money.ts'
import { addLink, isPageOf, linkAddress } from '../../../lib/programs/links.ts'
import { listProgramsOfPartner, type ProgramOfPartner, setPayoutEmail } from '../../../lib/programs/partners.ts'
import { askWithdrawal, listWithdrawals } from '../../../lib/money/withdrawals.ts'
import { BarChart } from '../parts/chart.tsx'
import { CommissionAmount, CommissionCause, CommissionState, statusNames } from '../parts/commission-parts.tsx'
import { renderPartner } from '../parts/layout.tsx'
import { inboxCsv, InboxTable } from '../program/notices.tsx'
import {
  addressOf,
  createPages,
  csvResponse,
  emptyForm,
  fieldErrors,
  flash,
  type FormState,
  type PageContext,
  positiveInteger,
  readForm,
  requirePartner,
} from '../parts/page.ts'
import {
  Card,
  Copy,
  Day,
  Empty,
  Field,
  formatDate,
  formatNumber,
  Heading,
  Pager,
  Problem,
  Segments,
  Table,
  formatAmount,
} from '../parts/parts.tsx'
import { smallestUnits } from '../parts/program-form.tsx'
import { WithdrawalAmount, WithdrawalState } from '../program/withdrawals.tsx'

/** A partner's own pages: everything is read by the partner account tied to the signed-in user. */
export const partnerPages = createPages()

type PartnerContext = PageContext<{ viewer: Viewer; partner: NonNullable<Viewer['partner']> }>

const pageSize = 50
const csvRows = 10_000
const chartDays = 30

interface ProgramMoney {
  program: ProgramOfPartner
  balances: PartnerBalance[]
}

/** The partner's programs with the money in each, that in the program's own currency first. */
async function moneyOf(c: PartnerContext): Promise<ProgramMoney[]> {
  const db = c.get('db')
  const partner = c.get('partner')
  const programs = await listProgramsOfPartner(db, partner.id)
  return await Promise.all(
    programs.map(async (program) => {
      const balances = await readBalances(db, program.id, partner.id)
      const none = {
        currency: program.currency,
        pending_cents: 0,
        balance_cents: 0,
        requested_cents: 0,
        available_cents: 0,
        paid_cents: 0,
      }
      const own = balances.filter(({ currency }) => currency === program.currency)
      const others = balances.filter(({ currency }) => currency !== program.currency)
      return { program, balances: [own[0] ?? none, ...others] }
    }),
  )
}

partnerPages.get('/partner', requirePartner, async (c) => {
  const money = await moneyOf(c)
  const currency = money[0]?.program.currency ?? 'usd'
  const days = await earningsByDay(c.get('db'), c.get('partner').id, currency, chartDays)
  return renderPartner(c, {
    title: 'Earnings',
    current: '',
    children: (
      <>
        <Heading
          title="Earnings"
          lead="Commissions are pending while their hold lasts, then they are yours to withdraw."
        />
        {money.map(({ program, balances }) => (
          <section class="stack">
            <h2>{program.name}</h2>
            {balances.map((balance) => (
              <dl class="cards">
                <Amount label="Pending" cents={balance.pending_cents} currency={balance.currency} />
                <Amount label="Available" cents={balance.available_cents} currency={balance.currency} />
                <Amount label="In withdrawals" cents={balance.requested_cents} currency={balance.currency} />
                <Amount label="Paid" cents={balance.paid_cents} currency={balance.currency} />
                {balance.balance_cents < 0 && (
                  <Amount label="Owed after reversals" cents={balance.balance_cents} currency={balance.currency} />
                )}
              </dl>
            ))}
          </section>
        ))}
        <Card title={`Earned in the last ${chartDays} days`}>
          <BarChart
            title="Earned"
            format={(value) => formatAmount(majorUnits(value, currency), currency, 'short')}
            bars={days.map(({ date, amount_cents: cents }) => ({
              label: formatDate(date),
              value: cents,
              text: formatMoney(cents, currency),
            }))}
          />
        </Card>
        {days.every(({ amount_cents: cents }) => cents === 0) && (
          <p class="muted">
            Nothing earned in these days. Put one of your <a href="/partner/links">links</a> where people read you.
          </p>
        )}
      </>
    ),
  })
})

function Amount({ label, cents, currency }: { label: string; cents: number; currency: string }) {
  return (
    <div class="card metric">
      <dt>{label}</dt>
      <dd class={cents < 0 ? 'value bad' : 'value'}>{formatMoney(cents, currency)}</dd>
    </div>
  )
}

async function renderLinks(c: PartnerContext, form: FormState, status: 200 | 400 | 409 = 200) {
  const programs = await listProgramsOfPartner(c.get('db'), c.get('partner').id)
  const open = programs.filter(({ is_active: active }) => active)
  return renderPartner(c, {
    title: 'Links',
    current: '/links',
    status,
    children: (
      <>
        <Heading title="Links" lead="Every visitor who comes through one of these counts as yours." />
        {programs.map((program) => (
          <Card
            title={program.name}
            aside={<span class="muted small">{formatNumber(program.commission_bp / 100)} % of each sale</span>}
          >
            {!program.is_active && (
              <p class="notice warn">This program has switched you off: clicks on your links are refused.</p>
            )}
            {program.links.map(({ code, page_url: pageUrl, clicks }) => (
              <div class="stack tight">
                <Copy text={linkAddress(program.domain, code, pageUrl)} label={`link with the code ${code}`} />
                <p class="muted small">{formatNumber(clicks)} clicks</p>
              </div>
            ))}
            {program.links.length === 0 && <p class="muted">No link yet. Make one below.</p>}
          </Card>
        ))}
        {open.length > 0 && (
          <Card title="Make another link">
            <form method="post" action="/partner/links" class="stack">
              <Problem form={form} />
              <div class="fields">
                <Field
                  name="program"
                  label="Program"
                  options={open.map(({ id, name }) => [String(id), name] as const)}
                  form={form}
                />
                <Field
                  name="page"
                  label="Page it opens"
                  type="url"
                  inputmode="url"
                  placeholder={`https://${open[0]?.domain ?? ''}/…`}
                  hint="A page of the program's site. Empty: its start page."
                  form={form}
                />
                <Field name="code" label="Code" hint="Letters, digits and . _ @ - only." form={form} required />
              </div>
              <div class="row">
                <button type="submit" class="primary">
                  Make the link
                </button>
              </div>
            </form>
          </Card>
        )}
      </>
    ),
  })
}

partnerPages.get('/partner/links', requirePartner, (c) => renderLinks(c, emptyForm))

const linkForm = z.object({
  program: z.string(),
  page: z.string().check(z.trim(), z.maxLength(2048)),
  code: z
    .string()
    .check(z.trim(), z.regex(/^[A-Za-z0-9._@-]{1,64}$/, 'Use letters, digits and . _ @ - only, 64 at most.')),
})

partnerPages.post('/partner/links', requirePartner, async (c) => {
  const values = await readForm(c)
  const partner = c.get('partner')
  const parsed = linkForm.safeParse(values)
  if (!parsed.success) return renderLinks(c, { values, errors: fieldErrors(parsed.error.issues) }, 400)
  const { page, code } = parsed.data
  const programs = await listProgramsOfPartner(c.get('db'), partner.id)
  const program = programs.find(({ id, is_active: active }) => active && String(id) === parsed.data.program)
  if (!program) throw new ApiError('forbidden', 'Choose one of your programs.')
  if (page !== '' && !isPageOf(page, program.domain)) {
    return renderLinks(c, { values, errors: { page: `Enter a page of ${program.domain}.` } }, 400)
  }
  try {
    const pageUrl = page === '' ? null : page
    await addLink(c.get('db'), { programId: program.id, partnerId: partner.id, code, pageUrl })
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'conflict') throw error
    return renderLinks(c, { values, errors: { code: error.message } }, 409)
  }
  flash(c, 'good', 'The link is ready.')
  return c.redirect('/partner/links', 303)
})

partnerPages.get('/partner/commissions', requirePartner, async (c) => {
  const partner = c.get('partner')
  const status = commissionStatuses.find((value) => value === c.req.query('status'))
  const before = positiveInteger(c.req.query('before'))
  const rows = await listCommissions(c.get('db'), { partnerId: partner.id }, { limit: pageSize + 1, before, status })
  const commissions = rows.slice(0, pageSize)
  const last = rows.length > pageSize ? commissions.at(-1) : undefined
  const base = '/partner/commissions'
  return renderPartner(c, {
    title: 'Commissions',
    current: '/commissions',
    children: (
      <>
        <Heading title="Commissions" lead="What each sale earned you, and what became of it.">
          <Segments
            label="State"
            items={[undefined, ...commissionStatuses].map((value) => ({
              href: addressOf(base, { status: value }),
              text: value ? statusNames[value] : 'All',
              current: value === status,
            }))}
          />
          {commissions.length > 0 && (
            <a class="button" href={`${base}.csv`}>
              Export CSV
            </a>
          )}
        </Heading>
        <Card>
          {commissions.length === 0 ? (
            <Empty title={status ? 'None in this state' : 'No commissions yet'}>
              <p>
                {status ? (
                  <a href={base}>Show all commissions</a>
                ) : (
                  <>
                    The first sale that comes through one of your <a href="/partner/links">links</a> stands here.
                  </>
                )}
              </p>
            </Empty>
          ) : (
            <>
              <Table
                caption="Your commissions, newest first"
                rows={commissions}
                columns={[
                  { label: 'Made', cell: ({ created_at: at }) => <Day at={at} /> },
                  { label: 'For', cell: (commission) => <CommissionCause commission={commission} /> },
                  { label: 'State', cell: (commission) => <CommissionState commission={commission} /> },
                  {
                    label: 'Commission',
                    right: true,
                    cell: (commission) => <CommissionAmount commission={commission} />,
                  },
                ]}
              />
              <Pager
                newer={before === undefined ? undefined : addressOf(base, { status })}
                older={last && addressOf(base, { status, before: String(last.id) })}
              />
            </>
          )}
        </Card>
      </>
    ),
  })
})

partnerPages.get('/partner/commissions.csv', requirePartner, async (c) => {
  const commissions = await listCommissions(c.get('db'), { partnerId: c.get('partner').id }, { limit: csvRows })
  const columns = [
    'id',
    'made',
    'kind',
    'transaction_id',
    'status',
    'currency',
    'amount',
    'reversed',
    'reason',
  ] as const
  const rows = commissions.map((commission) => ({
    id: commission.id,
    made: commission.created_at,
    kind: commission.kind,
    transaction_id: commission.transaction_id,
    status: commission.status,
    currency: commission.currency,
    amount: majorUnits(commission.amount_cents, commission.currency),
    reversed: majorUnits(commission.reversed_cents, commission.currency),
    reason: commission.reason,
  }))
  return csvResponse(c, 'commissions', toCsv(columns, rows))
})

/** The partner's withdrawals in all programs, the newest first, `limit` of each program at most. */
async function withdrawalsOf(c: PartnerContext, programs: ProgramOfPartner[], limit: number) {
  const options = { limit, partnerId: c.get('partner').id }
  const lists = await Promise.all(
    programs.map(async (program) => {
      const withdrawals = await listWithdrawals(c.get('db'), program.id, options)
      return withdrawals.map((withdrawal) => ({ ...withdrawal, program }))
    }),
  )
  return lists.flat().toSorted((a, b) => b.created_at.getTime() - a.created_at.getTime())
}

async function renderWithdrawals(c: PartnerContext, form: FormState, status: 200 | 400 | 409 = 200) {
  const partner = c.get('partner')
  const money = await moneyOf(c)
  const programs = money.map(({ program }) => program)
  const withdrawals = await withdrawalsOf(c, programs, pageSize)
  const available = money.flatMap(({ program, balances }) =>
    balances.filter((balance) => balance.available_cents > 0).map((balance) => ({ program, ...balance })),
  )
  return renderPartner(c, {
    title: 'Withdrawals',
    current: '/withdrawals',
    status,
    children: (
      <>
        <Heading
          title="Withdrawals"
          lead="Ask for what is available. The advertiser transfers it and marks it as paid."
        >
          {withdrawals.length > 0 && (
            <a class="button" href="/partner/withdrawals.csv">
              Export CSV
            </a>
          )}
        </Heading>
        <Card title="Ask for a withdrawal">
          {available.length === 0 ? (
            <p class="muted">
              Nothing is available now. Commissions become available when their hold ends: see{' '}
              <a href="/partner">earnings</a>.
            </p>
          ) : (
            <form method="post" action="/partner/withdrawals" class="stack">
              <input type="hidden" name="request_id" value={crypto.randomUUID()} />
              <Problem form={form} />
              <div class="fields">
                <Field
                  name="balance"
                  label="From"
                  options={available.map(
                    ({ program, currency, available_cents: cents }) =>
                      [
                        `${program.id} ${currency}`,
                        `${program.name}: ${formatMoney(cents, currency)} available`,
                      ] as const,
                  )}
                  form={form}
                />
                <Field
                  name="amount"
                  label="Amount"
                  inputmode="decimal"
                  value={String(majorUnits(available[0]?.available_cents ?? 0, available[0]?.currency ?? 'usd'))}
                  form={form}
                  required
                />
              </div>
              <div class="row">
                <button type="submit" class="primary">
                  Ask for it
                </button>
              </div>
            </form>
          )}
        </Card>
        <Card title="Where to pay you">
          <form method="post" action="/partner/payout" class="row end">
            <Field
              name="payout_email"
              label="Payout address"
              type="email"
              value={partner.payoutEmail ?? ''}
              form={form}
              required
            />
            <button type="submit">Save</button>
          </form>
        </Card>
        <Card title="Your withdrawals">
          {withdrawals.length === 0 ? (
            <Empty title="None yet">
              <p>What you ask for stands here, with its state, until it is paid and after.</p>
            </Empty>
          ) : (
            <Table
              caption="Your withdrawals, newest first"
              rows={withdrawals}
              columns={[
                { label: 'Asked', cell: ({ created_at: at }) => <Day at={at} /> },
                { label: 'Program', cell: ({ program }) => program.name },
                { label: 'State', cell: (withdrawal) => <WithdrawalState withdrawal={withdrawal} /> },
                { label: 'Amount', right: true, cell: (withdrawal) => <WithdrawalAmount withdrawal={withdrawal} /> },
              ]}
            />
          )}
        </Card>
      </>
    ),
  })
}

partnerPages.get('/partner/withdrawals', requirePartner, (c) => renderWithdrawals(c, emptyForm))

partnerPages.get('/partner/withdrawals.csv', requirePartner, async (c) => {
  const programs = await listProgramsOfPartner(c.get('db'), c.get('partner').id)
  const withdrawals = await withdrawalsOf(c, programs, csvRows)
  const columns = ['id', 'asked', 'program', 'status', 'currency', 'amount', 'requested', 'decided', 'reason'] as const
  const rows = withdrawals.map((withdrawal) => ({
    id: withdrawal.id,
    asked: withdrawal.created_at,
    program: withdrawal.program.name,
    status: withdrawal.status,
    currency: withdrawal.currency,
    amount: majorUnits(withdrawal.amount_cents, withdrawal.currency),
    requested: majorUnits(withdrawal.requested_cents, withdrawal.currency),
    decided: withdrawal.decided_at,
    reason: withdrawal.reason,
  }))
  return csvResponse(c, 'withdrawals', toCsv(columns, rows))
})

const withdrawalForm = z.object({ balance: z.string(), amount: z.string(), request_id: z.uuid() })

partnerPages.post('/partner/withdrawals', requirePartner, async (c) => {
  const values = await readForm(c)
  const parsed = withdrawalForm.safeParse(values)
  if (!parsed.success) throw new ApiError('invalid_request', 'Load the page again, then ask for the withdrawal.')
  const [programText, currency = ''] = parsed.data.balance.split(' ')
  const money = await moneyOf(c)
  const own = money.find(({ program }) => String(program.id) === programText)
  const balance = own?.balances.find((candidate) => candidate.currency === currency)
  if (!own || !balance) throw new ApiError('forbidden', 'Choose one of your balances.')
  const amountCents = smallestUnits(parsed.data.amount, currency)
  if (!(amountCents > 0)) {
    return renderWithdrawals(c, { values, errors: { amount: 'Enter an amount above zero.' } }, 400)
  }
  try {
    await askWithdrawal(c.get('db'), {
      programId: own.program.id,
      partnerId: c.get('partner').id,
      currency,
      amountCents,
      requestId: parsed.data.request_id,
    })
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'conflict') throw error
    return renderWithdrawals(c, { values, errors: { amount: error.message } }, 409)
  }
  flash(c, 'good', `You asked for ${formatMoney(amountCents, currency)}.`)
  return c.redirect('/partner/withdrawals', 303)
})

const payoutForm = z.object({
  payout_email: z.string().check(z.trim(), z.maxLength(320), z.email('Enter an e-mail address.')),
})

partnerPages.post('/partner/payout', requirePartner, async (c) => {
  const values = await readForm(c)
  const parsed = payoutForm.safeParse(values)
  if (!parsed.success) return renderWithdrawals(c, { values, errors: fieldErrors(parsed.error.issues) }, 400)
  await setPayoutEmail(c.get('db'), c.get('partner').id, parsed.data.payout_email)
  flash(c, 'good', 'Your payout address is saved.')
  return c.redirect('/partner/withdrawals', 303)
})

partnerPages.get('/partner/notifications', requirePartner, async (c) => {
  const partner = c.get('partner')
  const before = positiveInteger(c.req.query('before'))
  const rows = await listInbox(c.get('db'), { partnerId: partner.id }, c.get('viewer').user.id, {
    limit: pageSize + 1,
    before,
  })
  const items = rows.slice(0, pageSize)
  const last = rows.length > pageSize ? items.at(-1) : undefined
  const base = '/partner/notifications'
  return renderPartner(c, {
    title: 'Notifications',
    current: '/notifications',
    children: (
      <>
        <Heading title="Notifications" lead="What changed in your earnings.">
          {items.length > 0 && (
            <a class="button" href={`${base}.csv`}>
              Export CSV
            </a>
          )}
          {partner.unread > 0 && (
            <form method="post" action={`${base}/read`}>
              <button type="submit">Mark all as read</button>
            </form>
          )}
        </Heading>
        <Card>
          {items.length === 0 ? (
            <Empty title="Nothing yet">
              <p>You are told here when a commission is reversed or a withdrawal is reduced.</p>
            </Empty>
          ) : (
            <>
              <InboxTable items={items} caption="Notifications, newest first" withProgram />
              <Pager newer={before === undefined ? undefined : base} older={last && `${base}?before=${last.id}`} />
            </>
          )}
        </Card>
      </>
    ),
  })
})

partnerPages.get('/partner/notifications.csv', requirePartner, async (c) => {
  const { id: partnerId } = c.get('partner')
  const items = await listInbox(c.get('db'), { partnerId }, c.get('viewer').user.id, { limit: csvRows })
  return csvResponse(c, 'notifications', inboxCsv(items))
})

partnerPages.post('/partner/notifications/read', requirePartner, async (c) => {
  await markInboxRead(c.get('db'), { partnerId: c.get('partner').id }, c.get('viewer').user.id)
  flash(c, 'good', 'All notifications are marked as read.')
  return c.redirect('/partner/notifications', 303)
})
