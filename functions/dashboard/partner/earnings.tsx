import { shownHost } from '../../../lib/hosts.ts'
import { languages } from '../../../lib/languages.ts'
import type { PartnerBalance } from '../../../lib/money/balances.ts'
import { earningsByDay } from '../../../lib/money/commission-list.ts'
import { termsOfPartner } from '../../../lib/programs/commission-rules.ts'
import { isPageOf, linkAddress } from '../../../lib/programs/links.ts'
import type { ProgramOfPartner } from '../../../lib/programs/partnerships.ts'
import { cut } from '../components/address.ts'
import { Card, Copy, Metric, QrCode } from '../components/blocks.tsx'
import { Chart } from '../components/chart.tsx'
import { Field, Hidden } from '../components/fields.tsx'
import { Day, formatAxis, isolated } from '../components/format.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { Pager } from '../components/list.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { Text, useTexts } from '../components/text.tsx'
import { type ProgramMoney, readMoney } from './money.ts'

/** A partner's start page, with the link, the balance and the earnings in each program. */
export const pages = createPages()

const chartDays = 30

pages.get('/partner', requirePartner, async (c) => {
  const [page, days] = await Promise.all([readMoney(c), earningsByDay(c.get('db'), c.get('viewer').user.id, chartDays)])
  const { t, money, language } = c.get('texts')
  const currency = days[0]?.currency ?? 'usd'
  const typed = { program: c.req.query('program') ?? '', page: cut((c.req.query('page') ?? '').trim(), 2048) }
  const payoutEmail = c.get('partner').payoutEmail ?? c.get('viewer').user.email
  return c.render(
    <PartnerPage
      title={t('Earnings')}
      current=""
      lead={t('Commissions are pending during their hold period. After that you can request a payout.')}
    >
      {page.rows.map((held) => (
        <section class="stack" aria-label={held.program.name}>
          <h2>{held.program.name}</h2>
          <div class="halves">
            <YourLink program={held.program} typed={typed} />
            {hasMoney(held) ? (
              <YourMoney {...held} payoutEmail={payoutEmail} />
            ) : (
              <FirstSteps {...held} payoutEmail={payoutEmail} />
            )}
          </div>
        </section>
      ))}
      <Pager {...page} />
      {page.rows.some(hasMoney) && (
        <Card title={t('Earned in the last {days} days', { days: chartDays })}>
          <Chart
            title={t('Earnings')}
            interval="day"
            format={(value) => money(value, currency)}
            formatShort={(value) => formatAxis(value, currency, languages[language].locale)}
            points={days.map(({ date, amount_cents: value }, index) => ({
              start: new Date(date),
              value,
              isOpen: index === days.length - 1,
            }))}
          />
        </Card>
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
  const texts = useTexts()
  const { t } = texts
  const link = program.links.find(({ is_active: isActive }) => isActive)
  if (!link) {
    return (
      <Card title={t('Your link')}>
        <p class="muted">
          <Text
            of="You don't have a working link. See <a>links</a>."
            a={(text) => <a href="/partner/links">{text}</a>}
          />
        </p>
      </Card>
    )
  }
  const address = linkAddress(program.domain, link.code, link.page_url)
  const host = shownHost(program.domain)
  const isTyped = typed.program === String(program.id) && typed.page !== ''
  const isPage = isTyped && isPageOf(typed.page, program.domain)
  return (
    <Card title={t('Your link')} aside={<a href="/partner/links">{t('All links')}</a>}>
      <Copy text={address} label={t('link with the code {code}', { code: link.code })} isPrimary />
      <div class="row">
        <button type="button" class="share" data-share={address} hidden>
          {t('Share')}
        </button>
        <details class="more">
          <summary>{t('QR code')}</summary>
          <QrCode text={address} label={t('QR code of your link')} />
        </details>
      </div>
      <p class="muted small">
        {termsOfPartner(program, program.rules, texts).join('. ')}.{' '}
        {t('Every visitor who follows this link is attributed to you.')}
      </p>
      <form method="get" action="/partner" class="row end">
        <Hidden fields={{ program: String(program.id) }} />
        <Field
          name="page"
          id={`page-${program.id}`}
          label={t('Link to any page')}
          type="url"
          inputmode="url"
          value={isTyped ? typed.page : ''}
          placeholder={`https://${host}/…`}
          required
        />
        <button type="submit">{t('Build link')}</button>
      </form>
      {isTyped && !isPage && (
        <p class="small bad" role="alert">
          {t('Enter a page of {host}.', { host })}
        </p>
      )}
      {isPage && <Copy text={linkAddress(program.domain, link.code, typed.page)} label={t('link to this page')} />}
    </Card>
  )
}

/** Whether the partner ever earned or owed anything in the program. */
const hasMoney = ({ balances, program }: ProgramMoney) =>
  program.next_credit !== null ||
  balances.some((balance) => [balance.pending_cents, balance.balance_cents, balance.paid_cents].some(Boolean))

type MoneyProps = ProgramMoney & { payoutEmail: string }

/** Explains to a new partner how a link becomes a payout. */
function FirstSteps({ program, payoutEmail }: MoneyProps) {
  const texts = useTexts()
  const { t, money } = texts
  const { cookie_window_days: window, hold_days: hold, minimum_payout_cents: minimum, currency } = program
  return (
    <Card title={t('How it works')}>
      <ol class="steps">
        <li>
          <span>
            {t('Share your link in a post, a video or an e-mail. A visitor counts as yours for {count} days.', {
              count: window,
            })}
          </span>
        </li>
        <li>
          <span>
            {t('Your visitor buys, and you earn. {terms}.', {
              terms: termsOfPartner(program, program.rules, texts).join('. '),
            })}
          </span>
        </li>
        <li>
          <span>
            {hold === 0
              ? t('The commission is available at once.')
              : t('The commission stays pending for {count} days, in case the buyer gets a refund.', { count: hold })}
          </span>
        </li>
        <li>
          <span>
            {minimum > 0
              ? t('{program} pays you at {email}, from {amount} on.', {
                  program: isolated(program.name),
                  email: payoutEmail,
                  amount: money(minimum, currency),
                })
              : t('{program} pays you at {email}.', { program: isolated(program.name), email: payoutEmail })}{' '}
            <ChangeAddress />
          </span>
        </li>
      </ol>
    </Card>
  )
}

const ChangeAddress = () => <a href="/partner/payouts#payout_email">{useTexts().t('Change')}</a>

/** The balances in a program, with the next payout and its destination. */
function YourMoney({ program, balances, payoutEmail }: MoneyProps) {
  const { t, money } = useTexts()
  const last = program.last_payout
  return (
    <Card title={t('Your balance')} aside={<a href="/partner/payouts">{t('Payouts')}</a>}>
      {balances.map((balance) => (
        <Balance balance={balance} />
      ))}
      <dl class="stack tight small">
        <div>
          <dt class="muted">{t('Next payout')}</dt>
          <dd>
            <NextPayout program={program} availableCents={balances[0]?.available_cents ?? 0} />
          </dd>
        </div>
        <div>
          <dt class="muted">{t('Paid to')}</dt>
          <dd>
            {payoutEmail} <ChangeAddress />
          </dd>
        </div>
        {last && (
          <div>
            <dt class="muted">{t('Last payout')}</dt>
            <dd>
              <Text
                of="{amount} on {day}"
                amount={money(last.amount_cents, program.currency)}
                day={<Day at={last.day} />}
              />
            </dd>
          </div>
        )}
      </dl>
    </Card>
  )
}

/** When the program pays next, as far as it is known: people start payout runs, so no day is fixed in advance. */
function NextPayout({ program, availableCents }: Pick<ProgramMoney, 'program'> & { availableCents: number }) {
  const { open_payout: open, next_credit: credit, minimum_payout_cents: minimum, currency } = program
  const { t, money } = useTexts()
  if (open) {
    const parts = { amount: money(open.amount_cents, currency), day: <Day at={open.since} /> }
    return open.status === 'sent' || open.status === 'unclaimed' ? (
      <Text of="{amount} is on its way since {day}." {...parts} />
    ) : (
      <Text of="{amount}, requested on {day}. The program transfers it manually." {...parts} />
    )
  }
  if (availableCents > 0 && availableCents >= minimum) {
    return (
      <Text
        of="{amount} with the next payout run. Programs start runs manually, so no day is fixed. You can also <a>request it now</a>."
        amount={money(availableCents, currency)}
        a={(text) => <a href="/partner/payouts">{text}</a>}
      />
    )
  }
  return (
    <>
      {credit ? (
        <Text
          of="After {day}, when {amount} becomes available."
          amount={money(credit.amount_cents, currency)}
          day={<Day at={credit.day} />}
        />
      ) : (
        t('Nothing is due.')
      )}{' '}
      {minimum > 0 && t('Payouts start at {amount}.', { amount: money(minimum, currency) })}
    </>
  )
}

/** The amounts of a balance in one currency. */
export function Balance({ balance }: { balance: PartnerBalance }) {
  const { t, money } = useTexts()
  const parts: [label: string, cents: number, tone: string][] = [
    [t('Pending'), balance.pending_cents, 'pending'],
    [t('Available'), balance.available_cents, 'available'],
    [t('In open payouts'), balance.requested_cents, 'open'],
    [t('Paid'), balance.paid_cents, 'paid'],
  ]
  const all = parts.reduce((sum, [, cents]) => sum + Math.max(cents, 0), 0)
  const figures = parts.map(([label, cents]) => [label, cents] as const)
  if (balance.balance_cents < 0) figures.push([t('Owed after reversals and deductions'), balance.balance_cents])
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
          <Metric label={label} value={money(cents, balance.currency)} bad={cents < 0} />
        ))}
      </dl>
    </div>
  )
}
