/** The reasons that the database itself gives for the state of a commission, with the sentence for people. */
const sentences: Readonly<Record<string, string>> = {
  no_payment_required: 'No payment was required.',
  after_duration: 'It is later than the program pays for.',
  nothing_left_to_earn: 'Nothing is left to earn by it.',
}

/** Returns the reason of a commission for people: a code's sentence, or what somebody typed. */
export function commissionReason(reason: string | null): string | null {
  return reason !== null && Object.hasOwn(sentences, reason) ? (sentences[reason] ?? null) : reason
}
