import * as z from 'zod/mini'
import { maxLogoBytes } from '../programs/logo-image.ts'
import * as shapes from './archive-shapes.ts'

/** The version of the archive's format. Each change of a kind or a field raises it. */
export const archiveVersion = 1

/**
 * The type of a field. `id` is the row's own id, and the name of a kind is the id of a row of that kind. A `past` field is a time that
 * isn't in the future. A question mark allows null.
 */
type Type =
  `${'id' | 'integer' | 'integers' | 'text' | 'texts' | 'boolean' | 'time' | 'past' | 'date' | 'bytes' | 'json' | Referred}${'' | '?'}`
type Referred =
  | 'groups'
  | 'partners'
  | 'rules'
  | 'links'
  | 'codes'
  | 'customers'
  | 'sales'
  | 'refunds'
  | 'payout_runs'
  | 'payouts'
  | 'commissions'
  | 'adjustments'
  | 'documents'

/**
 * A kind of row in a program's archive, with a file `data/<kind>.jsonl` that has one object per line, and the same rows in
 * `csv/<kind>.csv`.
 */
export interface Kind {
  table: string
  /** The view to read instead of the table. */
  view?: string
  title: string
  fields: Record<string, Type>
  /** The exact shape of each JSON field, and of other fields that have more rules than their type. */
  shapes?: Record<string, z.ZodMiniType>
  /** The order of the rows, by fields. */
  order: readonly string[]
  /** The exported rows of the table `t`. Default: the rows of the program. */
  where?: string
  /** SQL that replaces a column of the table `t` in the export. */
  read?: Record<string, string>
  /** SQL for exported fields that are not columns. */
  extra?: Record<string, string>
  /** SQL for columns of the new row. `x` is a row of the table with the fields from the archive, and `r` is the row of `archive_rows`. */
  write?: Record<string, string>
  /** Whether an import replaces the existing rows of the new program. */
  replaces?: true
  /** Columns that an archive omits: secrets, accounts of people, and values that the other instance computes itself. */
  omitted: readonly string[]
}

const ofLiveSale =
  'exists (select from sales s where s.program_id = t.program_id and s.id = t.sale_id and not s.is_test)'
const customerOfClick = '(select c.id from customers c where c.program_id = t.program_id and c.id = t.customer_id)'

