/**
 * Adds the visitor's click id to links, elements and calls that open a processor's own checkout: `<script async
 * src="{base_url}/js/svc-payment-links.js"></script>` next to the tracker's tag. The script is a separate file, so that other shops don't
 * have to load it. If the tracker's tag has `data-svc-name`, this tag needs the same name.
 *
 * Fills `client_reference_id` of Stripe Payment Links, buy buttons and pricing tables, `reference_id` of Polar's checkout links, the custom
 * data of Lemon Squeezy's checkout links, and that of Paddle.js: `Paddle.Checkout.open` and `.paddle_button` elements. It also fills
 * elements that the page adds or rewrites later, and keeps values that the page has set.
 */
import type { Svc } from './browser.ts'

interface Checkout {
  open: (options?: { customData?: object | null }) => unknown
}

try {
  const name = document.currentScript?.dataset['svcName'] ?? 'svc'
  /** Stripe silently ignores any other value. */
  const accepted = /^[\w-]{1,200}$/
  /** For each processor's links: the address, the parameter, and how to write the parameter. */
  const kinds: [RegExp, RegExp, string][] = [
    [/^buy\.stripe\.com\//, /([?&]client_reference_id=)([^&]*)/, 'client_reference_id'],
    [/^(buy|sandbox-api)\.polar\.sh\//, /([?&]reference_id=)([^&]*)/, 'reference_id'],
    [
      /\.lemonsqueezy\.com\/(buy|checkout)\//,
      /([?&]checkout(?:\[|%5B)custom(?:]|%5D)(?:\[|%5B)svc_click_id(?:]|%5D)=)([^&]*)/i,
      'checkout[custom][svc_click_id]',
    ],
  ]
  const attribute = 'client-reference-id'
  const customData = 'data-custom-data'
  /** The values that this script has written. It replaces only these with the id of a later click. */
  const written = new Set([''])
  const wrapped = new WeakSet()

  const clickId = () => {
    // Without the tracker and the stub, there is no helper, or the page has another object with this name.
    const svc: Partial<Svc> | undefined = Reflect.get(window, name)
    const id = svc?.getClickId?.() ?? ''
    if (!accepted.test(id)) return undefined
    written.add(id)
    return id
  }

  const fillLink = (link: HTMLAnchorElement, id: string) => {
    const [, parameter, spelling] = kinds.find(([address]) => address.test(link.hostname + link.pathname)) ?? []
    if (!parameter) return
    const { search } = link
    const [, , value] = parameter.exec(search) ?? []
    // The text is edited, so that the page's other parameters keep their spelling.
    if (value === undefined) link.search = `${search || '?'}${search.length > 1 ? '&' : ''}${spelling}=${id}`
    else if (value !== id && written.has(value)) link.search = search.replace(parameter, `$1${id}`)
  }

  const fillButton = (button: Element, id: string) => {
    try {
      const data = JSON.parse(button.getAttribute(customData) ?? '{}')
      const value = data.svc_click_id ?? ''
      if (value !== id && written.has(value))
        button.setAttribute(customData, JSON.stringify({ ...data, svc_click_id: id }))
    } catch {}
  }

  /** Adds the click id to the custom data of checkouts that the page opens with Paddle.js. */
  const wrapPaddle = () => {
    const paddle: { Checkout?: Checkout } | undefined = Reflect.get(window, 'Paddle')
    const checkout = paddle?.Checkout
    if (!checkout || wrapped.has(checkout)) return
    wrapped.add(checkout)
    const { open } = checkout
    Reflect.set(checkout, 'open', (options?: { customData?: object | null }) => {
      const id = clickId()
      return open.call(
        checkout,
        id ? { ...options, customData: { svc_click_id: id, ...options?.customData } } : options,
      )
    })
  }

  const fill = () => {
    wrapPaddle()
    const id = clickId()
    if (!id) return false
    for (const link of document.querySelectorAll<HTMLAnchorElement>(
      'a[href*="buy.stripe.com"], a[href*="polar.sh"], a[href*="lemonsqueezy.com"]',
    ))
      fillLink(link, id)
    for (const element of document.querySelectorAll('stripe-buy-button, stripe-pricing-table')) {
      const value = element.getAttribute(attribute) ?? ''
      if (value !== id && written.has(value)) element.setAttribute(attribute, id)
    }
    for (const button of document.querySelectorAll('.paddle_button')) fillButton(button, id)
    return true
  }

  new MutationObserver(fill).observe(document, {
    subtree: true,
    childList: true,
    attributeFilter: ['href', attribute, customData],
  })
  // This comes right after Paddle.js has run, before the page's own script can open a checkout.
  document.addEventListener('load', wrapPaddle, true)
  // This also runs on each click, for links inside shadow roots and for ids that are newer than the page's last change.
  for (const type of ['click', 'auxclick'])
    addEventListener(
      type,
      (event) => {
        wrapPaddle()
        const id = clickId()
        if (id) for (const node of event.composedPath()) if (node instanceof HTMLAnchorElement) fillLink(node, id)
      },
      true,
    )
  // The click or the visitor's consent may be pending. There is no event for either, so the script polls.
  if (!fill()) {
    const timer = setInterval(() => fill() && clearInterval(timer), 250)
  }
} catch {}
