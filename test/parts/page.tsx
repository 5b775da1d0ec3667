import { Hono } from 'hono/tiny'
import type { Child, PropsWithChildren } from 'hono/jsx'
import { actorOf, detailsOf, wordsOf } from '../../functions/dashboard/components/audit-entry.ts'
import {
  Badge,
  Card,
  Copy,
  Empty,
  Heading,
  Metric,
  Segments,
  type Tone,
} from '../../functions/dashboard/components/blocks.tsx'
import { Chart, type ChartPoint } from '../../functions/dashboard/components/chart.tsx'
import { CampaignTables, CampaignText } from '../../functions/dashboard/components/campaign.tsx'
import { causeColumn, commissionColumns } from '../../functions/dashboard/components/commission.tsx'
import { CountingHelp } from '../../functions/dashboard/components/counting.tsx'
import { DateRange } from '../../functions/dashboard/components/date-range.tsx'
import { ExplanationPage } from '../../functions/dashboard/components/explanation.tsx'
import {
  Field,
  MenuForm,
  NoDefault,
  PostButton,
  Problem,
  ReasonMenu,
  Submit,
} from '../../functions/dashboard/components/fields.tsx'
import { FlashMessage } from '../../functions/dashboard/components/flash.tsx'
import { type FormState, emptyForm } from '../../functions/dashboard/components/form.ts'
import { Day, formatNumber, isolated, Time } from '../../functions/dashboard/components/format.tsx'
import { renderPartner } from '../../functions/dashboard/components/layout.tsx'
import { CopyLink, linkColumns } from '../../functions/dashboard/components/link.tsx'
import {
  ExportLink,
  Find,
  List,
  ListPage,
  noneFits,
  Pager,
  StateFilter,
} from '../../functions/dashboard/components/list.tsx'
import { DataSwitch, Switcher } from '../../functions/dashboard/components/navigation.tsx'
import { MarkRead, notificationColumns } from '../../functions/dashboard/components/notification.tsx'
import { SelectionButtons, SelectionForm, SelectRow } from '../../functions/dashboard/components/selection.tsx'
import { type Column, Table } from '../../functions/dashboard/components/table.tsx'
import { PayMenu, TransferFields } from '../../functions/dashboard/components/transfer.tsx'
import { Payee, PayoutAmount, payoutColumns, payoutStates } from '../../functions/dashboard/components/payout.tsx'
import { formatMoney } from '../../lib/money.ts'
import { campaignNames } from '../../lib/tracking/campaign.ts'
import {
  at,
  later,
  longName,
  rtlName,
  viewer,
  commissions,
  payout,
  payouts,
  notifications,
  campaigns,
  links,
  explanation,
  unexplained,
} from './rows.ts'

const partsPath = '/parts'

const here = `${partsPath}#main`
const tones: Tone[] = ['good', 'warn', 'bad', 'accent', 'plain']
const looks = ['', 'primary', 'danger', 'compact', 'compact primary', 'compact danger']
const refused: FormState = {
  values: { refused_text: 'münchen', refused_choice: 'b', refused_lines: 'One line\nand another' },
  errors: {
    refused_text: 'Enter an e-mail address.',
    refused_choice: 'Choose another one.',
    refused_lines: 'A note has 2,000 characters at most.',
  },
  problem: 'The settings were not saved. Load the page again.',
}
const options = [
  ['a', 'The first'],
  ['b', 'The second'],
] as const

const dayMs = 86_400_000
const pointsOf = (count: number, value: (index: number) => number, compared = false): ChartPoint[] =>
  Array.from({ length: count }, (_, index) => ({
    start: new Date(Date.UTC(2026, 0, 1) + index * dayMs),
    value: value(index),
    ...(compared && { before: value(index) * 0.8 }),
    ...(index === count - 1 && { isOpen: true }),
  }))
const dollars = (cents: number) => formatMoney(Math.round(cents), 'usd')
const charts: [title: string, points: ChartPoint[], format: (value: number) => string][] = [
  ['Empty clicks', pointsOf(30, () => 0), formatNumber],
  ['One click', pointsOf(1, () => 1), formatNumber],
  ['Clicks', pointsOf(30, (index) => 40 + ((index * 37) % 60), true), formatNumber],
  ['Huge revenue', pointsOf(90, (index) => 9_000_000_000_000 + index * 11_000_000_000, true), dollars],
]

interface Row {
  name: string
  amount: string
}
const rows: Row[] = [
  { name: 'Grace', amount: '$25.00' },
  { name: longName, amount: '₩9,007,199,254,740,991' },
  { name: rtlName, amount: '-$1.00' },
]
const columns: Column<Row>[] = [
  { label: 'Partner', cell: ({ name }) => <strong>{name}</strong> },
  { label: 'State', cell: () => <Badge tone="good">Active</Badge> },
  { label: 'Balance', right: true, cell: ({ amount }) => amount },
  {
    label: '',
    right: true,
    cell: ({ name }) => (
      <PostButton action={here} class="compact" label={`Approve ${name}`}>
        Approve
      </PostButton>
    ),
  },
]
const states = { active: { name: 'Active', tone: 'good' }, ended: { name: 'Ended', tone: 'bad' } } as const
const sorts = { newest: 'Newest first', name: 'By name' }
const nothing = { title: 'No partners yet', text: 'Add the first one above.' }
const explanationOf = () => here

