import type { Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'

const flashCookie = '__Host-svc_flash'

interface Flash {
  kind: 'good' | 'bad'
  text: string
}

/** Redirects to `path`, whose page shows `text` once. */
export function redirectWith(c: Context, path: string, text: string, kind: Flash['kind'] = 'good'): Response {
  const value = JSON.stringify({ kind, text })
  setCookie(c, flashCookie, value, { path: '/', secure: true, httpOnly: true, sameSite: 'Lax', maxAge: 60 })
  return c.redirect(path, 303)
}

/** Returns the message that the previous page left. Call it before rendering, because it deletes the message. */
export function takeFlash(c: Context): Flash | undefined {
  const value = getCookie(c, flashCookie)
  if (value === undefined) return undefined
  deleteCookie(c, flashCookie, { path: '/', secure: true })
  try {
    const { kind, text }: { kind: unknown; text: unknown } = JSON.parse(value)
    return typeof text === 'string' ? { kind: kind === 'good' ? 'good' : 'bad', text } : undefined
  } catch {
    return undefined
  }
}

export function FlashMessage({ flash }: { flash: Flash | undefined }) {
  if (!flash) return null
  return (
    <p class={`message ${flash.kind}`} role={flash.kind === 'bad' ? 'alert' : 'status'}>
      {flash.text}
    </p>
  )
}
