/** The reasons for the outcome of a row in the plan of an import. The sentences are for people. The codes are stable. */
export const reasons = {
  new: 'It is new and will be created.',
  history_only: 'It becomes read-only history. No balance and no figure includes it.',
  same_email: 'A partner of the program already has this e-mail address.',
  adds_names: 'The customer is known. The import adds ids that connect payments to them.',
  no_first_purchase_date:
    'The source names no first purchase. A limit in months starts with the first sale after the import.',
  email_not_accepted: 'The e-mail address is not valid, so the partner is imported without one.',
  terms_not_imported:
    'The group is imported without terms, because the source does not name them. Set them before you switch.',
  terms_in_other_currency:
    "The group's fixed amount is not in the program's currency, so the group is imported without it. Set it by hand.",
  first_sale_as_one_month: 'The source pays the first sale only. Here the group pays for one month.',
  already_imported: 'An earlier import created it.',
  already_there: 'The program already has it.',
  same_name: 'The program already has a group with this name. Its terms stay.',
  same_email_as_another_row: 'Another row has the same e-mail address. Its links and customers go to that partner.',
  other_partner: 'The customer already belongs to another partner of the program, and stays there.',
  repeated: 'Another row of the import is the same.',
  added_to_another_row: "The amount is added to the partner's other row in this currency.",
  nothing_owed: 'The balance is zero.',
  partner_not_found: 'No row and no partner of the program has the named partner. Check the id or address.',
  no_partner_named: 'The row does not name its partner. Map the column of the partner.',
  nobody_named: 'The row has neither a name nor an e-mail address.',
  no_customer_id:
    'The row has no id of the processor, no key of your own and no e-mail address, so no payment could find the customer.',
  no_code: 'The row has no code.',
  code_not_accepted: 'A link code has 1 to 64 letters, digits and . _ @ - only, and a coupon code has no blanks.',
  code_taken: 'Another partner has this code.',
  amount_not_accepted: 'The amount cannot be read. Check the column and its decimal separator.',
  currency_not_accepted: 'The currency is not an ISO 4217 code.',
  date_not_accepted: 'The date cannot be read. Use the form 2026-01-31.',
  not_money: 'The amount is credits, points or months, not money.',
  not_accepted: 'The database refused it. Check the row for very long values.',
  in_use: 'It is already in use, so the undo keeps it.',
} as const satisfies Record<string, string>

export type ReasonCode = keyof typeof reasons

/** Returns the sentence of a reason. */
export function reasonText(code: string): string {
  return Object.entries(reasons).find(([known]) => known === code)?.[1] ?? code
}
