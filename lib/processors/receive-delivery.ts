import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { emailHash } from '../tracking/customers.ts'
import { applyEvent, type AppliedEvent, type Ask } from './apply-event.ts'
import { forgetRefusal, noteRefusal, readReceiverOf, type SecretsEnv } from './connections.ts'
import type { Delivery } from './processor.ts'
import { processors } from './processors.ts'
import { readDelivery } from './read-delivery.ts'
import { seal, unseal } from './seal.ts'

/** Verifies a delivery to a connection and applies its event. Throws `not_found`, `invalid_signature` or `invalid_json`. */
export async function receiveDelivery(
  db: Database,
  { EMAIL_HASH_KEY: key }: SecretsEnv,
  processorName: string,
  accountId: string,
  delivery: Delivery,
): Promise<AppliedEvent & { event_id: string; event_type: string }> {
  const receiver = await readReceiverOf(db, accountId)
  if (receiver?.processor !== processorName)
    throw new ApiError('not_found', 'This connection does not exist. Copy the URL from the settings.')
  const { title, isSigned } = processors[receiver.processor]
  const secret =
    receiver.secret === null ? undefined : await unseal(key, 'processor secret', receiver.account_id, receiver.secret)
  if (secret === undefined || !(await isSigned(delivery, secret))) {
    const refusal =
      receiver.secret === null
        ? `The secret of this connection is missing. Save the secret of the webhook in ${title} in the settings.`
        : `The signature does not match the body, the time or the secret. Check the secret of this connection in the settings.`
    await noteRefusal(db, receiver.account_id, refusal)
    throw new ApiError('invalid_signature', refusal)
  }
  if (receiver.refused_at !== null) await forgetRefusal(db, receiver.account_id)
  const event = await readDelivery(receiver, parsed(delivery.body), delivery.header('webhook-id'), (email) =>
    emailHash(key, email),
  )
  if (event.livemode && 'unread' in event.fact) {
    event.payload = await seal(key, 'unread webhook payload', event.event_id, delivery.body)
  }
  const { event_id, event_type } = event
  return { ...(await applyEvent(db, askNobody, event)), event_id, event_type }
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    throw new ApiError('invalid_json', 'The body is not valid JSON.')
  }
}

/** No questions are asked, because the only possible question is about conversions, and these processors don't convert currencies. */
export const askNobody: Ask = async (_event, question, answer) => {
  if (question !== 'conversion' || answer.is_converted) throw new Error('an event was not applied')
  answer.is_converted = true
}
