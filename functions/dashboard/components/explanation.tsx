import { stepName } from '../../../lib/money/explanation.ts'
import type { Explanation } from '../../../lib/money/explanation-fields.ts'
import type { Happening } from '../../../lib/money/sale-history.ts'
import { Badge, Card, Heading, Metric, type Tone } from './blocks.tsx'
import { CampaignText } from './campaign.tsx'
import { Time } from './format.tsx'
import { TableCard } from './table.tsx'
import { Text, useTexts } from './text.tsx'

/** Returns the address of the page that explains a sale. The address accepts any id of the sale. */
export const saleAddress = (programId: number, transactionId: string, test = false) =>
  `/programs/${programId}/sales/${encodeURIComponent(transactionId)}${test ? '?test=true' : ''}`

/** A link from an explanation to another page. */
export interface RelatedPage {
  href: string
  text: string
}

interface ExplanationPageProps {
  explanation: Explanation
  /** The pages about the partner, the link and so on, if the reader may see them. */
  related?: RelatedPage[]
}

/** Explains why a sale has its partner and its commission. Programs and partners share this page. */
export function ExplanationPage({ explanation, related = [] }: ExplanationPageProps) {
  const { transaction_id: id, is_test: isTest, attributed, sale, summary, steps, click } = explanation
  const { t, fixed } = useTexts()
  return (
    <>
      <Heading
        title={sale && explanation.commission ? t('Why this partner?') : t('Why no partner?')}
        lead={
          <>
            {isTest && 'Test sale '}
            <Text of="<code>{id}</code>. Times are UTC." id={id} code={(text) => <code>{text}</code>} />
          </>
        }
      />
      <Card
        title={t('Summary')}
        aside={<Badge tone={attributed ? 'good' : 'plain'}>{attributed ? t('Attributed') : t('No partner')}</Badge>}
      >
        <p>{summary}</p>
        <Who explanation={explanation} />
        {related.length > 0 && (
          <p class="row">
            {related.map(({ href, text }) => (
              <a href={href}>{text}</a>
            ))}
          </p>
        )}
      </Card>
      <Figures explanation={explanation} />
      <TableCard
        title={t('How the customer was identified')}
        caption={t('Steps, in this order')}
        rows={steps}
        columns={[
          { label: 'Step', cell: ({ step }) => <strong>{fixed(stepName(step))}</strong> },
          {
            label: 'Outcome',
            cell: ({ found }) => (
              <Badge tone={isFound(found) ? 'good' : 'plain'}>{fixed(outcomes[found] ?? found)}</Badge>
            ),
          },
          { label: 'Meaning', cell: ({ text }) => text },
        ]}
        none={t('There is no record. No event about this payment reached the step that identifies the customer.')}
      >
        {click && <ClickText explanation={explanation} />}
        {click && <CampaignText campaign={click.campaign} />}
      </TableCard>
      <History explanation={explanation} />
    </>
  )
}

const outcomes: Record<string, string> = {
  found: 'found',
  second_customer: 'second customer',
  named: 'named',
  by_click: 'by click',
  by_code: 'by code',
  nothing: 'nothing',
  none: 'none',
  not_given: 'not given',
  not_tried: 'not needed',
  not_connected: 'not connected',
  unknown: 'unknown',
  off: 'off',
  revoked: 'revoked',
  given_later: 'given later',
  partner_inactive: 'partner inactive',
  code: 'code',
  click: 'click',
  named_code: 'named code',
  expired: 'expired',
  unverified: 'unverified',
  clicked_later: 'clicked later',
}
const isFound = (found: string) => ['found', 'second_customer', 'named', 'by_click', 'by_code'].includes(found)

/** The customer and their landing page. Only the program sees them. */
function Who({ explanation: { customer, click } }: { explanation: Explanation }) {
  if (!customer) return null
  return (
    <p class="muted small">
      Customer {customer.customer_key === null ? 'without a key' : <code>{customer.customer_key}</code>}, click id{' '}
      <code>{customer.click_id}</code>
      {click?.event?.page_url && <>, landed on {click.event.page_url}</>}
      {click?.event?.referrer_url && <> from {click.event.referrer_url}</>}.
    </p>
  )
}

