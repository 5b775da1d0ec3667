/** Definitions of the figures. The overview, the breakdowns, the list of partners and the partner page share them. */
const definitions = {
  Clicks: 'Visits by a link of a partner. Bots are left out.',
  Leads: 'Customers who signed up after such a visit.',
  Customers: 'Leads and others who bought for the first time.',
  Sales:
    'Paid sales with a partner, renewals included, in any currency. One that earned no commission counts, and so does one that was refunded since.',
  Revenue: 'What these sales brought in the currency shown, before refunds. Nothing is converted.',
  Refunds: 'How much of this revenue was refunded or charged back until now.',
  Commission: 'Commissions created in this period, in the currency shown, less what was reversed since.',
  Conversion: 'First purchases of a hundred clicks. There is none where no link was clicked, as with codes alone.',
  'Average order': 'Revenue divided by customers. Renewals are revenue too, and refunds are not taken off.',
  'New partners': 'Partners of the program who were added in this period.',
} as const

/** Help text that defines the figures on a page. `names` are the figures to define. */
export function CountingHelp({ names, note }: { names?: (keyof typeof definitions)[]; note?: string }) {
  const shown = Object.entries(definitions).filter(([name]) => !names || names.some((one) => one === name))
  return (
    <details class="more small">
      <summary>What the figures count</summary>
      <dl class="terms">
        {shown.map(([name, text]) => (
          <>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </>
        ))}
      </dl>
      {note && <p class="muted">{note}</p>}
    </details>
  )
}
