import { currencyExponent, isCurrency, majorUnits } from '../../../lib/money.ts'
import type { ProgramSettings } from '../../../lib/programs/programs.ts'
import type { FormState } from './page.ts'
import { Field } from './parts.tsx'

const currencyNames = new Intl.DisplayNames('en', { type: 'currency' })
const currencyOptions = Intl.supportedValuesOf('currency').map(
  (code) => [code.toLowerCase(), `${code} · ${currencyNames.of(code) ?? code}`] as const,
)

/** The inputs of a program's settings. Percentages and amounts are typed as people write them. */
export function ProgramFields({ form, settings }: { form: FormState; settings: ProgramSettings }) {
  return (
    <>
      <div class="fields">
        <Field name="name" label="Program name" value={settings.name} form={form} required />
        <Field
          name="domain"
          label="Domain of your site"
          value={settings.domain}
          placeholder="example.com"
          inputmode="url"
          form={form}
          required
        />
        <Field
          name="commission_bp"
          label="Commission on each sale, %"
          value={String(settings.commission_bp / 100)}
          inputmode="decimal"
          form={form}
          required
        />
        <Field name="currency" label="Currency" value={settings.currency} options={currencyOptions} form={form} />
      </div>
      <details class="more" open={Object.keys(form.errors).length > 0}>
        <summary>Attribution, holds and leads</summary>
        <div class="fields">
          <Field
            name="cookie_window_days"
            label="Attribution window, days"
            value={String(settings.cookie_window_days)}
            inputmode="numeric"
            hint="How long after a click a visitor still counts as the partner's."
            form={form}
          />
          <Field
            name="attribution_model"
            label="Which click counts"
            value={settings.attribution_model}
            options={[
              ['last_click', 'The last one before the signup'],
              ['first_click', 'The first one'],
            ]}
            form={form}
          />
          <Field
            name="hold_days"
            label="Hold, days"
            value={String(settings.hold_days)}
            inputmode="numeric"
            hint="A commission is credited after this, unless the sale was refunded."
            form={form}
          />
          <Field
            name="commission_duration_months"
            label="Commission on renewals, months"
            value={settings.commission_duration_months === null ? '' : String(settings.commission_duration_months)}
            inputmode="numeric"
            hint="Counted from a customer's first purchase. Empty: for ever."
            form={form}
          />
          <Field
            name="lead_commission"
            label="Commission on each signup"
            value={String(majorUnits(settings.lead_commission_cents, settings.currency))}
            inputmode="decimal"
            hint="In the program's currency. 0: none."
            form={form}
          />
          <Field
            name="lead_auth_policy"
            label="Signups count when"
            value={settings.lead_auth_policy}
            options={[
              ['server_verified', 'your server confirms them'],
              ['browser_allowed', 'the browser reports them'],
            ]}
            form={form}
          />
        </div>
      </details>
    </>
  )
}

/** A decimal number as typed, as an integer of its smallest unit; NaN where it is none or has too many decimals. */
function decimalToInteger(text: string, decimals: number): number {
  const match = /^(\d{1,12})(?:[.,](\d*))?$/.exec(text.trim())
  const [, whole = '', fraction = ''] = match ?? []
  return match && fraction.length <= decimals ? Number(whole + fraction.padEnd(decimals, '0')) : Number.NaN
}

/** An amount as typed in a currency's major unit, in its minor unit; NaN where it is none. */
export function smallestUnits(text: string, currency: string): number {
  return isCurrency(currency) ? decimalToInteger(text, currencyExponent(currency)) : Number.NaN
}

/** The settings in a form post, for `programSettings` to check. */
export function readProgramSettings(values: Record<string, string>): Record<string, unknown> {
  const { currency = '', commission_duration_months: months = '' } = values
  const leadCents = smallestUnits(values['lead_commission'] ?? '0', currency)
  return {
    ...values,
    commission_bp: decimalToInteger(values['commission_bp'] ?? '', 2),
    lead_commission_cents: leadCents,
    cookie_window_days: decimalToInteger(values['cookie_window_days'] ?? '', 0),
    hold_days: decimalToInteger(values['hold_days'] ?? '', 0),
    commission_duration_months: months.trim() === '' ? null : decimalToInteger(months, 0),
  }
}
