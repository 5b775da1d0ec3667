/**
 * The script that fills the visitor's click id into what leads to Stripe's own pages, for shops that sell by Payment Links, buy buttons or
 * pricing tables: `<script async src="{base_url}/js/svc-payment-links.js"></script>` beside the tracker's tag. A file of its own, so that
 * it costs nobody else a byte. `data-svc-name` says whose click id it is where the tracker's tag has that attribute.
 *
 * Filled is `client_reference_id` of links to buy.stripe.com and `client-reference-id` of `stripe-buy-button` and `stripe-pricing-table`,
 * also of what the page adds or writes anew later. A value that the page set stays.
 */
import type { Svc } from './browser.ts'

try {
  const name = document.currentScript?.dataset['svcName'] ?? 'svc'
  /** What Stripe takes; anything else it drops without a word. */
  const taken = /^[\w-]{1,200}$/
  const parameter = /([?&]client_reference_id=)([^&]*)/
  const attribute = 'client-reference-id'
  /** What was put in here, so that the id of a later click takes its place, and nothing else's. */
  const given = new Set([''])

  const clickId = () => {
    // Before the tracker and without its stub there is none, and a page may have something else under its name.
    const svc: Partial<Svc> | undefined = Reflect.get(window, name)
    const id = svc?.getClickId?.() ?? ''
    if (!taken.test(id)) return undefined
    given.add(id)
    return id
  }

  const fillLink = (link: HTMLAnchorElement, id: string) => {
    if (link.hostname !== 'buy.stripe.com') return
    const { search } = link
    const [, , value] = parameter.exec(search) ?? []
    // As text: the page's other parameters stay as they were written.
    if (value === undefined) link.search = `${search || '?'}${search.length > 1 ? '&' : ''}client_reference_id=${id}`
    else if (value !== id && given.has(value)) link.search = search.replace(parameter, `$1${id}`)
  }

  const fill = () => {
    const id = clickId()
    if (!id) return false
    for (const link of document.querySelectorAll<HTMLAnchorElement>('a[href*="buy.stripe.com"]')) fillLink(link, id)
    for (const element of document.querySelectorAll('stripe-buy-button, stripe-pricing-table')) {
      const value = element.getAttribute(attribute) ?? ''
      if (value !== id && given.has(value)) element.setAttribute(attribute, id)
    }
    return true
  }

  new MutationObserver(fill).observe(document, {
    subtree: true,
    childList: true,
    attributeFilter: ['href', attribute],
  })
  // At the last moment: links inside shadow roots, and an id that is newer than the page's last change.
  for (const type of ['click', 'auxclick'])
    addEventListener(
      type,
      (event) => {
        const id = clickId()
        if (id) for (const node of event.composedPath()) if (node instanceof HTMLAnchorElement) fillLink(node, id)
      },
      true,
    )
  // The click may still be under way, or the visitor's consent: nothing tells of either.
  if (!fill()) {
    const timer = setInterval(() => fill() && clearInterval(timer), 250)
  }
} catch {}
