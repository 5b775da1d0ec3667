import type { Page } from 'playwright-core'

export interface Drawn {
  /** The status after redirects. */
  status: number
  /** The link targets with the same origin. */
  links: string[]
}

/**
 * Renders an address with the same origin inside `page`, without its scripts. This takes a third of the time of a navigation, and keeps
 * loaded code such as axe.
 */
export async function drawInPlace(page: Page, address: string): Promise<Drawn> {
  return await page.evaluate(async (url) => {
    const answer = await fetch(url)
    const html = await answer.text()
    history.replaceState(null, '', answer.url)
    document.open()
    // If a script ran twice in one page, it would declare its variables twice.
    document.write(html.replaceAll(/<script\b[^>]*><\/script>/g, ''))
    document.close()
    if (document.readyState !== 'complete')
      await new Promise((resolve) => addEventListener('load', resolve, { once: true }))
    const links = Array.from(document.querySelectorAll('a[href^="/"]'), (link) => link.getAttribute('href') ?? '')
    return { status: answer.status, links }
  }, address)
}
