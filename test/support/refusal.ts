/** What the page says to which the answer of a refused form leads back, and what was typed, as text; empty where nothing was refused. */
export function refusalIn(headers: Headers): string {
  const cookie = headers.getSetCookie().find((text) => text.startsWith('__Secure-svc_form='))
  return decodeURIComponent(/=([^;]*)/.exec(cookie ?? '')?.[1] ?? '')
}
