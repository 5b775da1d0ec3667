/** An order, a subscription and an invoice can have the same number. So our ids of the last two begin with their kind. */
export const subscriptionId = (id: string) => `subscription_${id}`
export const invoiceId = (id: string) => `invoice_${id}`
