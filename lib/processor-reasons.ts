/**
 * The reason codes that the database writes for the outcome of a processor's event, each with a sentence for readers. `$1` and `$2` are the
 * details that follow the code after a space.
 */
const sentences: Readonly<Record<string, string>> = {
  account_not_connected: 'No program is connected to this account.',
  already_disconnected: 'No program is connected to this account anymore, or it was reconnected since then.',
  customer_erased: 'Its customer was erased.',
  known_customers_excluded:
    "Its metadata contains no program, and the program does not attribute known customers' payments.",
  setting_on: 'The program attributes such payments now. It will be applied within half an hour.',
  customer_known: 'Its customer is now known. It will be applied within half an hour.',
  newer_metadata: 'Newer metadata of its customer is known.',
  no_program_named: 'Its metadata contains no program.',
  customer_metadata: "It attributes the customer's payments that have no metadata.",
  buyer_known: 'It was attributed when its buyer became known.',
  unknown_code: "Its code was already used, has expired, or never existed. Create a new one in the program's settings.",
  code_of_connected_account: 'It came from a connected account. Use an endpoint for the events of your own account.',
  code_of_test_mode: 'It is in test mode, and the service has a live key. Put the code into a product in live mode.',
  code_of_former_owner: 'The person who created the code is no longer an owner. An owner must create a new one.',
  account_taken: 'Another program is connected to this account. Disconnect it there first.',
  unexplained: 'Nothing attributed it for a day. It will be applied within half an hour.',
  account_disconnected: 'Its account is disconnected. It will be applied if the account is reconnected within 90 days.',
  may_be_explained:
    'It waits up to an hour for a session with the buyer or a code. After that, it is attributed by its metadata, its customer, earlier payments or its code.',
  unpaid_and_unattributed: 'Nothing was paid, and no partner referred this customer.',
  payment_under_way: 'Its payment is still processing.',
  lead_settled: 'Nothing was paid. It settled a lead.',
  customer_known_unpaid: 'Nothing was paid. Its customer is now known.',
  session_known: 'It was applied when its session became known.',
  sale_known: 'It was applied when its sale became known.',
  nothing_paid: 'Nothing was paid.',
  no_partner: 'No partner referred this customer.',
  no_refund: 'No refund of this charge moved any money.',
  unreadable_refund: 'Refund $1 was ignored: no known API version sends this $2.',
  refund_too_large: 'Refund $1 was ignored: its amount is larger than the service can store.',
  known_reversal: 'Another event already reported it.',
  unknown_sale: 'No sale of this payment is known yet.',
  program_not_connected: 'Its metadata contains program $1, which is not connected to this account.',
  sale_corrected: 'It corrected the amount of $1.',
  known_payment: 'Its payment is already recorded as $1.',
  fee_included: "The commission base of its sale includes the processor's fee.",
  other_currency: 'It is in $1, but its sale is in $2. Refund the sale manually.',
}

/**
 * Returns the sentence for a reason. If a reason has no code, it is already a sentence, about an unused payload or a payload that no schema
 * accepts.
 */
export function reasonText(reason: string): string
export function reasonText(reason: string | null): string | null
export function reasonText(reason: string | null): string | null {
  const [code = '', ...details] = reason?.split(' ') ?? []
  const sentence = Object.hasOwn(sentences, code) ? sentences[code] : undefined
  return sentence?.replaceAll(/\$(\d)/g, (_, place: string) => details[Number(place) - 1] ?? '') ?? reason
}
