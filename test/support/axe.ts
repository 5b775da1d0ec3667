import axe from 'axe-core'
import type { Frame, Page } from 'playwright-core'

/**
 * Runs axe on a page or a frame. Returns the broken rules with the HTML of each finding, because the full report is several megabytes
 * long. `serious` omits minor rules. `colours` checks only the contrast.
 */
export async function axeFindings(
  page: Page | Frame,
  { serious = false, colours = false }: { serious?: boolean; colours?: boolean } = {},
): Promise<[rule: string, html: string[]][]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source)
  const options = { resultTypes: ['violations'], ...(colours && { runOnly: 'color-contrast' }) }
  return await page.evaluate(`axe.run(${JSON.stringify(options)}).then(({ violations }) =>
    violations
      .filter(({ impact }) => ${!serious} || impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]))`)
}
