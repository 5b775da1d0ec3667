/**
 * Adds the visitor's click id to links and elements that lead to Stripe's own pages, for shops with Payment Links, buy buttons or
 * pricing tables: `<script async src="{base_url}/js/svc-payment-links.js"></script>` next to the tracker's tag. It is a separate file, so
 * that other shops don't pay for its bytes. If the tracker's tag has `data-svc-name`, this tag needs the same.
 *
 * Fills `client_reference_id` of links to buy.stripe.com, and `client-reference-id` of `stripe-buy-button` and `stripe-pricing-table`,
 * even if the page adds or rewrites them later. Keeps a value that the page set.
 */
import type { Svc } from './browser.ts'

try {
  const name = document.currentScript?.dataset['svcName'] ?? 'svc'
  /** Stripe silently drops any other value. */
  const acceptedByStripe = /^[\w-]{1,200}$/
  const parameter = /([?&]client_reference_id=)([^&]*)/
  const attribute = 'client-reference-id'
  /** Values that this script wrote: only these may be replaced by the id of a later click. */
  const written = new Set([''])

  const clickId = () => {
    // Without tracker and stub there is no helper, or the page has another object under its name.
    const svc: Partial<Svc> | undefined = Reflect.get(window, name)
    const id = svc?.getClickId?.() ?? ''
    if (!acceptedByStripe.test(id)) return undefined
    written.add(id)
    return id
  }

  const fillLink = (link: HTMLAnchorElement, id: string) => {
    if (link.hostname !== 'buy.stripe.com') return
    const { search } = link
    const [, , value] = parameter.exec(search) ?? []
    // Edits the text, so that the page's other parameters keep their spelling.
    if (value === undefined) link.search = `${search || '?'}${search.length > 1 ? '&' : ''}client_reference_id=${id}`
    else if (value !== id && written.has(value)) link.search = search.replace(parameter, `$1${id}`)
  }

  const fill = () => {
    const id = clickId()
    if (!id) return false
    for (const link of document.querySelectorAll<HTMLAnchorElement>('a[href*="buy.stripe.com"]')) fillLink(link, id)
    for (const element of document.querySelectorAll('stripe-buy-button, stripe-pricing-table')) {
      const value = element.getAttribute(attribute) ?? ''
      if (value !== id && written.has(value)) element.setAttribute(attribute, id)
    }
    return true
  }

  new MutationObserver(fill).observe(document, {
    subtree: true,
    childList: true,
    attributeFilter: ['href', attribute],
  })
  // On each click too, for links inside shadow roots, and for an id that is newer than the page's last change.
  for (const type of ['click', 'auxclick'])
    addEventListener(
      type,
      (event) => {
        const id = clickId()
        if (id) for (const node of event.composedPath()) if (node instanceof HTMLAnchorElement) fillLink(node, id)
      },
      true,
    )
  // The click may be pending, or the visitor's consent. Nothing signals either, so the script polls.
  if (!fill()) {
    const timer = setInterval(() => fill() && clearInterval(timer), 250)
  }
} catch {}
