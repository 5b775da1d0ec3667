import type * as z from 'zod/mini'
import { clickRequest } from './click-request.ts'
import type { ErrorCode } from '../errors.ts'
import { eventsQuery, performanceQuery, programPath } from './read-requests.ts'
import { leadRequest, refundRequest, saleRequest } from './requests.ts'
import {
  clickResponse,
  eventsResponse,
  leadResponse,
  performanceResponse,
  refundResponse,
  saleResponse,
  statusResponse,
  testClickResponse,
  webhookResponse,
} from './responses.ts'

/** A call that the reference shows. Tests send it to the service in the order of this file and hold the answer to `response`. */
export interface Example {
  name: string
  summary: string
  body?: Record<string, unknown>
  /** Sent without the key or signature, as from a visitor's browser. */
  unsigned?: true
  status: number
  response: unknown
}

/** One endpoint as the OpenAPI document and the reference page describe it. */
export interface Operation {
  id: string
  method: 'get' | 'post'
  path: string
  summary: string
  description: string
  /** Who may call: anybody, the API key, the key or a browser without it, a dashboard session, the payment processor. */
  auth: 'none' | 'key' | 'key or browser' | 'session' | 'signature'
  body?: { schema: z.ZodMiniType; fields: Record<string, string> }
  parameters?: {
    in: 'path' | 'query'
    schema: z.ZodMiniType
    /** `values` replaces what the schema says where that is text to be parsed. */
    fields: Record<string, { description: string; example?: string | number; values?: Record<string, unknown> }>
  }[]
  success: { schemas: z.ZodMiniType[]; description: string }
  errors: ErrorCode[]
  examples: Example[]
}

/** Says what each field of a body means; the compiler sees to it that none is forgotten. */
function body<Schema extends z.ZodMiniType<object>>(schema: Schema, fields: Record<keyof z.input<Schema>, string>) {
  return { schema, fields }
}

const clickId = 'cust_1767225600000_123456789012345678901'
const secondClickId = 'cust_1767225600000_098765432109876543211'

const additionalData =
  'Data of your own. `test_mode: true` makes a test event, which counts for nothing; `program_id` names its program.'
const bodyErrors: ErrorCode[] = ['invalid_request', 'invalid_json', 'payload_too_large', 'unsupported_media_type']
const serverErrors: ErrorCode[] = ['rate_limited', 'internal_error', 'unavailable']
const keyErrors: ErrorCode[] = ['unauthorized', 'api_key_retired']

const refused = (code: ErrorCode, message: string) => ({ success: false, error: { code, message } })

const trackClick: Operation = {
  id: 'trackClick',
  method: 'post',
  path: '/api/v1/track/click',
  summary: 'Record a click',
  description:
    'Records that a visitor came through a referral link. Public: the link in `affiliate_url` is the credential. Keep the `click_id` in the first-party cookie `svc_click_id` and send it as `existing_click_id` with the next click, and with the lead and the sale.',
  auth: 'none',
  body: body(clickRequest, {
    affiliate_url:
      'Full address that the visitor came to, with `?aff=<partner_code>`. Codes are matched without regard to case.',
    page_url: 'Canonical address of the page.',
    page_title: 'Title of the page.',
    referrer_url: 'Address of the page before.',
    session_id: 'Your id of the visit.',
    user_agent: 'Taken from the header User-Agent where it is absent.',
    screen_resolution: '`<width>x<height>`',
    viewport_size: '`<width>x<height>`',
    language: "The browser's language code.",
    timezone: 'IANA time zone.',
    existing_click_id: 'The visitor’s click id, reused where it is one of the same program; ignored otherwise.',
    additional_data: additionalData,
  }),
  success: {
    schemas: [clickResponse, testClickResponse],
    description:
      'The click is recorded. The click id stays valid for `cookie_window_days` from the latest click. A test click has the second form.',
  },
  errors: [
    ...bodyErrors,
    'invalid_url',
    'missing_partner_code',
    'unknown_partner_code',
    'invalid_link',
    'link_disabled',
    ...serverErrors,
  ],
  examples: [
    {
      name: 'click',
      summary: 'A visitor comes through a link',
      body: {
        affiliate_url: 'https://shop.example.com/?aff=jane',
        page_url: 'https://shop.example.com/',
        referrer_url: 'https://blog.example.org/review',
        session_id: 'visit-1',
        screen_resolution: '1920x1080',
        viewport_size: '1280x720',
        language: 'en-US',
        timezone: 'America/New_York',
      },
      status: 200,
      response: { success: true, click_id: clickId, partner_code: 'jane', cookie_window_days: 30 },
    },
    {
      name: 'again',
      summary: 'The same visitor comes again',
      body: { affiliate_url: 'https://shop.example.com/?aff=jane', existing_click_id: clickId },
      status: 200,
      response: { success: true, click_id: clickId, partner_code: 'jane', cookie_window_days: 30 },
    },
    {
      name: 'test',
      summary: 'A test click',
      body: {
        affiliate_url: 'https://shop.example.com/?aff=test',
        additional_data: { test_mode: true, program_id: 1 },
      },
      status: 200,
      response: {
        success: true,
        message: 'The test click was recorded. It counts for nothing.',
        data: { eventId: 4503599627370496, programId: 1, test_mode: true },
      },
    },
    {
      name: 'missing_partner_code',
      summary: 'An address without `aff`',
      body: { affiliate_url: 'https://shop.example.com/' },
      status: 400,
      response: refused(
        'missing_partner_code',
        'affiliate_url has no `aff` parameter. Send the address that the visitor came to.',
      ),
    },
    {
      name: 'link_disabled',
      summary: 'A link that was switched off',
      body: { affiliate_url: 'https://shop.example.com/?aff=former' },
      status: 410,
      response: refused('link_disabled', 'This referral link is no longer active. No click was recorded.'),
    },
  ],
}

