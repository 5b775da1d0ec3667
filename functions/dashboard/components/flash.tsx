import type { Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import * as z from 'zod/mini'
import { safePath } from './address.ts'
import { PostButton } from './fields.tsx'
import { useTexts } from './text.tsx'

const flashCookie = '__Host-svc_flash'

const flash = z.object({
  /** A `warn` means that the action left some rows unchanged. */
  kind: z.enum(['good', 'warn', 'bad']),
  text: z.string(),
  /** The address of a post that undoes the action. */
  undo: z.optional(z.string()),
})
type Flash = z.infer<typeof flash>

/** Leaves `text` for the next page, with a button that posts to `undo`. Call it before creating the response. */
export function leaveFlash(c: Context, text: string, kind: Flash['kind'] = 'good', undo?: string): void {
  const value = JSON.stringify({ kind, text, undo })
  setCookie(c, flashCookie, value, { path: '/', secure: true, httpOnly: true, sameSite: 'Lax', maxAge: 60 })
}

/** Redirects to `path`, whose page shows `text` once, with a button that posts to `undo`. */
export function redirectWith(
  c: Context,
  path: string,
  text: string,
  kind: Flash['kind'] = 'good',
  undo?: string,
): Response {
  leaveFlash(c, text, kind, undo)
  return c.redirect(path, 303)
}

/** Returns the message that the previous page left. Call it before rendering, because it deletes the message. */
export function takeFlash(c: Context): Flash | undefined {
  const value = getCookie(c, flashCookie)
  if (value === undefined) return undefined
  deleteCookie(c, flashCookie, { path: '/', secure: true })
  try {
    const { success, data } = flash.safeParse(JSON.parse(value))
    return success ? data : undefined
  } catch {
    return undefined
  }
}

export function FlashMessage({ flash: message }: { flash: Flash | undefined }) {
  if (!message) return null
  const { kind, text, undo } = message
  const { t, fixed } = useTexts()
  return (
    <div class={`message toast ${kind}`} role={kind === 'bad' ? 'alert' : 'status'}>
      <p>{fixed(text)}</p>
      {undo !== undefined && <PostButton action={safePath(undo)} class="compact" text={t('Undo')} />}
    </div>
  )
}
