/** The rules that hold a commission. `flags_of` in migrations/functions/3_commissions/flags.sql applies them. */
export const reviewRules = ['self_referral', 'one_address', 'no_page_view', 'bot', 'paid_ads'] as const
export type ReviewRule = (typeof reviewRules)[number]

/** The sentence for each rule, for the program and for its partner. */
const ruleWords: Record<ReviewRule, string> = {
  self_referral: 'The buyer has the partner’s e-mail address.',
  one_address: 'Many signups came from one address within a day.',
  no_page_view: 'The click has no page address, although the program’s pages have the tag.',
  bot: 'The click came from a bot.',
  paid_ads: 'The click came from a paid ad, which the program forbids.',
}

const isRule = (name: string): name is ReviewRule => Object.hasOwn(ruleWords, name)
export const wordsOfRule = (name: string) => (isRule(name) ? ruleWords[name] : name)
