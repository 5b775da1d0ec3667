import { formatMoney } from '../../../lib/money.ts'
import type { PartnerBalance } from '../../../lib/money/balances.ts'
import { earningsByDay } from '../../../lib/money/commission-list.ts'
import { Card, Metric } from '../components/blocks.tsx'
import { Chart } from '../components/chart.tsx'
import { formatAxis } from '../components/format.tsx'
import { PartnerPage } from '../components/layout.tsx'
import { Pager } from '../components/list.tsx'
import { createPages, requirePartner } from '../components/page.ts'
import { readMoney } from './money.ts'

/** A partner's earnings and available balances in their programs. */
export const pages = createPages()

const chartDays = 30

pages.get('/partner', requirePartner, async (c) => {
  const page = await readMoney(c)
  const currency = page.rows[0]?.program.currency ?? 'usd'
  const days = await earningsByDay(c.get('db'), c.get('viewer').user.id, currency, chartDays)
  return c.render(
    <PartnerPage
      title="Earnings"
      current=""
      lead="Commissions are pending during their hold period. After that you can request a payout."
    >
      {page.rows.map(({ program, balances }) => (
        <section class="stack">
          <h2>{program.name}</h2>
          {balances.map((balance) => (
            <Balance balance={balance} />
          ))}
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
          Nothing earned in this period. Share one of your <a href="/partner/links">links</a> with your audience.
        </p>
      )}
    </PartnerPage>,
  )
})

function Balance({ balance }: { balance: PartnerBalance }) {
  const figures: [label: string, cents: number][] = [
    ['Pending', balance.pending_cents],
    ['Available', balance.available_cents],
    ['In open payouts', balance.requested_cents],
    ['Paid', balance.paid_cents],
  ]
  if (balance.balance_cents < 0) figures.push(['Owed after reversals and deductions', balance.balance_cents])
  return (
    <dl class="cards">
      {figures.map(([label, cents]) => (
        <Metric label={label} value={formatMoney(cents, balance.currency)} bad={cents < 0} />
      ))}
    </dl>
  )
}