const trackLead: Operation = {
  id: 'trackLead',
  method: 'post',
  path: '/api/v1/track/lead',
  summary: 'Record a lead',
  description:
    'Records a signup. With an Authorization header it is a server lead, which settles. Without one it is a browser lead, which needs a click id; it is provisional (`provisional: true`) unless the program allows browsers to settle leads.',
  auth: 'key or browser',
  body: body(leadRequest, {
    customer_key: 'Your own stable id of the user: the same here and at every sale.',
    click_id: 'The visitor’s click id. Needed until the customer key is known.',
    clickId: 'The same as `click_id`.',
    email: 'Improves attribution of processor payments. Only a keyed hash of it is kept.',
    session_id: 'Your id of the visit.',
    page_url: 'Address of the page.',
    program_id: 'Browser lead: the program that the page believes the click is of.',
    additional_data: additionalData,
  }),
  success: {
    schemas: [leadResponse],
    description:
      'Without `provisional: true` the lead is settled. `duplicate: true`: it was settled before, and nothing changed.',
  },
  errors: [...bodyErrors, 'no_attribution', 'already_settled', ...keyErrors, ...serverErrors],
  examples: [
    {
      name: 'server',
      summary: 'A server tells of a signup',
      body: { customer_key: 'user-1', click_id: clickId, email: 'ann@example.com' },
      status: 200,
      response: { success: true, lead_id: 2251799813685248, click_id: clickId, customer_status: 'lead' },
    },
    {
      name: 'repeated',
      summary: 'The same lead again',
      body: { customer_key: 'user-1' },
      status: 200,
      response: {
        success: true,
        lead_id: 2251799813685248,
        click_id: clickId,
        customer_status: 'lead',
        duplicate: true,
      },
    },
    {
      name: 'browser',
      summary: 'A browser tells of a signup, on a server-verified program',
      unsigned: true,
      body: { customer_key: 'user-2', click_id: secondClickId, program_id: 1 },
      status: 200,
      response: {
        success: true,
        lead_id: 1125899906842624,
        click_id: secondClickId,
        customer_status: 'click',
        provisional: true,
      },
    },
    {
      name: 'test',
      summary: 'A test lead',
      body: { customer_key: 'user-3', additional_data: { test_mode: true } },
      status: 200,
      response: { success: true, lead_id: 562949953421312, click_id: null, customer_status: 'lead', test_mode: true },
    },
    {
      name: 'no_attribution',
      summary: 'A visitor who did not come through a partner link',
      body: { customer_key: 'user-4' },
      status: 400,
      response: refused(
        'no_attribution',
        'Neither the customer key is known nor is there a valid click id, so nothing was recorded. This is expected for visitors who did not come through a partner link.',
      ),
    },
  ],
}

