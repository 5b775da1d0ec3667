/** What a commission can be held for. `flags_of` in migrations/functions/3_commissions/flags.sql finds each. */
export const reviewRules = ['self_referral', 'one_address', 'no_page_view', 'bot', 'paid_ads'] as const
export type ReviewRule = (typeof reviewRules)[number]

/** What each says, to the program and to its partner. */
const ruleWords: Record<ReviewRule, string> = {
  self_referral: 'The buyer has the e-mail address of the partner.',
  one_address: 'Many signups came from one address within a day.',
  no_page_view: 'The click was made without a page, although the program has the tag on its pages.',
  bot: 'The click was a bot’s.',
  paid_ads: 'The click came by a paid ad, which the program forbids.',
}

const isRule = (name: string): name is ReviewRule => Object.hasOwn(ruleWords, name)
export const wordsOfRule = (name: string) => (isRule(name) ? ruleWords[name] : name)
