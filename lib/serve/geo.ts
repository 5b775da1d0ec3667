import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type CityResponse, Reader } from 'mmdb-lib'

/** The known parts of a place. */
export interface Place {
  country?: string
  region?: string
  city?: string
}

/**
 * Opens a MaxMind database of cities or countries, such as GeoLite2.
 * @returns a function from an address to its place, which is empty if the file doesn't know the address
 */
export function openGeoFile(file: string): (address: string) => Place {
  const reader = openReader(file)
  return (address) => {
    const family = isIP(address)
    // A file with only IPv4 addresses would match the first 32 bits of an IPv6 address.
    if (family === 0 || family > reader.metadata.ipVersion) return {}
    return placeOf(reader.get(address))
  }
}

function openReader(file: string): Reader<CityResponse> {
  try {
    return new Reader<CityResponse>(readFileSync(file))
  } catch (error) {
    throw new Error(`${file} is not a MaxMind DB. Set GEOIP_FILE to a GeoLite2 or DB-IP file.`, { cause: error })
  }
}

/** `{country: {iso_code}, subdivisions: [{names: {en}}], city: {names: {en}}}`. Each part is optional. */
function placeOf(record: unknown): Place {
  const country = text(record, 'country', 'iso_code')
  const region = text(record, 'subdivisions', '0', 'names', 'en')
  const city = text(record, 'city', 'names', 'en')
  return { ...(country && { country }), ...(region && { region }), ...(city && { city }) }
}

function inside(value: unknown, names: string[]): unknown {
  return names.reduce<unknown>(
    (found, name) =>
      typeof found === 'object' && found !== null ? Object.getOwnPropertyDescriptor(found, name)?.value : undefined,
    value,
  )
}

function text(value: unknown, ...names: string[]): string | undefined {
  const found = inside(value, names)
  return typeof found === 'string' ? found : undefined
}
