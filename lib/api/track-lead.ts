import * as z from 'zod/mini'
import {
  additionalDataText,
  aliasOf,
  answered,
  body,
  exampleClickId,
  ignoredText,
  type Operation,
  refused,
} from './operation.ts'
import { key, programId, additionalData, text, url } from './request-fields.ts'
import { clickId, id, ignored, success } from '../response-fields.ts'

/** Body of POST /api/v1/track/lead. */
export const leadRequest = z.object({
  customer_key: key(),
  click_id: text(255),
  /** An alias of `click_id`, as in the client library. */
  clickId: text(255),
  email: text(320),
  session_id: text(255),
  page_url: url(),
  /** For browser leads, this is the program of the click, according to the page. */
  program_id: programId(),
  additional_data: additionalData(),
})

export type LeadRequest = z.output<typeof leadRequest>

const leadResponse = () =>
  z.object({
    success: success(),
    lead_id: id(),
    click_id: z.nullable(clickId()),
    customer_status: z.enum(['click', 'lead', 'conversion']),
    provisional: z.optional(z.literal(true)),
    duplicate: z.optional(z.literal(true)),
    test_mode: z.optional(z.literal(true)),
    ignored_fields: ignored(),
  })

const secondClickId = 'cust_1767225600000_098765432109876543211'

export const trackLead = (): Operation => ({
  id: 'trackLead',
  method: 'post',
  path: '/api/v1/track/lead',
  summary: 'Record a lead',
  description:
    'Records a signup. With an Authorization header, it is a lead from a server, which is settled. Without the header, it is a lead from a browser and needs a click id. In that case, it is provisional (`provisional: true`), unless the program allows browsers to settle leads.',
  auth: 'key or browser',
  body: body(leadRequest, {
    customer_key: 'Your own stable id for the user. Use the same id for every sale.',
    click_id: 'The visitor’s click id. It is required until the customer key is known.',
    clickId: aliasOf('click_id'),
    email: 'Improves the attribution of processor payments. Only a keyed hash is stored.',
    session_id: 'Your id for the visit.',
    page_url: 'Address of the page.',
    program_id: 'For a lead from a browser: the program of the click, according to the page.',
    additional_data: additionalDataText,
  }),
  success: {
    schemas: [leadResponse()],
    description:
      'Unless `provisional` is true, the lead is settled. `duplicate: true` means that it had already been settled and nothing changed.',
    fields: ignoredText,
  },
  errors: ['no_attribution', 'already_settled'],
  examples: [
    answered(
      'server',
      'A server reports a signup',
      { lead_id: 2251799813685248, click_id: exampleClickId, customer_status: 'lead' },
      { customer_key: 'user-1', click_id: exampleClickId, email: 'ann@example.com' },
    ),
    answered(
      'repeated',
      'The same lead again',
      {
        lead_id: 2251799813685248,
        click_id: exampleClickId,
        customer_status: 'lead',
        duplicate: true,
      },
      { customer_key: 'user-1' },
    ),
    {
      ...answered(
        'browser',
        'A browser reports a signup to a server-verified program',
        {
          lead_id: 1125899906842624,
          click_id: secondClickId,
          customer_status: 'click',
          provisional: true,
        },
        { customer_key: 'user-2', click_id: secondClickId, program_id: 1 },
      ),
      unsigned: true,
    },
    answered(
      'test',
      'A test lead',
      { lead_id: 562949953421312, click_id: null, customer_status: 'lead', test_mode: true },
      { customer_key: 'user-3', additional_data: { test_mode: true } },
    ),
    refused(
      'no_attribution',
      'A visitor who did not come through a partner link',
      {
        code: 'no_attribution',
        message:
          'The customer key is unknown and there is no valid click id, so nothing was recorded. This is normal for visitors who did not come through a partner link.',
      },
      { customer_key: 'user-4' },
    ),
  ],
})
