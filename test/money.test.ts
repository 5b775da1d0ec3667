import { expect, test } from 'vitest'
import { currencyExponent, isCurrency, majorUnits, writeAmount } from '../lib/money.ts'

test.for([
  ['usd', 2],
  ['eur', 2],
  ['huf', 2],
  ['idr', 2],
  ['jpy', 0],
  ['krw', 0],
  ['isk', 0],
  ['kwd', 3],
  ['iqd', 3],
  ['clf', 4],
] as const)('%s has %i decimals by ISO 4217', ([currency, exponent]) => {
  expect(currencyExponent(currency)).toBe(exponent)
})

test.for([
  [1050, 'usd', 10.5],
  [1, 'usd', 0.01],
  [1050, 'jpy', 1050],
  [1050, 'kwd', 1.05],
  [99_999_999_999, 'usd', 999_999_999.99],
  [-5, 'usd', -0.05],
  [0, 'usd', 0],
] as const)('%i minor units of %s are %f', ([cents, currency, amount]) => {
  expect(majorUnits(cents, currency)).toBe(amount)
})

test.for([
  ['usd', true],
  ['USD', false],
  ['zzz', false],
  ['', false],
  ['us', false],
] as const)('%j is a currency: %s', ([code, expected]) => {
  expect(isCurrency(code)).toBe(expected)
})

test.for([
  [12_345.6, 'usd', 'en-US', 'full', '$12,345.60'],
  [12_345, 'usd', 'en-US', 'short', '$12,345'],
  [12_345.6, 'usd', 'en-US', 'short', '$12,345.60'],
  [12_345.6, 'usd', 'en-US', 'compact', '$12K'],
  [12_345.6, 'eur', 'en-US', 'full', '€12,345.60'],
  [12_345.6, 'eur', 'de-DE', 'full', '12.345,60\u00A0€'],
  [12_345.6, 'usd', 'en-US', 'full', '$12,345.60'],
] as const)('%d %s is written for %s as %s: %s', ([amount, currency, locale, length, expected]) => {
  expect(writeAmount(amount, currency, locale, length)).toBe(expected)
})
