import { shownHost } from '../../../lib/hosts.ts'
import { formatMoney } from '../../../lib/money.ts'
import type { PartnerBalance } from '../../../lib/money/balances.ts'
import { earningsByDay } from '../../../lib/money/commission-list.ts'
import { termsOfPartner } from '../../../lib/programs/commission-rules.ts'
import { isPageOf, linkAddress } from '../../../lib/programs/links.ts'
import type { ProgramOfPartner } from '../../../lib/programs/partnerships.ts'
import { cut } from '../components/address.ts'
import { Card, Copy, Metric, QrCode } from '../components/blocks.tsx'
import { Chart } from '../components/chart.tsx'
import { Field, Hidden } from '../components/fields.tsx'
import { Day, formatAxis } from '../components/format.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { Pager } from '../components/list.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { type ProgramMoney, readMoney } from './money.ts'

/** A partner's start page: the link, the balance and the earnings in each program. */
export const pages = createPages()

const chartDays = 30

pages.get('/partner', requirePartner, async (c) => {
  const page = await readMoney(c)
  const currency = page.rows[0]?.program.currency ?? 'usd'
  const days = await earningsByDay(c.get('db'), c.get('viewer').user.id, currency, chartDays)
  const typed = { program: c.req.query('program') ?? '', page: cut((c.req.query('page') ?? '').trim(), 2048) }
  const payoutEmail = c.get('partner').payoutEmail ?? c.get('viewer').user.email
  return c.render(
    <PartnerPage
      title="Earnings"
      current=""
      lead="Commissions are pending during their hold period. After that you can request a payout."
    >
      {page.rows.map((money) => (
        <section class="stack" aria-label={money.program.name}>
          <h2>{money.program.name}</h2>
          <div class="halves">
            <YourLink program={money.program} typed={typed} />
            <YourMoney {...money} payoutEmail={payoutEmail} />
          </div>
        </section>
      ))}
      <Pager {...page} />
      <Card title={`Earned in the last ${chartDays} days`}>
        <Chart
          title="Earnings"
          interval="day"
          format={(value) => formatMoney(value, currency)}
          formatShort={(value) => formatAxis(value, currency)}
          points={days.map(({ date, amount_cents: value }, index) => ({
            start: new Date(date),
            value,
            isOpen: index === days.length - 1,
          }))}
        />
      </Card>
      {days.every(({ amount_cents: cents }) => cents === 0) && (
        <p class="muted">
          You didn't earn anything in this period. Share one of your <a href="/partner/links">links</a> with your
          audience.
        </p>
      )}
    </PartnerPage>,
  )
})

interface YourLinkProps {
  program: ProgramOfPartner
  /** The submitted form for a link to a page. */
  typed: { program: string; page: string }
}

/** The partner's first link, with a form for a link to any page of the program's site. */
function YourLink({ program, typed }: YourLinkProps) {
  const link = program.links.find(({ is_active: isActive }) => isActive)
  if (!link) {
    return (
      <Card title="Your link">
        <p class="muted">
          You don't have a working link. See <a href="/partner/links">links</a>.
        </p>
      </Card>
    )
  }
  const address = linkAddress(program.domain, link.code, link.page_url)
  const host = shownHost(program.domain)
  const isTyped = typed.program === String(program.id) && typed.page !== ''
  const isPage = isTyped && isPageOf(typed.page, program.domain)
  return (
    <Card title="Your link" aside={<a href="/partner/links">All links</a>}>
      <Copy text={address} label={`link with the code ${link.code}`} isPrimary />
      <div class="row">
        <button type="button" class="share" data-share={address} hidden>
          Share
        </button>
        <details class="more">
          <summary>QR code</summary>
          <QrCode text={address} label="QR code of your link" />
        </details>
      </div>
      <p class="muted small">
        {termsOfPartner(program, program.rules).join('. ')}. Every visitor who follows this link is attributed to you.
      </p>
      <form method="get" action="/partner" class="row end">
        <Hidden fields={{ program: String(program.id) }} />
        <Field
          name="page"
          id={`page-${program.id}`}
          label="Link to any page"
          type="url"
          inputmode="url"
          value={isTyped ? typed.page : ''}
          placeholder={`https://${host}/…`}
          required
        />
        <button type="submit">Build link</button>
      </form>
      {isTyped && !isPage && (
        <p class="small bad" role="alert">
          Enter a page of {host}.
        </p>
      )}
      {isPage && <Copy text={linkAddress(program.domain, link.code, typed.page)} label="link to this page" />}
    </Card>
  )
}

/** The balances in a program, with the next credit and the payout address. */
function YourMoney({ program, balances, payoutEmail }: ProgramMoney & { payoutEmail: string }) {
  const next = program.next_credit
  return (
    <Card title="Your balance" aside={<a href="/partner/payouts">Payouts</a>}>
      {balances.map((balance) => (
        <Balance balance={balance} />
      ))}
      <p class="muted small">
        {next && (
          <>
            {formatMoney(next.amount_cents, program.currency)} becomes available on <Day at={next.day} />.{' '}
          </>
        )}
        Payouts go to {payoutEmail}. <a href="/partner/payouts#payout_email">Change</a>
      </p>
    </Card>
  )
}

/** The amounts of a balance in one currency. */
export function Balance({ balance }: { balance: PartnerBalance }) {
  const parts: [label: string, cents: number, tone: string][] = [
    ['Pending', balance.pending_cents, 'pending'],
    ['Available', balance.available_cents, 'available'],
    ['In open payouts', balance.requested_cents, 'open'],
    ['Paid', balance.paid_cents, 'paid'],
  ]
  const all = parts.reduce((sum, [, cents]) => sum + Math.max(cents, 0), 0)
  const figures = parts.map(([label, cents]) => [label, cents] as const)
  if (balance.balance_cents < 0) figures.push(['Owed after reversals and deductions', balance.balance_cents])
  let end = 0
  return (
    <div class="stack tight">
      {all > 0 && (
        <svg class="money-bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
          {parts.map(([, cents, tone]) => {
            const [x, width] = [end, (Math.max(cents, 0) / all) * 100]
            end += width
            return <rect class={tone} x={x.toFixed(2)} width={width.toFixed(2)} height="1" />
          })}
        </svg>
      )}
      <dl class="cards more">
        {figures.map(([label, cents]) => (
          <Metric label={label} value={formatMoney(cents, balance.currency)} bad={cents < 0} />
        ))}
      </dl>
    </div>
  )
}
