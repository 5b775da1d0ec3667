import * as z from 'zod/mini'
import {
  additionalDataText,
  answered,
  body,
  exampleClickId,
  ignoredText,
  type Operation,
  refused,
} from './operation.ts'
import { additionalData, text, url } from './request-fields.ts'
import { clickId, id, ignored, success } from '../response-fields.ts'

const size = () => z.nullish(z.string().check(z.regex(/^\d{1,5}x\d{1,5}$/, 'must have the form <width>x<height>')))

/** Body of POST /api/v1/track/click. */
export const clickRequest = z.object({
  affiliate_url: z.string().check(z.minLength(1), z.maxLength(8192)),
  page_url: url(),
  page_title: text(1024),
  referrer_url: url(),
  session_id: text(255),
  user_agent: text(2048),
  screen_resolution: size(),
  viewport_size: size(),
  language: text(64),
  timezone: text(64),
  existing_click_id: text(255),
  additional_data: additionalData(),
  quiet: z.nullish(z.literal(1)),
})

export type ClickRequest = z.output<typeof clickRequest>

const clickResponse = () =>
  z.object({
    success: success(),
    click_id: clickId(),
    partner_code: z.string(),
    cookie_window_days: z.number(),
    ignored_fields: ignored(),
  })

const testClickResponse = () =>
  z.object({
    success: success(),
    message: z.string(),
    data: z.object({ eventId: id(), programId: id(), test_mode: z.literal(true) }),
    click_id: z.optional(clickId()),
    partner_code: z.optional(z.string()),
    cookie_window_days: z.optional(z.number()),
    ignored_fields: ignored(),
  })

export const trackClick = (): Operation => ({
  id: 'trackClick',
  method: 'post',
  path: '/api/v1/track/click',
  summary: 'Record a click',
  description:
    'Records a visit through a referral link. This call is public, because the link in `affiliate_url` is the credential. Store the `click_id` in the first-party cookie `svc_click_id`. Send it as `existing_click_id` with the next click, and as `click_id` with the lead and the sale.',
  auth: 'none',
  body: body(clickRequest, {
    affiliate_url:
      'The full landing address with `?aff=<partner_code>`. The case of the code does not matter. `utm_source`, `utm_medium`, `utm_campaign`, `utm_term`, `utm_content` and `sub1` to `sub3` are stored with the click. Other parameters are not stored.',
    page_url: 'The canonical URL of the page. At most 2 KB of text are stored for each click.',
    page_title: 'Title of the page.',
    referrer_url: 'The URL of the previous page.',
    session_id: 'Your id for the visit.',
    user_agent:
      'The visitor’s user agent. Default: the header User-Agent. Bots that identify themselves in it are counted separately.',
    screen_resolution: '`<width>x<height>`',
    viewport_size: '`<width>x<height>`',
    language: "The browser's language code.",
    timezone: 'IANA time zone.',
    existing_click_id: 'The visitor’s click id. It is reused if it belongs to the same program, and otherwise ignored.',
    quiet:
      'With `1`, a refusal that would have the status 400 or 410 gets a 200 with `success: false` and the same `error`. The tag sends it because browsers log other statuses as errors in the visitor’s console.',
    additional_data: `${additionalDataText} \`program_id\` is the id of the link's program, and the tag always sends it. If it is missing and several programs have the code, the domain of \`affiliate_url\` decides. It must be verified with a DNS record, or one program's tag must have been seen on it.`,
  }),
  success: {
    schemas: [clickResponse(), testClickResponse()],
    description:
      'The click was recorded. The click id stays valid for `cookie_window_days` after the latest click. The response for a test click has the second form. If it came through a program’s test link (`?aff=svc-test-<program id>`), it also has a click id, and leads and sales with this id are tests too.',
    fields: ignoredText,
  },
  errors: [
    'invalid_url',
    'missing_partner_code',
    'unknown_partner_code',
    'ambiguous_partner_code',
    'invalid_link',
    'link_disabled',
  ],
  examples: [
    answered(
      'click',
      'A visitor follows a link',
      { click_id: exampleClickId, partner_code: 'jane', cookie_window_days: 30 },
      {
        affiliate_url: 'https://shop.example.com/?aff=jane',
        page_url: 'https://shop.example.com/',
        referrer_url: 'https://blog.example.org/review',
        session_id: 'visit-1',
        screen_resolution: '1920x1080',
        viewport_size: '1280x720',
        language: 'en-US',
        timezone: 'America/New_York',
      },
    ),
    answered(
      'again',
      'The same visitor returns',
      { click_id: exampleClickId, partner_code: 'jane', cookie_window_days: 30 },
      { affiliate_url: 'https://shop.example.com/?aff=jane', existing_click_id: exampleClickId },
    ),
    answered(
      'test',
      'A test click',
      {
        message: 'The test click was recorded. It does not count.',
        data: { eventId: 4503599627370496, programId: 1, test_mode: true },
      },
      {
        affiliate_url: 'https://shop.example.com/?aff=test',
        additional_data: { test_mode: true, program_id: 1 },
      },
    ),
    refused(
      'missing_partner_code',
      'An address without `aff`',
      {
        code: 'missing_partner_code',
        message: 'affiliate_url has no `aff` parameter. Send the address of the landing page.',
      },
      { affiliate_url: 'https://shop.example.com/' },
    ),
    refused(
      'link_disabled',
      'An inactive link',
      {
        code: 'link_disabled',
        message: 'This referral link is disabled, so no click was recorded. Ask the advertiser to enable it.',
      },
      { affiliate_url: 'https://shop.example.com/?aff=former' },
    ),
  ],
})