const trackSale: Operation = {
  id: 'trackSale',
  method: 'post',
  path: '/api/v1/track/sale',
  summary: 'Record a sale',
  description:
    'Records a sale and the commission of the partner it is attributed to: by `customer_key`, else by a valid `click_id`. From the server only. Not for sales that the connected payment processor reports: they would count twice.',
  auth: 'key',
  body: body(saleRequest, {
    transaction_id: 'Your id of the sale, unique for ever. A second call with it is 409.',
    customer_key: 'The id of the user that the lead was sent with.',
    amount_cents: 'Amount in the minor unit of the currency.',
    currency: 'ISO 4217 code. Default `usd`.',
    click_id: 'The visitor’s click id, for a customer who never was a lead.',
    clickId: 'The same as `click_id`.',
    is_recurring: 'A renewal of a subscription.',
    isRecurring: 'The same as `is_recurring`.',
    sale_type: 'Default `payment`, or `subscription` where recurring.',
    saleType: 'The same as `sale_type`.',
    subscription_id: 'Your id of the subscription.',
    subscriptionId: 'The same as `subscription_id`.',
    additional_data: additionalData,
  }),
  success: {
    schemas: [saleResponse],
    description:
      'The sale is recorded. `attributed: false`: no partner brought the customer, and there is no commission.',
  },
  errors: [...bodyErrors, 'duplicate_transaction', ...keyErrors, ...serverErrors],
  examples: [
    {
      name: 'sale',
      summary: 'A first payment',
      body: { transaction_id: 'order-1001', customer_key: 'user-1', amount_cents: 4900, currency: 'usd' },
      status: 200,
      response: {
        success: true,
        sale_id: 1,
        transaction_id: 'order-1001',
        attributed: true,
        commission_id: 1,
        commission_cents: 980,
        currency: 'usd',
      },
    },
    {
      name: 'renewal',
      summary: 'A renewal of a subscription',
      body: {
        transaction_id: 'in_1002',
        customer_key: 'user-1',
        amount_cents: 2900,
        is_recurring: true,
        sale_type: 'subscription',
        subscription_id: 'sub_1',
      },
      status: 200,
      response: {
        success: true,
        sale_id: 2,
        transaction_id: 'in_1002',
        attributed: true,
        commission_id: 2,
        commission_cents: 580,
        currency: 'usd',
      },
    },
    {
      name: 'unattributed',
      summary: 'A customer whom no partner brought',
      body: { transaction_id: 'order-1003', customer_key: 'user-9', amount_cents: 1000 },
      status: 200,
      response: {
        success: true,
        sale_id: 3,
        transaction_id: 'order-1003',
        attributed: false,
        commission_id: null,
        commission_cents: 0,
        currency: 'usd',
      },
    },
    {
      name: 'test',
      summary: 'A test sale',
      body: {
        transaction_id: 'order-1001',
        customer_key: 'user-1',
        amount_cents: 4900,
        additional_data: { test_mode: true },
      },
      status: 200,
      response: {
        success: true,
        sale_id: 4,
        transaction_id: 'order-1001',
        attributed: true,
        commission_id: null,
        commission_cents: 0,
        currency: 'usd',
        test_mode: true,
      },
    },
    {
      name: 'duplicate_transaction',
      summary: 'The same sale again: treat it as done',
      body: { transaction_id: 'order-1001', customer_key: 'user-1', amount_cents: 4900, currency: 'usd' },
      status: 409,
      response: {
        success: false,
        error: {
          code: 'duplicate_transaction',
          message:
            'A sale with the transaction_id "order-1001" is recorded already. Treat this as done, or send another transaction_id.',
          sale_id: 1,
          same_payload: true,
        },
      },
    },
  ],
}

