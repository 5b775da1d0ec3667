/**
 * Every currency on Stripe's page, in Stripe's own unit. The list doesn't use the service's own table, which is under test.
 *
 * @see https://docs.stripe.com/currencies
 */
const presentment =
  `usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd cad cdf chf
  clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr isk jmd jod jpy
  kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr
  pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp sle sos srd std szl thb tjs tnd top try ttd twd tzs uah ugx
  uyu uzs vnd vuv wst xaf xcd xof xpf yer zar zmw`.split(/\s+/)

const stripeZeroDecimal = new Set('bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf'.split(' '))
const threeDecimal = new Set('bhd jod kwd omr tnd'.split(' '))
/** These currencies no longer have decimals, but Stripe still writes two, which are always 0. */
const writtenWithTwo = new Set(['isk', 'ugx'])

export interface Currency {
  code: string
  /** The number of decimals of an amount in Stripe's form. */
  stripeDecimals: number
  /** The number of decimals of the currency's minor unit (ISO 4217), which the service uses. */
  decimals: number
  /** Stripe charges only multiples of this amount. */
  step: number
  /** The largest amount that Stripe charges. */
  largest: number
}

export const currencies: readonly Currency[] = presentment.map((code) => {
  const stripeDecimals = stripeZeroDecimal.has(code) ? 0 : threeDecimal.has(code) ? 3 : 2
  const decimals = code === 'mga' ? 2 : writtenWithTwo.has(code) ? 0 : stripeDecimals
  const step = writtenWithTwo.has(code) ? 100 : threeDecimal.has(code) ? 10 : 1
  const digits = code === 'idr' ? 999_999_999_999 : 99_999_999
  return { code, stripeDecimals, decimals, step, largest: digits - (digits % step) }
})

export function currencyOf(code: string): Currency {
  const found = currencies.find((currency) => currency.code === code)
  if (!found) throw new Error(`Stripe does not charge in ${code}.`)
  return found
}

/** Converts an amount from Stripe's unit to the currency's minor unit. Stripe always charges whole minor units. */
export function minorUnits(amount: bigint, code: string): bigint {
  const { stripeDecimals, decimals } = currencyOf(code)
  const scaled = amount * 10n ** BigInt(decimals)
  const unit = 10n ** BigInt(stripeDecimals)
  if (scaled % unit !== 0n) throw new Error(`${amount} in Stripe's unit of ${code} is a fraction of its minor unit.`)
  return scaled / unit
}
