import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Child, PropsWithChildren } from 'hono/jsx'
import { may } from '../../../lib/access/roles.ts'
import { isOnlyPartner, type Viewer, type ViewerProgram } from '../../../lib/access/viewer.ts'
import { languages } from '../../../lib/languages.ts'
import { canMail, mailIsMissing } from '../../../lib/mail.ts'
import { proxyPath } from '../../../lib/programs/proxy-path.ts'
import { assets } from './assets.ts'
import { BrandHead, BrandName, ServiceName, useBrand } from './brand.tsx'
import { PostButton } from './fields.tsx'
import { Card, Heading } from './blocks.tsx'
import { FlashMessage, takeFlash } from './flash.tsx'
import { FormContext, refusedForm } from './form.ts'
import {
  DataSwitch,
  isTestPage,
  Navigation,
  type NavGroup,
  partnerNav,
  programNav,
  SearchDialog,
  SearchLink,
  Switcher,
  testNav,
} from './navigation.tsx'
import { withFormTokens } from './once.ts'
import type { ProgramContext } from './page.ts'
import { RequestContext, useRequest } from './request.ts'
import { bdi, Text, useTexts } from './text.tsx'

function Document({ title, refreshSeconds, children }: PropsWithChildren<Pick<PageProps, 'title' | 'refreshSeconds'>>) {
  const { language, zone } = useTexts()
  return (
    <html lang={language} dir={languages[language].dir}>
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        {zone !== undefined && <meta name="time-zone" content={zone ?? ''} />}
        <link rel="preload" href={assets.font.path} as="font" type="font/woff2" crossorigin="anonymous" />
        <link rel="stylesheet" href={assets.style.path} />
        <BrandHead title={title} />
        <script src={assets.script.path} defer></script>
        {refreshSeconds !== undefined && (
          <noscript>
            <meta http-equiv="refresh" content={String(refreshSeconds)} />
          </noscript>
        )}
      </head>
      <body>
        {children}
        <Question />
      </body>
    </html>
  )
}

/** The dialog in which the script asks before it sends a form. */
function Question() {
  const { t } = useTexts()
  return (
    <dialog id="question" aria-labelledby="question-text">
      <form method="dialog" class="stack">
        <p id="question-text"></p>
        <div class="row">
          <button value="">{t('Cancel')}</button>
          <button value="yes"></button>
        </div>
      </form>
    </dialog>
  )
}

/** The dialog in which the script shows a partner or a sale beside its list. */
function Drawer() {
  return (
    <dialog id="drawer" class="drawer">
      <header class="bar row apart">
        <a class="small">Open page</a>
        <button type="button" data-close class="compact">
          Close
        </button>
      </header>
      <div class="stack loose" data-content tabindex={-1}></div>
    </dialog>
  )
}

/** Renders a page. A page is one of the `…Page` components. */
export async function renderPage(c: Context, page: Child): Promise<Response> {
  const document = await html`<!doctype html>${(
      <RequestContext.Provider value={c}>
        <FormContext.Provider value={refusedForm(c)}>{page}</FormContext.Provider>
      </RequestContext.Provider>
    )}`
  return c.html(withFormTokens(document.toString()))
}

interface PageProps {
  title: string
  /** The heading, if it differs from the title. If it is null, the page renders its own heading. */
  heading?: string | null
  /** The text below the heading. */
  lead?: Child
  /** Links and buttons next to the heading. */
  actions?: Child
  /** How often browsers without scripts reload the page, if it updates itself. */
  refreshSeconds?: number | undefined
}

/** `current` is the path of the page's navigation entry, if it has one. */
interface FramedPageProps extends PageProps {
  current?: string
}

