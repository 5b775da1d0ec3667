const latin = 'U+0-FF,U+131,U+152-153,U+2BB-2BC,U+2C6,U+2DA,U+2DC,U+2000-206F,U+20AC,U+2122,U+2191,U+2193,U+2212,U+2215'

/** The Inter font, served from this path. Non-Latin characters use the reader's own font. */
export const fontFace = (path: string) =>
  `@font-face{font-family:'Inter Variable';font-weight:100 900;font-display:swap;src:url(${path}) format('woff2');unicode-range:${latin}}`
