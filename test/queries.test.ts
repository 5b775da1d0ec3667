import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import * as z from 'zod/mini'
import { Database } from '../lib/database.ts'
import { balancesOf } from '../lib/money/balances.ts'
import { commissionTotals, earningsByDay, listCommissions } from '../lib/money/commission-list.ts'
import { listDocuments } from '../lib/money/documents.ts'
import { listYearlyPayments } from '../lib/money/tax-forms.ts'
import { listPayoutLines } from '../lib/money/payout-lines.ts'
import { listStatementEntries, readStatementTotals } from '../lib/money/statements.ts'
import { listPayouts } from '../lib/money/payouts.ts'
import { writeNotifications } from '../lib/notifications/in-app.ts'
import { listNotifications, markNotificationsRead } from '../lib/notifications/notification-list.ts'
import { outboxStatement } from '../lib/notifications/outbox-list.ts'
import { listEndpoints, listEndpointsWithLatest, programOwner } from '../lib/notifications/webhook-endpoints.ts'
import { findDelivery, listDeliveries, listProgramDeliveries } from '../lib/notifications/webhook-log.ts'
import { acceptInvitation, findInvitation, inviteMember, revokeInvitation } from '../lib/programs/invitations.ts'
import {
  acceptPartnerInvitation,
  declinePartnerInvitation,
  findPartnerInvitation,
  invitePartner,
  listPartnerInvitations,
} from '../lib/programs/partner-invitations.ts'
import {
  endPartnership,
  listProgramsOfPartner,
  setPartnerName,
  setPayoutAddress,
} from '../lib/programs/partnerships.ts'
import { addLink } from '../lib/programs/links.ts'
import { changeMember, listMembers, listOpenedPrograms, openProgram } from '../lib/programs/members.ts'
import { addPartner, listPartners, listPartnersWithCodes, updatePartner } from '../lib/programs/partners.ts'
import { readOverview } from '../lib/programs/overview.ts'
import { createProgram, programDefaults, readProgram } from '../lib/programs/programs.ts'
import { eraseCustomer } from '../lib/tracking/erase-customer.ts'
import { listedEvents } from '../lib/tracking/event-list.ts'
import { readTimeline } from '../lib/money/timeline.ts'
import { readTestFigures } from '../lib/programs/test-data.ts'
import { readStatus } from '../lib/tracking/status.ts'

const statement = z.object({ query: z.string() })
const sentBody = z.union([z.object({ queries: z.array(statement) }), statement])
const sent: string[] = []

/** Records the text of each statement and returns no rows. */
const db = new Database({
  DATABASE_URL: 'postgres://user:password@database.example.com/none',
  NEON: {
    fetch: async (url, request) => {
      const body = sentBody.parse(await new Request(url, request).json())
      const queries = 'queries' in body ? body.queries : [body]
      sent.push(...queries.map(({ query }) => query))
      const empty = { fields: [], rows: [], command: 'SELECT', rowCount: 0, rowAsArray: true }
      return Response.json('queries' in body ? { results: queries.map(() => empty) } : empty)
    },
  },
})

const january = { from: new Date('2026-01-01T00:00:00Z'), to: new Date('2026-02-01T00:00:00Z') }

const clauses =
  'with|select|from|where|insert into|values|update|set|delete from|using|returning|union all|inner join|left join|cross join|group by|order by|limit|for update|on conflict'
const words = new RegExp(String.raw`("[^"]*"|'[^']*'|[()]|(?<!\w)(?:${clauses})(?!\w))`)

/** Formats a statement with a line for each clause, indented by its parentheses. */
function inLines(sql: string): string {
  let depth = 0
  let text = ''
  for (const part of sql.split(words)) {
    if (part === '(') depth += 1
    if (part === ')') depth -= 1
    const isClause = words.test(part) && /^[a-z]/.test(part)
    text = isClause && text.trimEnd() !== '' ? `${text.trimEnd()}\n${'  '.repeat(depth)}${part}` : text + part
  }
  return `${text};`
}

