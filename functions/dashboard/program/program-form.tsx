import * as z from 'zod/mini'
import { shownHost } from '../../../lib/hosts.ts'
import { languageOptions } from '../../../lib/languages.ts'
import { majorUnits } from '../../../lib/money.ts'
import { optionalName } from '../../../lib/names.ts'
import { type ProgramSettings, programSettings } from '../../../lib/programs/programs.ts'
import { type ReviewRule, reviewRules } from '../../../lib/review-rules.ts'
import { Field } from '../components/fields.tsx'
import { emptyForm, useForm } from '../components/form.ts'
import { decimalToInteger, smallestUnits } from '../components/typed-number.ts'

const currencyNames = new Intl.DisplayNames('en', { type: 'currency' })
const currencyOptions = Intl.supportedValuesOf('currency').map(
  (code) => [code.toLowerCase(), `${code} · ${currencyNames.of(code) ?? code}`] as const,
)

/** The input fields for a program's settings. People type percentages and amounts with decimals. */
export function ProgramFields({ settings }: { settings: ProgramSettings }) {
  return (
    <>
      <SiteFields settings={settings} />
      <TermFields settings={settings} />
    </>
  )
}

/** The program's name, site, currency and language. */
export function SiteFields({ settings }: { settings: Pick<ProgramSettings, SiteField> }) {
  return (
    <>
      <Field name="name" label="Program name" value={settings.name} required />
      <Field
        name="domain"
        label="Domain of your site"
        value={shownHost(settings.domain)}
        placeholder="example.com"
        inputmode="url"
        required
      />
      <Field name="currency" label="Currency" value={settings.currency} options={currencyOptions} />
      <Field
        name="language"
        label="Language for partners"
        value={settings.language ?? ''}
        options={[['', 'The language of their browser'], ...languageOptions]}
        hint="The language of their pages and e-mails, unless they choose one."
      />
    </>
  )
}

type SiteField = 'name' | 'domain' | 'currency' | 'language'

/** The commission and its rules. People type percentages and amounts with decimals. */
export function TermFields({ settings }: { settings: ProgramSettings }) {
  return (
    <>
      <Field
        name="commission_bp"
        label="Commission per sale (%)"
        value={String(settings.commission_bp / 100)}
        inputmode="decimal"
        required
      />
      <details class="more" open={useForm() !== emptyForm}>
        <summary>Attribution, holds and leads</summary>
        <div class="fields">
          <Field
            name="cookie_window_days"
            label="Attribution window (days)"
            value={String(settings.cookie_window_days)}
            inputmode="numeric"
            hint="How long visitors are attributed to the partner after a click."
          />
          <Field
            name="attribution_model"
            label="Attributed click"
            value={settings.attribution_model}
            options={[
              ['last_click', 'The last click before the signup'],
              ['first_click', 'The first click'],
            ]}
          />
          <Field
            name="attribution_priority"
            label="If a code and a click disagree"
            value={settings.attribution_priority}
            options={[
              ['code', 'The code decides'],
              ['click', 'The click decides'],
            ]}
            hint="Applies if they belong to different partners."
          />
          <Field
            name="hold_days"
            label="Hold period (days)"
            value={String(settings.hold_days)}
            inputmode="numeric"
            hint="A commission is credited after this period, unless the sale was refunded."
          />
          <Field
            name="commission_duration_months"
            label="Commission on renewals (months)"
            value={settings.commission_duration_months === null ? '' : String(settings.commission_duration_months)}
            inputmode="numeric"
            hint="Counted from a customer's first purchase. Leave empty for no limit."
          />
          <Field
            name="commission_base"
            label="Commission is paid on"
            value={settings.commission_base ?? 'net'}
            hint="Applies to payments whose processor reports its fee."
            options={[
              ['net', 'the amount without tax'],
              ['net_of_fees', "the amount without tax and the processor's fee"],
            ]}
          />
          <Field
            name="lead_commission_cents"
            label="Commission per signup"
            value={String(majorUnits(settings.lead_commission_cents, settings.currency))}
            inputmode="decimal"
            hint="In the program's currency. Enter 0 for none."
          />
          <Field
            name="lead_auth_policy"
            label="Signups count when"
            value={settings.lead_auth_policy}
            hint="A browser's report can be forged. Anybody who guesses a customer's id or e-mail address can claim that customer until your server reports them with a click id. First commissions earned this way are flagged for review."
            options={[
              ['server_verified', 'your server confirms them'],
              ['browser_allowed', 'the browser reports them'],
            ]}
          />
          <Field
            name="attribute_known_customers"
            label="Payments without metadata"
            value={settings.attribute_known_customers ? 'yes' : ''}
            hint="Applies if a partner referred an earlier payment of the customer or subscription. Metadata takes precedence."
            options={[
              ['', "don't count"],
              ['yes', 'count for the partner of the earlier payment'],
            ]}
          />
        </div>
      </details>
      <details class="more">
        <summary>Commissions held for review</summary>
        <input type="hidden" name="review_shown" value="yes" />
        <fieldset class="stack tight">
          <legend class="muted small">
            If one of these is found, the commission is held until you decide, even if the hold period is 0 days.
          </legend>
          {reviewRules.map((rule) => (
            <label class="row">
              <input type="checkbox" name={`review_${rule}`} checked={settings.review_rules?.includes(rule)} />
              {ruleNames[rule]}
            </label>
          ))}
        </fieldset>
      </details>
    </>
  )
}

const ruleNames: Record<ReviewRule, string> = {
  self_referral: "The buyer uses the partner's e-mail address",
  one_address: 'Five or more signups of a partner from one address within a day',
  no_page_view: 'A click without a page address, if your pages have the tag',
  bot: 'A click by a bot',
  paid_ads: "A click on a paid ad, if your server sends the clicks (the tag doesn't send ad parameters)",
}

/** Converts typed settings into the format that their schema expects. */
function readSettings(values: Record<string, string>): unknown {
  const { currency = '', commission_duration_months: months = '' } = values
  const leadCents = smallestUnits(values['lead_commission_cents'] ?? '0', currency)
  return {
    ...values,
    commission_bp: decimalToInteger(values['commission_bp'] ?? '', 2),
    lead_commission_cents: leadCents,
    cookie_window_days: decimalToInteger(values['cookie_window_days'] ?? '', 0),
    hold_days: decimalToInteger(values['hold_days'] ?? '', 0),
    commission_duration_months: months.trim() === '' ? null : decimalToInteger(months, 0),
    attribute_known_customers: values['attribute_known_customers'] === 'yes',
    language: values['language'] || null,
    review_rules: 'review_shown' in values ? reviewRules.filter((rule) => `review_${rule}` in values) : undefined,
  }
}

/** The form for a program's settings. */
export const programForm = z.pipe(z.transform(readSettings), programSettings)

/** The form for a new program: its site, and an existing workspace or the name of a new one. */
export const newProgramForm = z.pipe(
  z.transform((values: Record<string, string>): unknown => ({ ...values, language: values['language'] || null })),
  z.extend(z.pick(programSettings, { name: true, domain: true, currency: true, language: true }), {
    workspace: optionalName,
    workspace_id: z.optional(z.string()),
    start: z.optional(z.enum(['live', 'shadow'])),
  }),
)
