import { type Action, may } from '../../../lib/access/roles.ts'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import { Segments } from './blocks.tsx'
import { Icon, type IconName } from './icon.tsx'
import { type PageTexts, useTexts } from './text.tsx'

export interface NavItem {
  href: string
  label: string
  icon?: IconName
  action?: Action
  count?: number
  /** Whether phones show the entry as a tab. Other entries are behind "More". */
  isTab?: true
}

/** Navigation entries under one heading. */
export interface NavGroup {
  label?: string
  items: NavItem[]
}

export function programNav(program: ViewerProgram): NavGroup[] {
  const base = `/programs/${program.id}`
  const groups: NavGroup[] = [
    {
      items: [
        { href: base, label: 'Overview', icon: 'overview', action: 'performance:read', isTab: true },
        {
          href: `${base}/notifications`,
          label: 'Notifications',
          icon: 'notifications',
          action: 'notification:list',
          count: program.unread,
        },
      ],
    },
    {
      label: 'Partners',
      items: [
        { href: `${base}/partners`, label: 'All partners', icon: 'partners', action: 'partner:list', isTab: true },
        { href: `${base}/applications`, label: 'Applications', icon: 'applications', action: 'partner:list' },
        { href: `${base}/groups`, label: 'Groups', icon: 'groups', action: 'partner:list' },
        { href: `${base}/codes`, label: 'Codes', icon: 'codes', action: 'partner:list' },
        { href: `${base}/imports`, label: 'Import and export', icon: 'imports', action: 'partner:manage' },
      ],
    },
    {
      label: 'Money',
      items: [
        {
          href: `${base}/commissions`,
          label: 'Commissions',
          icon: 'commissions',
          action: 'commission:list',
          isTab: true,
        },
        { href: `${base}/reviews`, label: 'Reviews', icon: 'reviews', action: 'commission:list' },
        { href: `${base}/payouts`, label: 'Payouts', icon: 'payouts', action: 'payout:list', isTab: true },
        { href: `${base}/adjustments`, label: 'Adjustments', icon: 'adjustments', action: 'commission:list' },
        { href: `${base}/side-by-side`, label: 'Side by side', icon: 'sideBySide', action: 'commission:list' },
        { href: `${base}/books`, label: 'Books', icon: 'books', action: 'payout:list' },
      ],
    },
    {
      label: 'Developers',
      items: [
        { href: `${base}/events`, label: 'Events', icon: 'events', action: 'tracking:list' },
        { href: `${base}/deliveries`, label: 'Processor events', icon: 'processor', action: 'delivery:list' },
        { href: `${base}/webhooks`, label: 'Webhooks', icon: 'webhooks', action: 'webhook:list' },
        { href: `${base}/settings?tab=keys`, label: 'API keys', icon: 'keys', action: 'api-key:manage' },
        { href: `${base}/check`, label: 'Set up', icon: 'setUp', action: 'program:read' },
        { href: '/docs', label: 'Documentation', icon: 'docs' },
      ],
    },
    { items: [{ href: `${base}/settings`, label: 'Settings', icon: 'settings', action: 'program:read' }] },
  ]
  const mayOpen = ({ action }: NavItem) => action === undefined || may(program.roles, action)
  return groups
    .map((group) => ({ ...group, items: group.items.filter(mayOpen) }))
    .filter(({ items }) => items.length > 0)
}

/** The pages of test data, each with the corresponding live page. */
const testPages = [
  { path: '/test', live: '', label: 'Overview', action: 'performance:read' },
  { path: '/test/events', live: '/events', label: 'Events', action: 'tracking:list' },
  { path: '/test/deliveries', live: '/deliveries', label: 'Processor events', action: 'delivery:list' },
] as const satisfies { path: string; live: string; label: string; action: Action }[]

export function testNav(program: ViewerProgram): NavGroup[] {
  const items = testPages
    .filter(({ action }) => may(program.roles, action))
    .map(({ path, label }) => ({ href: `/programs/${program.id}${path}`, label, isTab: true as const }))
  return [{ items }]
}

/** True if the page at this path of a program shows test data. */
export const isTestPage = (current: string) => testPages.some(({ path }) => path === current)

/** Links that switch between live and test data. They lead to the same page in the other mode if it exists there. */
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

