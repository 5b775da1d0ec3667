/**
 * Returns the error message and the typed values as text, from the page that a refused form redirects to. Empty without
 * a refusal.
 */
export function refusalIn(headers: Headers): string {
  const cookie = headers.getSetCookie().find((text) => text.startsWith('__Secure-svc_form='))
  return decodeURIComponent(/=([^;]*)/.exec(cookie ?? '')?.[1] ?? '')
}