/** A card without navigation: sign-in, invitations, errors. `below` is shown under the card. A wide page has room for two columns. */
export function PlainPage({
  title,
  heading = title,
  below,
  isWide,
  children,
}: PropsWithChildren<PageProps & { below?: Child; isWide?: boolean }>) {
  const { t } = useTexts()
  const isForPartners = useBrand() !== undefined
  return (
    <Document title={title}>
      <div class={isWide ? 'centre wide' : 'centre'}>
        <header>
          <BrandName {...(!isForPartners && { home: '/' })} />
        </header>
        <main class="stack" id="main">
          <FlashMessage flash={takeFlash(useRequest())} />
          {heading === null ? (
            children
          ) : (
            <Card>
              <h1>{heading}</h1>
              {children}
            </Card>
          )}
          {below}
        </main>
        <footer class="small">
          {isForPartners ? (
            <ServiceName />
          ) : (
            <>
              <a href="/docs">{t('Documentation')}</a> · <a href="/api/v1/reference">{t('API reference')}</a>
            </>
          )}
        </footer>
      </div>
    </Document>
  )
}

/** Shown on every page until the person confirms their address. */
function Unverified({ email, canSend }: { email: string; canSend: boolean }) {
  const { t, fixed } = useTexts()
  return (
    <section class="message warn row apart" aria-label={t('Your e-mail address')}>
      <p>
        {canSend ? (
          <Text of="Confirm your e-mail address: we sent a link to {email}." email={<strong>{email}</strong>} />
        ) : (
          fixed(mailIsMissing)
        )}{' '}
        {t("Until then, you can't invite anybody.")}
      </p>
      {canSend && <PostButton action="/account/verification" class="compact" text={t('Send again')} />}
    </section>
  )
}

interface FrameProps extends FramedPageProps {
  viewer: Viewer
  /** The label of the menu of programs and accounts. */
  label: string
  groups: NavGroup[]
  aside?: Child
  /** Shown above the page. */
  banner?: Child
  dialog?: Child
}

function Frame(props: PropsWithChildren<FrameProps>) {
  const { title, heading = title, lead, actions, current, refreshSeconds, children } = props
  const { viewer, label, groups, aside, banner, dialog } = props
  const c = useRequest()
  const brand = useBrand()
  return (
    <Document title={title} refreshSeconds={refreshSeconds}>
      <a class="skip" href="#main">
        {useTexts().t('Skip to content')}
      </a>
      <div class="frame">
        <aside>
          <div class="row apart">
            <BrandName home={brand ? '/partner' : '/'} />
            <Switcher viewer={viewer} label={label} />
            {aside}
          </div>
          <Navigation groups={groups} current={current} />
        </aside>
        <main class="stack loose" id="main">
          {banner}
          {!viewer.user.emailVerified && <Unverified email={viewer.user.email} canSend={canMail(c.env)} />}
          <FlashMessage flash={takeFlash(c)} />
          {heading !== null && (
            <Heading title={heading} lead={lead} above={<Crumb groups={groups} current={current} path={c.req.path} />}>
              {actions}
            </Heading>
          )}
          {children}
          {brand && <ServiceName />}
        </main>
      </div>
      {dialog}
    </Document>
  )
}

/** A link from a page below a navigation entry back to that entry, such as a list. */
function Crumb({ groups, current, path }: { groups: NavGroup[]; current: string | undefined; path: string }) {
  const entry = groups.flatMap(({ items }) => items).find(({ href }) => href === current)
  if (!entry || path === entry.href) return null
  return (
    <a class="crumb" href={entry.href}>
      <span aria-hidden="true">‹ </span>
      {entry.label}
    </a>
  )
}

interface ProgramPageProps extends FramedPageProps {
  /** The program, if the path does not contain it. */
  of?: { viewer: Viewer; program: ViewerProgram }
}

