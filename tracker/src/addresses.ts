/** The address the package was built for; see build.ts. */
declare const SVC_BASE_URL: string

/** One address for everything, or separate addresses for some routes, such as a function's own URL. */
export interface Addresses {
  /** Default: the address the package was built for. */
  baseUrl?: string | undefined
  urls?: Partial<Record<Route, string>> | undefined
}
export type Route = 'script' | 'paymentLinks' | 'click' | 'lead' | 'sale' | 'refund'

const scripts: Partial<Record<Route, string>> = {
  script: '/js/svc-tracker.js',
  paymentLinks: '/js/svc-payment-links.js',
}
export const pathOf = (route: Route) => scripts[route] ?? `/api/v1/track/${route}`

/** The address at which a route is called. */
export const address = ({ baseUrl = SVC_BASE_URL, urls }: Addresses, route: Route) =>
  urls?.[route] ?? baseUrl.replace(/\/+$/, '') + pathOf(route)

/** `Request` headers, or a compatible object. */
export type Headers = { get(name: string): string | null }