/** All kinds in the order in which an import inserts them. */
export const kinds = {
  program: {
    table: 'programs',
    title: 'The settings of the program. It has one row.',
    fields: {
      id: 'integer',
      former_ids: 'integers',
      name: 'text',
      domain: 'text',
      currency: 'text',
      commission_bp: 'integer',
      lead_commission_cents: 'integer',
      cookie_window_days: 'integer',
      hold_days: 'integer',
      commission_duration_months: 'integer?',
      lead_auth_policy: 'text',
      attribution_model: 'text',
      attribute_known_customers: 'boolean',
      commission_base: 'text',
      review_rules: 'texts',
      rules_version: 'integer',
      attribution_priority: 'text',
      language: 'text?',
      link_params: 'texts',
      embed_origins: 'texts',
      embed_hides_money: 'boolean',
      shadow_since: 'past?',
      shadow_ended_at: 'past?',
      earlier_shadow_times: 'text',
      clicks_expired_until: 'past?',
    },
    order: ['name'],
    where: 't.id = $program',
    extra: { clicks_expired_until: '(select e.up_to from customers_expired e where e.program_id = t.id)' },
    write: { former_ids: 'x.former_ids || x.id' },
    omitted: [
      'workspace_id',
      'domain_verified_at',
      'domain_proven_at',
      'processor_account_id',
      'processor_former_account_id',
      'processor_connected_at',
      'processor_livemode',
      'webhook_types',
      'proxy_key_number',
      'previous_proxy_key_until',
      'created_at',
      'moved_in_at',
      'deleted_at',
    ],
  },
  minimum_payouts: {
    table: 'minimum_payouts',
    title: 'The smallest payout in each currency.',
    fields: { currency: 'text', minimum_payout_cents: 'integer' },
    order: ['currency'],
    omitted: [],
  },
  tax_form_limits: {
    table: 'tax_form_limits',
    title:
      'The yearly amount in each currency above which a payout needs a tax form. Tax forms themselves belong to people.',
    fields: { currency: 'text', above_cents: 'integer' },
    order: ['currency'],
    omitted: [],
  },
  billing: {
    table: 'program_billing',
    title: 'The details of the program on its documents. It has one row at most.',
    fields: {
      legal_name: 'text',
      address: 'text',
      country: 'text',
      vat_id: 'text?',
      series: 'text',
      vat_bp: 'integer?',
    },
    order: ['series'],
    omitted: [],
  },
  terms: {
    table: 'program_terms',
    title: 'The versions of the text that partners accept.',
    fields: { version: 'integer', text: 'text', self_billing: 'boolean', created_at: 'past' },
    order: ['version'],
    omitted: [],
  },
  brand: {
    table: 'program_brands',
    title: 'The names, the color and the logo of the pages for partners. It has one row at most.',
    fields: { portal_name: 'text?', sender_name: 'text?', color: 'text?', logo: 'bytes?', logo_type: 'text?' },
    order: ['color'],
    replaces: true,
    omitted: ['logo_hash'],
  },
  join_page: {
    table: 'join_pages',
    title: 'The text and the questions of the join page. It arrives closed, with a new address.',
    fields: {
      approves_at_once: 'boolean',
      shows_numbers: 'boolean',
      headline: 'text?',
      intro: 'text?',
      shows_terms: 'boolean',
      shows_calculator: 'boolean',
      faq: 'json',
      questions: 'json',
      terms_version: 'integer?',
    },
    shapes: { faq: shapes.faq, questions: shapes.questions },
    order: ['headline'],
    replaces: true,
    write: { slug: 'archived_slug(r)', is_open: 'false' },
    omitted: ['slug', 'is_open', 'version'],
  },
  document_series: {
    table: 'document_series',
    title: 'The last number of each series of documents. The next document has the number after it.',
    fields: { series: 'text', last_number: 'integer' },
    order: ['series'],
    omitted: [],
  },
  groups: {
    table: 'partner_groups',
    title: 'Groups of partners, removed ones too.',
    fields: { id: 'id', name: 'text', external_id: 'text?', created_at: 'past', removed_at: 'past?' },
    order: ['id'],
    omitted: [],
  },
  partners: {
    table: 'partners',
    title: 'Partners. They sign in at the new instance after another invitation.',
    fields: {
      id: 'id',
      group_id: 'groups?',
      name: 'text',
      email: 'text?',
      payout_email: 'text?',
      payout_waits_until: 'time?',
      note: 'text?',
      is_active: 'boolean',
      ended_at: 'past?',
      ended_by: 'text?',
      closed_at: 'past?',
      external_id: 'text?',
      metadata: 'json',
      created_at: 'past',
    },
    order: ['id'],
    omitted: ['user_id', 'email_hashes'],
    shapes: { metadata: shapes.metadata },
  },
  accepted_terms: {
    table: 'accepted_terms',
    title: 'The versions of the terms that existing partners accepted or withdrew from.',
    fields: { partner_id: 'partners', version: 'integer', accepted_at: 'past', withdrawn_at: 'past?' },
    order: ['partner_id', 'version'],
    omitted: [],
  },
  rules: {
    table: 'commission_rules',
    title: 'Terms of groups, partners and products, including ended ones, because commissions refer to them.',
    fields: {
      id: 'id',
      group_id: 'groups?',
      partner_id: 'partners?',
      product_id: 'text?',
      sale_type: 'text?',
      commission_bp: 'integer',
      commission_fixed_cents: 'integer',
      lifetime_cap_cents: 'integer?',
      commission_duration_months: 'integer?',
      lead_commission_cents: 'integer?',
      since_version: 'integer',
      until_version: 'integer?',
      created_at: 'past',
      ended_at: 'past?',
    },
    order: ['id'],
    omitted: [],
  },
  links: {
    table: 'referral_links',
    title: 'Links of partners.',
    fields: {
      id: 'id',
      partner_id: 'partners',
      code: 'text',
      page_url: 'text?',
      is_active: 'boolean',
      external_id: 'text?',
      metadata: 'json',
      created_at: 'past',
    },
    order: ['id'],
    where: 't.program_id = $program and t.partner_id is not null',
    shapes: { metadata: shapes.metadata },
    omitted: [],
  },
  codes: {
    table: 'partner_codes',
    title: 'Codes that buyers enter. Promotion codes of Stripe become codes without a link to Stripe.',
    fields: { id: 'id', partner_id: 'partners', code: 'text', created_at: 'past', revoked_at: 'past?' },
    order: ['id'],
    omitted: ['promotion_code_id', 'account_id', 'disabled_at_processor_at'],
  },
  postbacks: {
    table: 'webhook_endpoints',
    title:
      'Postbacks of partners. They arrive disabled, because their signing secrets are new and a rehearsal must not send anything.',
    fields: {
      partner_id: 'partners',
      url: 'text',
      method: 'text',
      description: 'text',
      types: 'texts',
      created_at: 'past',
    },
    order: ['partner_id', 'created_at', 'url'],
    where: 't.program_id = $program and t.partner_id is not null and t.deleted_at is null',
    write: { disabled_at: 'now()', disabled_because: "'owner'" },
    omitted: [
      'id',
      'secret_number',
      'previous_secret_until',
      'failing_since',
      'failures',
      'failed_at',
      'rests_until',
      'slow_until',
      'disabled_at',
      'disabled_because',
      'deleted_at',
    ],
  },
  customers: {
    table: 'customers',
    title:
      'Visitors, leads and buyers with their partner. The archive has no e-mail addresses: the hashes are keyed with the EMAIL_HASH_KEY of the instance.',
    fields: {
      id: 'id',
      click_id: 'text',
      customer_key: 'text?',
      email_hash: 'bytes?',
      mailbox_hash: 'bytes?',
      key_unverified_since: 'past?',
      email_unverified_since: 'past?',
      link_id: 'links?',
      partner_id: 'partners',
      code_id: 'codes?',
      customer_status: 'text',
      last_click_at: 'past?',
      provisional_lead_at: 'past?',
      signup_date: 'past?',
      first_purchase_date: 'time?',
      imported_at: 'past?',
      created_at: 'past',
      updated_at: 'past',
      origin: 'json?',
    },
    shapes: { origin: shapes.origin },
    order: ['id'],
    extra: {
      origin: '(select o.origin from customer_origins o where o.program_id = t.program_id and o.customer_id = t.id)',
    },
    write: {
      provisional_lead_event_id:
        "case when x.provisional_lead_at is not null then nextval('affiliate_lead_events_id_seq') end",
      lead_event_id: "case when x.signup_date is not null then nextval('affiliate_lead_events_id_seq') end",
    },
    omitted: ['provisional_lead_event_id', 'lead_event_id'],
  },
  processor_customers: {
    table: 'processor_customers',
    title: 'Ids of customers at the payment processor.',
    fields: {
      processor_customer_id: 'text',
      customer_id: 'customers',
      known_from: 'past',
      created_at: 'past',
    },
    order: ['processor_customer_id'],
    omitted: [],
  },
  clicks: {
    table: 'affiliate_click_events',
    view: 'click_events',
    title: 'Clicks whose events are still stored. A click has no customer_id after its visitor was forgotten.',
    fields: {
      id: 'integer',
      click_timestamp: 'past',
      customer_id: 'customers?',
      click_id: 'text?',
      link_id: 'links?',
      session_id: 'text?',
      affiliate_url: 'text?',
      page_url: 'text?',
      page_title: 'text?',
      referrer_url: 'text?',
      user_agent: 'text?',
      screen_resolution: 'text?',
      viewport_size: 'text?',
      language: 'text?',
      timezone: 'text?',
      geo_country: 'text?',
      geo_region: 'text?',
      geo_city: 'text?',
      device_type: 'text?',
      device_os: 'text?',
      browser_name: 'text?',
      additional_data: 'json?',
      campaign: 'json?',
      created_at: 'past',
    },
    shapes: {
      id: shapes.eventId,
      device_type: shapes.word,
      additional_data: shapes.additionalData,
      campaign: shapes.campaign,
    },
    order: ['click_timestamp', 'id'],
    where: 't.program_id = $program and not t.is_test',
    read: { customer_id: customerOfClick },
    // The view contains the values of past months.
    omitted: [
      'is_test',
      'visitor',
      'click_random',
      'click_ms',
      'landing_part',
      'page_part',
      'browser_part',
      'place_part',
      'referrer_part',
    ],
  },
  sales: {
    table: 'sales',
    title: 'Sales with the terms and the search that decided their partner. Test sales are not in the archive.',
    fields: {
      id: 'id',
      transaction_id: 'text',
      customer_id: 'customers?',
      partner_id: 'partners?',
      customer_key: 'text?',
      sale_date: 'time',
      amount_cents: 'integer',
      amount_source: 'text',
      commission_base_cents: 'integer',
      processor_fee_cents: 'integer?',
      commission_bp: 'integer?',
      commission_months: 'integer?',
      commission_rule_id: 'rules?',
      commission_fixed_cents: 'integer?',
      commission_cap_cents: 'integer?',
      terms_among: 'json?',
      lines: 'json?',
      terms_by_line: 'json?',
      coupon: 'text?',
      code_id: 'codes?',
      resolution: 'json?',
      refunded_cents: 'integer',
      api_payload: 'json?',
      currency: 'text',
      sale_type: 'text',
      payment_status: 'text',
      is_recurring: 'boolean',
      subscription_id: 'text?',
      processor_event_id: 'text?',
      processor_session_id: 'text?',
      processor_payment_intent_id: 'text?',
      processor_charge_id: 'text?',
      processor_invoice_id: 'text?',
      processor_customer_id: 'text?',
      additional_data: 'json?',
      created_at: 'past',
      updated_at: 'past',
    },
    shapes: {
      terms_among: shapes.termsAmong,
      lines: shapes.lines,
      terms_by_line: shapes.termsByLine,
      resolution: shapes.resolution,
      api_payload: shapes.apiPayload,
      additional_data: shapes.additionalData,
    },
    order: ['id'],
    where: 't.program_id = $program and not t.is_test',
    write: {
      terms_among: 'archived_choice(r, x.terms_among)',
      terms_by_line: 'archived_terms(r, x.terms_by_line)',
      resolution: 'archived_resolution(r, x.resolution)',
    },
    omitted: ['is_test', 'request_id'],
  },
  refunds: {
    table: 'refunds',
    title: 'Refunds and chargebacks of sales.',
    fields: {
      id: 'id',
      sale_id: 'sales',
      refund_key: 'text',
      processor_reversal_id: 'text?',
      requested_cents: 'integer?',
      applied_cents: 'integer',
      untaxed_cents: 'integer?',
      deduction_cents: 'integer',
      returned_cents: 'integer',
      reason: 'text',
      reason_text: 'text?',
      returned_at: 'past?',
      continues_refund_id: 'refunds?',
      created_at: 'past',
    },
    order: ['id'],
    where: `t.program_id = $program and ${ofLiveSale}`,
    omitted: ['request_id'],
  },
  payout_runs: {
    table: 'payout_runs',
    title: 'Payout runs.',
    fields: {
      id: 'id',
      payments: 'integer',
      created_at: 'past',
      reference: 'text?',
      paid_on: 'date?',
      paid_at: 'past?',
    },
    order: ['id'],
    write: { request_id: 'gen_random_uuid()' },
    omitted: ['request_id'],
  },
  payout_run_exclusions: {
    table: 'payout_run_exclusions',
    title: 'Partners that a payout run excluded, with the reason.',
    fields: {
      payout_run_id: 'payout_runs',
      partner_id: 'partners',
      currency: 'text',
      payable_cents: 'integer',
      reason: 'text',
    },
    order: ['payout_run_id', 'partner_id', 'currency'],
    omitted: [],
  },
  payouts: {
    table: 'payouts',
    title: 'Payouts with their addresses.',
    fields: {
      id: 'id',
      partner_id: 'partners',
      currency: 'text',
      requested_cents: 'integer',
      amount_cents: 'integer',
      status: 'text',
      sent_at: 'past?',
      payment_file_number: 'integer?',
      created_at_entry_number: 'integer',
      payout_run_id: 'payout_runs?',
      payout_address: 'text?',
      reason: 'text?',
      reference: 'text?',
      paid_on: 'date?',
      created_at: 'past',
      updated_at: 'past',
      decided_at: 'past?',
    },
    order: ['id'],
    omitted: ['request_id'],
  },
  commissions: {
    table: 'commissions',
    title: 'Commissions of sales and leads.',
    fields: {
      id: 'id',
      kind: 'text',
      partner_id: 'partners',
      moved_at: 'past?',
      customer_id: 'customers',
      sale_id: 'sales?',
      currency: 'text',
      amount_cents: 'integer',
      correction_count: 'integer',
      corrections: 'json?',
      reversed_cents: 'integer',
      reversal: 'text',
      reason: 'text?',
      review_reason: 'text?',
      hold_until: 'time',
      credited_at: 'past?',
      paid_at: 'past?',
      payout_id: 'payouts?',
      rejected_at: 'past?',
      held_at: 'past?',
      flags_checked_at: 'past?',
      lead_rule_id: 'rules?',
      code_id: 'codes?',
      is_shadow: 'boolean',
      status: 'text',
      created_at: 'past',
      updated_at: 'past',
    },
    shapes: { corrections: shapes.corrections },
    order: ['id'],
    omitted: [],
  },
  commission_reviews: {
    table: 'commission_reviews',
    title: 'The reasons that hold or held a commission, and the decisions.',
    fields: {
      commission_id: 'commissions',
      flags: 'json',
      flagged_at: 'past',
      decision: 'text?',
      note: 'text?',
      decided_at: 'past?',
    },
    shapes: { flags: shapes.flags },
    order: ['commission_id'],
    omitted: ['decided_by', 'decided_by_key'],
  },
  adjustments: {
    table: 'adjustments',
    title: 'Manual additions and deductions, and opening balances of imports.',
    fields: {
      id: 'id',
      partner_id: 'partners',
      currency: 'text',
      amount_cents: 'integer',
      note: 'text?',
      sale_id: 'sales?',
      external_id: 'text?',
      is_opening_balance: 'boolean',
      paid_at: 'past?',
      payout_id: 'payouts?',
      created_at: 'past',
    },
    order: ['id'],
    extra: { is_opening_balance: 't.import_id is not null' },
    write: {
      request_id: 'gen_random_uuid()',
      import_id: "case when (r.fields->>'is_opening_balance')::boolean then r.import_id end",
    },
    omitted: ['request_id', 'import_id'],
  },
  documents: {
    table: 'documents',
    title: 'Invoices in the name of partners, and credit notes, with all facts that they show.',
    fields: {
      id: 'id',
      series: 'text',
      number: 'integer',
      kind: 'text',
      payout_id: 'payouts',
      payment_number: 'integer',
      partner_id: 'partners',
      currency: 'text',
      amount_cents: 'integer',
      paid_on: 'date',
      reference: 'text',
      terms_version: 'integer',
      issuer: 'json',
      payee: 'json',
      lines: 'json',
      is_reverse_charge: 'boolean',
      vat_bp: 'integer?',
      corrects_id: 'documents?',
      issued_at: 'past',
      voided_at: 'past?',
      void_reason: 'text?',
    },
    shapes: { issuer: shapes.issuer, payee: shapes.payee, lines: shapes.documentLines },
    order: ['id'],
    write: { lines: 'archived_lines(r, x.lines)' },
    omitted: [],
  },
  balance_entries: {
    table: 'balance_entries',
    title: 'The ledger: the entries of each balance, in order.',
    fields: {
      partner_id: 'partners',
      currency: 'text',
      entry_number: 'integer',
      amount_cents: 'integer',
      balance_before_cents: 'integer',
      balance_after_cents: 'integer',
      cause: 'text',
      commission_id: 'commissions?',
      correction_number: 'integer?',
      refund_id: 'refunds?',
      payout_id: 'payouts?',
      adjustment_id: 'adjustments?',
      reference: 'text?',
      created_at: 'past',
    },
    order: ['partner_id', 'currency', 'entry_number'],
    omitted: ['entry_hash', 'previous_entry_number'],
  },
  payout_lines: {
    table: 'payout_lines',
    title: 'The entries that each payment paid.',
    fields: {
      id: 'id',
      payout_id: 'payouts',
      payment_number: 'integer',
      partner_id: 'partners',
      currency: 'text',
      entry_number: 'integer',
      amount_cents: 'integer',
      is_returned: 'boolean',
    },
    order: ['payout_id', 'id'],
    omitted: [],
  },
  balances: {
    table: 'balances',
    title: 'The balance of each partner and currency.',
    fields: { partner_id: 'partners', currency: 'text', balance_cents: 'integer', entry_count: 'integer' },
    order: ['partner_id', 'currency'],
    omitted: ['last_entry_number'],
  },
  imported_commissions: {
    table: 'imported_commissions',
    title: 'Commissions of a former service, only for reading.',
    fields: {
      id: 'id',
      partner_id: 'partners',
      customer_id: 'customers?',
      external_id: 'text',
      amount_cents: 'integer',
      currency: 'text',
      status: 'text',
      sale_cents: 'integer?',
      payment_id: 'text?',
      earned_at: 'past',
    },
    order: ['id'],
    omitted: [],
  },
} as const satisfies Record<string, Kind>