export function partnerNav(viewer: Viewer, { t }: PageTexts): NavGroup[] {
  return [
    {
      items: [
        { href: '/partner', label: t('Earnings'), icon: 'earnings', isTab: true },
        { href: '/partner/links', label: t('Links'), icon: 'links', isTab: true },
        { href: '/partner/campaigns', label: t('Campaigns'), icon: 'campaigns' },
        { href: '/partner/postbacks', label: t('Postbacks'), icon: 'webhooks' },
        {
          href: '/partner/notifications',
          label: t('Notifications'),
          icon: 'notifications',
          count: viewer.partner?.unread ?? 0,
        },
      ],
    },
    {
      label: t('Money'),
      items: [
        { href: '/partner/commissions', label: t('Commissions'), icon: 'commissions', isTab: true },
        { href: '/partner/payouts', label: t('Payouts'), icon: 'payouts', isTab: true },
        { href: '/partner/documents', label: t('Documents'), icon: 'docs' },
      ],
    },
    {
      label: t('Programs'),
      items: [
        { href: '/partner/invitations', label: t('Invitations'), icon: 'invitations', count: viewer.invitations },
        { href: '/partner/applications', label: t('Applications'), icon: 'applications' },
      ],
    },
  ]
}

/** The menu of the person's programs, workspaces, partner account and own account. */
export function Switcher({ viewer, label }: { viewer: Viewer; label: string }) {
  const { t } = useTexts()
  return (
    <details class="switcher">
      <summary>
        <span>{label}</span>
      </summary>
      <div class="menu">
        {viewer.programs.length > 0 && <span class="label muted small">{t('Programs')}</span>}
        {viewer.programs.map((program) => (
          <a href={`/programs/${program.id}`}>{program.name}</a>
        ))}
        {viewer.workspaces.some(({ role }) => may([role], 'program:create')) && (
          <a href="/programs/new">{t('New program…')}</a>
        )}
        {viewer.workspaces.some(({ role }) => may([role], 'member:manage')) && (
          <>
            <hr />
            <span class="label muted small">{t('Members')}</span>
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
            <a href="/partner">{t('Partner: {name}', { name: viewer.partner.name ?? viewer.user.name })}</a>
          </>
        )}
        {!viewer.partner && viewer.invitations > 0 && (
          <>
            <hr />
            <a href="/partner/invitations">{t('Invitations')}</a>
          </>
        )}
        <hr />
        <span class="label muted small">{viewer.user.email}</span>
        <a href="/account">{t('Your account')}</a>
        <form method="post" action="/sign-out" class="stack">
          <button type="submit">{t('Sign out')}</button>
        </form>
      </div>
    </details>
  )
}

/** Links to the search page. With a script, this link and ⌘K open the search as a dialog. */
export function SearchLink({ programId }: { programId: number }) {
  return (
    <a class="button search-link" href={searchOf(programId)} data-search aria-keyshortcuts="Meta+K Control+K">
      <Icon name="search" />
      Search
      <kbd class="muted tiny">⌘K</kbd>
    </a>
  )
}

export function SearchDialog({ programId }: { programId: number }) {
  return (
    <dialog id="search" aria-label="Search this program">
      <form method="get" action={searchOf(programId)} role="search">
        <input
          type="search"
          name="q"
          placeholder="Partner, code, customer, transaction id or page"
          aria-label="Search"
          autocomplete="off"
          autofocus
        />
      </form>
      <div data-results aria-live="polite" />
    </dialog>
  )
}

const searchOf = (programId: number) => `/programs/${programId}/search`

interface NavigationProps {
  groups: NavGroup[]
  /** The address of this page. */
  current: string | undefined
}

/** Links to the other pages. Phones show four of them as tabs and all of them behind "More". */
export function Navigation({ groups, current }: NavigationProps) {
  const { t } = useTexts()
  const tabs = groups.flatMap(({ items }) => items.filter(({ isTab }) => isTab))
  if (groups.length === 0) return null
  return (
    <>
      <nav aria-label={t('Main')} id="navigation" popover="auto">
        <ul>
          {groups.map(({ label, items }) => (
            <>
              <li class="group" aria-hidden={label ? undefined : 'true'}>
                {label}
              </li>
              {items.map((item) => (
                <NavLink item={item} current={current} />
              ))}
            </>
          ))}
        </ul>
      </nav>
      <nav aria-label={t('Tabs')} class="tabs">
        <ul>
          {tabs.map((item) => (
            <NavLink item={item} current={current} />
          ))}
          <li>
            <button type="button" popovertarget="navigation">
              <Icon name="menu" />
              {t('More')}
            </button>
          </li>
        </ul>
      </nav>
    </>
  )
}

function NavLink({ item: { href, label, icon, count = 0 }, current }: { item: NavItem; current: string | undefined }) {
  return (
    <li>
      <a href={href} aria-current={href === current ? 'page' : undefined}>
        {icon && <Icon name={icon} />}
        {label}
        {count > 0 && (
          <span class="badge warn">
            {count > 99 ? '99+' : count}
            <span class="hidden"> {useTexts().t('unread')}</span>
          </span>
        )}
      </a>
    </li>
  )
}
