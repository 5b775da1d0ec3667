import { type Action, may } from '../../../lib/access/roles.ts'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import { Segments } from './blocks.tsx'

export interface NavItem {
  href: string
  label: string
  action?: Action
  count?: number
}

export function programNav(program: ViewerProgram): NavItem[] {
  const base = `/programs/${program.id}`
  const items: NavItem[] = [
    { href: base, label: 'Overview', action: 'performance:read' },
    { href: `${base}/events`, label: 'Events', action: 'tracking:list' },
    { href: `${base}/partners`, label: 'Partners', action: 'partner:list' },
    { href: `${base}/groups`, label: 'Groups', action: 'partner:list' },
    { href: `${base}/codes`, label: 'Codes', action: 'partner:list' },
    { href: `${base}/applications`, label: 'Applications', action: 'partner:list' },
    { href: `${base}/commissions`, label: 'Commissions', action: 'commission:list' },
    { href: `${base}/payout-runs`, label: 'Payout runs', action: 'payout:list' },
    { href: `${base}/payouts`, label: 'Payouts', action: 'payout:list' },
    { href: `${base}/notices`, label: 'Notifications', action: 'notice:list', count: program.unread },
    { href: `${base}/deliveries`, label: 'Stripe events', action: 'delivery:list' },
    { href: `${base}/webhooks`, label: 'Webhooks', action: 'webhook:list' },
    { href: `${base}/settings`, label: 'Settings', action: 'program:read' },
    { href: `${base}/check`, label: 'Set up', action: 'program:read' },
    { href: '/docs', label: 'Documentation' },
  ]
  return items.filter(({ action }) => action === undefined || may(program.roles, action))
}

/** The pages of test data, each with its live page. */
const testPages = [
  { path: '/test', live: '', label: 'Overview', action: 'performance:read' },
  { path: '/test/events', live: '/events', label: 'Events', action: 'tracking:list' },
  { path: '/test/deliveries', live: '/deliveries', label: 'Stripe events', action: 'delivery:list' },
] as const satisfies { path: string; live: string; label: string; action: Action }[]

export function testNav(program: ViewerProgram): NavItem[] {
  return testPages
    .filter(({ action }) => may(program.roles, action))
    .map(({ path, label }) => ({ href: `/programs/${program.id}${path}`, label }))
}

/** True if the page at this path of a program shows test data. */
export const isTestPage = (current: string) => testPages.some(({ path }) => path === current)

/** Switches between live and test data, and stays on the same page if both have it. */
export function DataSwitch({ program, current }: { program: ViewerProgram; current: string }) {
  const isTest = isTestPage(current)
  const page = testPages.find(({ path, live }) => current === (isTest ? path : live)) ?? testPages[0]
  const base = `/programs/${program.id}`
  return (
    <Segments
      label="Data"
      items={[
        { href: base + (isTest ? page.live : current), text: 'Live data', current: !isTest },
        { href: base + (isTest ? current : page.path), text: 'Test data', current: isTest },
      ]}
    />
  )
}

export function partnerNav(viewer: Viewer): NavItem[] {
  return [
    { href: '/partner', label: 'Earnings' },
    { href: '/partner/links', label: 'Links' },
    { href: '/partner/campaigns', label: 'Campaigns' },
    { href: '/partner/commissions', label: 'Commissions' },
    { href: '/partner/payouts', label: 'Payouts' },
    { href: '/partner/notifications', label: 'Notifications', count: viewer.partner?.unread ?? 0 },
    { href: '/partner/invitations', label: 'Invitations', count: viewer.invitations },
    { href: '/partner/applications', label: 'Applications' },
  ]
}

/** The menu of the person's programs, workspaces, partner account and own account. */
export function Switcher({ viewer, label }: { viewer: Viewer; label: string }) {
  return (
    <details class="switcher">
      <summary>
        <span>{label}</span>
      </summary>
      <div class="menu">
        {viewer.programs.length > 0 && <span class="label muted small">Programs</span>}
        {viewer.programs.map((program) => (
          <a href={`/programs/${program.id}`}>{program.name}</a>
        ))}
        {viewer.workspaces.some(({ role }) => may([role], 'program:create')) && (
          <a href="/programs/new">New program…</a>
        )}
        {viewer.workspaces.some(({ role }) => may([role], 'member:manage')) && (
          <>
            <hr />
            <span class="label muted small">Members</span>
            {viewer.workspaces
              .filter(({ role }) => may([role], 'member:manage'))
              .map((workspace) => (
                <a href={`/workspaces/${workspace.id}/members`}>{workspace.name}</a>
              ))}
          </>
        )}
        {viewer.partner && (
          <>
            <hr />
            <a href="/partner">Partner: {viewer.partner.name ?? viewer.user.name}</a>
          </>
        )}
        {!viewer.partner && viewer.invitations > 0 && (
          <>
            <hr />
            <a href="/partner/invitations">Invitations</a>
          </>
        )}
        <hr />
        <span class="label muted small">{viewer.user.email}</span>
        <a href="/account">Your account</a>
        <form method="post" action="/sign-out" class="stack">
          <button type="submit">Sign out</button>
        </form>
      </div>
    </details>
  )
}

/** Links to the other pages. `current` is the address of this page. */
export function Navigation({ items, current }: { items: NavItem[]; current: string }) {
  if (items.length === 0) return null
  return (
    <nav aria-label="Main">
      <ul>
        {items.map(({ href, label, count = 0 }) => (
          <li>
            <a href={href} aria-current={href === current ? 'page' : undefined}>
              {label}
              {count > 0 && (
                <span class="badge warn">
                  {count > 99 ? '99+' : count}
                  <span class="hidden"> unread</span>
                </span>
              )}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}
