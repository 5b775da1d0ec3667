/** The address that the package was built for, or empty if it is unknown. See build.ts. */
declare const SVC_BASE_URL: string

/** One address for everything, or separate addresses for some routes, such as a function's own URL. */
export interface Addresses {
  /** Default: `SVC_BASE_URL` of the environment, or else the address that the package was built for. */
  baseUrl?: string | undefined
  urls?: Partial<Record<Route, string>> | undefined
}
export type Route = 'script' | 'consent' | 'paymentLinks' | 'click' | 'lead' | 'sale' | 'refund'

const scripts: Partial<Record<Route, string>> = {
  script: '/js/svc-tracker.js',
  consent: '/js/svc-tracker-consent.js',
  paymentLinks: '/js/svc-payment-links.js',
}
export const pathOf = (route: Route) => scripts[route] ?? `/api/v1/track/${route}`

/** Returns the service's address without a trailing slash. Throws if it isn't configured, so that no key is sent to a stranger. */
export function baseUrlOf(baseUrl: string | undefined): string {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } }
  const found = baseUrl || process?.env?.['SVC_BASE_URL'] || SVC_BASE_URL
  if (!found) throw new TypeError('baseUrl is missing. Pass the address of the service, or set SVC_BASE_URL.')
  let end = found.length
  while (found[end - 1] === '/') end--
  return found.slice(0, end)
}

/** Returns the address of a route. */
export const address = ({ baseUrl, urls }: Addresses, route: Route) =>
  urls?.[route] ?? baseUrlOf(baseUrl) + pathOf(route)

/** `Request` headers, or a compatible object. */
export type Headers = { get(name: string): string | null }
