/** The reasons for the outcome of a row in the plan of an import. The sentences may change. The codes are stable. */
export const reasons = {
  new: 'It is new to the program.',
  history_only: "It becomes part of the read-only history, which isn't included in balances or figures.",
  history_changed: 'Its amount or its state changed in the source since an earlier import.',
  same_email: 'A partner of the program already has this e-mail address.',
  adds_names: 'The customer is already known. The import adds ids that connect payments to them.',
  no_first_purchase_date:
    "The source doesn't contain the first purchase. A limit in months starts with the first sale after the import.",
  email_not_accepted: 'The e-mail address is not valid, so the partner is imported without one.',
  terms_not_imported:
    "The group is imported without terms, because the source doesn't contain them. Set them before you switch.",
  terms_not_accepted:
    "The group's percentage, amount or months can't be read, so the group is imported without terms. Set them before you switch.",
  terms_in_other_currency:
    "The group's fixed amount is not in the program's currency, so the group is imported without it. Set it manually.",
  first_sale_as_one_month: 'The source only pays for the first sale. Here, the group pays for one month.',
  already_imported: 'An earlier import created it.',
  already_there: 'The program already has it.',
  same_name: 'The program already has a group with this name. Its terms stay the same.',
  same_email_as_another_row: 'Another row has the same e-mail address. Its links and customers go to that partner.',
  other_partner: 'The customer already belongs to another partner of the program and stays with that partner.',
  repeated: 'Another row of the import is identical.',
  same_id: 'Another row of the import has the same id but different data. Only the first one is imported.',
  added_to_another_row: "The amount is added to the partner's other row in this currency.",
  shadow_mode:
    'The program is in shadow mode, and the former service still pays. Import the balances after you leave shadow mode.',
  has_opening_balance:
    'The partner already has an opening balance in this currency from an import. That balance stays the same. Correct a difference with an adjustment.',
  nothing_owed: 'The balance is zero.',
  partner_not_found: 'The partner is neither in the import nor in the program. Check the id or address.',
  no_partner_named: 'The row has no partner. Choose the column that contains the partner.',
  nobody_named: 'The row has neither a name nor an e-mail address.',
  no_customer_id:
    'The row has no processor id, no key of your own and no e-mail address, so payments could not be matched to the customer.',
  no_code: 'The row has no code.',
  code_not_accepted:
    "A link code can only have 1 to 64 letters, digits and . _ @ -, and a coupon code can't have spaces.",
  code_taken: 'Another partner has this code.',
  amount_not_accepted: 'The amount cannot be read. Check the column and its decimal separator.',
  currency_not_accepted: 'The currency is not an ISO 4217 code, or contradicts the sign beside the amount.',
  date_not_accepted: 'The date cannot be read. Use the format 2026-01-31.',
  quote_not_closed:
    'The row has a quotation mark that is never closed, so the rest of the file cannot be read. Correct the row, or export the file again.',
  not_money: 'The amount is in credits, points or months, not in money.',
  not_accepted: 'The database refused the row. Check it for very long values.',
  in_use: 'It is already in use, so the undo keeps it.',
} as const satisfies Record<string, string>

export type ReasonCode = keyof typeof reasons

/** Returns the sentence for a reason. */
export function reasonText(code: string): string {
  return Object.entries(reasons).find(([known]) => known === code)?.[1] ?? code
}
