/**
 * The reasons that the database gives for the outcome of a processor's event: its code, and the sentence for people. `$1` and `$2` stand for the
 * details that follow the code after a space.
 */
const sentences: Readonly<Record<string, string>> = {
  account_not_connected: 'No program is connected to this account.',
  already_disconnected: 'No program is connected to this account any more, or it was connected again since.',
  customer_erased: 'Its customer was erased.',
  known_customers_left_out:
    "Its metadata names no program, and the program does not attribute known customers' payments.",
  setting_on: 'The program attributes such payments now. It is applied within half an hour.',
  customer_known: 'Its customer is known now. It is applied within half an hour.',
  newer_metadata: 'What is known of its customer is newer.',
  no_program_named: 'Its metadata names no program.',
  customer_metadata: 'It says whose the payments of its customer are that say nothing themselves.',
  buyer_known: 'Attributed when its buyer became known.',
  unknown_code: "Its code was used, ran out, or was never given. Ask for a new one at the program's settings.",
  code_of_connected_account:
    'A connected account told it. The endpoint must be one for the events of your own account.',
  code_of_test_mode: 'It is of test mode, and the service has a live key. Write the code into a product in live mode.',
  code_of_former_owner: 'Who asked for the code is no owner any more. An owner must ask for a new one.',
  account_taken: 'Another program is connected to this account. Disconnect it there first.',
  unexplained: 'For a day nothing said whose it is. It is applied within half an hour.',
  account_disconnected:
    'Its account is disconnected. It is applied when the account is connected again within 90 days.',
  may_be_explained:
    "For an hour a session may say who bought, or by which code; then it is attributed as its own or its customer's metadata, earlier payments or its code say.",
  unpaid_and_unattributed: 'Nothing was paid, and no partner brought this customer.',
  payment_under_way: 'Its payment is under way.',
  lead_settled: 'Nothing was paid; a lead is settled.',
  customer_known_unpaid: 'Nothing was paid; who its customer is, is known now.',
  session_known: 'Applied when its session became known.',
  sale_known: 'Applied when its sale became known.',
  nothing_paid: 'Nothing was paid.',
  no_partner: 'No partner brought this customer.',
  no_refund: 'The charge has no refund that took money.',
  known_reversal: 'Another event told it already.',
  unknown_sale: 'No sale of this payment is known yet.',
  program_not_connected: 'Program $1, which its metadata names, is not connected to this account.',
  sale_corrected: 'What it says was paid is what $1 is worth now.',
  known_payment: 'Its payment is recorded already, as $1.',
  other_currency: 'It is in $1, its sale in $2. Refund the sale by hand.',
}

/** Returns the sentence of a reason. A reason without a code is a sentence already: that of a payload which nothing uses or no schema reads. */
export function reasonText(reason: string): string
export function reasonText(reason: string | null): string | null
export function reasonText(reason: string | null): string | null {
  const [code = '', ...details] = reason?.split(' ') ?? []
  const sentence = Object.hasOwn(sentences, code) ? sentences[code] : undefined
  return sentence?.replaceAll(/\$(\d)/g, (_, place: string) => details[Number(place) - 1] ?? '') ?? reason
}
