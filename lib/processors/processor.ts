import type { Fact } from './facts.ts'
import type { HashEmail } from './payload.ts'

/**
 * A processor whose webhooks have an address for each connection. Its folder in lib/processors/ has the fields below. The readers turn the
 * objects of its events into facts; the code that all processors share applies them.
 */
export interface Processor {
  /** As people know it. */
  title: string
  /** Whether this secret signed the delivery. If the scheme signs a time, it must be at most five minutes from now. */
  isSigned: (delivery: Delivery, secret: string) => Promise<boolean>
  /** The event in a delivery's body, or undefined if the body is no event of the processor. */
  eventOf: (body: unknown, deliveryId: string | undefined) => ProcessorEvent | undefined
  /** The readers of the used event types. A reader that throws a ZodError does not know the object's form. */
  readers: Readonly<Record<string, Reader>>
}

export interface Delivery {
  body: string
  header: (name: string) => string | undefined
  /** Milliseconds since 1970. */
  now: number
}

export interface ProcessorEvent {
  /** Begins with `evt_`. The same event has the same id in each delivery. */
  id: string
  type: string
  createdAt: Date
  /** Whether the payload itself says that it is of test mode. */
  isTest: boolean
  object: Record<string, unknown>
}

export type Reader = (event: ProcessorEvent, hashEmail: HashEmail) => Fact | Promise<Fact>

const tolerance = 300_000

/** Whether a signed time, in Unix seconds, is at most five minutes before or after now. */
export function isRecent(seconds: number, now: number): boolean {
  return Math.abs(now - seconds * 1000) <= tolerance
}

const algorithm = { name: 'HMAC', hash: 'SHA-256' }
const utf8 = new TextEncoder()

/** Compares an HMAC-SHA-256 signature in constant time. */
export async function isHmac(key: string, text: string, signature: Uint8Array<ArrayBuffer>): Promise<boolean> {
  // Web Crypto refuses to import an empty key.
  if (key === '') return false
  const imported = await crypto.subtle.importKey('raw', utf8.encode(key), algorithm, false, ['verify'])
  return await crypto.subtle.verify(algorithm, imported, signature, utf8.encode(text))
}

/** The bytes of a hexadecimal text; none if it is not hexadecimal. */
export function hexBytesOf(text: string): Uint8Array<ArrayBuffer> {
  if (!/^(?:[0-9a-f]{2})+$/i.test(text)) return new Uint8Array()
  return Uint8Array.from(text.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
}
