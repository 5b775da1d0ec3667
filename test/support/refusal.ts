/**
 * Returns the error message and the typed values as text, from the page to which a refused form redirects. Empty
 * without a refusal.
 */
export function refusalIn(headers: Headers): string {
  const cookie = headers.getSetCookie().find((text) => text.startsWith('__Secure-svc_form='))
  return decodeURIComponent(/=([^;]*)/.exec(cookie ?? '')?.[1] ?? '')
}
