import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Child } from 'hono/jsx'
import type { Viewer, ViewerProgram } from '../../../lib/access/viewer.ts'
import type { errorCodes } from '../../../lib/errors.ts'
import { canMail, mailIsMissing } from '../../../lib/mail.ts'
import { assets } from './assets.ts'
import { PostButton } from './fields.tsx'
import { FlashMessage, takeFlash } from './flash.tsx'
import {
  DataSwitch,
  isTestPage,
  Navigation,
  type NavItem,
  partnerNav,
  programNav,
  Switcher,
  testNav,
} from './navigation.tsx'
import { withFormTokens } from './once.ts'
import type { ProgramContext } from './page.ts'

const productName = 'Partner Tracking'

function Document({ title, refreshSeconds, children }: Pick<Framed, 'title' | 'refreshSeconds' | 'children'>) {
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
        {refreshSeconds !== undefined && (
          <noscript>
            <meta http-equiv="refresh" content={String(refreshSeconds)} />
          </noscript>
        )}
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

type ErrorStatus = (typeof errorCodes)[keyof typeof errorCodes]['status']

interface Framed {
  title: string
  /** The path of the current navigation entry. */
  current: string
  children: Child
  status?: 200 | ErrorStatus
  /** How often browsers without scripts reload the page, if it updates itself. */
  refreshSeconds?: number
}

async function renderDocument(
  c: Context,
  { title, status = 200, refreshSeconds }: Omit<Framed, 'current'>,
  body: Child,
) {
  const page = await html`<!doctype html>${(
      <Document title={title} {...(refreshSeconds && { refreshSeconds })}>
        {body}
      </Document>
    )}`
  return c.html(withFormTokens(page.toString()), status)
}

/** Renders a page without navigation: sign-in, invitations, errors. */
export function renderPlain(c: Context, page: Omit<Framed, 'current'>) {
  return renderDocument(
    c,
    page,
    <div class="centre">
      <header>
        <Brand />
      </header>
      <main class="stack" id="main">
        <FlashMessage flash={takeFlash(c)} />
        {page.children}
      </main>
      <footer class="small">
        <a href="/docs">Documentation</a> · <a href="/api/v1/reference">API reference</a>
      </footer>
    </div>,
  )
}

/** Shown on every page until the person opens the link that we mailed. */
function Unverified({ email, canSend }: { email: string; canSend: boolean }) {
  return (
    <section class="message warn row apart" aria-label="Your e-mail address">
      <p>
        {canSend ? (
          <>
            Confirm your e-mail address: we sent a link to <strong>{email}</strong>.
          </>
        ) : (
          mailIsMissing
        )}{' '}
        Until then, you can't invite anybody.
      </p>
      {canSend && (
        <PostButton action="/account/verification" class="compact">
          Send again
        </PostButton>
      )}
    </section>
  )
}

interface Around {
  label: string
  items: NavItem[]
  aside?: Child
  /** Shown above the page. */
  notice?: Child
}

function renderFrame(c: Context, viewer: Viewer, { label, items, aside, notice }: Around, page: Framed) {
  return renderDocument(
    c,
    page,
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <div class="frame">
        <aside>
          <div class="row apart">
            <Brand />
            <Switcher viewer={viewer} label={label} />
            {aside}
          </div>
          <Navigation items={items} current={page.current} />
        </aside>
        <main class="stack loose" id="main">
          {notice}
          {!viewer.user.emailVerified && <Unverified email={viewer.user.email} canSend={canMail(c.env)} />}
          <FlashMessage flash={takeFlash(c)} />
          {page.children}
        </main>
      </div>
    </>,
  )
}

/** Renders a page of a program. `current` is the path below the program. Pages of test data say so, also in the title. */
export function renderProgram(c: ProgramContext, page: Framed) {
  return renderProgramOf(c, c.get('viewer'), c.get('program'), page)
}

/** Renders a page of a program that the path does not name. */
export function renderProgramOf(c: Context, viewer: Viewer, program: ViewerProgram, page: Framed) {
  const base = `/programs/${program.id}`
  const isTest = isTestPage(page.current)
  const around = {
    label: program.name,
    items: isTest ? testNav(program) : programNav(program),
    aside: <DataSwitch program={program} current={page.current} />,
    notice: isTest && <TestNotice />,
  }
  const title = isTest ? `Test data: ${page.title}` : page.title
  return renderFrame(c, viewer, around, { ...page, title, current: base + page.current })
}

function TestNotice() {
  return (
    <p class="message warn">
      <strong>Test data.</strong> It counts in no figure and is never paid.
    </p>
  )
}

/** Shown on a partner's pages if a program refuses their links. */
function ClosedPrograms({ programs }: { programs: NonNullable<Viewer['partner']>['closed'] }) {
  return (
    <>
      {programs.map(({ name, hasEnded }) => (
        <p class="message warn">
          <strong>
            <bdi>{name}</bdi> has {hasEnded ? 'ended your partnership' : 'deactivated you as a partner'}.
          </strong>{' '}
          Clicks on your links there are refused. You keep your earnings.
        </p>
      ))}
    </>
  )
}

/** Renders a page of the partner's account. */
export function renderPartner(c: Context, viewer: Viewer, page: Framed) {
  const around = {
    label: `Partner: ${viewer.partner?.name ?? viewer.user.name}`,
    items: partnerNav(viewer),
    notice: <ClosedPrograms programs={viewer.partner?.closed ?? []} />,
  }
  return renderFrame(c, viewer, around, { ...page, current: `/partner${page.current}` })
}

/** Renders a page of the person's own account. */
export function renderAccount(c: Context, viewer: Viewer, page: Omit<Framed, 'current'>) {
  const programs = viewer.programs.map(({ id, name }) => ({ href: `/programs/${id}`, label: name }))
  const items = [...programs, { href: '/docs', label: 'Documentation' }]
  return renderFrame(c, viewer, { label: viewer.user.name, items }, { ...page, current: '' })
}
