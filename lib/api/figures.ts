/** What each figure of the performance read means; the dashboard shows the same. The reference and the documentation quote it. */
export const figures = {
  totalClicks:
    'Clicks on partners’ links in the range. Test clicks do not count, nor do those of bots, which say so in their user agent.',
  totalLeads: 'Customers whose first lead came in the range.',
  totalConversions: 'Customers whose first sale came in the range.',
  totalRevenue:
    'Amounts of all attributed sales of the range in the program’s currency, in its major unit, before refunds.',
  conversionRate:
    'Conversions of a hundred clicks, in percent: totalConversions / totalClicks × 100; 0 without clicks.',
  averageOrderValue: 'totalRevenue / totalConversions; 0 without conversions.',
  totalPartners: 'Partners who joined the program in the range.',
  totalSales: 'Attributed sales of the range, renewals included.',
  totalPartnersCommission: 'Commissions created in the range, less what was reversed of them since, in the major unit.',
  otherCurrencies:
    'Revenue, sales and commissions in other currencies than the program’s, each by its code. Nothing is converted.',
} as const
