import { turnstileField, turnstileOrigin } from '../../../lib/access/turnstile.ts'
import { answerLengths, type JoinPage, selfBillingClause } from '../../../lib/programs/join-page.ts'
import { Card, Facts } from '../components/blocks.tsx'
import { Field, FieldError, Form, Hidden } from '../components/fields.tsx'
import { useForm } from '../components/form.ts'
import { type PageTexts, useTexts } from '../components/text.tsx'
import { PlainText } from './plain-text.tsx'

interface JoinCardProps {
  page: JoinPage
  /** The form's address. The preview has none. */
  action?: string
  /** The signed-in person with a verified address, if there is one. */
  applicant?: { name: string; email: string } | undefined
  /** The Turnstile key, if the deployment has one. */
  siteKey?: string | undefined
}

/** The public join card of a program: its text, its questions and its terms. */
export function JoinCard({ page, action, applicant, siteKey }: JoinCardProps) {
  const { program_name: name, logo_url: logo, intro, questions, terms, self_billing: bills, version } = page
  const texts = useTexts()
  const { t } = texts
  const fields = (
    <>
      <Hidden fields={{ version: String(version) }} />
      <Field name="name" label={t('Your name')} autocomplete="name" maxlength={80} value={applicant?.name} required />
      {applicant ? (
        <p class="muted">
          {t('You are applying with your account, {email}.', { email: applicant.email })}
          <br />
          {t('Not yours? Sign out first.')}
        </p>
      ) : (
        <Field
          name="email"
          label={t('E-mail')}
          type="email"
          autocomplete="email"
          maxlength={320}
          hint={t('We’ll send you a link to confirm it.')}
          required
        />
      )}
      {questions.map(({ label, type, required }, index) => (
        <Field
          name={`answer_${index}`}
          label={required ? label : t('{label} (optional)', { label })}
          maxlength={answerLengths[type]}
          {...(type === 'long' && { rows: 5 })}
          {...(required && { required })}
        />
      ))}
      {terms !== null && <Terms terms={bills ? `${terms}\n\n${selfBillingClause}` : terms} />}
      {siteKey !== undefined && (
        <>
          <div class="cf-turnstile" data-sitekey={siteKey} data-response-field-name={turnstileField}></div>
          <noscript>
            <p class="message warn">{t('Enable JavaScript to apply: the robot check needs it.')}</p>
          </noscript>
          <script src={`${turnstileOrigin}/turnstile/v0/api.js`} async defer></script>
        </>
      )}
    </>
  )
  return (
    <Card>
      {logo !== null && (
        <img class="logo" src={logo} alt="" referrerpolicy="no-referrer" decoding="async" height="64" />
      )}
      <h1 dir="auto">{t('Become a partner of {name}', { name })}</h1>
      {intro !== null && <PlainText text={intro} />}
      {page.numbers !== null && <Facts facts={factsOf(page.numbers, texts)} />}
      {action === undefined ? (
        <div class="stack">
          {fields}
          <button type="button" class="primary wide-button" disabled>
            {t('Apply')}
          </button>
        </div>
      ) : (
        <Form action={action} submit={t('Apply')} layout="wide">
          {fields}
        </Form>
      )}
    </Card>
  )
}

/** The program's figures that are based on enough commissions. */
function factsOf(numbers: NonNullable<JoinPage['numbers']>, { t, percent }: PageTexts) {
  const { days_to_payout: days, reversed_bp: reversed } = numbers
  return {
    [t('Median time from a sale to its payout')]: days === null ? null : t('{count} days', { count: days }),
    [t('Commissions reversed completely or in part')]: reversed === null ? null : percent(reversed),
  }
}

function Terms({ terms }: { terms: string }) {
  const { errors } = useForm()
  const { t } = useTexts()
  const error = errors['terms']
  return (
    <div class="field">
      <details class="more" open={terms.length < 600}>
        <summary>{t('Terms')}</summary>
        <PlainText text={terms} />
      </details>
      <label class="row">
        <input
          type="checkbox"
          id="terms"
          name="terms"
          value="accepted"
          required
          autofocus={Object.keys(errors)[0] === 'terms'}
          aria-invalid={error ? 'true' : undefined}
          aria-describedby={error ? 'terms-error' : undefined}
        />
        <span>{t('I accept the terms.')}</span>
      </label>
      <FieldError name="terms" />
    </div>
  )
}
