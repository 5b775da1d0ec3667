import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type CityResponse, Reader } from 'mmdb-lib'

/** Where an address is, as far as it is known. */
export interface Place {
  country?: string
  region?: string
  city?: string
}

/**
 * Opens a file in the format MaxMind DB with cities or countries (GeoLite2 and DB-IP offer such files).
 * @returns the place of an address, empty if the file doesn't know it
 */
export function openGeoFile(file: string): (address: string) => Place {
  const reader = openReader(file)
  return (address) => {
    const family = isIP(address)
    // A file with IPv4 addresses alone would take the first 32 bits of an IPv6 address for one.
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

/** `{country: {iso_code}, subdivisions: [{names: {en}}], city: {names: {en}}}`, as far as a file has it. */
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
