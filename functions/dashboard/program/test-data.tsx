import { may } from '../../../lib/access/roles.ts'
import { formatMoney } from '../../../lib/money.ts'
import { clearTestData, readTestFigures, type TestFigures, type TestMoney } from '../../../lib/programs/test-data.ts'
import { Card, Empty, Metric } from '../components/blocks.tsx'
import { PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { formatNumber, Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { createProgramPages, requireProgram } from '../components/page.ts'

/** Test data: its totals, and a button that deletes it. No figure counts test data. */
export const pages = createProgramPages()

const testDataOf = (programId: number) => `/programs/${programId}/test`

pages.get('/test', requireProgram('performance:read'), async (c) => {
  const program = c.get('program')
  const figures = await readTestFigures(c.get('db'), program.id)
  const { clicks, leads, money, last_webhook_at: webhookAt } = figures
  const isEmpty = clicks + leads + money.length === 0 && webhookAt === null
  return c.render(
    <ProgramPage
      title={program.name}
      current="/test"
      lead="Your tests since you last cleared the test data."
      actions={
        !isEmpty &&
        may(program.roles, 'program:update') && (
          <PostButton
            action={`${testDataOf(program.id)}/clear`}
            class="danger"
            confirm="Clear the test data? Test clicks, leads and sales and the processors' test-mode events are deleted. Live data doesn't change."
            text="Clear test data"
          />
        )
      }
    >
      {isEmpty ? <NothingYet /> : <Figures figures={figures} currency={program.currency} />}
    </ProgramPage>,
  )
})

function NothingYet() {
  return (
    <Card>
      <Empty title="No test data">
        <p>
          Test events from your server and from your processor's test mode appear here.{' '}
          <a href="/docs/test-data">How to send test events</a>
        </p>
      </Empty>
    </Card>
  )
}

function Figures({ figures, currency }: { figures: TestFigures; currency: string }) {
  const { clicks, leads, lead_commission_cents: leadCents, last_webhook_at: webhookAt } = figures
  const own = figures.money.find((money) => money.currency === currency)
  const others = figures.money.filter((money) => money !== own)
  const saleCents = own?.commission_cents ?? 0
  return (
    <>
      <dl class="cards">
        <Metric label="Test clicks" value={formatNumber(clicks)} />
        <Metric label="Test leads" value={formatNumber(leads)} />
        <Metric label="Test sales" value={formatNumber(figures.money.reduce((sum, { sales }) => sum + sales, 0))} />
        <Metric label="Revenue" value={formatMoney(own?.revenue_cents ?? 0, currency)} />
        <Metric label="Refunds" value={formatMoney(own?.refunded_cents ?? 0, currency)}>
          <dd class="trend">of this revenue</dd>
        </Metric>
        <Metric label="Commission" value={formatMoney(saleCents + leadCents, currency)}>
          <dd class="trend">
            {leadCents > 0 ? `of which ${formatMoney(leadCents, currency)} for leads` : 'hypothetical'}
          </dd>
        </Metric>
      </dl>
      <p class="muted small">
        The commission assumes that one partner referred all of these customers. No partner sees it.
        {webhookAt && (
          <>
            {' '}
            The last processor event in test mode arrived at <Time at={webhookAt} /> UTC.
          </>
        )}
      </p>
      <OtherCurrencies others={others} own={currency} />
    </>
  )
}

function OtherCurrencies({ others, own }: { others: TestMoney[]; own: string }) {
  if (others.length === 0) return null
  return (
    <p class="muted small">
      Money above is in {own.toUpperCase()} only, because currencies are not converted. In other currencies:{' '}
      {others
        .map(
          ({ currency, revenue_cents: revenue, refunded_cents: refunded, commission_cents: commission }) =>
            `${formatMoney(revenue, currency)} revenue (${formatMoney(refunded, currency)} refunded) and ${formatMoney(commission, currency)} commission`,
        )
        .join('; ')}
      .
    </p>
  )
}

pages.post('/test/clear', requireProgram('program:update'), async (c) => {
  const program = c.get('program')
  const { deleted, more } = await clearTestData(c.get('db'), program.id)
  const rows = `${formatNumber(deleted)} ${deleted === 1 ? 'row' : 'rows'}`
  const text = more
    ? `${rows} of test data were deleted, but some remain. Clear it again.`
    : `The test data was cleared: ${rows} ${deleted === 1 ? 'was' : 'were'} deleted.`
  return redirectWith(c, testDataOf(program.id), text, more ? 'warn' : 'good')
})
