import { testCode } from './test-links.ts'

/** A refused call in `refused_calls`, which stores the latest one for each code. */
interface RefusedCall {
  call: string
  code: string
  detail: string | null
  refused_at: Date
}

/** Explains a refusal and how to fix it. `windowDays` is the number of days for which a click id is valid. */
export function explainRefusal({ call, code, detail }: RefusedCall, programId: number, windowDays: number): string {
  const text = detail ?? ''
  switch (code) {
    case 'unknown_partner_code':
      return `A click arrived with the code "${text}", which no link of this program has. Compare it with the partner's link. The test link's code is ${testCode(programId)}.`
    case 'link_disabled':
      return `A click arrived with the code "${text}", but its link is disabled. Activate its partner again.`
    case 'invalid_link':
      return `A click arrived with the code "${text}", but its link no longer has a partner. Give the partner a new link.`
    case 'no_attribution':
      return text === 'expired'
        ? `A lead arrived with a click id that is unknown to this program or older than ${windowDays} days. Open the test link again and sign up again.`
        : 'A lead came without a click id, from an unknown visitor. That is normal for visitors without a partner. Otherwise, let your server read the cookie svc_click_id, or send svc.getClickId() with the form.'
    case 'api_key_retired':
      return `A call arrived with the key svc_live_…${text}, which is revoked. Put the new key into your server's settings.`
    case 'api_key_expired':
      return `A call arrived with the key svc_live_…${text}, which has expired. Create a new one and put it into your server's settings.`
    case 'insufficient_scope': {
      const [hint, scope = 'track'] = text.split(' ')
      const key = { read: 'that may read the program', manage: 'that may read and change the program' }[scope]
      return `A call arrived with the key svc_live_…${hint}, which doesn't allow it. Create a key ${key ?? 'for leads, sales and refunds'}, and use it for such calls.`
    }
    case 'invalid_request':
      return `A ${call} was refused: ${text}. Correct these fields.`
    default:
      return `A ${call} was refused (${code}): ${text}`
  }
}
