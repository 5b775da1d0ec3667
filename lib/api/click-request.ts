import * as z from 'zod/mini'
import { additionalData, text, url } from './request-fields.ts'

/** Body of POST /api/v1/track/click. */
export const clickRequest = z.object({
  affiliate_url: z.string().check(z.minLength(1), z.maxLength(8192)),
  page_url: url(),
  page_title: text(1024),
  referrer_url: url(),
  session_id: text(255),
  user_agent: text(2048),
  screen_resolution: z.nullish(z.string().check(z.regex(/^\d{1,5}x\d{1,5}$/, 'must have the form <width>x<height>'))),
  viewport_size: z.nullish(z.string().check(z.regex(/^\d{1,5}x\d{1,5}$/, 'must have the form <width>x<height>'))),
  language: text(64),
  timezone: text(64),
  existing_click_id: text(255),
  additional_data: additionalData,
})
