import * as z from 'zod/mini'
import { nameOf } from '../names.ts'
import { id, success, time } from '../response-fields.ts'
import { externalId, externalIdText } from './metadata.ts'
import { answeredCreated, body, type Operation, refused } from './operation.ts'
import { positiveInteger } from './request-fields.ts'

const described = z
  .strictObject({
    name: nameOf('partner'),
    email: z.nullish(z.email('must be an e-mail address').check(z.maxLength(320))),
    external_id: externalId(),
    group_id: z.nullish(positiveInteger('must be the id of a group, or null')),
  })
  .check(
    z.refine(({ email, external_id }) => Boolean(email ?? external_id), {
      path: ['email'],
      error: 'must be given, unless external_id is',
    }),
  )

/** Body of POST /api/v1/embed-tokens. */
export const newEmbedToken = z
  .strictObject({
    partner_id: z.optional(positiveInteger('must be the id of a partner')),
    external_id: z.optional(z.string().check(z.minLength(1), z.maxLength(255))),
    partner: z.optional(described),
  })
  .check(
    z.refine((named) => Object.values(named).filter((value) => value !== undefined).length === 1, {
      path: ['partner_id'],
      error: 'must be the only one of partner_id, external_id and partner, and one of them must be given',
    }),
  )

const response = () => z.object({ success: success(), token: z.string(), expires_at: time(), partner_id: id() })

const example = {
  token: 'svc_embed_1_2_1767269700_kq3vGm0f3m8hXo1uJp6cYw5b9TzR2sN4aQeV7dLxKiE',
  expires_at: '2026-01-01T12:15:00.000Z',
  partner_id: 2,
}

/** Describes the tokens of the embedded portal for the reference. */
export const createEmbedTokenOperation = (): Operation => ({
  id: 'createEmbedToken',
  method: 'post',
  path: '/api/v1/embed-tokens',
  auth: 'key',
  scope: 'manage',
  summary: 'Create a token for the embedded portal',
  description:
    'Returns a token that lets the embedded portal show one partner for 15 minutes, on the origins in the program’s settings. Identify the partner with one of the three fields. `partner` adds them if nobody in the program has the `external_id` or the address. Only name the person who is signed in to your product, with an address that you have verified. Returns `conflict` if the program has no origins, or if a partner with another `external_id` has the address.',
  body: body(newEmbedToken, {
    partner_id: 'Id of the partner.',
    external_id: 'Your own id of an existing partner.',
    partner: `The partner’s \`name\`, \`email\`, \`external_id\` (${externalIdText.replace(/^Your/, 'your').replace(/\.$/, '')}) and \`group_id\`. It needs an address or an \`external_id\`.`,
  }),
  success: {
    schemas: [response()],
    description: 'The token.',
    fields: { token: 'Pass it to the component in the browser. Don’t put it into a URL.' },
  },
  errors: ['not_found', 'conflict'],
  examples: [
    answeredCreated('created', 'The person who is signed in to your product', example, {
      partner: { name: 'Nora Field', email: 'nora@example.com', external_id: 'aff-7' },
    }),
    refused(
      'unknown',
      'An id that no partner has',
      {
        code: 'not_found',
        message: 'This program has no such partner.',
        details: [{ field: 'external_id', message: 'must be the id of a partner of the program' }],
      },
      { external_id: 'nobody' },
    ),
  ],
})
