import type { Child } from 'hono/jsx'
import * as z from 'zod/mini'
import { type Action, may } from '../../../lib/access/roles.ts'
import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { shownHost } from '../../../lib/hosts.ts'
import { formatMoney } from '../../../lib/money.ts'
import { nameField } from '../../../lib/names.ts'
import { addLink, isPageOf, type LinkFigures, updateLink } from '../../../lib/programs/links.ts'
import { newest, type PartnerDetails, readPartnerDetails } from '../../../lib/programs/partner-details.ts'
import { campaignNames } from '../../../lib/tracking/campaign.ts'
import { updatePartner } from '../../../lib/programs/partners.ts'
import { adjustmentColumns, whatColumn } from '../components/adjustment.tsx'
import { actorOf, detailsOf, wordsOf } from '../components/audit-entry.ts'
import { addressOf, idInPath, positiveInteger } from '../components/address.ts'
import { Badge, Card, Metric, Segments } from '../components/blocks.tsx'
import { causeColumn, commissionColumns } from '../components/commission.tsx'
import { saleAddress } from '../components/explanation.tsx'
import { CountingHelp } from '../components/counting.tsx'
import { CampaignTables } from '../components/campaign.tsx'
import { Field, Form, FormDetails, MenuForm, optionsOf, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal, optionalText } from '../components/form.ts'
import { Day, Time } from '../components/format.tsx'
import { ProgramPage } from '../components/layout.tsx'
import { PartnerCodes } from './codes.tsx'
import { linkColumns } from '../components/link.tsx'
import { notificationColumns } from '../components/notification.tsx'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { TableCard } from '../components/table.tsx'
import { payoutColumns } from '../components/payout.tsx'
import { AdjustForm } from './adjustments.tsx'
import { overviewAddress } from './overview-query.ts'
import {
  optionalEmail,
  PartnerActions,
  partnerAddress,
  partnerIn,
  PartnerState,
  type PartnerTab,
  partnerTabAddress,
  partnerTabOf,
  partnerTabs,
} from './partner-columns.tsx'

/** The page of one partner: their figures, the program's note, and the history. */
export const pages = createProgramPages()

const maxNote = 2000

interface PartnerProps {
  program: ViewerProgram
  partner: PartnerDetails
}

pages.get('/partners/:partnerId', requireProgram('partner:list'), async (c) => {
  const program = c.get('program')
  const partner = await readPartnerDetails(c.get('db'), program, partnerIn(c))
  const props = { program, partner }
  const tabs = tabsFor(program)
  const tab = tabs.find((name) => name === c.req.query('tab')) ?? 'overview'
  return c.render(
    <ProgramPage
      title={partner.name}
      current="/partners"
      lead={<Lead program={program} partner={partner} />}
      actions={
        may(program.roles, 'partner:manage') && (
          <PartnerActions partner={partner} address={`/programs/${program.id}/partners`} program={program} />
        )
      }
    >
      <Segments
        label="Parts of this page"
        items={tabs.map((name) => ({
          href: partnerTabAddress(program.id, partner.id, name),
          text: partnerTabs[name],
          current: name === tab,
        }))}
      />
      {contents[tab](props)}
    </ProgramPage>,
  )
})

const tabNames = ['overview', 'commissions', 'payouts', 'links', 'activity', 'settings'] as const satisfies PartnerTab[]

/** Returns the tabs that the reader may see. */
function tabsFor({ roles }: ViewerProgram): PartnerTab[] {
  const actions: Partial<Record<PartnerTab, Action>> = {
    commissions: 'commission:list',
    payouts: 'payout:list',
    settings: 'partner:manage',
  }
  return tabNames.filter((name) => {
    const action = actions[name]
    return action === undefined || may(roles, action)
  })
}

const contents: Record<PartnerTab, (props: PartnerProps) => Child> = {
  overview: (props) => (
    <>
      <Money {...props} />
      <Earns {...props} />
      <Campaigns {...props} />
      <Note {...props} />
    </>
  ),
  commissions: (props) => <Commissions {...props} />,
  payouts: ({ program, partner }) => (
    <TableCard
      title="Payouts"
      aside={
        <>
          <a href={`${partnerAddress(program.id, partner.id)}/statement`}>Monthly statements</a>
          {may(program.roles, 'payout:pay') && (
            <a href={`${partnerAddress(program.id, partner.id)}/tax-form`}>Tax form</a>
          )}
          <AllOf program={program} partner={partner} list="payouts" />
        </>
      }
      caption="Their newest payouts"
      rows={partner.payouts}
      columns={[payoutColumns.created, payoutColumns.state, payoutColumns.amount]}
    />
  ),
  links: (props) => (
    <>
      <Links {...props} />
      <PartnerCodes {...props} />
    </>
  ),
  activity: (props) => <Activity {...props} />,
  settings: (props) => (
    <>
      <Edit {...props} />
      <Group {...props} />
    </>
  ),
}

