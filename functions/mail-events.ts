import { Webhook, WebhookVerificationError } from 'standardwebhooks'
import * as z from 'zod/mini'
import { createApp, limitBody, onlyMethods } from '../lib/api/app.ts'
import { isStorable } from '../lib/api/input.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { ApiError } from '../lib/errors.ts'
import { refuseAddress } from '../lib/notifications/mail-choices.ts'

const paths = ['/', '/api/v1/webhooks/mail']
const app = createApp<DatabaseEnv & { MAIL_WEBHOOK_SECRET?: string }>()

/** The fields of a mail API's event that we use: https://resend.com/docs/webhooks/emails/bounced and `complained`. */
const mailEvent = z.object({
  type: z.string(),
  data: z.object({ to: z.array(z.string()), bounce: z.optional(z.object({ type: z.optional(z.string()) })) }),
})

/**
 * POST /api/v1/webhooks/mail, signed by the mail API (Svix headers, as Resend sends them): a permanent bounce or a
 * spam report. The address gets no more notifications. Returns 200 `{success}`, even for events of other kinds.
 * 400 `invalid_signature`; 503 `unavailable` if no secret is set.
 */
app.on('POST', paths, limitBody, async (c) => {
  const { MAIL_WEBHOOK_SECRET: secret } = c.env
  if (!secret) throw new ApiError('unavailable', 'Set MAIL_WEBHOOK_SECRET to the signing secret of this webhook first.')
  const { success, data: event } = mailEvent.safeParse(verified(secret, await c.req.text(), c.req.raw.headers))
  const reason = success && reasonOf(event)
  if (success && reason) {
    const db = openDatabase(c.env)
    for (const address of event.data.to.slice(0, 50).filter(isStorable)) await refuseAddress(db, address, reason)
    console.log(JSON.stringify({ function: 'mail-events', type: event.type }))
  }
  return c.json({ success: true })
})
for (const path of paths) app.all(path, onlyMethods('POST'))

function verified(secret: string, body: string, headers: Headers): unknown {
  const sent = (name: string) => headers.get(`svix-${name}`) ?? headers.get(`webhook-${name}`) ?? ''
  try {
    const named = ['id', 'timestamp', 'signature'].map((name) => [`webhook-${name}`, sent(name)])
    return new Webhook(secret).verify(body, Object.fromEntries(named))
  } catch (error) {
    if (!(error instanceof WebhookVerificationError) && !(error instanceof SyntaxError)) throw error
    throw new ApiError(
      'invalid_signature',
      'Signature verification failed, or the event is older than five minutes. Check MAIL_WEBHOOK_SECRET.',
    )
  }
}

/** Returns the reason why an address gets no more mail, or undefined if it still gets mail. */
function reasonOf({ type, data }: z.infer<typeof mailEvent>): 'bounced' | 'complained' | undefined {
  if (type === 'email.complained') return 'complained'
  return type === 'email.bounced' && data.bounce?.type !== 'Transient' ? 'bounced' : undefined
}

export default app