/** Replaces six or more repeated lines with a reference to their first occurrence. Parameter numbers can differ. */
function withoutRepeats(parts: [title: string, lines: string[]][]): string {
  const shown: { title: string; line: string }[] = []
  const written: string[] = []
  for (const [title, lines] of parts) {
    const plain = lines.map((line) => ({ title, line: line.trim().replaceAll(/\$\d+/g, '$') }))
    written.push(`-- ${title}`)
    for (let at = 0; at < lines.length;) {
      const repeats = shown.map((_, from) => {
        const length = plain.slice(at).findIndex(({ line }, n) => line !== shown[from + n]?.line)
        return { title: shown[from]?.title, length: length === -1 ? plain.length - at : length }
      })
      const longest = repeats.reduce((best, one) => (one.length > best.length ? one : best), { title: '', length: 5 })
      if (longest.title) {
        written.push(`${/^ */.exec(lines[at] ?? '')?.[0]}-- ${longest.length} lines as in ${longest.title}`)
        at += longest.length
      } else written.push(lines[at++] ?? '')
    }
    written.push('')
    shown.push(...plain)
  }
  return written.join('\n')
}

const range = { from: new Date(0), to: new Date(1) }
const member = { workspaceId: 'workspace', userId: 'user', byOwner: false }
const program = { ...programDefaults, name: 'Program', domain: 'shop.example.com' }
const partner = { programId: 1, name: 'Nora', email: 'nora@example.com', code: 'nora' }
const invitation = {
  workspaceId: 'workspace',
  email: 'ada@example.com',
  invitedBy: 'user',
  role: 'member' as const,
  byOwner: false,
}

