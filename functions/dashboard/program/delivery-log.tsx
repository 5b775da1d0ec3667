import { Segments } from '../parts/blocks.tsx'

export const deliveryLogOf = (programId: number) => `/programs/${programId}/deliveries`

/** The two sides of the delivery log: what came in from the payment processor, and what went out to people. */
export function DeliveryLogViews({ address, current }: { address: string; current: 'processor' | 'notifications' }) {
  return (
    <Segments
      label="Direction"
      items={[
        { href: address, text: 'From Stripe', current: current === 'processor' },
        { href: `${address}/notifications`, text: 'Notifications', current: current === 'notifications' },
      ]}
    />
  )
}
