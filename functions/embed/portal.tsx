import { languages } from '../../lib/languages.ts'
import type { EmbeddedPortal } from '../../lib/programs/embedding.ts'
import { termsOfPartner } from '../../lib/programs/commission-rules.ts'
import { isPageOf, linkAddress } from '../../lib/programs/links.ts'
import { shownHost } from '../../lib/hosts.ts'
import { Card, Copy, Metric, QrCode } from '../dashboard/components/blocks.tsx'
import { commissionColumns } from '../dashboard/components/commission.tsx'
import { Table } from '../dashboard/components/table.tsx'
import { type PageTexts, useTexts } from '../dashboard/components/text.tsx'
import { Balance } from '../dashboard/partner/earnings.tsx'
import { moneyIn } from '../dashboard/partner/money.ts'

interface FrameProps {
  programId: string
  origins: readonly string[]
  /** The color of the program's brand. The page around the frame can set other colors. */
  color: string | null
  texts: PageTexts
}

/** The empty page of the frame. The page contains no partner data. Its script loads the portal. */
export function FramePage({ programId, origins, color, texts: { t, language } }: FrameProps) {
  return (
    <html lang={language} dir={languages[language].dir}>
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <title>{t('Partner portal')}</title>
        <link rel="stylesheet" href="/embed/portal.css" />
        {color !== null && <link rel="stylesheet" href={`/assets/brand-${color.slice(1)}.css`} />}
        <script src="/embed/portal.js" defer></script>
      </head>
      <body data-program={programId} data-origins={origins.join(' ')}>
        <main
          class="stack"
          aria-live="polite"
          data-failed={t('The portal could not be loaded. Reload the page.')}
          data-alone={t('This page only works inside the page of a program.')}
        ></main>
      </body>
    </html>
  )
}

interface PortalProps {
  portal: EmbeddedPortal
  /** The address in the form that creates a link to a page. */
  page: string | undefined
  /** Whether these are the newest commissions. */
  isFirst: boolean
}

/**
 * The portal of a partner: links, figures, and money unless the program hides it. The portal can't change anything, so a page that
 * tricks people into clicking gains nothing.
 */
export function Portal({ portal, page, isFirst }: PortalProps) {
  const { t } = useTexts()
  const { embed_hides_money: hidesMoney } = portal
  return (
    <>
      <h1 class="hidden">{portal.name}</h1>
      <Links portal={portal} page={page} />
      <Figures portal={portal} />
      {!hidesMoney && (
        <Card title={t('Your balance')}>
          {moneyIn(portal).balances.map((balance) => (
            <Balance balance={balance} />
          ))}
        </Card>
      )}
      {!hidesMoney && <Commissions portal={portal} isFirst={isFirst} />}
    </>
  )
}

function Links({ portal, page }: Pick<PortalProps, 'portal' | 'page'>) {
  const texts = useTexts()
  const { t } = texts
  const { domain, links, codes, embed_hides_money: hidesMoney } = portal
  const active = links.filter(({ is_active: isActive }) => isActive)
  const [first] = active
  if (!first) {
    return (
      <Card title={t('Your link')}>
        <p class="muted">{t("You don't have a working link.")}</p>
      </Card>
    )
  }
  const address = linkAddress(domain, first.code, first.page_url)
  const isPage = page !== undefined && isPageOf(page, domain)
  const host = shownHost(domain)
  return (
    <Card title={t('Your link')}>
      <Copy text={address} label={t('link with the code {code}', { code: first.code })} isPrimary />
      {!hidesMoney && <p class="muted small">{termsOfPartner(portal, portal.rules, texts).join('. ')}.</p>}
      <details>
        <summary class="small">{t('QR code')}</summary>
        <QrCode text={address} label={t('QR code of your link')} />
      </details>
      <form class="row end">
        <label class="stack tight small">
          {t('Link to any page')}
          <input name="page" type="url" value={page} placeholder={`https://${host}/…`} maxlength={2048} required />
        </label>
        <button type="submit">{t('Build link')}</button>
      </form>
      {page !== undefined && !isPage && (
        <p class="small bad" role="alert">
          {t('Enter a page of {host}.', { host })}
        </p>
      )}
      {isPage && <Copy text={linkAddress(domain, first.code, page)} label={t('link to this page')} />}
      {active.slice(1, linksShown).map((link) => (
        <Copy
          text={linkAddress(domain, link.code, link.page_url)}
          label={t('link with the code {code}', { code: link.code })}
        />
      ))}
      {codes.length > 0 && (
        <p class="small">{t('Your codes for buyers: {codes}', { codes: codes.map(({ code }) => code).join(', ') })}</p>
      )}
    </Card>
  )
}

const linksShown = 10

function Figures({ portal: { links } }: Pick<PortalProps, 'portal'>) {
  const { t, number } = useTexts()
  const sumOf = (metric: 'clicks' | 'leads' | 'sales') => number(links.reduce((sum, link) => sum + link[metric], 0))
  return (
    <dl class="cards">
      <Metric label={t('Clicks')} value={sumOf('clicks')} />
      <Metric label={t('Signups')} value={sumOf('leads')} />
      <Metric label={t('Sales')} value={sumOf('sales')} />
    </dl>
  )
}

function Commissions({ portal, isFirst }: Pick<PortalProps, 'portal' | 'isFirst'>) {
  const { t, money } = useTexts()
  const { commissions, hasOlder } = portal
  if (commissions.length === 0) return null
  const { created, state, amount } = commissionColumns
  return (
    <Card title={t('Your commissions')}>
      <Table
        caption={t('Your commissions, newest first')}
        rows={commissions}
        columns={[
          {
            label: t('Earned for'),
            phone: 'title',
            cell: ({ kind, sale_cents: cents, currency }) =>
              kind === 'lead' || cents === null
                ? t('Signup')
                : t('Sale of {amount}', { amount: money(cents, currency) }),
          },
          created,
          state,
          amount,
        ]}
      />
      <div class="row">
        {!isFirst && (
          <button type="button" data-load="">
            {t('Newest')}
          </button>
        )}
        {hasOlder && (
          <button type="button" data-load={`?before=${commissions.at(-1)?.id}`}>
            {t('Older')}
          </button>
        )}
      </div>
    </Card>
  )
}
