import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { brandColors, colorNotes, contrastOf } from '../lib/brand-colors.ts'
import { maxLogoBytes, readLogo } from '../lib/programs/logo-image.ts'
import { jpegOf, pngOf, webpOf } from './support/images.ts'

test('every color of a brand has readable text in light and dark mode', () => {
  const surfaces = { light: ['#ffffff', '#f5f5f4'], dark: ['#131417', '#191b1f', '#0d0e10'] } as const
  const colors = fc.integer({ min: 0, max: 0xffffff }).map((value) => `#${value.toString(16).padStart(6, '0')}`)
  fc.assert(
    fc.property(fc.oneof(colors, fc.constantFrom('#000000', '#ffffff', '#ffcc00', '#777777')), (color) => {
      const modes = brandColors(color)
      for (const mode of ['light', 'dark'] as const) {
        const { accent, accentSoft, button, onButton } = modes[mode]
        const pairs = [[button, onButton], [accent, accentSoft], ...surfaces[mode].map((surface) => [accent, surface])]
        for (const [one = '', other = ''] of pairs) expect(contrastOf(one, other)).toBeGreaterThanOrEqual(4.5)
      }
    }),
    { seed: 35, numRuns: 300 },
  )
})

test('a changed color is explained with its contrast', () => {
  expect(colorNotes('#ffcc00')).toEqual([
    'Buttons have black text, with a contrast of 13.9.',
    expect.stringMatching(
      /^Links in light mode use #\w{6}, because #ffcc00 has a contrast of 1\.4 there, and text needs 4\.5\.$/,
    ),
    'Links in dark mode have this color.',
  ])
})

test.each([
  ['png', pngOf(40, 20)],
  ['jpeg', jpegOf(40, 20)],
  ['webp', webpOf(40, 20)],
])('a logo of the type %s loses its metadata and everything after its end', (type, file) => {
  const image = readLogo(file)
  expect(image.type).toBe(type)
  expect(Buffer.from(image.bytes).includes('secret')).toBe(false)
  expect(Buffer.from(file).includes('secret')).toBe(true)
  // The rest is a complete image again.
  expect(readLogo(image.bytes)).toEqual(image)
  for (let length = 0; length < image.bytes.length; length += 3)
    expect(() => readLogo(image.bytes.subarray(0, length))).toThrow(/image/)
})

test.each([
  ['an SVG image', Buffer.from('<?xml version="1.0"?><svg onload="alert(1)"/>'), 'can contain scripts'],
  ['another file', Buffer.from('%PDF-1.7'), 'not a PNG, JPEG or WebP image'],
  ['a huge image', pngOf(2001, 20), '2001 × 20 pixels'],
  ['a tiny image', jpegOf(40, 15), '40 × 15 pixels'],
  ['a huge image behind a small header', webpOf(40, 20, 'XMP ', 16_000), 'damaged'],
  ['an animation', webpOf(40, 20, 'ANIM'), 'cannot be animated'],
  ['a large file', Buffer.alloc(maxLogoBytes + 1), '512 KiB at most'],
])('a logo that is %s is refused', (_what, file, reason) => {
  expect(() => readLogo(file)).toThrow(reason)
})
