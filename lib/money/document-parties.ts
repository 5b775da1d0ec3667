import * as z from 'zod/mini'

/** The names, addresses and VAT numbers on documents. */

/**
 * A character that documents can't print. They can print Latin, Greek, Cyrillic, Hebrew and Arabic letters, as test/documents.test.ts
 * checks.
 */
export const unprintable =
  /[^\n\u0020-\u007E\u00A0-\u00AC\u00AE-\u024F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03CE\u0400-\u0525\u05D0-\u05EA\u05F3\u05F4\u060C\u061B\u061F\u0621-\u063A\u0640-\u0652\u0660-\u066C\u067E\u0686\u0698\u06A9\u06AF\u06CC\u1E00-\u1EFB\u2010-\u2027\u20AC\u2116\u2122]/u

const lettersRule = 'Use Latin, Greek, Cyrillic, Hebrew or Arabic letters. Documents cannot print others.'

/** Trims each line, and drops empty lines. */
const tidy = (text: string) =>
  text
    .normalize('NFC')
    .split(/\r\n?|\n/)
    .map((line) => line.replaceAll('\t', ' ').trim())
    .filter((line) => line !== '')
    .join('\n')

function printedText(length: number, missing: string) {
  return z.string(missing).check(
    z.maxLength(length, `Use at most ${length} characters.`),
    z.overwrite(tidy),
    z.minLength(1, missing),
    z.maxLength(length, `Use at most ${length} characters.`),
    z.refine((text) => !unprintable.test(text), lettersRule),
  )
}

const regionNames = new Intl.DisplayNames('en', { type: 'region', fallback: 'none' })
const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'.split('')
/** Codes that Intl knows, but that don't stand for a country or that a country no longer uses. */
const noCountries = 'AC CP CQ DG EA EU EZ IC QO TA UN XA XB ZZ'.split(' ')

/** The countries with their ISO 3166 codes, by name. */
export const countries = letters
  .flatMap((first) => letters.map((second) => first + second))
  .flatMap((code): [code: string, name: string][] => {
    const name = regionNames.of(code)
    const isCurrent = Intl.getCanonicalLocales(`und-${code}`)[0] === `und-${code}`
    return name === undefined || !isCurrent || noCountries.includes(code) ? [] : [[code, name]]
  })
  .toSorted(([, a], [, b]) => a.localeCompare(b))

/** The VAT numbers of the European Union, with the country's prefix. The countries are the same as in `is_in_eu` in the database. */
export const euVatNumbers: Record<string, RegExp> = {
  AT: /^ATU\d{8}$/,
  BE: /^BE[01]\d{9}$/,
  BG: /^BG\d{9,10}$/,
  CY: /^CY\d{8}[A-Z]$/,
  CZ: /^CZ\d{8,10}$/,
  DE: /^DE\d{9}$/,
  DK: /^DK\d{8}$/,
  EE: /^EE\d{9}$/,
  ES: /^ES[A-Z0-9]\d{7}[A-Z0-9]$/,
  FI: /^FI\d{8}$/,
  FR: /^FR[A-Z0-9]{2}\d{9}$/,
  GR: /^EL\d{9}$/,
  HR: /^HR\d{11}$/,
  HU: /^HU\d{8}$/,
  IE: /^IE\d[A-Z0-9]\d{5}[A-Z]{1,2}$/,
  IT: /^IT\d{11}$/,
  LT: /^LT(\d{9}|\d{12})$/,
  LU: /^LU\d{8}$/,
  LV: /^LV\d{11}$/,
  MT: /^MT\d{8}$/,
  NL: /^NL\d{9}B\d{2}$/,
  PL: /^PL\d{10}$/,
  PT: /^PT\d{9}$/,
  RO: /^RO\d{2,10}$/,
  SE: /^SE\d{12}$/,
  SI: /^SI\d{8}$/,
  SK: /^SK\d{10}$/,
}
const otherVatNumbers: Record<string, RegExp> = {
  CH: /^CHE\d{9}(MWST|TVA|IVA)?$/,
  GB: /^GB(\d{9}|\d{12}|GD\d{3}|HA\d{3})$/,
  NO: /^NO\d{9}(MVA)?$/,
}
const anyVatNumber = /^[A-Z0-9]{4,20}$/

/** Checks the format of a VAT number. Only the tax office knows whether it exists. */
export function isVatNumber(country: string, vatNumber: string): boolean {
  return (euVatNumbers[country] ?? otherVatNumbers[country] ?? anyVatNumber).test(vatNumber)
}

/** The fields of a party. */
export const partyFields = {
  legal_name: printedText(200, 'Enter the legal name.'),
  address: printedText(500, 'Enter the address.'),
  country: z.string().check(z.refine((code) => countries.some(([known]) => known === code), 'Choose a country.')),
  /** Empty if the party has no VAT number. */
  vat_id: z.string().check(
    z.maxLength(40, 'Use at most 20 letters and digits.'),
    z.overwrite((text) => text.toUpperCase().replaceAll(/[ .\-/]/g, '')),
    z.maxLength(20, 'Use at most 20 letters and digits.'),
  ),
}

/** Refuses a VAT number in the format of another country. The schema must name the field `vat_id`. */
export const checkVatNumber = z.refine<{ country: string; vat_id: string }>(
  ({ country, vat_id: vatId }) => vatId === '' || isVatNumber(country, vatId),
  { error: 'This is not a VAT number of the country. It begins with letters such as DE or FR.', path: ['vat_id'] },
)

/** A party on a document. */
export interface Party {
  legal_name: string
  address: string
  country: string
  vat_id: string | null
}

/** Returns the English name of a country. */
export const countryName = (code: string) => countries.find(([known]) => known === code)?.[1] ?? code
