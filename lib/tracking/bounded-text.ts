import { campaignNames } from './campaign.ts'

const maxBytes = 2048
const encoder = new TextEncoder()

/**
 * Returns a function that cuts texts to at most 2 KB in total. Each text may take half of the remaining space, so that a long
 * text leaves room for the next one.
 */
export function textBudget(): (text: string | null | undefined) => string | null {
  let left = maxBytes
  return (text) => {
    if (text === null || text === undefined) return null
    // This never cuts inside a character.
    const { read, written } = encoder.encodeInto(text, new Uint8Array(Math.ceil(left / 2)))
    left -= written
    return text.slice(0, read)
  }
}

/** The parameters of an address that the service reads. Other parameters can contain private data. */
const keptNames = new Set<string>(['aff', ...campaignNames, 'gclid', 'gbraid', 'wbraid', 'msclkid'])

/** Returns an address without its hash, and with only the parameters that the service reads. */
export function keptAddress(address: string | null | undefined): string | null {
  if (address === null || address === undefined) return null
  const [page = ''] = address.split(/[?#]/, 1)
  const [query = ''] = address.slice(page.length + 1).split('#', 1)
  const kept =
    address[page.length] === '?' ? query.split('&').filter((one) => keptNames.has(one.split('=', 1)[0] ?? '')) : []
  return kept.length > 0 ? `${page}?${kept.join('&')}` : page
}