/** The partner's links. People who manage partners can add and change them. */
function Links({ program, partner }: PartnerProps) {
  const manages = may(program.roles, 'partner:manage')
  const address = `${partnerAddress(program.id, partner.id)}/links`
  return (
    <TableCard
      title="Links"
      aside={may(program.roles, 'tracking:list') && <a href={listOf(program, partner, 'events')}>All events</a>}
      caption="Links of this partner"
      rows={partner.links}
      columns={[
        ...linkColumns(program),
        manages && { cell: (link: LinkFigures) => <ChangeLink link={link} address={address} program={program} /> },
      ]}
    >
      <CountingHelp
        names={['Clicks', 'Leads', 'Sales', 'Commission']}
        note={`All-time figures; leads, sales and commission of links are counted within a minute. Commission is in ${program.currency.toUpperCase()}.`}
      />
      {manages && (
        <FormDetails summary="Add a link" action={address} submit="Add link">
          <PageField program={program} />
          <Field name="code" label="Code" hint="Leave empty to generate one." maxlength={64} />
        </FormDetails>
      )}
    </TableCard>
  )
}

function PageField({ program, id, value }: { program: ViewerProgram; id?: string; value?: string }) {
  return (
    <Field
      name="page"
      label="Landing page"
      type="url"
      inputmode="url"
      value={value}
      placeholder={`https://${shownHost(program.domain)}/…`}
      hint="A page on your site. Leave empty for the home page."
      {...(id !== undefined && { id })}
    />
  )
}

function ChangeLink({ link, address, program }: { link: LinkFigures; address: string; program: ViewerProgram }) {
  const { id, code, page_url: pageUrl, is_active: isActive } = link
  const verb = isActive ? 'Disable' : 'Enable'
  return (
    <div class="row right">
      <MenuForm action={`${address}/${id}`} id={`link-${id}`} text="Change page" label={`Change page of ${code}`}>
        <PageField program={program} id={`page-${id}`} value={pageUrl ?? ''} />
        <button type="submit">Save</button>
      </MenuForm>
      <PostButton
        action={`${address}/${id}/${verb.toLowerCase()}`}
        class="compact"
        label={`${verb} ${code}`}
        text={verb}
        {...(isActive && { confirm: `Disable ${code}? Clicks on this link will be refused.` })}
      />
    </div>
  )
}

/** The newest notifications to the partner, and the changes by members. */
function Activity({ program, partner }: PartnerProps) {
  return (
    <>
      {may(program.roles, 'payout:list') && (
        <TableCard
          title="Notifications"
          caption="Their newest notifications"
          rows={partner.notifications}
          columns={[notificationColumns.at, notificationColumns.text]}
        />
      )}
      {may(program.roles, 'audit:list') && (
        <TableCard
          title="History"
          caption="Changes to this partner, newest first"
          rows={partner.history}
          columns={[
            { label: 'When (UTC)', cell: ({ created_at: at }) => <Time at={at} /> },
            { label: 'Who', cell: actorOf },
            { label: 'Action', cell: ({ action }) => <span class="words">{wordsOf(action)}</span> },
            { label: 'Details', cell: (entry) => detailsOf(entry, program.currency) },
          ]}
        />
      )}
    </>
  )
}

