/**
 * The error message and the typed values, as text, on the page that a refused form redirects to. Empty if nothing was
 * refused.
 */
export function refusalIn(headers: Headers): string {
  const cookie = headers.getSetCookie().find((text) => text.startsWith('__Secure-svc_form='))
  return decodeURIComponent(/=([^;]*)/.exec(cookie ?? '')?.[1] ?? '')
}
