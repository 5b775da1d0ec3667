import type { PropsWithChildren } from 'hono/jsx'
import * as z from 'zod/mini'
import { may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { formatMoney } from '../../../lib/money.ts'
import { nameField } from '../../../lib/names.ts'
import { newest, type PartnerDetails, readPartnerDetails } from '../../../lib/programs/partner-details.ts'
import { campaignNames } from '../../../lib/tracking/campaign.ts'
import { updatePartner } from '../../../lib/programs/partners.ts'
import { adjustmentColumns, whatColumn } from '../components/adjustment.tsx'
import { actorOf, detailsOf, wordsOf } from '../components/audit-entry.ts'
import { addressOf, idInPath, positiveInteger } from '../components/address.ts'
import { Card, Heading, Metric } from '../components/blocks.tsx'
import { causeColumn, commissionColumns } from '../components/commission.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { CountingHelp } from '../components/counting.tsx'
import { CampaignTables } from '../components/campaign.tsx'
import { Field, Problem, Submit } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, type FormState, optionalText, refuseConflict, shownForm } from '../components/form.ts'
import { Day, Time } from '../components/format.tsx'
import { renderProgram } from '../components/layout.tsx'
import { PartnerCodes } from './codes.tsx'
import { linkColumns } from '../components/link.tsx'
import { notificationColumns } from '../components/notification.tsx'
import { createPages, requireProgram } from '../components/page.ts'
import { type Column, Table } from '../components/table.tsx'
import { payoutColumns } from '../components/payout.tsx'
import { AdjustForm } from './adjustments.tsx'
import { overviewAddress } from './overview-query.ts'
import { PartnerActions, partnerAddress, partnerPageOf, PartnerState } from './partner-columns.tsx'

/** The page of one partner: their figures, the program's note, and the history. */
export const partnerPage = createPages()

const missing = 'This program has no such partner.'

const maxNote = 2000

partnerPage.get('/programs/:programId/partners/:partnerId', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const partner = await readPartnerDetails(c.get('db'), program, idInPath(c, 'partnerId', missing))
  return renderProgram(c, {
    title: partner.name,
    current: '/partners',
    children: <Partner program={program} partner={partner} form={shownForm(c)} />,
  })
})

interface PartnerProps {
  program: ViewerProgram
  partner: PartnerDetails
}

