/**
 * The arithmetic of commissions, written from the documentation and not from the service. It is the only second implementation that tests have.
 * Amounts are whole numbers of a currency's minor unit.
 */

/** A rule as far as a commission depends on it. Fixed amount and cap are in the currency of the program. */
export interface Rule {
  commission_bp?: number | null | undefined
  commission_fixed_cents?: number | null | undefined
  lifetime_cap_cents?: number | null | undefined
  product_id?: string | null | undefined
  sale_type?: string | null | undefined
}

export interface Terms {
  bp: number
  fixed: number
  /** The most that all sales of a customer bring. */
  cap: number | null
}

/** Chooses the rule of a sale: the first holder's before the next one's; of each holder the first product, then the type, then any sale. */
export function ruleFor<Of extends Rule>(holders: Of[][], products: string[], type: string): Of | undefined {
  for (const rules of holders) {
    const found =
      products.map((product) => rules.find((rule) => rule.product_id === product)).find(Boolean) ??
      rules.find((rule) => rule.sale_type === type) ??
      rules.find((rule) => !rule.product_id && !rule.sale_type)
    if (found) return found
  }
  return undefined
}

/** Returns the terms by a rule, or without one by the rate of the program. Other currencies than the program's have no fixed amount and no cap. */
export function termsOf(rule: Rule | undefined, programBp: number, isOwnCurrency: boolean): Terms {
  return {
    bp: rule ? (rule.commission_bp ?? 0) : programBp,
    fixed: isOwnCurrency ? (rule?.commission_fixed_cents ?? 0) : 0,
    cap: isOwnCurrency ? (rule?.lifetime_cap_cents ?? null) : null,
  }
}

/** Returns the commission on a base: the percentage half up and the fixed amount, up to the rest of the cap after the customer's earlier sales. */
export function commissionOf(base: bigint, { bp, fixed, cap }: Terms, brought: bigint): bigint {
  const whole = base === 0n ? 0n : halfUp(base * BigInt(bp), 10_000n) + BigInt(fixed)
  const left = cap === null ? whole : BigInt(cap) - brought
  return left < 0n ? 0n : left < whole ? left : whole
}

/** Returns the part of a commission that is reversed when so much of its sale is refunded, rounded down. */
export const reversedOf = (commission: bigint, refunded: bigint, amount: bigint) => (commission * refunded) / amount

/** Returns the end of a number of months. A month that is too short ends on its last day. */
export function monthsAfter(first: Date, months: number): Date {
  const end = new Date(first)
  end.setUTCMonth(end.getUTCMonth() + months, 1)
  const last = new Date(Date.UTC(end.getUTCFullYear(), end.getUTCMonth() + 1, 0)).getUTCDate()
  end.setUTCDate(Math.min(first.getUTCDate(), last))
  return end
}

export function halfUp(dividend: bigint, divisor: bigint): bigint {
  return (2n * dividend + divisor) / (2n * divisor)
}