const trackRefund: Operation = {
  id: 'trackRefund',
  method: 'post',
  path: '/api/v1/track/refund',
  summary: 'Record a refund or chargeback',
  description:
    'Reverses the commission of a sale in proportion to what was refunded of it. One call for each refund. Without `refund_id` a second call with the same amount is taken for a retry and ignored.',
  auth: 'key',
  body: body(refundRequest, {
    transaction_id: 'The `transaction_id` of the sale.',
    refund_amount_cents: 'Amount of this refund, not a running total. Absent or 0: all that is left.',
    refund_id: 'Your id of this refund. A repeated one is ignored. Not used where all that is left is refunded.',
    refund_reason: 'Kept with the commission and told to the partner.',
    reason: 'Kept as the reason where `refund_reason` is absent or empty. Default `refund`.',
  }),
  success: {
    schemas: [refundResponse],
    description:
      '`refunded` while part of the sale remains, `reversed` once all is refunded; `skipped` where there is nothing to do; `no_commission` where the sale has none. `deductionAmount` is the commission that this call reversed, in the major unit of its currency.',
  },
  errors: [...bodyErrors, 'not_found', ...keyErrors, ...serverErrors],
  examples: [
    {
      name: 'partial',
      summary: 'Part of a sale',
      body: { transaction_id: 'order-1001', refund_amount_cents: 2450, refund_id: 're_1', refund_reason: 'Damaged' },
      status: 200,
      response: {
        success: true,
        status: 'refunded',
        deductionAmount: 4.9,
        deduction_cents: 490,
        currency: 'usd',
        commission_id: 1,
      },
    },
    {
      name: 'repeated',
      summary: 'The same refund again',
      body: { transaction_id: 'order-1001', refund_amount_cents: 2450, refund_id: 're_1' },
      status: 200,
      response: { success: true, status: 'skipped', reason: 'refund_already_applied', commission_id: 1 },
    },
    {
      name: 'rest',
      summary: 'All that is left',
      body: { transaction_id: 'order-1001', reason: 'chargeback' },
      status: 200,
      response: {
        success: true,
        status: 'reversed',
        deductionAmount: 4.9,
        deduction_cents: 490,
        currency: 'usd',
        commission_id: 1,
      },
    },
    {
      name: 'no_commission',
      summary: 'A sale without commission',
      body: { transaction_id: 'order-1003' },
      status: 200,
      response: {
        success: true,
        status: 'no_commission',
        message: 'The sale earned no commission, so none was reversed.',
      },
    },
    {
      name: 'not_found',
      summary: 'A sale that is not the program’s',
      body: { transaction_id: 'order-9999' },
      status: 404,
      response: refused('not_found', 'This program has no sale with the transaction_id "order-9999".'),
    },
  ],
}

const seen = { live: '2026-01-01T12:00:00.000Z', test: null }

const cliStatus: Operation = {
  id: 'status',
  method: 'get',
  path: '/api/v1/cli/status',
  summary: 'Check the health of a program',
  description: 'How the program of the key is set up, what it has received, and what is still to do.',
  auth: 'key',
  success: { schemas: [statusResponse], description: 'The program and its checks.' },
  errors: [...keyErrors, ...serverErrors],
  examples: [
    {
      name: 'status',
      summary: 'A program that receives events',
      status: 200,
      response: {
        success: true,
        program: {
          id: 1,
          name: 'Shop',
          domain: 'shop.example.com',
          currency: 'usd',
          commission_percent: 20,
          cookie_window_days: 30,
          lead_auth_policy: 'server_verified',
        },
        api_base_url: 'https://api.example.com',
        processor: { connected: true, account_id: 'acct_1' },
        activity: { last_click: seen, last_lead: seen, last_sale: seen, last_webhook: { live: null, test: null } },
        checks: [{ name: 'link_exists', ok: true, message: 'The program has an active referral link.' }],
      },
    },
  ],
}

const programParameter = {
  in: 'path',
  schema: programPath,
  fields: {
    programId: {
      description: 'Id of the program.',
      example: 1,
      values: { type: 'integer', minimum: 1 },
    },
  },
} satisfies NonNullable<Operation['parameters']>[number]

const dates = { values: { type: 'string', format: 'date-time' } }

const performance: Operation = {
  id: 'performance',
  method: 'get',
  path: '/api/tracking/performance/{programId}',
  summary: 'Read daily performance',
  description:
    'One entry for each day (UTC) of the range, the totals, and their change against the range of equal length before it. Money is in the major unit of the program’s currency; other currencies stand in `metrics.otherCurrencies`. For active members of the program’s workspace.',
  auth: 'session',
  parameters: [
    programParameter,
    {
      in: 'query',
      schema: performanceQuery,
      fields: {
        period: { description: 'Default `7d`. Not used where both dates are given.', example: '7d' },
        dateFrom: { description: 'ISO 8601 date or time, used together with `dateTo`.', ...dates },
        dateTo: { description: 'ISO 8601 date or time, used together with `dateFrom`.', ...dates },
      },
    },
  ],
  success: { schemas: [performanceResponse], description: 'The days and the totals. A total is the sum of its days.' },
  errors: ['invalid_request', 'unauthorized', 'forbidden', 'not_found', ...serverErrors],
  examples: [
    {
      name: 'week',
      summary: 'The last seven days',
      status: 200,
      response: {
        data: [
          {
            date: '2026-01-01',
            period: '2026-01-01',
            clicks: 120,
            leads: 12,
            conversions: 3,
            revenue: 147,
            partners: 1,
            sales: 0,
            commission: 29.4,
          },
        ],
        metrics: {
          totalClicks: 120,
          totalLeads: 12,
          totalConversions: 3,
          totalRevenue: 147,
          conversionRate: 2.5,
          averageOrderValue: 49,
          totalPartners: 1,
          totalSales: 3,
          totalPartnersCommission: 29.4,
          clicksTrend: { trend: 20, trendDirection: 'up' },
          leadsTrend: { trend: 0, trendDirection: 'stable' },
          conversionsTrend: { trend: 50, trendDirection: 'up' },
          revenueTrend: { trend: 50, trendDirection: 'up' },
          partnersTrend: { trend: 100, trendDirection: 'up' },
          salesTrend: { trend: 50, trendDirection: 'up' },
          commissionTrend: { trend: 50, trendDirection: 'up' },
          otherCurrencies: { eur: { totalRevenue: 10, totalSales: 1, totalPartnersCommission: 2 } },
        },
        meta: {
          period: '7d',
          dateFrom: '2025-12-26T00:00:00.000Z',
          dateTo: '2026-01-01T12:00:00.000Z',
          previousPeriod: { dateFrom: '2025-12-19T11:59:59.999Z', dateTo: '2025-12-25T23:59:59.999Z' },
        },
      },
    },
  ],
}