function Partner({ program, partner, form: shown }: PartnerProps & { form: FormState }) {
  const sees = (action: Parameters<typeof may>[1]) => may(program.roles, action)
  const address = partnerAddress(program.id, partner.id)
  return (
    <>
      <Heading title={partner.name} lead={<Lead program={program} partner={partner} />}>
        {sees('partner:manage') && <PartnerActions partner={partner} address={`/programs/${program.id}/partners`} />}
      </Heading>
      <Money program={program} partner={partner} />
      <Earns partner={partner} address={address} manages={sees('partner:manage')} form={shown} />
      <Card title="Links" aside={sees('tracking:list') && <a href={listOf(program, partner, 'events')}>All events</a>}>
        <Table caption="Links of this partner" rows={partner.links} columns={linkColumns(program)} />
        <CountingHelp
          names={['Clicks', 'Leads', 'Sales', 'Commission']}
          note={`Of all time; leads, sales and commission of links are counted within a minute. Commission is in ${program.currency.toUpperCase()}.`}
        />
      </Card>
      <PartnerCodes program={program} partner={partner} form={shown} />
      <Campaigns program={program} partner={partner} />
      {sees('commission:list') && (
        <Newest
          title="Commissions"
          caption="Their newest commissions"
          rows={partner.commissions}
          columns={[
            commissionColumns.made,
            causeColumn(({ transactionId }) => saleAddress(program.id, transactionId)),
            commissionColumns.state,
            commissionColumns.amount,
          ]}
          all={listOf(program, partner, 'commissions')}
        />
      )}
      {sees('commission:list') && (
        <Newest
          title="Manual commissions and deductions"
          caption="Amounts added to their balance or deducted by hand"
          rows={partner.adjustments}
          columns={[
            adjustmentColumns.made,
            whatColumn((_, sale) => saleAddress(program.id, sale)),
            adjustmentColumns.amount,
          ]}
          all={listOf(program, partner, 'adjustments')}
        >
          {sees('commission:decide') && <AdjustForm program={program} partnerId={partner.id} form={shown} />}
        </Newest>
      )}
      {sees('payout:list') && (
        <Newest
          title="Payouts"
          caption="Their newest payouts"
          rows={partner.payouts}
          columns={[payoutColumns.asked, payoutColumns.state, payoutColumns.amount]}
          all={listOf(program, partner, 'payouts')}
        />
      )}
      {sees('payout:list') && (
        <Newest
          title="Notifications"
          caption="Their newest notifications"
          rows={partner.notifications}
          columns={[notificationColumns.at, notificationColumns.text]}
        />
      )}
      {sees('partner:manage') && <Edit partner={partner} address={address} form={shown} />}
      <Note partner={partner} address={address} writes={sees('partner:manage')} form={shown} />
      {sees('audit:list') && (
        <Newest
          title="History"
          caption="Changes to this partner, newest first"
          rows={partner.history}
          columns={[
            { label: 'When (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
            { label: 'Who', cell: actorOf },
            { label: 'Action', cell: ({ action }) => <span class="words">{wordsOf(action)}</span> },
            { label: 'Details', cell: detailsOf },
          ]}
        />
      )}
    </>
  )
}

const listOf = (program: ViewerProgram, partner: PartnerDetails, list: string) =>
  addressOf(`/programs/${program.id}/${list}`, { partner: String(partner.id) })

function Lead({ program, partner }: PartnerProps) {
  const sees = may(program.roles, 'payout-address:read')
  const waits = partner.payout_waits_until
  return (
    <>
      Partner since <Day at={partner.created_at} /> <PartnerState partner={partner} />
      {sees && partner.email && <span> · {partner.email}</span>}
      {sees && partner.payout_email && <span> · paid to {partner.payout_email}</span>}
      {sees && waits && waits > new Date() && (
        <span>
          {' '}
          (new address: do not pay until <Time at={waits} />)
        </span>
      )}
      {!partner.has_account && <span> · has no account yet</span>}
    </>
  )
}

/** The campaigns and sub-ids of the partner's links. Each value links to its figures. */
function Campaigns({ program, partner: { id, campaigns } }: PartnerProps) {
  if (!campaigns.breakdowns.some(({ name }) => name !== 'link')) return null
  const query = { period: '30d', partner: String(id) }
  return (
    <Card title="Campaigns and sub-ids, last 30 days">
      <CampaignTables
        campaigns={campaigns}
        names={campaignNames}
        currency={program.currency}
        addressWith={(name, value) => overviewAddress(program.id, query, { [name]: value })}
      />
    </Card>
  )
}

function Money({ program, partner }: PartnerProps) {
  const own = partner.balances.toSorted(
    (a, b) => Number(b.currency === program.currency) - Number(a.currency === program.currency),
  )
  const [balance, ...others] = own
  const money = (cents = 0) => formatMoney(cents, balance?.currency ?? program.currency)
  return (
    <section class="stack tight" aria-label="Money">
      <dl class="cards">
        <Metric label="Pending" value={money(balance?.pending_cents)} />
        <Metric label="Balance" value={money(balance?.balance_cents)} bad={(balance?.balance_cents ?? 0) < 0} />
        <Metric label="Open payouts" value={money(balance?.requested_cents)} />
        <Metric label="Paid" value={money(balance?.paid_cents)} />
      </dl>
      {others.map((other) => (
        <p class="muted small">
          In {other.currency.toUpperCase()}: {formatMoney(other.pending_cents, other.currency)} pending,{' '}
          {formatMoney(other.balance_cents, other.currency)} balance, {formatMoney(other.paid_cents, other.currency)}{' '}
          paid.
        </p>
      ))}
    </section>
  )
}

interface NewestProps<Row> {
  title: string
  caption: string
  rows: Row[]
  columns: Column<Row>[]
  /** The address of the full list. */
  all?: string
}

/** The newest rows of a list, with a link to the full list. */
function Newest<Row>({ title, caption, rows, columns, all, children }: PropsWithChildren<NewestProps<Row>>) {
  return (
    <Card title={title} aside={all && rows.length === newest && <a href={all}>All {title.toLowerCase()}</a>}>
      {rows.length === 0 ? <p class="muted">None yet.</p> : <Table caption={caption} rows={rows} columns={columns} />}
      {children}
    </Card>
  )
}

/** The rules by which the partner earns, and their group. */
function Earns({
  partner,
  address,
  manages,
  form: shown,
}: {
  partner: PartnerDetails
  address: string
  manages: boolean
  form: FormState
}) {
  const { groups, group_id: groupId, group_name: groupName, earns, rules } = partner
  return (
    <Card
      title="Commission rules"
      aside={(manages || rules.length > 0) && <a href={`${address}/rules`}>Custom rules</a>}
    >
      <div class="stack tight">
        {earns.map((terms) => (
          <span>{terms}</span>
        ))}
      </div>
      {manages && groups.length > 0 ? (
        <form method="post" action={`${address}/group`} class="row end">
          <Field
            name="group_id"
            label="Group"
            options={[['', 'None'], ...groups.map(({ id, name }) => [String(id), name] as const)]}
            value={groupId === null ? '' : String(groupId)}
            form={shown}
          />
          <button type="submit">Change group</button>
        </form>
      ) : (
        <p class="muted">{groupName === null ? 'Not in a group.' : `Group ${groupName}.`}</p>
      )}
    </Card>
  )
}

function Edit({ partner, address, form: shown }: { partner: PartnerDetails; address: string; form: FormState }) {
  const isTheirs = partner.has_account
  return (
    <Card title="Details">
      {isTheirs ? (
        <p class="muted">They have an account, so only they can change their name, e-mail and payout address.</p>
      ) : (
        <form method="post" action={address} class="stack">
          <Problem form={shown} />
          <div class="fields">
            <Field name="name" label="Name" value={partner.name} form={shown} required />
            <Field
              name="email"
              label="E-mail"
              type="email"
              value={partner.email ?? ''}
              hint="Changing it revokes an open invitation to the previous address."
              form={shown}
            />
            <Field
              name="payout_email"
              label="Payout address"
              type="email"
              value={partner.payout_email ?? ''}
              hint="The address for their payouts. Leave empty to use their e-mail address."
              form={shown}
            />
          </div>
          <Submit>Save</Submit>
        </form>
      )}
    </Card>
  )
}

/** The program's note about a partner. Partners never see it. */
function Note({
  partner: { note },
  address,
  writes,
  form: shown,
}: {
  partner: PartnerDetails
  address: string
  writes: boolean
  form: FormState
}) {
  if (!writes && note === null) return null
  return (
    <Card title="Your note">
      {writes ? (
        <form method="post" action={`${address}/note`} class="stack">
          <Field
            name="note"
            label="Note"
            rows={4}
            maxlength={maxNote}
            value={note ?? ''}
            hint="Only your workspace sees it. The partner never does."
            form={shown}
          />
          <div class="row">
            <button type="submit">Save note</button>
          </div>
        </form>
      ) : (
        <p class="lines">{note}</p>
      )}
    </Card>
  )
}

const addressField = z.pipe(
  optionalText,
  z.union([
    z.literal(''),
    z.string().check(z.trim(), z.toLowerCase(), z.maxLength(320), z.email('Enter an e-mail address, or none.')),
  ]),
)
const editForm = z.object({
  name: z.optional(nameField("Enter the partner's name.")),
  email: z.optional(addressField),
  payout_email: z.optional(addressField),
})

partnerPage.post(
  '/programs/:programId/partners/:partnerId',
  requireProgram('partner:manage'),
  form(editForm, partnerPageOf),
  async (c) => {
    const { name, email, payout_email: payoutEmail } = c.req.valid('form')
    const partnerId = idInPath(c, 'partnerId', missing)
    try {
      const changes = {
        name,
        ...(email !== undefined && { email: email || null }),
        ...(payoutEmail !== undefined && { payout_email: payoutEmail || null }),
      }
      await updatePartner(c.get('db'), c.get('program').id, partnerId, changes)
    } catch (error) {
      return await refuseConflict(c, partnerPageOf(c), 'name', error)
    }
    return redirectWith(c, partnerPageOf(c), 'Saved.')
  },
)

const groupForm = z.object({ group_id: optionalText.check(z.regex(/^([1-9]\d{0,14})?$/, 'Choose a group.')) })

partnerPage.post(
  '/programs/:programId/partners/:partnerId/group',
  requireProgram('partner:manage'),
  form(groupForm, partnerPageOf),
  async (c) => {
    const { group_id: group } = c.req.valid('form')
    try {
      const changes = { group_id: positiveInteger(group) ?? null }
      await updatePartner(c.get('db'), c.get('program').id, idInPath(c, 'partnerId', missing), changes)
    } catch (error) {
      return await refuseConflict(c, partnerPageOf(c), 'group_id', error)
    }
    return redirectWith(c, partnerPageOf(c), "Saved. New sales earn by the group's rules.")
  },
)

// Browsers send a line break as two characters and count it as one.
const noteForm = z.object({
  note: z.pipe(
    optionalText,
    z.string().check(
      z.overwrite((text) => text.replaceAll('\r\n', '\n').trim()),
      z.maxLength(maxNote, `A note has ${maxNote} characters at most.`),
    ),
  ),
})

partnerPage.post(
  '/programs/:programId/partners/:partnerId/note',
  requireProgram('partner:manage'),
  form(noteForm, partnerPageOf),
  async (c) => {
    const partnerId = idInPath(c, 'partnerId', missing)
    await updatePartner(c.get('db'), c.get('program').id, partnerId, { note: c.req.valid('form').note || null })
    return redirectWith(c, partnerPageOf(c), 'The note is saved.')
  },
)