/** A kind of component with its states. */
function Kind({ name, children }: PropsWithChildren<{ name: string }>) {
  return (
    <section class="stack" aria-label={name}>
      <h2>{name}</h2>
      {children}
    </section>
  )
}

function Blocks() {
  return (
    <>
      <Heading title="Every part, in every state" lead="The components of the dashboard's pages.">
        <PostButton action={here}>A button of the page</PostButton>
        <ExportLink href={here} />
      </Heading>
      <Kind name="Messages">
        <FlashMessage flash={{ kind: 'good', text: 'Your name is saved.' }} />
        <FlashMessage flash={{ kind: 'bad', text: 'Stripe was not connected.' }} />
        <p class="message warn">
          <strong>Test data.</strong> It counts in no figure.
        </p>
      </Kind>
      <Kind name="Cards and figures">
        <Card title="A card" aside={<a href={here}>All</a>}>
          <p>
            Its text, with <code>code</code>, a <a href={here}>link</a>, <Day at={at} />, <Time at={at} /> and{' '}
            {isolated(rtlName)}.
          </p>
          <p class="muted">Muted text.</p>
          <p class="muted small">Small muted text.</p>
          <p class="bad">Text of something wrong.</p>
        </Card>
        <Card>
          <p>A card without a title.</p>
        </Card>
        <dl class="cards">
          <Metric label="Clicks" value="1,234">
            <dd class="trend">▲ 12 %</dd>
          </Metric>
          <Metric label="Balance" value="-$25.00" bad />
          <Metric label="Long" value="$12,345,678.90" />
          <Metric label="Huge" value="₩9,007,199,254,740,991" />
        </dl>
        <CountingHelp note="Of all time." />
        <Card>
          <Empty title="Nothing yet">
            <p>
              What to do about it. <a href={here}>Do it</a>
            </p>
          </Empty>
        </Card>
      </Kind>
      <Kind name="Badges, links to copy, views">
        <p class="row">
          {tones.map((tone) => (
            <Badge tone={tone}>{tone}</Badge>
          ))}
        </p>
        <div class="row">
          <CopyLink domain="shop.example.com" code="grace" pageUrl={null} />
        </div>
        <Copy text={`npm install\n${'x'.repeat(200)}`} label="a text of two lines" />
        <Segments
          label="Views"
          items={['One', 'Two', 'Three'].map((text, index) => ({ href: here, text, current: index === 1 }))}
        />
        <Switcher viewer={viewer} label={longName} />
        {viewer.programs.map((program) => (
          <DataSwitch program={program} current="" />
        ))}
      </Kind>
    </>
  )
}

function Forms() {
  return (
    <>
      <Kind name="Buttons">
        <div class="row">
          {looks.map((look) => (
            <PostButton action={here} class={look} label={`Button ${look}`} fields={{ value: '1' }}>
              {look || 'button'}
            </PostButton>
          ))}
          <a class="button" href={here}>
            A link as a button
          </a>
          <button type="button" disabled>
            Disabled
          </button>
          <PostButton action={here} class="danger" confirm="Delete it? This cannot be undone.">
            Asks before
          </PostButton>
        </div>
        <div class="row">
          <ReasonMenu
            action={here}
            id={1}
            verb="Reject"
            subject="the commission of $25.00"
            label="Reason, shown to the partner"
            submit="Reject commission"
            form={emptyForm}
          />
          <MenuForm action={here} id="form" text="Opens a form" label="Opens a form" form={emptyForm}>
            {(form) => <Field name="in_menu" label="In a menu" form={form} />}
          </MenuForm>
          <PayMenu action={here} id="pay" subject="the payout of $25.00 to Grace" amountCents={2500} form={emptyForm} />
          <MarkRead address={here} unread={3} />
        </div>
      </Kind>
      <Kind name="Fields">
        <Card>
          <form method="post" action={here} class="stack">
            <div class="fields">
              <Field name="text" label="Text" hint="A hint below it." form={emptyForm} required />
              <Field name="with_value" label="With a value" value="Grace" form={emptyForm} />
              <Field name="with_placeholder" label="With a placeholder" placeholder="user-1" form={emptyForm} />
              <Field name="number" label="Number" type="number" inputmode="numeric" value="30" form={emptyForm} />
              <Field name="day" label="Day" type="date" value="2026-03-14" form={emptyForm} />
              <Field name="password" label="Password" type="password" autocomplete="off" form={emptyForm} />
              <Field name="choice" label="Choice" options={options} value="b" form={emptyForm} />
              <Field name="lines" label="Several lines" rows={3} value="One line" form={emptyForm} />
              <TransferFields id="transfer" form={emptyForm} />
            </div>
            <NoDefault />
            <Submit>Save</Submit>
          </form>
        </Card>
        <Card title="Refused">
          <form method="post" action={here} class="stack">
            <Problem form={refused} />
            <div class="fields">
              <Field name="refused_text" label="E-mail" hint="A hint below it." form={refused} required />
              <Field name="refused_choice" label="Choice" options={options} form={refused} />
              <Field name="refused_lines" label="Note" rows={3} form={refused} />
            </div>
            <Submit>Save</Submit>
          </form>
        </Card>
        <DateRange action={partsPath} from="2026-03-14" to="2026-03-01" refused aside={<a href={here}>Beside it</a>} />
        <Find
          address={partsPath}
          query={{ q: 'grace', sort: 'name', status: 'active' }}
          what="Name or code"
          sorts={sorts}
          choices={[{ name: 'country', label: 'Country', placeholder: 'US' }]}
        />
        <StateFilter address={partsPath} query={{ status: 'active' }} states={states} />
      </Kind>
    </>
  )
}

