/** An order, a subscription and an invoice can have the same number. So our ids for subscriptions and invoices begin with their kind. */
export const subscriptionId = (id: string) => `subscription_${id}`
export const invoiceId = (id: string) => `invoice_${id}`
