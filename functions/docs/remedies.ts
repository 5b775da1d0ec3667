import type { ErrorCode } from '../../lib/errors.ts'

/** The remedy for each error. The compiler ensures that every code has one. */
export const remedies: Record<ErrorCode, string> = {
  invalid_request: 'Correct the fields that are listed in `details`.',
  invalid_json: 'Send one JSON object as the body.',
  invalid_url: 'Send the complete URL of the landing page, including `https://`.',
  missing_partner_code: 'Like the tracker, only send visits with `?aff=`.',
  unknown_partner_code: 'Compare the code with the partner’s links in the dashboard. It may belong to another program.',
  ambiguous_partner_code:
    'Send `additional_data.program_id` with the click, as the tag does, or verify the domain with a DNS record in the program’s settings.',
  invalid_link: 'Contact the operator of the service, because the link no longer has a partner or a program.',
  no_attribution: 'You don’t have to do anything. No partner referred this visitor, so this response is normal.',
  invalid_signature:
    'Check the webhook’s signing secret. Also check that the body reaches the service unchanged and without delay.',
  already_settled: 'You don’t have to do anything. The lead was already recorded.',
  unauthorized: 'Send `Authorization: Bearer` and the program’s API key. Check that you copied the complete key.',
  api_key_retired: 'Create a new key in the program’s settings and use it instead.',
  api_key_expired: 'Create a new key in the program’s settings and use it instead.',
  insufficient_scope: 'Create a key with the scope in `needed_scope` and use it instead.',
  forbidden: 'Ask an owner of the workspace for a role that allows it.',
  not_found: 'Check the URL. For a refund, check the `transaction_id`, because the program has no sale with this id.',
  method_not_allowed: 'Use one of the methods in the `Allow` header.',
  conflict: 'Read the current state and decide again.',
  duplicate_transaction:
    'You don’t have to do anything if `same_payload` is true or Stripe reported the payment, because the sale is recorded. Otherwise, give each sale its own id.',
  link_disabled: 'Activate the link again in the dashboard, or remove it from your pages.',
  idempotency_mismatch: 'Send a new `Idempotency-Key` with each new request, and reuse a key only for a retry.',
  payload_too_large:
    'Send a smaller body. `additional_data` is only meant for a few fields. For an import, split the files.',
  unsupported_media_type: 'Send the header `Content-Type: application/json`.',
  rate_limited: 'Wait for the number of seconds in `Retry-After`, and send the request again.',
  internal_error: 'Send the `X-Request-Id` to the operator of the service.',
  unavailable: 'Send the request again after `Retry-After`. It won’t count twice.',
}
