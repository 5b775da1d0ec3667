import { adjustmentOperations } from './adjustments.ts'
import { applicationOperations } from './applications.ts'
import { cliStatus } from './cli-status.ts'
import { codeOperations } from './codes.ts'
import { commissionOperations } from './commissions.ts'
import { customerOperations } from './customers.ts'
import { createEmbedTokenOperation } from './embed-tokens.ts'
import { eventOperations } from './events.ts'
import { exportOperations } from './exports.ts'
import { groupOperations } from './groups.ts'
import { importOperations } from './imports.ts'
import { linkOperations } from './links.ts'
import { partnerDataOperations } from './partner-data.ts'
import { partnerOperations } from './partners.ts'
import { groupedPerformance } from './performance.ts'
import { payoutRunOperations } from './payout-runs.ts'
import { payoutOperations } from './payouts.ts'
import { connectionWebhook, processorWebhook } from './processor-webhook.ts'
import { programOperations } from './program.ts'
import { reviewOperations } from './reviews.ts'
import { saleExplanation } from './sale-explanation.ts'
import { saleOperations } from './sales.ts'
import { shadowModeOperations } from './shadow-mode.ts'
import { trackClick } from './track-click.ts'
import { trackLead } from './track-lead.ts'
import { trackRefund } from './track-refund.ts'
import { trackSale } from './track-sale.ts'
import { trackingEvents } from './tracking-events.ts'
import { trackingPerformance } from './tracking-performance.ts'
import { webhookEndpointOperations } from './webhook-endpoints.ts'

export const operations = [
  trackClick(),
  trackLead(),
  trackSale(),
  trackRefund(),
  cliStatus(),
  ...programOperations(),
  ...partnerOperations(),
  ...groupOperations(),
  createEmbedTokenOperation(),
  ...applicationOperations(),
  ...codeOperations(),
  ...linkOperations(),
  ...customerOperations(),
  ...saleOperations(),
  saleExplanation(),
  ...eventOperations(),
  ...commissionOperations(),
  ...shadowModeOperations(),
  ...payoutRunOperations(),
  ...payoutOperations(),
  ...adjustmentOperations(),
  ...reviewOperations(),
  ...importOperations(),
  ...exportOperations(),
  ...webhookEndpointOperations(),
  groupedPerformance(),
  ...partnerDataOperations(),
  trackingPerformance(),
  trackingEvents(),
  processorWebhook(),
  connectionWebhook(),
]