export type KindName = keyof typeof kinds

// oxlint-disable-next-line no-unsafe-type-assertion -- the keys of a constant
export const kindNames = Object.keys(kinds) as KindName[]

export const kindOf = (name: KindName): Kind => kinds[name]

/** The kind whose id a field contains, if it contains one. */
export function referredBy(type: string): KindName | undefined {
  return kindNames.find((name) => name === type.replace('?', ''))
}

/** The maximum length of texts in the tables. */
const maxText = 30_000

const bases: Record<string, { schema: Record<string, unknown>; accepts: (value: unknown) => boolean }> = {
  integer: { schema: { type: 'integer' }, accepts: Number.isSafeInteger },
  integers: {
    schema: { type: 'array', items: { type: 'integer' }, maxItems: 20 },
    accepts: (value) => Array.isArray(value) && value.length <= 20 && value.every((one) => Number.isSafeInteger(one)),
  },
  text: {
    schema: { type: 'string', maxLength: maxText },
    accepts: (value) => typeof value === 'string' && value.length <= maxText,
  },
  texts: {
    schema: { type: 'array', items: { type: 'string' }, maxItems: 100 },
    accepts: (value) =>
      Array.isArray(value) && value.length <= 100 && value.every((one) => typeof one === 'string' && one.length <= 300),
  },
  boolean: { schema: { type: 'boolean' }, accepts: (value) => typeof value === 'boolean' },
  time: {
    schema: { type: 'string', format: 'date-time' },
    accepts: (value) => typeof value === 'string' && shapes.isMoment(value),
  },
  past: {
    schema: { type: 'string', format: 'date-time' },
    accepts: (value) => typeof value === 'string' && shapes.isMoment(value) && Date.parse(value) <= Date.now() + 60_000,
  },
  date: {
    schema: { type: 'string', format: 'date' },
    accepts: (value) => typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value) && Date.parse(value) >= 0,
  },
  bytes: {
    schema: { type: 'string', pattern: '^\\\\x([0-9a-f]{2})*$' },
    accepts: (value) =>
      typeof value === 'string' &&
      value.length <= 2 + 2 * maxLogoBytes &&
      value.length % 2 === 0 &&
      /^\\x[0-9a-f]*$/.test(value),
  },
  // Each JSON field has a shape.
  json: { schema: {}, accepts: () => false },
}

