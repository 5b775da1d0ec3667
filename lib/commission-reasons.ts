/** The reason codes that the database writes for the state of a commission, each with a sentence for readers. */
const sentences: Readonly<Record<string, string>> = {
  no_payment_required: 'No payment was required.',
  after_duration: 'The sale came after the period for which the program pays commissions.',
  nothing_left_to_earn: 'The customer reached the lifetime cap.',
}

/** Returns a commission's reason as text: the sentence for a code, or the typed text. */
export function commissionReason(reason: string | null): string | null {
  return reason !== null && Object.hasOwn(sentences, reason) ? (sentences[reason] ?? null) : reason
}