/** The partner's newest commissions, and their manual commissions and deductions. */
function Commissions({ program, partner }: PartnerProps) {
  return (
    <>
      <TableCard
        title="Commissions"
        aside={<AllOf program={program} partner={partner} list="commissions" />}
        caption="Their newest commissions"
        rows={partner.commissions}
        columns={[
          commissionColumns.created,
          causeColumn(({ transactionId }) => saleAddress(program.id, transactionId)),
          commissionColumns.state,
          commissionColumns.amount,
        ]}
      />
      <TableCard
        title="Manual commissions and deductions"
        aside={<AllOf program={program} partner={partner} list="adjustments" />}
        caption="Amounts manually added to or deducted from their balance"
        rows={partner.adjustments}
        columns={[
          adjustmentColumns.created,
          whatColumn((_, sale) => saleAddress(program.id, sale)),
          adjustmentColumns.amount,
        ]}
      >
        {may(program.roles, 'commission:decide') && <AdjustForm program={program} partnerId={partner.id} />}
      </TableCard>
      {partner.imported.length > 0 && (
        <TableCard
          title="Imported commissions"
          aside={<Badge>Imported</Badge>}
          caption="Their latest commissions in the previous service"
          rows={partner.imported}
          columns={[
            { label: 'Earned', cell: ({ earned_at: at }) => <Day at={at} /> },
            { label: 'Id', cell: ({ external_id: id }) => <bdi>{id}</bdi> },
            { label: 'State in that service', cell: ({ status }) => <span class="words">{status}</span> },
            {
              label: 'Commission',
              cell: ({ amount_cents: cents, currency }) => formatMoney(cents, currency),
              right: true,
            },
          ]}
        >
          <p class="muted small">A read-only history that isn't included in balances or figures.</p>
        </TableCard>
      )}
    </>
  )
}

const listNames = { commissions: 'commissions', adjustments: 'manual commissions and deductions', payouts: 'payouts' }