/** The calls for each file. */
const calls: Record<string, Record<string, () => Promise<unknown>>> = {
  programs: {
    createProgram: () => createProgram(db, 'workspace', program),
    readProgram: () => readProgram(db, 1),
    readOverview: () =>
      readOverview(db, { id: 1, currency: 'usd', createdAt: range.from }, { currency: 'usd', filters: {} }),
    // Without rows, the program appears to be unknown.
    readTestFigures: () => readTestFigures(db, 1).catch(() => undefined),
  },
  partners: {
    addPartner: () => addPartner(db, partner),
    addLink: () => addLink(db, { programId: 1, partnerId: 2, code: 'nora', pageUrl: null }),
    updatePartner: () => updatePartner(db, 1, 2, { is_active: false }),
    listPartners: () => listPartners(db, 1, { limit: 25, before: 99 }),
    listPartnersWithCodes: () => listPartnersWithCodes(db, 1, { limit: 25, before: 99 }),
    listProgramsOfPartner: () => listProgramsOfPartner(db, 'user', { limit: 25, before: 99 }),
    'endPartnership by the program': () => endPartnership(db, { programId: 1, partnerId: 2 }),
    'endPartnership by the partner': () => endPartnership(db, { programId: 1, userId: 'user' }),
    setPartnerName: () => setPartnerName(db, 'user', 'Nora'),
    setPayoutAddress: () => setPayoutAddress(db, 'user', 'nora@example.com'),
  },
  members: {
    listMembers: () => listMembers(db, 'workspace'),
    'changeMember to another role': () => changeMember(db, { ...member, role: 'admin' }),
    'changeMember to no role': () => changeMember(db, { ...member, role: null }),
    openProgram: () => openProgram(db, { programId: 1, userId: 'user', role: 'admin' }),
    listOpenedPrograms: () => listOpenedPrograms(db, 'workspace'),
  },
  invitations: {
    inviteMember: () => inviteMember(db, invitation),
    findInvitation: () => findInvitation(db, 'token'),
    acceptInvitation: () => acceptInvitation(db, 'token', 'user'),
    revokeInvitation: () => revokeInvitation(db, { workspaceId: 'workspace', invitationId: 'id', byOwner: false }),
  },
  'partner-invitations': {
    invitePartner: () => invitePartner(db, { programId: 1, partnerId: 2, invitedBy: 'user' }),
    listPartnerInvitations: () => listPartnerInvitations(db, 'nora@example.com', { limit: 25, before: 99 }),
    findPartnerInvitation: () => findPartnerInvitation(db, 'token'),
    'acceptPartnerInvitation by the link': () => acceptPartnerInvitation(db, { token: 'token' }, 'user'),
    'acceptPartnerInvitation in the list': () => acceptPartnerInvitation(db, { programId: 1, id: 2 }, 'user'),
    declinePartnerInvitation: () => declinePartnerInvitation(db, { programId: 1, id: 2 }, 'user'),
  },
  notifications: {
    writeNotifications: () => writeNotifications(db, [{ program_id: 1, outbox_id: 2 }]),
    'listNotifications of a program': () => listNotifications(db, { programId: 1 }, 'user', { limit: 25 }),
    'listNotifications of a partner': () =>
      listNotifications(db, { userId: 'user' }, 'user', { limit: 25, before: 99 }),
    markNotificationsRead: () => markNotificationsRead(db, { programId: 1 }, 'user'),
    outboxStatement: () => db.query(outboxStatement(1, { limit: 25, before: 99 })),
  },
  webhooks: {
    listEndpoints: () => listEndpoints(db, programOwner(1), { limit: 25, before: 99 }),
    listEndpointsWithLatest: () => listEndpointsWithLatest(db, programOwner(1)),
    listDeliveries: () => listDeliveries(db, programOwner(1), 2, { limit: 25, before: 99, status: 'failed' }),
    'listProgramDeliveries, oldest first': () =>
      listProgramDeliveries(db, 1, { limit: 25, after: '99-2', endpointId: 2, type: 'sale.created', status: 'failed' }),
    findDelivery: () => findDelivery(db, programOwner(1), 2, 99),
  },
  money: {
    balancesOf: () => db.query(balancesOf(1, 2)),
    'listCommissions of a program': () => listCommissions(db, { programId: 1 }, { limit: 25, before: 99 }),
    'listCommissions of a partner': () => listCommissions(db, { userId: 'user' }, { limit: 25, status: 'paid' }),
    commissionTotals: () => db.query(commissionTotals({ programId: 1 }, { status: 'paid' })),
    earningsByDay: () => earningsByDay(db, 'user', 30),
    'listPayouts of a program': () => listPayouts(db, { programId: 1 }, { limit: 25, before: 99, status: 'paid' }),
    'listPayoutLines of a run': () => listPayoutLines(db, { programId: 1 }, { limit: 25, before: 99, payoutRunId: 1 }),
    'listPayoutLines of a partner': () => listPayoutLines(db, { userId: 'user' }, { limit: 25, payoutId: 1 }),
    listStatementEntries: () =>
      listStatementEntries(
        db,
        { programId: 1, partnerId: 1 },
        { ...january, currency: null },
        { limit: 25, before: 9 },
      ),
    readStatementTotals: () =>
      readStatementTotals(db, { programId: 1, userId: 'user' }, { ...january, currency: 'eur' }),
    'listDocuments of a program': () => listDocuments(db, { programId: 1 }, { limit: 25, before: 99, search: 'SB-1' }),
    'listDocuments of a partner': () => listDocuments(db, { userId: 'user' }, { limit: 25 }),
    listYearlyPayments: () => listYearlyPayments(db, 1, 2026),
    'listPayouts of a partner': () => listPayouts(db, { userId: 'user' }, { limit: 25 }),
  },
  events: {
    events: () => listedEvents(db, { programId: 1, isTest: false, ...range }, { limit: 51 }),
    'events of a partner': () => listedEvents(db, { programId: 1, isTest: false, partner: '2' }, { limit: 51 }),
    'events of a link and a country, oldest first': () =>
      listedEvents(
        db,
        { programId: 1, isTest: false, code: 'ann', country: 'DE' },
        { limit: 51, after: { at_us: 1, event_type: 'lead', id: 2 } },
      ),
    'events of a search': () => listedEvents(db, { programId: 1, isTest: false, search: 'user-1' }, { limit: 51 }),
    'test events': () => listedEvents(db, { programId: 1, isTest: true, search: 'user-1' }, { limit: 51 }),
    timeline: () => readTimeline(db, 1, '2').catch(() => null),
  },
  tracking: {
    readStatus: () => readStatus(db, '00'),
    eraseCustomer: () => eraseCustomer(db, 1, { customer_key: 'user-1' }),
  },
}

// The SQL of the query builder, so that a changed query can be reviewed. This test recreates a deleted file.
describe('the SQL of built queries', () => {
  test.for(Object.entries(calls))('%s', async ([name, asks]) => {
    const parts: [title: string, lines: string[]][] = []
    for (const [title, ask] of Object.entries(asks)) {
      sent.length = 0
      // Without rows some calls throw.
      await ask().catch(() => undefined)
      parts.push([title, sent.flatMap((sql) => inLines(sql).split('\n'))])
    }
    await expect(withoutRepeats(parts)).toMatchFileSnapshot(`queries/${name}.sql`)
  })
})

// TypeScript finds a wrong name in an object literal, but not in an object that a callback returns.
test('queries write objects, not callbacks that return objects', () => {
  const files = ['lib', 'functions'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
  )
  const callbacks = files
    .filter((file) => /\.tsx?$/.test(file))
    .filter((file) => /\.(?:set|values|doUpdateSet)\(\s*(?:\(\w*\)|\w+) =>/.test(readFileSync(file, 'utf8')))
  expect(callbacks).toEqual([])
})
