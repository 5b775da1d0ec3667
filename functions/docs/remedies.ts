import type { ErrorCode } from '../../lib/errors.ts'

/** The remedy for each error. The compiler ensures that every code has one. */
export const remedies: Record<ErrorCode, string> = {
  invalid_request: 'Correct the fields that `details` names.',
  invalid_json: 'Send one JSON object as the body.',
  invalid_url: 'Send the whole address of the landing page, `https://` included.',
  missing_partner_code: 'Send only visits with `?aff=`, as the tracker does.',
  unknown_partner_code: 'Compare the code with the partner’s links in the dashboard. It may belong to another program.',
  ambiguous_partner_code:
    'Send `additional_data.program_id` with the click, as the tag does, or prove the domain by a DNS record in the program’s settings.',
  invalid_link: 'Contact the operator of the service: the link lost its partner or program.',
  no_attribution: 'Nothing: no partner referred this visitor. This is the normal response for such a lead.',
  invalid_signature:
    'Check the webhook’s signing secret, and that the body reaches the service unchanged and without delay.',
  already_settled: 'Nothing: the lead is recorded.',
  unauthorized: 'Send `Authorization: Bearer` and the program’s API key; check that it was copied whole.',
  api_key_retired: 'Create a new key in the program’s settings and use that one.',
  api_key_expired: 'Create a new key in the program’s settings and use that one.',
  insufficient_scope: 'Create a key with the scope that `needed_scope` names and use that one.',
  forbidden: 'Ask an owner of the workspace for a role that allows it.',
  not_found: 'Check the address. For a refund: no sale has this `transaction_id` in this program.',
  method_not_allowed: 'Use a method that the header `Allow` names.',
  conflict: 'Read the current state, then decide again.',
  duplicate_transaction:
    'Nothing if `same_payload` is true, or if Stripe reported the payment: the sale is recorded. Otherwise give each sale its own id.',
  link_disabled: 'Activate the link again in the dashboard, or remove it from your pages.',
  idempotency_mismatch: 'Send a new `Idempotency-Key` with each new request, and reuse a key only for a retry.',
  payload_too_large: 'Send less: `additional_data` is for a few fields. Split the files of an import.',
  unsupported_media_type: 'Send the header `Content-Type: application/json`.',
  rate_limited: 'Wait as many seconds as `Retry-After` says, then send the same again.',
  internal_error: 'Send the `X-Request-Id` to the operator of the service.',
  unavailable: 'Send the same again after `Retry-After`: nothing counts twice.',
}
