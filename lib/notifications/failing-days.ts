/** A webhook endpoint or a postback is disabled if every attempt failed for this number of days. */
export const failingDays = 5
