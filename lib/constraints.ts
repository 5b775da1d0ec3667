import { violatedConstraint } from './database.ts'
import { ApiError, type ErrorDetail, notOfProgram } from './errors.ts'

const conflict = (message: string, field?: string, rule = '') =>
  new ApiError('conflict', message, field === undefined ? {} : { details: [{ field, message: rule }] })
const invalid = (message: string, ...details: ErrorDetail[]) => new ApiError('invalid_request', message, { details })
const uniqueAmong = (things: string) => `must be unique among the ${things} of the program`

/** The refusal for each constraint that a caller's input can violate. The constraints are defined in tables and database functions. */
const refusals: Record<string, () => ApiError> = {
  users_email_key: () => conflict('Another account has this address. Use another one.'),
  partners_email_key: () =>
    conflict('Another partner of this program has this address.', 'email', uniqueAmong('partners')),
  partners_external_id_key: () =>
    conflict('Another partner of this program has this external_id.', 'external_id', uniqueAmong('partners')),
  partners_group_id_fkey: () => notOfProgram('group_id', 'group'),
  partners_user_key: () => conflict('This account is already a partner of this program.'),
  partners_of_another_person: () =>
    conflict('A partner of this program has this address and signs in with another account.'),
  partner_groups_name_key: () =>
    conflict('Another group of this program has this name.', 'name', 'must be unique in the program'),
  referral_links_code_key: () => conflict('Another link of this program has this code. Choose another.'),
  referral_links_code_check: () =>
    invalid(
      'A code can only have 1 to 64 letters, digits and . _ @ -, and cannot begin with svc-test-. Choose another.',
    ),
  referral_links_external_id_key: () =>
    conflict('Another link of this program has this external_id.', 'external_id', uniqueAmong('links')),
  metadata_bounds: () =>
    invalid('These changes would leave more than 20 names. Remove some by setting them to null.', {
      field: 'metadata',
      message: 'must have at most 20 keys',
    }),
  commission_rules_holder_known: () => new ApiError('not_found', 'This program has no such group or partner.'),
  commission_rules_most: () => conflict('There are already 50 rules. End one first.'),
  former_commissions_partner: () =>
    new ApiError(
      'not_found',
      'The program does not know one of the partners. Import the partners first. Nothing was stored.',
      {
        details: [{ field: 'commissions', message: 'must name partners of the program' }],
      },
    ),
  adjustments_external_id_key: () =>
    conflict(
      'Another manual commission or deduction of this program has this external_id.',
      'external_id',
      'must be unique in the program',
    ),
  programs_not_in_shadow_mode: () =>
    conflict('This program is in shadow mode, so it does not credit or pay anything. Leave shadow mode first.'),
  payouts_not_at_provider: () =>
    conflict('The payment provider is executing this payment. The result will appear here automatically.'),
  payouts_paid_on_open: () =>
    invalid(
      'This day is before the month in which the payout was created, and that month is closed. Enter a later day.',
      {
        field: 'paid_on',
        message: 'must not be before the month of the payout',
      },
    ),
  program_hosts_verified_key: () =>
    conflict('Another program uses this domain. Remove it there first.', 'host', 'must not belong to another program'),
  join_slugs_pkey: () =>
    conflict('Another program has this address. Choose another.', 'slug', 'must not belong to another program'),
  join_slugs_few: () =>
    conflict(
      'A program can have at most five addresses, including former ones. Choose one of those.',
      'slug',
      'must be one of the five addresses of the program',
    ),
  program_terms_few: () =>
    conflict(
      'The terms of a program can change 20 times a day. Change them again tomorrow.',
      'terms',
      'must not change again today',
    ),
  join_pages_self_billing: () =>
    invalid('Self-billing is a part of the terms. Enter terms, too.', {
      field: 'terms',
      message: 'must be set if self_billing is true',
    }),
  workspace_bytes: () =>
    new ApiError(
      'rate_limited',
      'This workspace has sent the maximum size of changes for today: 100 MiB, or 2 MiB until an owner confirms their e-mail address. Continue tomorrow.',
      { headers: { 'Retry-After': '3600' } },
    ),
  join_pages_verified: () =>
    new ApiError(
      'forbidden',
      'No owner of this workspace has a confirmed e-mail address. Confirm it, then open the page: applicants get e-mails with the name of your program.',
    ),
}

/** Throws the matching refusal if the error is a violated constraint. Throws any other error unchanged. */
export function refuse(error: unknown): never {
  throw refusals[violatedConstraint(error) ?? '']?.() ?? error
}
