import { useTexts } from './text.tsx'

/** Definitions of the figures. The overview, the breakdowns, the list of partners and the partner page share them. */
const definitions = {
  Clicks: "Visits through a partner's link, without bots.",
  Leads: 'Customers who signed up after such a visit.',
  Customers: 'Customers who made their first purchase, with or without an earlier signup.',
  Sales:
    'Paid sales with a partner, including renewals, in any currency. Sales without a commission and refunded sales count too.',
  Revenue: 'Revenue from these sales in the selected currency, before refunds. Currencies are not converted.',
  Refunds: 'The part of this revenue that was refunded or charged back so far.',
  Commission: 'Commissions created in this period, in the selected currency, minus later reversals.',
  Conversion: 'First purchases per hundred clicks. Empty if nobody clicked a link, for example if you only use codes.',
  'Revenue per customer': 'Revenue divided by customers. It includes renewals, and refunds are not deducted.',
  'Average order':
    'Revenue divided by paid sales in the selected currency. Refunds are not deducted. Not available for filtered figures if there are sales in several currencies.',
  'New partners': 'Partners who were added in this period.',
} as const

/** Help text that defines the figures on a page. `names` lists the figures. */
export function CountingHelp({ names, note }: { names?: (keyof typeof definitions)[]; note?: string }) {
  const shown = Object.entries(definitions).filter(([name]) => !names || names.some((one) => one === name))
  const { t, fixed } = useTexts()
  return (
    <details class="more small">
      <summary>{t('How figures are counted')}</summary>
      <dl class="terms">
        {shown.map(([name, text]) => (
          <>
            <dt>{fixed(name)}</dt>
            <dd>{fixed(text)}</dd>
          </>
        ))}
      </dl>
      {note && <p class="muted">{note}</p>}
    </details>
  )
}
