import axe from 'axe-core'
import type { Page } from 'playwright-core'

/**
 * What axe finds on a page as it stands: rules that are broken, each with the HTML of where. The rest of its report would be megabytes that
 * nobody reads, so it is neither written nor sent out of the browser. `serious` leaves out what is less; `colours` looks at nothing but contrast.
 */
export async function axeFindings(
  page: Page,
  { serious = false, colours = false }: { serious?: boolean; colours?: boolean } = {},
): Promise<[rule: string, html: string[]][]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source)
  const options = { resultTypes: ['violations'], ...(colours && { runOnly: 'color-contrast' }) }
  return await page.evaluate(`axe.run(${JSON.stringify(options)}).then(({ violations }) =>
    violations
      .filter(({ impact }) => ${!serious} || impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]))`)
}
