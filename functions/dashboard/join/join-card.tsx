import { turnstileField, turnstileOrigin } from '../../../lib/access/turnstile.ts'
import { answerLengths, type JoinPage } from '../../../lib/programs/join-page.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Problem } from '../components/fields.tsx'
import { emptyForm, type FormState } from '../components/form.ts'
import { PlainText } from './plain-text.tsx'

interface JoinCardProps {
  page: JoinPage
  /** The form's address. Missing in the preview. */
  action?: string
  form?: FormState
  /** The signed-in person with a verified address, if there is one. */
  applicant?: { name: string; email: string } | undefined
  /** The Turnstile key, if the deployment has one. */
  siteKey?: string | undefined
}

/** The public join card of a program: its text, its questions and its terms. */
export function JoinCard({ page, action, form = emptyForm, applicant, siteKey }: JoinCardProps) {
  const { program_name: name, logo_url: logo, intro, questions, terms, version } = page
  const isPreview = action === undefined
  const fields = (
    <>
      <Problem form={form} />
      <input type="hidden" name="version" value={String(version)} />
      <Field
        name="name"
        label="Your name"
        autocomplete="name"
        maxlength={80}
        value={applicant?.name}
        form={form}
        required
      />
      {applicant ? (
        <p class="muted">
          You apply with your account, {applicant.email}.
          <br />
          Not yours? Sign out first.
        </p>
      ) : (
        <Field
          name="email"
          label="E-mail"
          type="email"
          autocomplete="email"
          maxlength={320}
          hint="We mail you a link to confirm it."
          form={form}
          required
        />
      )}
      {questions.map(({ label, type, required }, index) => (
        <Field
          name={`answer_${index}`}
          label={required ? label : `${label} (optional)`}
          maxlength={answerLengths[type]}
          form={form}
          {...(type === 'long' && { rows: 5 })}
          {...(required && { required })}
        />
      ))}
      {terms !== null && <Terms terms={terms} form={form} />}
      {siteKey !== undefined && (
        <>
          <div class="cf-turnstile" data-sitekey={siteKey} data-response-field-name={turnstileField}></div>
          <noscript>
            <p class="message warn">Enable JavaScript to apply: the robot check needs it.</p>
          </noscript>
          <script src={`${turnstileOrigin}/turnstile/v0/api.js`} async defer></script>
        </>
      )}
      <button type={isPreview ? 'button' : 'submit'} class="primary wide-button" disabled={isPreview}>
        Apply
      </button>
    </>
  )
  return (
    <Card>
      {logo !== null && (
        <img class="logo" src={logo} alt="" referrerpolicy="no-referrer" decoding="async" height="64" />
      )}
      <h1 dir="auto">Become a partner of {name}</h1>
      {intro !== null && <PlainText text={intro} />}
      {isPreview ? (
        <div class="stack">{fields}</div>
      ) : (
        <form method="post" action={action} class="stack">
          {fields}
        </form>
      )}
    </Card>
  )
}

function Terms({ terms, form }: { terms: string; form: FormState }) {
  const error = form.errors['terms']
  return (
    <div class="field">
      <details class="more" open={terms.length < 600}>
        <summary>Terms</summary>
        <PlainText text={terms} />
      </details>
      <label class="row">
        <input
          type="checkbox"
          id="terms"
          name="terms"
          value="accepted"
          required
          autofocus={Object.keys(form.errors)[0] === 'terms'}
          aria-invalid={error ? 'true' : undefined}
          aria-describedby={error ? 'terms-error' : undefined}
        />
        <span>I accept the terms.</span>
      </label>
      {error && (
        <p class="small bad" id="terms-error">
          {error}
        </p>
      )}
    </div>
  )
}
