import { proofBits } from '../../../lib/access/proof-of-work.ts'
import { turnstileField, turnstileOrigin } from '../../../lib/access/turnstile.ts'
import { maxAmountCents, majorUnits } from '../../../lib/money.ts'
import { termsOfPartner } from '../../../lib/programs/commission-rules.ts'
import { answerLengths, type JoinPage, selfBillingClause } from '../../../lib/programs/join-page.ts'
import { Card, Facts } from '../components/blocks.tsx'
import { Field, FieldError, Form, Hidden } from '../components/fields.tsx'
import { useForm } from '../components/form.ts'
import { type PageTexts, useTexts } from '../components/text.tsx'
import { decimalToInteger, smallestUnits } from '../components/typed-number.ts'
import { PlainText } from './plain-text.tsx'

interface JoinCardProps {
  page: JoinPage
  /** The form's address. The preview has none. */
  action?: string
  /** The signed-in person with a verified address, if there is one. */
  applicant?: { name: string; email: string } | undefined
  /** The Turnstile key, if the deployment has one. */
  siteKey?: string | undefined
  /** The task for the browser, if the page asks for a proof of work. */
  task?: string
}

/** The heading and the title of a join page. */
export function titleOf({ headline, program_name: name }: JoinPage, { t }: PageTexts): string {
  return headline ?? t('Become a partner of {name}', { name })
}

/** The public join page of a program: its text, its terms, a calculator, the form to apply, and answers. */
export function JoinCards({ calculated = {}, ...form }: JoinCardProps & { calculated?: Record<string, string> }) {
  const { page } = form
  const texts = useTexts()
  const { t } = texts
  return (
    <div class="join">
      <section class="about stack">
        <h1 dir="auto">{titleOf(page, texts)}</h1>
        {page.intro !== null && <PlainText text={page.intro} />}
        {page.shows_terms && <Rate page={page} />}
        {page.numbers !== null && <Facts facts={factsOf(page.numbers, texts)} />}
      </section>
      <Card title={t('Apply')}>
        <Application {...form} />
      </Card>
      {page.shows_calculator && <Calculator page={page} typed={calculated} />}
      {page.faq.length > 0 && (
        <section class="stack">
          <h2>{t('Questions and answers')}</h2>
          {page.faq.map(({ question, answer }) => (
            <details class="more">
              <summary>
                <bdi>{question}</bdi>
              </summary>
              <PlainText text={answer} />
            </details>
          ))}
        </section>
      )}
    </div>
  )
}

/** A new partner's commission, with its rules. */
function Rate({ page }: { page: JoinPage }) {
  const texts = useTexts()
  const { t, money } = texts
  const [first = '', ...others] = termsOfPartner(page, page.rules, texts)
  const { minimum_payout_cents: minimum } = page
  return (
    <section class="stack tight" aria-label={t('What you earn')}>
      <p class="rate">{first}</p>
      {others.map((terms) => (
        <p>{terms}</p>
      ))}
      <Facts
        facts={{
          [t('A visitor counts as yours after a click for')]: t('{count} days', { count: page.cookie_window_days }),
          [t('Hold period of a commission')]:
            page.hold_days === 0 ? null : t('{count} days', { count: page.hold_days }),
          [t('Smallest payout')]: minimum === null ? null : money(minimum, page.currency),
        }}
      />
    </section>
  )
}

const mostSales = 100_000
/** The calculator's initial sale amount, in minor units: $50.00. */
const usualSaleCents = 5000
const usualSales = 10

/**
 * Computes a month's earnings from typed numbers, and says for which sales they are exact. The calculator works without a script, because
 * it is a form that loads the page again.
 */
function Calculator({ page, typed }: { page: JoinPage; typed: Record<string, string> }) {
  const { t, money } = useTexts()
  const { currency, commission_bp: bp, commission_duration_months: months, rules } = page
  if (bp === 0) return null
  const { sales: count = String(usualSales), sale = String(majorUnits(usualSaleCents, currency)) } = typed
  const [sales, cents] = [decimalToInteger(count, 0), smallestUnits(sale, currency)]
  const isValid = sales >= 1 && sales <= mostSales && cents >= 1 && cents <= maxAmountCents
  const monthly = sales * Math.round((cents * bp) / 10_000)
  const yearly = { amount: money(monthly * 12, currency) }
  return (
    <Card title={t('What could you earn?')} id="calculator">
      <form method="get" action="#calculator" class="row end">
        <Field name="sales" label={t('Sales a month')} inputmode="numeric" value={count} maxlength={6} required />
        <Field
          name="sale"
          label={t('Average sale ({currency})', { currency: currency.toUpperCase() })}
          inputmode="decimal"
          value={sale}
          maxlength={15}
          required
        />
        <button type="submit">{t('Calculate')}</button>
      </form>
      {isValid ? (
        <p>
          <strong class="rate">{t('{amount} a month', { amount: money(monthly, currency) })}</strong>
          <br />
          <span class="muted small">
            {months === null
              ? t('That is {amount} a year, if nobody returns anything.', yearly)
              : t('That is {amount} a year, if each customer buys once and nobody returns anything.', yearly)}{' '}
            {rules.length > 0 && t('Some products or types of sale earn a different commission.')}
          </span>
        </p>
      ) : (
        <p class="small bad" role="alert">
          {t('Enter a number of sales up to 100,000, and an amount above zero.')}
        </p>
      )}
    </Card>
  )
}

/** The form to apply. The preview has no address to send it to. */
function Application({ page, action, applicant, siteKey, task }: JoinCardProps) {
  const { questions, terms, self_billing: bills, version } = page
  const { t } = useTexts()
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
      {task !== undefined && <Proof task={task} />}
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
  return action === undefined ? (
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
  )
}

/** The message of a page that has received many applications today. */
export const busy =
  'Many people have applied today. Your browser solves a small task, which takes some seconds. Then press “Apply” again.'

/** The field for the browser's proof of work, if the page has asked for it. */
function Proof({ task }: { task: string }) {
  const { problem } = useForm()
  const { t } = useTexts()
  return problem === busy ? (
    <>
      <input type="hidden" name="proof" value="" data-task={task} data-bits={proofBits} />
      <noscript>
        <p class="message warn">{t('Enable JavaScript for this task, or sign in to apply with your account.')}</p>
      </noscript>
    </>
  ) : null
}

/** The program's figures, if they are based on enough commissions. */
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
