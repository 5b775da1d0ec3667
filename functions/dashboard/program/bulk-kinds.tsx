import type { Child } from 'hono/jsx'
import { may } from '../../../lib/access/roles.ts'
import { openDatabase, type Statement } from '../../../lib/database.ts'
import { ApiError } from '../../../lib/errors.ts'
import type { Part, Totals } from '../../../lib/keyset.ts'
import { applicationTotals, listApplications, rejectApplications } from '../../../lib/programs/applications.ts'
import type { BulkKind, BulkSettings } from '../../../lib/programs/bulk-jobs.ts'
import { groupNamesStatement, movePartners } from '../../../lib/programs/groups.ts'
import {
  deactivatePartners,
  listPartners,
  partnerStates,
  partnerTotals,
  ratePartners,
} from '../../../lib/programs/partners.ts'
import { messagePartners } from '../../../lib/programs/messages.ts'
import { type RelayMessage, sendSoon } from '../../../lib/notifications/outbox.ts'
import { planInvitations, queueInvitations, sendQueuedInvitations } from '../../../lib/programs/queued-invitations.ts'
import { canMail, mailIsMissing } from '../../../lib/mail.ts'
import { addressOf, cut, positiveInteger } from '../components/address.ts'
import { Field, optionsOf } from '../components/fields.tsx'
import { FormRefusal } from '../components/form.ts'
import { formatDate, formatNumber } from '../components/format.tsx'
import { type Query, searchIn } from '../components/list.tsx'
import type { ProgramContext } from '../components/page.ts'
import { decimalToInteger } from '../components/typed-number.ts'
import { approveSome } from './application-approval.ts'
import { groupIn } from './partner-columns.tsx'

/** A list, for jobs that act on its matching rows. */
interface BulkList {
  /** The plural of a row's name. */
  rows: 'applications' | 'partners'
  /** The filters in the address of this list. Every job keeps them. */
  query: (c: ProgramContext) => Query
  totals: (c: ProgramContext, filters: BulkSettings) => Statement<Totals>
  /** Reads the next rows, newest first. */
  next: (c: ProgramContext, filters: BulkSettings, part: Part) => Promise<{ id: number; name: string }[]>
}

interface Kind {
  list: BulkList
  /** The button's text, such as `Approve`. */
  verb: string
  /** The state of the rows after the action, such as `approved`. */
  done: string
  /** The reason why the action leaves some rows as they are. */
  whySkipped: string
  /** The reason why an undo leaves some rows as they are. A final action has none. */
  whyKept?: string
  /** Describes the effect. */
  text: Child
  /** Rows per request. */
  partSize: number
  /** Whether the effect is permanent. */
  isFinal?: true
  /** Filters that the action requires, such as the state of its rows. */
  filters?: BulkSettings
  /** Describes the schedule for this many rows. */
  plan?: (c: ProgramContext, count: number) => Promise<Child>
  /** Throws if the action can't start. */
  check?: (c: ProgramContext) => void
  fields?: (c: ProgramContext) => Child | Promise<Child>
  /** Parses the fields of the form into settings. Throws `FormRefusal`. */
  parse?: (fields: Record<string, unknown>) => BulkSettings
  act: (c: ProgramContext, ids: number[], settings: BulkSettings) => Promise<unknown>
}

const searchesEmail = (c: ProgramContext) => may(c.get('program').roles, 'payout-address:read')

const waiting = (c: ProgramContext, { q }: BulkSettings) =>
  ({ status: 'waiting', search: q, searchesEmail: searchesEmail(c) }) as const

const applications: BulkList = {
  rows: 'applications',
  query: (c) => ({ q: searchIn(c) }),
  totals: (c, filters) => applicationTotals(c.get('program').id, waiting(c, filters)),
  next: (c, filters, part) => listApplications(c.get('db'), c.get('program').id, { ...part, ...waiting(c, filters) }),
}

const partnersIn = (c: ProgramContext, { q, group, status, uninvited, joined }: BulkSettings) => ({
  isUninvited: uninvited !== undefined,
  hasAccount: joined !== undefined,
  search: q,
  group_id: positiveInteger(group),
  status: partnerStates.find((known) => known === status),
  searchesEmail: searchesEmail(c),
})

const partners: BulkList = {
  rows: 'partners',
  query: (c) => ({
    q: searchIn(c),
    group: positiveInteger(c.req.query('group'))?.toString(),
    status: partnerStates.find((known) => known === c.req.query('status')),
  }),
  totals: (c, filters) => partnerTotals(c.get('program').id, partnersIn(c, filters)),
  next: (c, filters, part) => listPartners(c.get('db'), c.get('program').id, { ...part, ...partnersIn(c, filters) }),
}

const textOf = (value: unknown) => (typeof value === 'string' ? value.trim() : '')

/** Returns the chosen group as a setting. Throws `invalid_request` for anything other than an id or no group. */
const groupText = (value: unknown) => groupIn(textOf(value))?.toString() ?? ''

async function GroupField({ c, name, label }: { c: ProgramContext; name: string; label: string }) {
  const groups = await c.get('db').query(groupNamesStatement(c.get('program').id))
  return <Field name={name} label={label} options={[['', 'None'], ...optionsOf(groups)]} />
}

/** Refuses people who aren't allowed to send mail. */
function requireSender(c: ProgramContext): void {
  if (!canMail(c.env)) throw new ApiError('unavailable', mailIsMissing)
  if (!c.get('viewer').user.emailVerified)
    throw new ApiError('forbidden', 'First open the link in our e-mail to confirm your address.')
}