function ClickText({ explanation: { click } }: { explanation: Explanation }) {
  if (!click) return null
  return (
    <p>
      {isSameMinute(click.first_at, click.latest_at) ? (
        <Text of="Clicked {time}." time={<Time at={click.latest_at} />} />
      ) : (
        <Text
          of="First click {first}, latest {latest}."
          first={<Time at={click.first_at} />}
          latest={<Time at={click.latest_at} />}
        />
      )}{' '}
      <Text of="Started the purchase {time}." time={<Time at={click.decided_at} />} /> {click.text}
    </p>
  )
}

const isSameMinute = (a: string, b: string) => a.slice(0, 16) === b.slice(0, 16)

function Figures({ explanation: { sale, rule, commission, lead_commission: lead } }: { explanation: Explanation }) {
  if (!sale) return null
  const texts = useTexts()
  const { t, percent } = texts
  const money = (cents: number) => texts.money(cents, sale.currency)
  return (
    <>
      <dl class="cards">
        <Metric label={t('Paid')} value={money(sale.amount_cents)}>
          {sale.refunded_cents > 0 && (
            <dd class="trend">{t('{amount} of it was returned', { amount: money(sale.refunded_cents) })}</dd>
          )}
        </Metric>
        <Metric label={t('Tax included')} value={money(sale.tax_cents)} />
        {sale.processor_fee_cents > 0 && (
          <Metric label={t("Processor's fee")} value={money(sale.processor_fee_cents)} />
        )}
        {rule && (
          <Metric
            label={t('Rate')}
            value={[
              (rule.commission_percent > 0 || rule.fixed_cents === 0) && percent(rule.commission_bp),
              rule.fixed_cents > 0 && money(rule.fixed_cents),
            ]
              .filter(Boolean)
              .join(' + ')}
          >
            <dd class="trend">
              {rule.duration_months === null
                ? t('every payment')
                : t('for {count} months', { count: rule.duration_months })}
              {rule.cap_cents !== null && `, ${t('up to {amount} for a customer', { amount: money(rule.cap_cents) })}`}
              {rule.hold_days !== null && `, ${t('held {count} days', { count: rule.hold_days })}`}
            </dd>
          </Metric>
        )}
        {commission && (
          <Metric label={t('Commission')} value={money(commission.left_cents)}>
            {commission.reversed_cents > 0 && (
              <dd class="trend">
                {t('of {amount}, {reversed} reversed', {
                  amount: money(commission.amount_cents),
                  reversed: money(commission.reversed_cents),
                })}
              </dd>
            )}
          </Metric>
        )}
      </dl>
      {lead && (
        <Card title={t('Lead commission')}>
          <p>{lead.text}</p>
        </Card>
      )}
    </>
  )
}

/** The color of each event, here and in a customer's timeline. */
export const tones: Record<Happening['kind'], Tone> = {
  recorded: 'plain',
  commission: 'accent',
  correction: 'warn',
  refund: 'bad',
  chargeback: 'bad',
  returned: 'good',
  approved: 'good',
  rejected: 'bad',
  adjusted: 'accent',
  held: 'warn',
  released: 'good',
  paid: 'good',
}

function History({ explanation: { history, sale, commission } }: { explanation: Explanation }) {
  if (!sale || history.length === 0) return null
  const { t, fixed, money } = useTexts()
  const signed = (cents: number) => `${cents > 0 ? '+' : ''}${money(cents, sale.currency)}`
  return (
    <TableCard
      title={t('History')}
      caption={t('History of the sale and its commission, oldest first')}
      rows={history}
      columns={[
        { label: 'When (UTC)', cell: ({ at }) => <Time at={at} /> },
        { label: 'Event', cell: ({ kind }) => <Badge tone={tones[kind]}>{fixed(kind)}</Badge> },
        { label: 'Details', cell: ({ text }) => text },
        {
          label: 'Commission',
          right: true,
          cell: ({ change_cents: change }) => (change === 0 ? '–' : signed(change)),
        },
        {
          label: 'Balance',
          right: true,
          cell: ({ entry }) =>
            entry === null ? (
              '–'
            ) : (
              <div>
                {signed(entry.amount_cents)}
                <div class="muted small">
                  {t('entry {number}, then {balance}', {
                    number: String(entry.number),
                    balance: money(entry.balance_cents, sale.currency),
                  })}
                </div>
              </div>
            ),
        },
      ]}
    >
      {commission && (
        <p>
          <Text
            of="Commission now: <strong>{amount}</strong>."
            amount={money(commission.left_cents, commission.currency)}
            strong={(text) => <strong>{text}</strong>}
          />
        </p>
      )}
    </TableCard>
  )
}
