import { UAParser } from 'ua-parser-js'

/** What the edge knows of a visitor's place: `request.cf` on Cloudflare. */
interface EdgeLocation {
  country?: string
  region?: string
  city?: string
}

/**
 * Where the visitor is: from Cloudflare's `request.cf`, else from the headers that CloudFront sets. The address itself is never
 * looked at.
 */
export function visitorLocation(request: Request & { cf?: EdgeLocation }) {
  const header = (name: string) => request.headers.get(`cloudfront-viewer-${name}`)
  return {
    geo_country: request.cf?.country ?? header('country'),
    geo_region: request.cf?.region ?? header('country-region-name'),
    geo_city: request.cf?.city ?? header('city'),
  }
}

/** Device type (`desktop` where the agent names none), operating system and browser, from the user agent. */
export function visitorDevice(userAgent: string | null) {
  if (!userAgent) return { device_type: null, device_os: null, browser_name: null }
  const { device, os, browser } = new UAParser(userAgent).getResult()
  const known = os.name !== undefined || browser.name !== undefined
  return {
    device_type: device.type ?? (known ? 'desktop' : null),
    device_os: os.name ?? null,
    browser_name: browser.name ?? null,
  }
}