const events: Operation = {
  id: 'events',
  method: 'get',
  path: '/api/tracking/events/{programId}',
  summary: 'List events',
  description:
    'Clicks, leads and conversions in one list, newest first. Of each type the newest 3 × `pageSize` are read; narrow the dates to reach older ones. For members with the action `tracking:list`.',
  auth: 'session',
  parameters: [
    programParameter,
    {
      in: 'query',
      schema: eventsQuery,
      fields: {
        page: { description: 'From 1 on. Default 1.', example: 1 },
        pageSize: { description: 'Events on a page. Default 10.', example: 10 },
        eventType: { description: 'Only events of this type.' },
        dateFrom: { description: 'ISO 8601 date or time: the earliest, itself included.', ...dates },
        dateTo: { description: 'ISO 8601 date or time: the latest, itself included.', ...dates },
      },
    },
  ],
  success: { schemas: [eventsResponse], description: 'A page of events.' },
  errors: ['invalid_request', 'unauthorized', 'forbidden', 'not_found', ...serverErrors],
  examples: [
    {
      name: 'page',
      summary: 'The newest events',
      status: 200,
      response: {
        data: [
          {
            id: 1,
            event_type: 'conversion',
            timestamp: '2026-01-01T12:05:00.000Z',
            click_id: clickId,
            createdAt: '2026-01-01T12:05:00.000Z',
            amount_cents: 4900,
            currency: 'usd',
            sale_type: 'payment',
            payment_status: 'paid',
            processor_event_id: null,
            is_recurring: false,
          },
        ],
        meta: { pagination: { page: 1, pageSize: 10, pageCount: 1, total: 1 } },
      },
    },
  ],
}

const customerCreated = {
  id: 'evt_1',
  object: 'event',
  type: 'customer.created',
  account: 'acct_1',
  livemode: false,
  created: 1767225600,
  data: { object: { id: 'cus_1', object: 'customer' } },
}

const stripeWebhook: Operation = {
  id: 'stripeWebhook',
  method: 'post',
  path: '/api/v1/webhooks/stripe',
  summary: 'Receive an event of the payment processor',
  description:
    'Called by Stripe for connected accounts. Attach `svc_click_id`, `svc_customer_key` and `program_id` to the metadata of the checkout session, and for subscriptions to `subscription_data.metadata` too.',
  auth: 'signature',
  success: {
    schemas: [webhookResponse],
    description: 'What became of the event. Each outcome is final; Stripe need not deliver it again.',
  },
  errors: [
    'invalid_request',
    'invalid_json',
    'invalid_signature',
    'payload_too_large',
    'internal_error',
    'unavailable',
  ],
  examples: [
    {
      name: 'ignored',
      summary: 'An event that means nothing to a program',
      body: customerCreated,
      status: 200,
      response: { success: true, outcome: 'ignored', reason: 'Events of this type are not used.' },
    },
    {
      name: 'invalid_signature',
      summary: 'A delivery without the processor’s signature',
      body: customerCreated,
      unsigned: true,
      status: 400,
      response: refused(
        'invalid_signature',
        "The Stripe-Signature header does not fit the body, the time or the endpoint's secret. Check STRIPE_WEBHOOK_SECRET.",
      ),
    },
  ],
}

export const operations = [trackClick, trackLead, trackSale, trackRefund, cliStatus, performance, events, stripeWebhook]