function Lists() {
  const page = { rows, newer: here, older: '/parts?older' }
  return (
    <>
      <Kind name="Lists">
        <Card title="A table">
          <Table caption="Partners in a table" rows={rows} columns={columns} />
          <Pager older="/parts?older">The newest three.</Pager>
        </Card>
        <Card title="Rows that are selected">
          <SelectionForm
            action={here}
            ids={[1, 2]}
            form={{ ...emptyForm, problem: 'Select at least one partner first.' }}
          >
            <SelectionButtons verb="Approve" count={2} confirm="Approve all 2 on this page?" />
          </SelectionForm>
          <p class="row">
            <SelectRow id={1} label="Grace" />
            <SelectRow id={2} label="Ada" form={{ ...emptyForm, values: { 'row-2': 'on' } }} />
          </p>
        </Card>
        <List
          title="A list"
          page={page}
          caption="Partners in a list"
          columns={columns}
          empty={nothing}
          position="Page 2"
        />
        <List title="An empty list" page={{ rows: [] }} caption="No partners" columns={columns} empty={nothing} />
        <List
          title="A list without a match"
          page={{ rows: [] }}
          caption="No match"
          columns={columns}
          empty={noneFits(partsPath, 'partners')}
        />
        <Card title="Commissions">
          <Table
            caption="Commissions in every state"
            rows={commissions}
            columns={[
              commissionColumns.made,
              causeColumn(explanationOf),
              commissionColumns.state,
              commissionColumns.amount,
            ]}
          />
        </Card>
        <Card title="Payouts">
          <Table
            caption="Payouts in every state"
            rows={payouts}
            columns={[payoutColumns.asked, payoutColumns.state, payoutColumns.amount]}
          />
          <Payee name="Grace" address="grace@example.com" waitsUntil={later} />
          <PayoutAmount payout={{ ...payout, amount_cents: 3000 }} />
          <p>
            {Object.values(payoutStates).map(({ name, tone }): Child => (
              <Badge tone={tone}>{name}</Badge>
            ))}
          </p>
        </Card>
        <Card title="Notifications">
          <Table
            caption="Notifications of every kind"
            rows={notifications}
            columns={[
              notificationColumns.at,
              notificationColumns.program,
              notificationColumns.text,
              notificationColumns.state,
            ]}
          />
        </Card>
        <Card title="Links">
          <Table
            caption="Links in every state"
            rows={links}
            columns={linkColumns({ domain: 'shop.example.com', currency: 'usd' })}
          />
        </Card>
        <Card title="Campaigns and sub-ids">
          <CampaignText campaign={{ utm_source: 'newsletter', sub1: 'footer' }} />
          <CampaignTables campaigns={campaigns} names={campaignNames} currency="usd" addressWith={() => here} />
        </Card>
        <Card title="Entries of the audit log">
          <p>
            {actorOf({ actor: null, user_id: null })}: {wordsOf('api_key.revoked')},{' '}
            {detailsOf({ details: { hold_days: [30, 14] } })}
          </p>
        </Card>
      </Kind>
      <Kind name="Charts">
        {charts.map(([title, points, format]) => (
          <Card>
            <Chart title={title} points={points} interval="day" format={format} beforeName="previous period" />
          </Card>
        ))}
      </Kind>
      <Kind name="A page that is a list">
        <ListPage
          title="Partners"
          lead="The people and sites who refer customers to you."
          address={here}
          rows="partners"
          page={page}
          caption="Partners of a page"
          columns={columns}
          empty={nothing}
          actions={<PostButton action={here}>An action</PostButton>}
        />
      </Kind>
      <Kind name="Why this partner">
        <ExplanationPage explanation={explanation} related={[{ href: here, text: 'Timeline of the customer' }]} />
        <ExplanationPage explanation={unexplained} />
      </Kind>
    </>
  )
}

/** A page with every component of `functions/dashboard/components` in every state. Its test finds missing, inaccessible and too wide components. */
const app = new Hono()

app.get(partsPath, (c) =>
  renderPartner(c, viewer, {
    title: 'Parts',
    current: '/parts',
    children: (
      <>
        <Blocks />
        <Forms />
        <Lists />
      </>
    ),
  }),
)

export default app
