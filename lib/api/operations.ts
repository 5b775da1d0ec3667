import { cliStatus } from './cli-status.ts'
import { partnerOperations } from './partners.ts'
import { groupedPerformance } from './performance.ts'
import { processorWebhook } from './processor-webhook.ts'
import { trackClick } from './track-click.ts'
import { trackLead } from './track-lead.ts'
import { trackRefund } from './track-refund.ts'
import { trackSale } from './track-sale.ts'
import { trackingEvents } from './tracking-events.ts'
import { trackingPerformance } from './tracking-performance.ts'

/** The public API, in the order of the reference. */
export const operations = [
  trackClick(),
  trackLead(),
  trackSale(),
  trackRefund(),
  cliStatus(),
  ...partnerOperations(),
  groupedPerformance(),
  trackingPerformance(),
  trackingEvents(),
  processorWebhook(),
]
