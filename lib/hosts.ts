/** Returns the ASCII form of a host, such as `xn--mnchen-3ya.de` for `münchen.de`. Returns other text unchanged. */
export function asciiHost(text: string): string {
  return URL.parse(`https://${text}`)?.host ?? text
}

/** Returns a stored host as people type it, or unchanged if the result would not convert back to the same name. */
export function shownHost(host: string): string {
  const shown = host.replaceAll(/\bxn--([a-z0-9-]+)/g, (label, encoded: string) => decodeLabel(encoded) ?? label)
  return asciiHost(shown) === host ? shown : host
}

/** Decodes a Punycode label (RFC 3492, section 6.2). Returns undefined if it is invalid. */
function decodeLabel(encoded: string): string | undefined {
  const base = 36
  const cut = encoded.lastIndexOf('-')
  const letters = Array.from(encoded.slice(0, Math.max(cut, 0)), (letter) => letter.codePointAt(0) ?? 0)
  let [code, bias, index] = [128, 72, 0]
  for (let at = cut + 1; at < encoded.length;) {
    const before = index
    for (let weight = 1, place = base; ; place += base) {
      const digit = Number.parseInt(digitOf(encoded[at++]), base)
      if (Number.isNaN(digit)) return undefined
      index += digit * weight
      const threshold = Math.min(Math.max(place - bias, 1), 26)
      if (digit < threshold) break
      weight *= base - threshold
    }
    const count = letters.length + 1
    bias = adapted(index - before, count, before === 0)
    code += Math.floor(index / count)
    index %= count
    if (code > 0x10ffff) return undefined
    letters.splice(index++, 0, code)
  }
  return String.fromCodePoint(...letters)
}

/** Punycode orders `a` to `z` before `0` to `9`. Base 36 has the opposite order. */
function digitOf(letter = ''): string {
  if (/[a-z]/.test(letter)) return (letter.charCodeAt(0) - 97).toString(36)
  return /\d/.test(letter) ? (Number(letter) + 26).toString(36) : ''
}

function adapted(delta: number, count: number, isFirst: boolean): number {
  let rest = Math.floor(delta / (isFirst ? 700 : 2))
  rest += Math.floor(rest / count)
  let bias = 0
  for (; rest > 455; bias += 36) rest = Math.floor(rest / 35)
  return bias + Math.floor((36 * rest) / (rest + 38))
}
