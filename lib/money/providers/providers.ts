import { paypal } from './paypal.ts'
import type { PayoutProvider } from './provider.ts'
import { stripe } from './stripe.ts'
import { wise } from './wise.ts'

/** The providers that pay payout runs. */
export const providers = { paypal, wise, stripe } as const satisfies Record<string, PayoutProvider>

export type ProviderName = keyof typeof providers

export const isProvider = (name: string): name is ProviderName => Object.hasOwn(providers, name)