/** A link to the full list, if the page shows only the newest rows. */
function AllOf({ program, partner, list }: PartnerProps & { list: keyof typeof listNames }) {
  if (partner[list].length < newest) return null
  return <a href={listOf(program, partner, list)}>All {listNames[list]}</a>
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
          (new address, don't pay until <Time at={waits} />)
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
        heading="h3"
        hasFewerDays={false}
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
      <dl class="cards five">
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

/** The partner's commission rules and group. */
function Earns({ program, partner }: PartnerProps) {
  const { group_name: groupName, earns, rules } = partner
  return (
    <Card
      title="Commission rules"
      aside={
        (may(program.roles, 'partner:manage') || rules.length > 0) && (
          <a href={`${partnerAddress(program.id, partner.id)}/rules`}>Custom rules</a>
        )
      }
    >
      <div class="stack tight">
        {earns.map((terms) => (
          <span>{terms}</span>
        ))}
      </div>
      <p class="muted">{groupName === null ? 'Not in a group.' : `Group ${groupName}.`}</p>
    </Card>
  )
}

function Group({ program, partner: { id, groups, group_id: groupId } }: PartnerProps) {
  if (groups.length === 0) return null
  return (
    <Card title="Group">
      <Form action={`${partnerAddress(program.id, id)}/group`} submit="Change group" layout="inline">
        <Field
          name="group_id"
          label="Group"
          options={[['', 'None'], ...optionsOf(groups)]}
          value={groupId === null ? '' : String(groupId)}
        />
      </Form>
    </Card>
  )
}

function Edit({ program, partner }: PartnerProps) {
  return (
    <Card title="Details">
      {partner.has_account ? (
        <p class="muted">This partner has an account, so only they can change their name, e-mail and payout address.</p>
      ) : (
        <Form action={partnerAddress(program.id, partner.id)} submit="Save">
          <Field name="name" label="Name" value={partner.name} required />
          <Field
            name="email"
            label="E-mail"
            type="email"
            value={partner.email ?? ''}
            hint="If you change it, an open invitation to the previous address is revoked."
          />
          <Field
            name="payout_email"
            label="Payout address"
            type="email"
            value={partner.payout_email ?? ''}
            hint="The address for their payouts. Leave empty to use their e-mail address."
          />
        </Form>
      )}
    </Card>
  )
}

/** The program's note about a partner. Partners never see it. */
function Note({ program, partner: { id, note } }: PartnerProps) {
  const writes = may(program.roles, 'partner:manage')
  if (!writes && note === null) return null
  return (
    <Card title="Your note">
      {writes ? (
        <Form action={`${partnerAddress(program.id, id)}/note`} submit="Save note">
          <Field
            name="note"
            label="Note"
            rows={4}
            maxlength={maxNote}
            value={note ?? ''}
            hint="Only your workspace can see it, never the partner."
          />
        </Form>
      ) : (
        <p class="lines">{note}</p>
      )}
    </Card>
  )
}

const editForm = z.object({
  name: z.optional(nameField("Enter the partner's name.")),
  email: z.optional(optionalEmail),
  payout_email: z.optional(optionalEmail),
})

pages.post(
  '/partners/:partnerId',
  requireProgram('partner:manage'),
  form(editForm, partnerTabOf('settings'), 'name'),
  async (c) => {
    const { name, email, payout_email: payoutEmail } = c.req.valid('form')
    await updatePartner(c.get('db'), c.get('program').id, partnerIn(c), {
      name,
      ...(email !== undefined && { email: email || null }),
      ...(payoutEmail !== undefined && { payout_email: payoutEmail || null }),
    })
    return redirectWith(c, partnerTabOf('settings')(c), 'Saved.')
  },
)

const groupForm = z.object({ group_id: optionalText.check(z.regex(/^([1-9]\d{0,14})?$/, 'Choose a group.')) })

pages.post(
  '/partners/:partnerId/group',
  requireProgram('partner:manage'),
  form(groupForm, partnerTabOf('settings'), 'group_id'),
  async (c) => {
    const groupId = positiveInteger(c.req.valid('form').group_id) ?? null
    await updatePartner(c.get('db'), c.get('program').id, partnerIn(c), { group_id: groupId })
    return redirectWith(c, partnerTabOf('settings')(c), "Saved. New sales earn under the group's rules.")
  },
)

// Browsers send a line break as two characters, but count it as one.
const noteForm = z.object({
  note: z.pipe(
    optionalText,
    z.string().check(
      z.overwrite((text) => text.replaceAll('\r\n', '\n').trim()),
      z.maxLength(maxNote, `A note can have at most ${maxNote} characters.`),
    ),
  ),
})

pages.post(
  '/partners/:partnerId/note',
  requireProgram('partner:manage'),
  form(noteForm, partnerTabOf('overview')),
  async (c) => {
    const note = c.req.valid('form').note || null
    await updatePartner(c.get('db'), c.get('program').id, partnerIn(c), { note })
    return redirectWith(c, partnerTabOf('overview')(c), 'The note was saved.')
  },
)

const page = optionalText.check(z.trim(), z.maxLength(2048))
const newLinkForm = z.object({
  page,
  code: optionalText.check(
    z.trim(),
    z.regex(/^[A-Za-z0-9._@-]{0,64}$/, 'Use only letters, digits and . _ @ -, at most 64 characters.'),
  ),
})
const linksTab = partnerTabOf('links')

/** Returns the landing page that somebody typed, or null for the start page. */
function pageIn({ domain }: ViewerProgram, typed: string): string | null {
  if (typed === '') return null
  if (!isPageOf(typed, domain)) throw new FormRefusal({ page: `Enter a page of ${shownHost(domain)}.` })
  return typed
}

pages.post(
  '/partners/:partnerId/links',
  requireProgram('partner:manage'),
  form(newLinkForm, linksTab, 'code'),
  async (c) => {
    const program = c.get('program')
    const { page: typed, code } = c.req.valid('form')
    const added = await addLink(c.get('db'), {
      programId: program.id,
      partnerId: partnerIn(c),
      code: code || null,
      pageUrl: pageIn(program, typed),
    })
    return redirectWith(c, linksTab(c), `The link with the code ${added.code} is ready.`)
  },
)

const linkIn = (c: ProgramContext) => idInPath(c, 'linkId', 'This program has no such link.')

pages.post(
  '/partners/:partnerId/links/:linkId',
  requireProgram('partner:manage'),
  form(z.object({ page }), linksTab),
  async (c) => {
    const program = c.get('program')
    const pageUrl = pageIn(program, c.req.valid('form').page)
    const { code } = await updateLink(c.get('db'), program.id, linkIn(c), { page_url: pageUrl })
    return redirectWith(c, linksTab(c), `The link ${code} opens ${pageUrl ?? 'the start page'} from now on.`)
  },
)

for (const [verb, active] of [
  ['enable', true],
  ['disable', false],
] as const) {
  pages.post(`/partners/:partnerId/links/:linkId/${verb}`, requireProgram('partner:manage'), async (c) => {
    const { code } = await updateLink(c.get('db'), c.get('program').id, linkIn(c), { is_active: active })
    const undo = c.req.path.replace(verb, active ? 'disable' : 'enable')
    return redirectWith(c, linksTab(c), `The link ${code} is ${verb}d.`, 'good', undo)
  })
}
