import { fontBase64 } from '../../../tracker/dist/served/font.js'
import { script } from './script.ts'
import { style } from './style.ts'

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#5b70f0" stroke-width="2.2" stroke-linecap="round"><circle cx="6" cy="12" r="3.2"/><circle cx="18" cy="5.5" r="2.4"/><circle cx="18" cy="18.5" r="2.4"/><path d="M9 10.4 15.8 6.7M9 13.6l6.8 3.7"/></svg>`

interface Asset {
  /** Changes with the content, so browsers may cache the file forever. */
  path: string
  type: string
  content: string | Uint8Array<ArrayBuffer>
}

/** FNV-1a with 32 bits. It only distinguishes versions of a file, so it need not be async or secure. */
function fingerprint(text: string): string {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  return (hash >>> 0).toString(36)
}

function pathOf(name: string, text: string): string {
  const [stem, extension] = name.split('.')
  return `/assets/${stem}-${fingerprint(text)}.${extension}`
}

const asset = (name: string, type: string, text: string): Asset => ({ path: pathOf(name, text), type, content: text })

const font: Asset = {
  path: pathOf('inter.woff2', fontBase64),
  type: 'font/woff2',
  content: Uint8Array.from(atob(fontBase64), (character) => character.charCodeAt(0)),
}

/** Inter, from the service itself. Characters outside of Latin get the reader's own font. */
const fontFace = `@font-face{font-family:'Inter Variable';font-weight:100 900;font-display:swap;src:url(${font.path}) format('woff2');unicode-range:U+0-FF,U+131,U+152-153,U+2BB-2BC,U+2C6,U+2DA,U+2DC,U+2000-206F,U+20AC,U+2122,U+2191,U+2193,U+2212,U+2215}`

export const assets = {
  style: asset('dashboard.css', 'text/css; charset=utf-8', fontFace + style),
  script: asset('dashboard.js', 'text/javascript; charset=utf-8', script),
  font,
  icon: asset('icon.svg', 'image/svg+xml', icon),
}
