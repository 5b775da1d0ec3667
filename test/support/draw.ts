import type { Page } from 'playwright-core'

export interface Drawn {
  /** Of the answer, after redirects. */
  status: number
  /** What links on it lead to, of addresses on the same origin. */
  links: string[]
}

/**
 * Draws what an address answers in `page` as it stands, which has to be one of the same origin: its HTML and styles, without its scripts. That
 * takes a third of what going there does, and what was loaded into the page, as axe, is not read and compiled anew.
 */
export async function drawInPlace(page: Page, address: string): Promise<Drawn> {
  return await page.evaluate(async (asked) => {
    const answer = await fetch(asked)
    const html = await answer.text()
    history.replaceState(null, '', answer.url)
    document.open()
    // A script that is run twice in a page finds its own names taken.
    document.write(html.replaceAll(/<script\b[^>]*><\/script>/g, ''))
    document.close()
    if (document.readyState !== 'complete')
      await new Promise((resolve) => addEventListener('load', resolve, { once: true }))
    const links = Array.from(document.querySelectorAll('a[href^="/"]'), (link) => link.getAttribute('href') ?? '')
    return { status: answer.status, links }
  }, address)
}
