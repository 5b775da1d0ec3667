import * as consent from '../../tracker/dist/served/consent.js'
import * as embed from '../../tracker/dist/served/embed.js'
import * as paymentLinks from '../../tracker/dist/served/payment-links.js'
import * as tracker from '../../tracker/dist/served/script.js'

/** The browser scripts by their path. */
export const browserScripts = new Map([
  ['/js/svc-tracker.js', tracker],
  ['/js/svc-tracker-consent.js', consent],
  ['/js/svc-payment-links.js', paymentLinks],
  ['/js/svc-embed.js', embed],
])
