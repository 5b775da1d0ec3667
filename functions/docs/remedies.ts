import type { ErrorCode } from '../../lib/errors.ts'

/** What whoever meets an error does about it. The compiler sees to it that no code is forgotten. */
export const remedies: Record<ErrorCode, string> = {
  invalid_request: 'Mend the fields that `details` names.',
  invalid_json: 'Send one JSON object as the body.',
  invalid_url: 'Send the whole address of the landing page, `https://` included.',
  missing_partner_code: 'Send only visits that came with `?aff=`; the tracker does.',
  unknown_partner_code: 'Compare the code with the partner’s links in the dashboard. It may belong to another program.',
  invalid_link: 'Tell whoever runs the service: the link lost its partner or program.',
  no_attribution: 'Nothing: no partner brought this visitor. At a lead it is the normal answer.',
  invalid_signature: 'Check the webhook’s signing secret, and that the body reaches the service unchanged and at once.',
  already_settled: 'Nothing: the lead is recorded.',
  unauthorized: 'Send `Authorization: Bearer` and the program’s API key; check that it was copied whole.',
  api_key_retired: 'Create a new key in the program’s settings and use that one.',
  api_key_expired: 'Create a new key in the program’s settings and use that one.',
  insufficient_scope: 'Create a key with the scope that `needed_scope` names and use that one.',
  forbidden: 'Ask an owner of the workspace for the role that may do it.',
  not_found: 'Check the address. At a refund: no sale has this `transaction_id` in this program.',
  method_not_allowed: 'Use a method that the header `Allow` names.',
  conflict: 'Read the thing again; it has changed since.',
  duplicate_transaction:
    'Nothing where `same_payload` is true, or where Stripe told the payment: the sale is recorded. Else give each sale an id of its own.',
  link_disabled: 'Activate the link again in the dashboard, or remove it from your pages.',
  idempotency_mismatch: 'Send a new `Idempotency-Key` with each new request, and the same one only to repeat it.',
  payload_too_large: 'Send less: `additional_data` is for a few fields.',
  unsupported_media_type: 'Send the header `Content-Type: application/json`.',
  rate_limited: 'Wait as many seconds as `Retry-After` says, then send the same again.',
  internal_error: 'Tell whoever runs the service the `X-Request-Id`.',
  unavailable: 'Send the same again after `Retry-After`: nothing counts twice.',
}
