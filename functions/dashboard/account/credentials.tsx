import * as z from 'zod/mini'
import { hasPassword } from '../../../lib/access/account.ts'
import { noMail, openAuth, tooManyAttempts } from '../../../lib/access/sign-in.ts'
import { ApiError } from '../../../lib/errors.ts'
import { safePath } from '../components/address.ts'
import { Field, PostButton } from '../components/fields.tsx'
import { FormRefusal } from '../components/form.ts'
import { useTexts } from '../components/text.tsx'
import type {
  PageContext,
  PartnerContext,
  ProgramContext,
  ViewerContext,
  WorkspaceContext,
} from '../components/page.ts'

export const emailField = z
  .string()
  .check(z.trim(), z.toLowerCase(), z.maxLength(320, 'Enter an e-mail address.'), z.email('Enter an e-mail address.'))
export const passwordField = z
  .string()
  .check(z.minLength(10, 'Use at least 10 characters.'), z.maxLength(128, 'Use at most 128 characters.'))

export const wrongCredentials = 'The e-mail address or the password is wrong.'
const noPassword =
  'Your account has no password yet, because you sign in another way. Choose one first: “Request a link” on your account page.'
const problems: Record<number, string> = { 401: wrongCredentials, 429: tooManyAttempts }

/** Returns the form's message for a secret that better-auth refused. The message is `wrong`, unless there were too many attempts. */
export const wrongOr = (status: number, wrong: string) => (status === 429 ? tooManyAttempts : wrong)

const refusal = z.object({ code: z.string() })

/** The options for a better-auth call whose response goes to the browser. */
export const answered = (c: Pick<PageContext, 'req'>) => ({ headers: c.req.raw.headers, asResponse: true }) as const

/** The code of better-auth's refusal, which distinguishes refusals with the same status. */
export async function codeOf(response: Response): Promise<string | undefined> {
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => null)
  return refusal.safeParse(body).data?.code
}

/** Passes on the cookies of better-auth's response. Returns the form's message if better-auth refused. */
export async function passOn(c: Pick<PageContext, 'header'>, response: Response): Promise<string | undefined> {
  if (response.ok) {
    for (const cookie of response.headers.getSetCookie()) c.header('Set-Cookie', cookie, { append: true })
    return undefined
  }
  if ((await codeOf(response)) === noMail.code) return noMail.message
  if (response.status >= 500) throw new ApiError('unavailable', 'That did not work just now. Try again in a minute.')
  return problems[response.status] ?? 'That did not work. Check what you entered and try again.'
}

/** better-auth's response if the account has two-factor codes. */
const withCode = z.object({ twoFactorRedirect: z.literal(true) })

/** Signs in and redirects to the next page, or to the form for the code. Returns the form's message if better-auth refuses. */
export async function signIn(
  c: PageContext,
  credentials: { email: string; password: string },
): Promise<Response | string> {
  const response = await openAuth(c).api.signInEmail({ ...answered(c), body: credentials })
  const problem = response.status === 400 ? wrongCredentials : await passOn(c, response)
  if (problem) return problem
  const { success: needsCode } = withCode.safeParse(await response.json())
  return c.redirect(needsCode ? withNext('/two-factor', nextOf(c)) : nextOf(c), 303)
}

/** Refuses the form if `password`, typed in `field`, is not the signed-in person's password. */
export async function checkPassword(
  c: ViewerContext | WorkspaceContext | PartnerContext | ProgramContext,
  field: string,
  password: string,
): Promise<void> {
  const response = await openAuth(c).api.verifyPassword({ ...answered(c), body: { password } })
  if (response.ok) return
  if (response.status === 429) throw new FormRefusal({ [field]: tooManyAttempts })
  const variables: Pick<ViewerContext, 'get'> = c
  const hasOne = await hasPassword(variables.get('db'), variables.get('viewer').user.id)
  throw new FormRefusal({ [field]: hasOne ? 'This is not your password.' : noPassword })
}

/** The password field for actions that need protection from a stranger at the person's screen. */
export function OwnPassword({ name, label = useTexts().t('Your password') }: { name: string; label?: string }) {
  return <Field name={name} label={label} type="password" autocomplete="current-password" required />
}

/**
 * The page that the person requested before signing in, but never a file. The first download of a payment file marks payouts as sent, and
 * another site can link to the sign-in page.
 */
export function nextOf(c: Pick<PageContext, 'req'>): string {
  const next = safePath(c.req.query('next'))
  return isFile(next.split('?')[0] ?? '') ? '/' : next
}

/** Decodes the path like the router. */
function isFile(path: string): boolean {
  try {
    return decodeURIComponent(path).endsWith('.csv')
  } catch {
    return true
  }
}

/** The first page of the reader's side. As the next page, it shows the pages before it in the language of partners. */
export function startOf(c: Pick<PageContext, 'get'>): string {
  return c.get('brand') ? '/partner' : '/'
}

export function withNext(path: string, next: string): string {
  return next === '/' ? path : `${path}?next=${encodeURIComponent(next)}`
}

/** Buttons for the OAuth providers whose secrets are set. */
export function Providers({ c, next }: { c: PageContext; next: string }) {
  const providers = [
    ...(c.env.GITHUB_CLIENT_ID ? [['github', 'GitHub'] as const] : []),
    ...(c.env.GOOGLE_CLIENT_ID ? [['google', 'Google'] as const] : []),
  ]
  const { t } = c.get('texts')
  return (
    <>
      {providers.map(([id, name]) => (
        <PostButton
          action={withNext(`/sign-in/${id}`, next)}
          class="wide-button"
          text={t('Continue with {name}', { name })}
        />
      ))}
    </>
  )
}

interface NewPasswordProps {
  name: string
  label: string
  /** True if the change signs the person out everywhere else. */
  signsOut?: boolean
}

/** The field for a new password. */
export function NewPassword({ name, label, signsOut }: NewPasswordProps) {
  const { t } = useTexts()
  const hint = signsOut
    ? t('At least 10 characters. You will be signed out everywhere else.')
    : t('At least 10 characters.')
  return (
    <Field name={name} label={label} type="password" autocomplete="new-password" minlength={10} hint={hint} required />
  )
}
