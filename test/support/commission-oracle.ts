/**
 * The arithmetic of commissions, based on the documentation and not on the service's code. It is the only second
 * implementation in the tests. Amounts are whole numbers of a currency's minor unit.
 */

/** The parts of a rule on which a commission depends. The fixed amount and the cap are in the program's currency. */
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
  /** The maximum total for all sales to a customer. */
  cap: number | null
}

/**
 * Chooses the rule for a sale. Owners are tried in order. For each owner, the rule for the product comes before the rule for the type,
 * and that comes before the general rule. Rules with only a fixed amount don't apply in currencies other than the program's.
 */
export function ruleFor<Of extends Rule>(
  holders: Of[][],
  products: string[],
  type: string,
  isOwnCurrency: boolean,
): Of | undefined {
  for (const held of holders) {
    const rules = held.filter((rule) => isOwnCurrency || rule.commission_bp || !rule.commission_fixed_cents)
    const found =
      products.map((product) => rules.find((rule) => rule.product_id === product)).find(Boolean) ??
      rules.find((rule) => rule.sale_type === type) ??
      rules.find((rule) => !rule.product_id && !rule.sale_type)
    if (found) return found
  }
  return undefined
}

/**
 * Returns the terms of a rule, or the program's rate without a rule. Currencies other than the program's have no fixed
 * amount and no cap.
 */
export function termsOf(rule: Rule | undefined, programBp: number, isOwnCurrency: boolean): Terms {
  return {
    bp: rule ? (rule.commission_bp ?? 0) : programBp,
    fixed: isOwnCurrency ? (rule?.commission_fixed_cents ?? 0) : 0,
    cap: isOwnCurrency ? (rule?.lifetime_cap_cents ?? null) : null,
  }
}

/**
 * Returns the commission on a base: the percentage rounded half up plus the fixed amount, up to the rest of the cap
 * after the customer's earlier sales.
 */
export function commissionOf(base: bigint, { bp, fixed, cap }: Terms, earnedSoFar: bigint): bigint {
  const whole = base === 0n ? 0n : halfUp(base * BigInt(bp), 10_000n) + BigInt(fixed)
  const left = cap === null ? whole : BigInt(cap) - earnedSoFar
  return left < 0n ? 0n : left < whole ? left : whole
}

/**
 * Divides the base of a sale proportionally among the rules of its lines. The largest part comes first. The parts are
 * rounded down so that they add up to the base. Lines of one rule, or without a rule, are one part.
 */
export function sharesOf<Of>(base: bigint, lines: { rule: Of; weight: number }[]): { rule: Of; cents: bigint }[] {
  const weights = new Map<Of, number>()
  for (const { rule, weight } of lines) weights.set(rule, weight + (weights.get(rule) ?? 0))
  const all = lines.reduce((sum, { weight }) => sum + weight, 0)
  let upTo = 0
  return [...weights]
    .toSorted(([, a], [, b]) => b - a)
    .map(([rule, weight]) => {
      const before = (base * BigInt(upTo)) / BigInt(all)
      upTo += weight
      return { rule, cents: (base * BigInt(upTo)) / BigInt(all) - before }
    })
}

/** Returns the reversed part of a commission after this refund of its sale, rounded down. */
export const reversedOf = (commission: bigint, refunded: bigint, amount: bigint) => (commission * refunded) / amount

/** Returns the end of this many months. If the last month is too short, the end is the last day of that month. */
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
