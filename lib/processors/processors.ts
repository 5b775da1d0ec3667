import { lemonsqueezy } from './lemonsqueezy/processor.ts'
import { paddle } from './paddle/processor.ts'
import { polar } from './polar/processor.ts'
import type { Processor } from './processor.ts'

/** The processors other than Stripe, by the name in their webhook addresses. */
export const processors = { paddle, lemonsqueezy, polar } satisfies Record<string, Processor>

export type ProcessorName = keyof typeof processors

/** Lists the processors as text: "Paddle, Lemon Squeezy and Polar". */
export const processorTitles = (type: 'conjunction' | 'disjunction') =>
  // British English has no comma before the last item.
  new Intl.ListFormat('en-GB', { type }).format(Object.values(processors).map(({ title }) => title))
