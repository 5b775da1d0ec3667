// Using `z.core` would bundle all of zod.
import { $ZodError } from 'zod/v4/core'
import { ApiError } from '../errors.ts'
import { type Fact, ignored, isTooLarge, type Unread, type WebhookEvent } from './facts.ts'
import { type HashEmail, numericId } from './payload.ts'
import type { ProcessorEvent } from './processor.ts'
import { type ProcessorName, processors } from './processors.ts'

/** The connection that received a delivery. */
export interface Receiver {
  account_id: string
  program_id: number
  processor: ProcessorName
  livemode: boolean
}

/**
 * Reads the body of a verified delivery. Unused events, and objects in an undocumented format, become `ignored` with the reason, because
 * sending them again wouldn't help. Throws `invalid_request` only for bodies that aren't events.
 */
export async function readDelivery(
  receiver: Receiver,
  body: unknown,
  deliveryId: string | undefined,
  hashEmail: HashEmail,
): Promise<WebhookEvent> {
  const processor = processors[receiver.processor]
  const event = processor.eventOf(body, deliveryId)
  if (!event) {
    throw new ApiError(
      'invalid_request',
      `The body is not an event from ${processor.title}. Send it as the processor sent it.`,
    )
  }
  return {
    event_id: event.id,
    event_type: event.type,
    account_id: receiver.account_id,
    livemode: receiver.livemode && !event.isTest,
    event_created_at: event.createdAt,
    fact: inProgram(await readFact(receiver.processor, event, hashEmail), receiver.program_id),
    payload: null,
  }
}

async function readFact(name: ProcessorName, event: ProcessorEvent, hashEmail: HashEmail): Promise<Fact> {
  const { title, readers, paymentIdFields } = processors[name]
  const read = Object.hasOwn(readers, event.type) ? readers[event.type] : undefined
  if (!read) return ignored('Events of this type are not used.')
  try {
    const fact = await read(event, hashEmail)
    return isTooLarge(fact) ? ignored('Its amount is larger than the service can store.') : fact
  } catch (error) {
    if (!(error instanceof $ZodError)) throw error
    const fields = error.issues.map(({ path }) => path.join('.')).join(', ')
    const reason = `It could not be read: ${fields || 'the object'} has a format that ${title} does not document.`
    return { ...ignored(reason.slice(0, 1000)), unread: aboutUnread(event.object, paymentIdFields) }
  }
}

/** A connection belongs to one program, so a click id or a customer key is enough to identify the program. */
function inProgram(fact: Fact, programId: number): Fact {
  if (fact.kind !== 'purchase' && fact.kind !== 'customer') return fact
  const isNamed = fact.click_id !== null || fact.customer_key !== null
  return fact.program_id === null && isNamed ? { ...fact, program_id: programId } : fact
}

/** Finds the ids in an object that no schema reads. If they belong to a known payment or customer, the service notifies the advertiser. */
function aboutUnread(object: Record<string, unknown>, paymentIdFields: readonly string[]): Unread {
  const idAt = (field: string) => numericId.safeParse(object[field]).data ?? null
  return {
    payment_ids: paymentIdFields.map(idAt).filter((one) => one !== null),
    processor_customer_id: idAt('customer_id'),
    subscription_id: idAt('subscription_id'),
  }
}
