import { UAParser } from 'ua-parser-js'

/** What the edge knows of a visitor's place: `request.cf` on Cloudflare. */
interface EdgeLocation {
  country?: string
  region?: string
  city?: string
}

/**
 * Where the visitor is: from a proxy on the integrator's own domain where one says so (percent-encoded; empty means that it does
 * not know, and its own place is not the visitor's), else from Cloudflare's `request.cf`, else from the headers that
 * CloudFront sets. The address itself is never looked at.
 */
export function visitorLocation(request: Request & { cf?: EdgeLocation }) {
  const header = (name: string) => request.headers.get(name)
  if (header('svc-visitor-country') !== null) {
    return {
      geo_country: decoded(header('svc-visitor-country')),
      geo_region: decoded(header('svc-visitor-country-region')),
      geo_city: decoded(header('svc-visitor-city')),
    }
  }
  return {
    geo_country: request.cf?.country ?? header('cloudfront-viewer-country'),
    geo_region: request.cf?.region ?? header('cloudfront-viewer-country-region-name'),
    geo_city: request.cf?.city ?? header('cloudfront-viewer-city'),
  }
}

/** What a header says, cut to what is kept; the cut can fall inside a character. */
function decoded(value: string | null): string | null {
  try {
    return (
      decodeURIComponent(value ?? '')
        .replaceAll('\0', '')
        .slice(0, 255)
        .toWellFormed() || null
    )
  } catch {
    return null
  }
}

interface Device {
  device_type: string | null
  device_os: string | null
  browser_name: string | null
}

/** Reading a user agent takes 15 to 100 µs, most of a click's work, and the same few agents come again and again. */
const knownDevices = new Map<string, Device>()
const maxKnownDevices = 500

/** Device type (`desktop` where the agent names none), operating system and browser, from the user agent. */
export function visitorDevice(userAgent: string | null): Device {
  if (!userAgent) return { device_type: null, device_os: null, browser_name: null }
  const known = knownDevices.get(userAgent)
  if (known) return known
  const parser = new UAParser(userAgent)
  const os = parser.getOS().name ?? null
  const browser = parser.getBrowser().name ?? null
  const device = {
    device_type: parser.getDevice().type ?? (os !== null || browser !== null ? 'desktop' : null),
    device_os: os,
    browser_name: browser,
  }
  if (knownDevices.size >= maxKnownDevices) knownDevices.clear()
  knownDevices.set(userAgent, device)
  return device
}
