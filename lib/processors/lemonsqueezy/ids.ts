/** Orders, subscriptions and invoices are numbered alike, so the ids of subscriptions and invoices say what they are. */
export const subscriptionId = (id: string) => `subscription_${id}`
export const invoiceId = (id: string) => `invoice_${id}`