/** The actions on all rows that match. */
export const bulkActions: Record<BulkKind, Kind> = {
  approve: {
    list: applications,
    verb: 'Approve',
    done: 'approved',
    whySkipped: "they couldn't be approved, or somebody has decided on them since then",
    whyKept: 'these partners existed before, have been used since then, or have applied again',
    text: "Everybody who is waiting becomes a partner and gets an e-mail about their links. An undo can't take the e-mails back.",
    // The service mails every applicant.
    partSize: 50,
    fields: (c) => <GroupField c={c} name="in_group" label="Group" />,
    parse: ({ in_group: group }) => ({ in_group: groupText(group) }),
    act: (c, ids, { in_group: group }) => approveSome(c, ids, groupIn(group)),
  },
  reject: {
    list: applications,
    verb: 'Reject',
    done: 'rejected',
    whySkipped: 'somebody has decided on them since then',
    whyKept: 'somebody has decided on them since then, or the person has applied again',
    text: "This rejects everybody who is waiting. They don't get an e-mail, and can apply again after 30 days.",
    partSize: 500,
    fields: () => <Field name="note" label="Note" hint="Only your workspace sees it." maxlength={1000} />,
    parse: ({ note }) => ({ note: cut(textOf(note), 1000) }),
    act: (c, ids, { note }) => rejectApplications(c.get('db'), c.get('program').id, ids, note || null),
  },
  deactivate: {
    list: partners,
    verb: 'Deactivate',
    done: 'deactivated',
    whySkipped: 'they were no longer active',
    whyKept: 'these partners were activated again or have left',
    text: 'From then on, clicks on their links are refused. They keep their earnings, and you can activate them again.',
    partSize: 500,
    filters: { status: 'active' },
    act: (c, ids) => deactivatePartners(c.get('db'), c.get('program').id, ids),
  },
  move: {
    list: partners,
    verb: 'Move',
    done: 'moved',
    whySkipped: 'they were there already',
    whyKept: 'these partners were moved again, or their group was removed',
    text: 'From now on, they earn under the rules of the group.',
    partSize: 500,
    fields: (c) => <GroupField c={c} name="to" label="Move to group" />,
    parse: ({ to }) => ({ to: groupText(to) }),
    act: (c, ids, { to }) => movePartners(c.get('db'), c.get('program').id, ids, groupIn(to)),
  },
  rate: {
    list: partners,
    verb: 'Change the rate of',
    done: 'changed',
    whySkipped: 'they had this rate already',
    whyKept: 'the rate of these partners was changed again',
    text: 'Their future sales earn this rate, through a custom rule for each partner. Their fixed amounts, caps and months stay the same.',
    partSize: 100,
    fields: () => <Field name="rate" label="Commission rate (%)" inputmode="decimal" required />,
    parse: ({ rate }) => {
      const rate_bp = decimalToInteger(textOf(rate), 2)
      if (!(rate_bp <= 10_000)) throw new FormRefusal({ rate: 'Enter a percentage from 0 to 100.' })
      return { rate_bp: String(rate_bp) }
    },
    act: (c, ids, { rate_bp }) => ratePartners(c.get('db'), c.get('program').id, ids, Number(rate_bp)),
  },
  invite: {
    list: partners,
    verb: 'Invite',
    done: 'invited or waiting for their invitation',
    whySkipped: 'they have an account or an invitation by now',
    whyKept: 'these invitations were already sent',
    text: "Everybody without an account gets an e-mail to see their links and earnings. Partners who have an open invitation don't get another one.",
    partSize: 500,
    filters: { uninvited: 'yes' },
    plan: async (c, count) => {
      const sender = { workspaceId: c.get('program').workspaceId, userId: c.get('viewer').user.id }
      const { today, perDay, lastDay } = await planInvitations(c.get('db'), sender, count)
      if (today === count) return 'All of them go out today.'
      return `A workspace sends up to ${perDay} invitations a day. ${formatNumber(today)} go out today, the others on the following days, and the last ones on ${formatDate(lastDay)}. You can leave this page.`
    },
    check: requireSender,
    act: async (c, ids) => {
      await queueInvitations(c.get('db'), c.get('program').id, ids)
      const soon = Date.now() + 20_000
      c.executionCtx.waitUntil(sendQueuedInvitations(openDatabase(c.env), c.env, soon))
    },
  },
  message: {
    list: partners,
    verb: 'Send a message to',
    done: 'notified',
    whySkipped: 'they are no longer active',
    text: "Everybody with an account reads it under Notifications and gets it by e-mail, unless they disabled that. You can't take it back.",
    partSize: 500,
    isFinal: true,
    filters: { status: 'active', joined: 'yes' },
    check: requireSender,
    fields: () => <Field name="note" label="Message" rows={5} maxlength={1000} required />,
    parse: ({ note: typed }) => {
      const note = cut(textOf(typed), 1000)
      if (note === '') throw new FormRefusal({ note: 'Enter the message.' })
      return { note }
    },
    act: async (c, ids, { note = '' }) => {
      const outbox: RelayMessage[] = []
      await messagePartners(c.get('db'), c.get('program').id, ids, note, outbox)
      c.executionCtx.waitUntil(sendSoon(c.env, outbox))
    },
  },
}

interface AllThatMatchProps {
  programId: number
  /** The rows of the actions, such as `All 1,949 that match`. */
  text: string
  kinds: readonly BulkKind[]
  query: Query
}

/** Links to the actions on all rows that match the filters. */
export function AllThatMatch({ programId, text, kinds, query }: AllThatMatchProps) {
  const base = `/programs/${programId}`
  return (
    <details class="switcher">
      <summary class="button">{text}</summary>
      <div class="menu">
        {kinds.map((kind) => (
          <a href={addressOf(`${base}/bulk/${kind}`, query)}>{`${bulkActions[kind].verb} all…`}</a>
        ))}
        <hr />
        <a href={`${base}/jobs`}>Bulk actions</a>
      </div>
    </details>
  )
}