const baseOf = (type: string) => bases[type.replace('?', '')] ?? bases['integer']

/** Returns whether a field of this kind may have this value. */
export function accepts({ fields, shapes: shapesOfKind }: Kind, field: string, value: unknown): boolean {
  const type = fields[field] ?? ''
  if (value === null) return type.endsWith('?')
  return shapesOfKind?.[field]?.safeParse(value).success ?? baseOf(type)?.accepts(value) === true
}

/** Returns the JSON Schema of a line of a kind's file. */
export function schemaOfKind(name: KindName, baseUrl: string): Record<string, unknown> {
  const { title, fields, shapes: shapesOfKind } = kindOf(name)
  const properties = Object.entries(fields).map(([field, type]): [string, unknown] => {
    const referred = referredBy(type)
    const shape = shapesOfKind?.[field]
    const schema: Record<string, unknown> = (shape ? z.toJSONSchema(shape) : baseOf(type)?.schema) ?? {}
    const { $schema: _, type: jsonType, ...rest } = schema
    const nullable = type.endsWith('?') ? [...[jsonType].flat(), 'null'] : jsonType
    const description = referred && `The id of a row of ${referred}.`
    return [field, { type: nullable, ...rest, ...(description && { description }) }]
  })
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `${baseUrl}/docs/archive/${name}.json`,
    title,
    description: `A line of data/${name}.jsonl in an archive of version ${archiveVersion}. Money is in the minor unit of its currency.`,
    type: 'object',
    properties: Object.fromEntries(properties),
    required: Object.keys(fields),
    additionalProperties: false,
  }
}
