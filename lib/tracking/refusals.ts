import { testCode } from './test-links.ts'

/** A call that was refused, as `refused_calls` keeps it: the latest of its code. */
interface RefusedCall {
  call: string
  code: string
  detail: string | null
  refused_at: Date
}

/** What was refused and what to do about it, in sentences. `windowDays` is how long a click id is valid. */
export function explainRefusal({ call, code, detail }: RefusedCall, programId: number, windowDays: number): string {
  const said = detail ?? ''
  switch (code) {
    case 'unknown_partner_code':
      return `A click came with the code "${said}", which no link of this program has. Compare it with the partner's link. The test link has ${testCode(programId)}.`
    case 'link_disabled':
      return `A click came with the code "${said}", whose link is disabled. Activate its partner again.`
    case 'invalid_link':
      return `A click came with the code "${said}", whose link has lost its partner. Give the partner a new one.`
    case 'no_attribution':
      return said === 'expired'
        ? `A lead came with a click id that is none of this program or older than ${windowDays} days. Open the test link again and sign up again.`
        : 'A lead came without a click id, of nobody known. For a visitor without a partner that is as it should be. Else have your server read the cookie svc_click_id, or send svc.getClickId() along with the form.'
    case 'api_key_retired':
      return `A call came with the key svc_live_…${said}, which is revoked. Put the new key into the settings of your server.`
    case 'api_key_expired':
      return `A call came with the key svc_live_…${said}, which has expired. Create a new one and put it into the settings of your server.`
    case 'insufficient_scope':
      return `A call came with the key svc_live_…${said}, which is not for such calls. Create one for leads, sales and refunds.`
    case 'invalid_request':
      return `A ${call} was refused: ${said}. Correct these fields.`
    default:
      return `A ${call} was refused (${code}): ${said}`
  }
}
