import type { Fact } from './facts.ts'
import type { HashEmail } from './payload.ts'

/**
 * A processor with a webhook address for each connection. The processor's folder in lib/processors/ implements the fields below. Readers
 * convert the objects in its events to facts, which shared code applies.
 */
export interface Processor {
  /** The processor's display name. */
  title: string
  /** Whether the advertiser makes up the webhook secret. Otherwise, the processor shows it. */
  hasInventedSecret: boolean
  /** Checks whether this secret signed the delivery. A signed time must be within five minutes of now. */
  isSigned: (delivery: Delivery, secret: string) => Promise<boolean>
  /** The event in a delivery's body, or undefined if the body is not an event from the processor. */
  eventOf: (body: unknown, deliveryId: string | undefined) => ProcessorEvent | undefined
  /** The fields of an object that can contain the id of its payment. The service reads them if no reader can read the object. */
  paymentIdFields: readonly string[]
  /** The readers for the event types that the service uses. A reader throws a ZodError if the object has an unknown format. */
  readers: Readonly<Record<string, Reader>>
}

export interface Delivery {
  body: string
  header: (name: string) => string | undefined
  /** Milliseconds since 1970. */
  now: number
}

export interface ProcessorEvent {
  /** Begins with `evt_`. An event has the same id in each delivery. */
  id: string
  type: string
  createdAt: Date
  /** Whether the payload itself says that it belongs to test mode. */
  isTest: boolean
  object: Record<string, unknown>
}

export type Reader = (event: ProcessorEvent, hashEmail: HashEmail) => Fact | Promise<Fact>

const tolerance = 300_000

/** Checks whether a signed time, in Unix seconds, is within five minutes of now. */
export function isRecent(seconds: number, now: number): boolean {
  return Math.abs(now - seconds * 1000) <= tolerance
}

const algorithm = { name: 'HMAC', hash: 'SHA-256' }
const utf8 = new TextEncoder()

/** Compares an HMAC-SHA-256 signature in constant time. */
export async function isHmac(
  key: string | Uint8Array<ArrayBuffer>,
  text: string,
  signature: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  // Web Crypto refuses to import an empty key.
  if (key.length === 0) return false
  const imported = await crypto.subtle.importKey(
    'raw',
    typeof key === 'string' ? utf8.encode(key) : key,
    algorithm,
    false,
    ['verify'],
  )
  return await crypto.subtle.verify(algorithm, imported, signature, utf8.encode(text))
}

/** Returns the bytes of a hexadecimal text. Returns no bytes if the text isn't valid. */
export function hexBytesOf(text: string): Uint8Array<ArrayBuffer> {
  if (!/^(?:[0-9a-f]{2})+$/i.test(text)) return new Uint8Array()
  return Uint8Array.from(text.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
}
