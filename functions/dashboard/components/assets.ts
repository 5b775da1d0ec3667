import { fontBase64 } from '../../../tracker/dist/served/font.js'
import { fontFace } from './font-face.ts'
import { script } from './script.ts'
import { style } from './style.ts'

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#5b70f0" stroke-width="2.2" stroke-linecap="round"><circle cx="6" cy="12" r="3.2"/><circle cx="18" cy="5.5" r="2.4"/><circle cx="18" cy="18.5" r="2.4"/><path d="M9 10.4 15.8 6.7M9 13.6l6.8 3.7"/></svg>`

interface Asset {
  /** Changes with the content, so browsers may cache the file forever. */
  path: string
  type: string
  content: string | Uint8Array<ArrayBuffer>
}

/** FNV-1a with 32 bits. It only distinguishes versions of a file, so it doesn't need to be async or secure. */
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

export const assets = {
  style: asset('dashboard.css', 'text/css; charset=utf-8', fontFace(font.path) + style),
  script: asset('dashboard.js', 'text/javascript; charset=utf-8', script),
  font,
  icon: asset('icon.svg', 'image/svg+xml', icon),
}
