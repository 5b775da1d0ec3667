import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Child } from 'hono/jsx'
import { type Action, may } from '../../../lib/access/roles.ts'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import { assets } from './assets.ts'
import { type Flash, type PageContext, takeFlash } from './page.ts'

const productName = 'Partner Tracking'

function Document({ title, children }: { title: string; children: Child }) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <title>{`${title} · ${productName}`}</title>
        <link rel="stylesheet" href={assets.style.path} />
        <link rel="icon" href={assets.icon.path} type="image/svg+xml" />
        <script src={assets.script.path} defer></script>
      </head>
      <body>{children}</body>
    </html>
  )
}

function Brand() {
  return (
    <a class="brand" href="/">
      <svg
        viewBox="0 0 24 24"
        aria-hidden="true"
        fill="none"
        stroke="currentColor"
        stroke-width="2.2"
        stroke-linecap="round"
      >
        <circle cx="6" cy="12" r="3.2" />
        <circle cx="18" cy="5.5" r="2.4" />
        <circle cx="18" cy="18.5" r="2.4" />
        <path d="M9 10.4 15.8 6.7M9 13.6l6.8 3.7" />
      </svg>
      {productName}
    </a>
  )
}

export function Message({ flash }: { flash: Flash | undefined }) {
  if (!flash) return null
  return (
    <p class={`notice ${flash.kind}`} role={flash.kind === 'bad' ? 'alert' : 'status'}>
      {flash.text}
    </p>
  )
}

/** A page without navigation: signing in, invitations, errors. */
export function renderPlain(c: Context, page: { title: string; children: Child }) {
  return c.html(
    html`<!doctype html>${(
        <Document title={page.title}>
          <div class="centre">
            <header>
              <Brand />
            </header>
            <main class="stack" id="main">
              <Message flash={takeFlash(c)} />
              {page.children}
            </main>
          </div>
        </Document>
      )}`,
  )
}

interface NavItem {
  href: string
  label: string
  action?: Action
  count?: number
}

function programNav(program: ViewerProgram): NavItem[] {
  const base = `/programs/${program.id}`
  const items: NavItem[] = [
    { href: base, label: 'Overview', action: 'performance:read' },
    { href: `${base}/events`, label: 'Events', action: 'tracking:list' },
    { href: `${base}/partners`, label: 'Partners', action: 'partner:list' },
    { href: `${base}/commissions`, label: 'Commissions', action: 'commission:list' },
    { href: `${base}/withdrawals`, label: 'Withdrawals', action: 'withdrawal:list' },
    { href: `${base}/notices`, label: 'Notices', action: 'notice:list', count: program.unread },
    { href: `${base}/deliveries`, label: 'Delivery log', action: 'delivery:list' },
    { href: `${base}/settings`, label: 'Settings', action: 'program:read' },
  ]
  return items.filter(({ action }) => action === undefined || may(program.roles, action))
}

function partnerNav(viewer: Viewer): NavItem[] {
  return [
    { href: '/partner', label: 'Earnings' },
    { href: '/partner/links', label: 'Links' },
    { href: '/partner/commissions', label: 'Commissions' },
    { href: '/partner/withdrawals', label: 'Withdrawals' },
    { href: '/partner/notifications', label: 'Notifications', count: viewer.partner?.unread ?? 0 },
  ]
}

/** The menu of everything the person can reach: their programs, workspaces, partner account and own account. */
function Switcher({ viewer, label }: { viewer: Viewer; label: string }) {
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
            <a href="/partner">Partner: {viewer.partner.name}</a>
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

interface Framed {
  title: string
  /** The path of the navigation's current entry. */
  current: string
  children: Child
  status?: 200 | 400 | 409
}

function renderFrame(c: Context, viewer: Viewer, label: string, items: NavItem[], page: Framed) {
  return c.html(
    html`<!doctype html>${(
        <Document title={page.title}>
          <a class="skip" href="#main">
            Skip to content
          </a>
          <div class="frame">
            <aside>
              <div class="row apart">
                <Brand />
                <Switcher viewer={viewer} label={label} />
              </div>
              {items.length > 0 && (
                <nav aria-label="Main">
                  <ul>
                    {items.map((item) => (
                      <li>
                        <a href={item.href} aria-current={item.href === page.current ? 'page' : undefined}>
                          {item.label}
                          {(item.count ?? 0) > 0 && (
                            <span class="badge warn">
                              {item.count}
                              <span class="hidden"> unread</span>
                            </span>
                          )}
                        </a>
                      </li>
                    ))}
                  </ul>
                </nav>
              )}
            </aside>
            <main class="stack loose" id="main">
              <Message flash={takeFlash(c)} />
              {page.children}
            </main>
          </div>
        </Document>
      )}`,
    page.status ?? 200,
  )
}

/** A page of one program. `current` is the part of its path after the program. */
export function renderProgram(
  c: PageContext<{ viewer: Viewer; program: ViewerProgram }>,
  page: Omit<Framed, 'current'> & { current: string },
) {
  const program = c.get('program')
  const current = `/programs/${program.id}${page.current}`
  return renderFrame(c, c.get('viewer'), program.name, programNav(program), { ...page, current })
}

/** A page of the partner's own account. */
export function renderPartner(
  c: PageContext<{ viewer: Viewer; partner: NonNullable<Viewer['partner']> }>,
  page: Omit<Framed, 'current'> & { current: string },
) {
  const viewer = c.get('viewer')
  return renderFrame(c, viewer, `Partner: ${c.get('partner').name}`, partnerNav(viewer), {
    ...page,
    current: `/partner${page.current}`,
  })
}

/** A page that belongs to the person and to no program. */
export function renderAccount(c: PageContext<{ viewer: Viewer }>, page: Omit<Framed, 'current'>) {
  const viewer = c.get('viewer')
  const programs = viewer.programs.map(({ id, name }) => ({ href: `/programs/${id}`, label: name }))
  return renderFrame(c, viewer, viewer.user.name, programs, { ...page, current: '' })
}
