/** The colors of a program's pages. All text has the contrast of WCAG 2.2 AA, no matter which color the program chose. */

/** The minimum contrast between text and its background. */
const textContrast = 4.5
/** A button with less contrast than this looks like a part of the page. */
const leastDifference = 1.1

type Channels = readonly [red: number, green: number, blue: number]

const black = '#000000'
const white = '#ffffff'
/** The darkest light surface and the lightest dark surface behind text in the accent color. See components/style/base.ts. */
const surfaces = { light: '#f5f5f4', dark: '#191b1f' } as const

function channelsOf(color: string): Channels {
  const value = Number.parseInt(color.slice(1), 16)
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255]
}

/** The relative luminance of a color, from 0 to 1. */
function luminanceOf(color: string): number {
  const [red, green, blue] = channelsOf(color).map((channel) => {
    const part = channel / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0)
}

/** Returns the contrast of two colors, from 1 to 21. */
export function contrastOf(one: string, other: string): number {
  const [lighter = 0, darker = 0] = [luminanceOf(one), luminanceOf(other)].toSorted((a, b) => b - a)
  return (lighter + 0.05) / (darker + 0.05)
}

function mix(color: string, into: string, part: number): string {
  const [from, to] = [channelsOf(color), channelsOf(into)]
  const mixed = from.map((channel, index) => Math.round(channel * (1 - part) + (to[index] ?? 0) * part))
  return `#${mixed.map((channel) => channel.toString(16).padStart(2, '0')).join('')}`
}

/** The colors of one mode. */
interface ModeColors {
  /** Links and other text in the brand's color, and the background behind such text. */
  accent: string
  accentSoft: string
  button: string
  onButton: string
}

/**
 * Returns the colors of a brand in light and dark mode. Buttons have the brand's own color with black or white text. Links have the
 * closest color that is readable.
 */
export function brandColors(color: string): { light: ModeColors; dark: ModeColors } {
  return { light: modeColors(color, 'light'), dark: modeColors(color, 'dark') }
}

function modeColors(color: string, mode: 'light' | 'dark'): ModeColors {
  const [surface, towards] = mode === 'light' ? [surfaces.light, black] : [surfaces.dark, white]
  let [accent, accentSoft] = [color, color]
  for (let part = 0; part <= 1; part += 0.02) {
    accent = mix(color, towards, part)
    accentSoft = mix(surface, accent, 0.1)
    if (contrastOf(accent, accentSoft) >= textContrast && contrastOf(accent, surface) >= textContrast) break
  }
  const button = contrastOf(color, surface) < leastDifference ? accent : color
  return { accent, accentSoft, button, onButton: textOn(button) }
}

/** Returns black or white, whichever is easier to read on the color. */
function textOn(color: string): string {
  return contrastOf(color, white) >= contrastOf(color, black) ? white : black
}

const nameOf = (text: string) => (text === white ? 'white' : 'black')

/** Describes the use of a color and, if the color is changed, the reasons. */
export function colorNotes(color: string): string[] {
  const { light, dark } = brandColors(color)
  const links = (mode: 'light' | 'dark', used: string) =>
    used === color
      ? `Links in ${mode} mode have this color.`
      : `Links in ${mode} mode use ${used}, because ${color} has a contrast of ${contrastOf(color, surfaces[mode]).toFixed(1)} there, and text needs ${textContrast}.`
  const button = (mode: 'light' | 'dark', { button: used, onButton }: ModeColors) =>
    used === color
      ? []
      : [`Buttons in ${mode} mode use ${used} with ${nameOf(onButton)} text, because ${color} looks like the page.`]
  return [
    `Buttons have ${nameOf(textOn(color))} text, with a contrast of ${contrastOf(color, textOn(color)).toFixed(1)}.`,
    links('light', light.accent),
    links('dark', dark.accent),
    ...button('light', light),
    ...button('dark', dark),
  ]
}

/** The stylesheet of a brand: it replaces tokens of components/style/base.ts in the elements of `selector`. */
export function brandStyle(color: string, selector = ':root'): string {
  const { light, dark } = brandColors(color)
  const token = (name: string, of: (mode: ModeColors) => string) => `--${name}:light-dark(${of(light)},${of(dark)})`
  const tokens = [
    token('accent', ({ accent }) => accent),
    token('on-accent', ({ accent }) => textOn(accent)),
    token('accent-soft', ({ accentSoft }) => accentSoft),
    token('button', ({ button }) => button),
    token('on-button', ({ onButton }) => onButton),
    token('button-hover', ({ onButton }) => (onButton === white ? black : white)),
  ]
  return `${selector}{${tokens.join(';')}}`
}