/** A page of a program. `current` is a path below the program. Pages with test data are marked, even in the title. */
export function ProgramPage({ of, ...page }: PropsWithChildren<ProgramPageProps>) {
  const c: ProgramContext = useRequest()
  const { viewer, program } = of ?? { viewer: c.get('viewer'), program: c.get('program') }
  const { title, heading = title, current } = page
  const isTest = current !== undefined && isTestPage(current)
  return (
    <Frame
      {...page}
      viewer={viewer}
      label={program.name}
      groups={isTest ? testNav(program) : programNav(program)}
      aside={
        <>
          <DataSwitch program={program} current={current ?? ''} />
          <SearchLink programId={program.id} />
          <DocsValues program={program} />
        </>
      }
      dialog={
        <>
          <SearchDialog programId={program.id} />
          <Drawer />
        </>
      }
      banner={isTest ? <TestBanner /> : program.inShadowMode && <ShadowBanner program={program} />}
      title={isTest ? `Test data: ${title}` : title}
      heading={heading}
      {...(current !== undefined && { current: `/programs/${program.id}${current}` })}
    />
  )
}

/** The values for the placeholders in the documentation's examples. The page's script stores them. */
async function DocsValues({ program }: { program: ViewerProgram }) {
  const { id, domain, currency } = program
  const values = {
    PROGRAM_ID: String(id),
    PROGRAM_CURRENCY: currency,
    YOUR_PATH: await proxyPath(program),
    'shop.example.com': domain,
  }
  return <template data-docs={JSON.stringify(values)}></template>
}

function ShadowBanner({ program }: { program: ViewerProgram }) {
  return (
    <p class="message warn">
      <strong>Shadow mode.</strong> New commissions are computed and never credited.{' '}
      {may(program.roles, 'commission:list') && <a href={`/programs/${program.id}/side-by-side`}>Side by side</a>}
    </p>
  )
}

function TestBanner() {
  return (
    <p class="message warn">
      <strong>Test data.</strong> It is not included in any figures and is never paid.
    </p>
  )
}

/** Shown on a partner's pages if a program refuses clicks on their links. */
function ClosedPrograms({ programs }: { programs: NonNullable<Viewer['partner']>['closed'] }) {
  const { t } = useTexts()
  return (
    <>
      {programs.map(({ name, hasEnded }) => (
        <p class="message warn">
          <strong>
            {hasEnded ? (
              <Text of="<bdi>{name}</bdi> has ended your partnership." name={name} bdi={bdi} />
            ) : (
              <Text of="<bdi>{name}</bdi> has deactivated you as a partner." name={name} bdi={bdi} />
            )}
          </strong>{' '}
          {t('Clicks on your links there are refused. You keep your earnings.')}
        </p>
      ))}
    </>
  )
}

const useViewer = (): Viewer => useRequest().get('viewer')

/** A page of the partner's account. `current` is a path below it. */
export function PartnerPage(page: PropsWithChildren<FramedPageProps>) {
  const viewer = useViewer()
  const texts = useTexts()
  return (
    <Frame
      {...page}
      viewer={viewer}
      label={texts.t('Partner: {name}', { name: viewer.partner?.name ?? viewer.user.name })}
      groups={partnerNav(viewer, texts)}
      banner={<ClosedPrograms programs={viewer.partner?.closed ?? []} />}
      {...(page.current !== undefined && { current: `/partner${page.current}` })}
    />
  )
}

/** A page of the person's own account. People who are only partners keep the navigation of their portal. */
export function AccountPage(page: PropsWithChildren<PageProps>) {
  const viewer = useViewer()
  if (isOnlyPartner(viewer)) return <PartnerPage {...page} />
  const programs = viewer.programs.map(({ id, name }) => ({ href: `/programs/${id}`, label: name }))
  const groups = [{ items: [...programs, { href: '/docs', label: useTexts().t('Documentation') }] }]
  return <Frame {...page} viewer={viewer} label={viewer.user.name} groups={groups} />
}

/** A page of the partner's account. People without a partner account see it in their own account. */
export function PartnerOrAccountPage(page: PropsWithChildren<FramedPageProps>) {
  return useViewer().partner ? <PartnerPage {...page} /> : <AccountPage {...page} />
}
