import { createHmac } from 'node:crypto'

/** The buyer and the payment in a fixture's event. Events of one order are about the same payment. */
export interface Story {
  order: string
  programId: number
  clickId: string | null
  customerKey: string | null
  email: string | null
  /** The paid amount with tax, in the smallest unit. */
  amount: number
  tax: number
  fee: number
  /** The refunded amount with tax. If the processor reports only totals, this is the total of all refunds so far. */
  refunded: number
  currency: string
  now: Date
  isTest: boolean
}

/** A processor's events, and how it signs them. */
export interface ProcessorFixtures {
  /** The body of an event by its name, which is the type and, after a colon, its variant. */
  events: Readonly<Record<string, (story: Story) => object>>
  headersOf: (body: string, secret: string, now: Date) => Record<string, string>
}

/** The keys that an integrator attaches to a checkout. */
export function customData({ programId, clickId, customerKey }: Story): Record<string, string> {
  return {
    program_id: String(programId),
    ...(clickId !== null && { svc_click_id: clickId }),
    ...(customerKey !== null && { svc_customer_key: customerKey }),
  }
}

export const taxIn = ({ amount, tax }: Story, part: number) => (amount === 0 ? 0 : Math.round((part * tax) / amount))

export const hmacOf = (key: string, text: string) => createHmac('sha256', key).update(text)
